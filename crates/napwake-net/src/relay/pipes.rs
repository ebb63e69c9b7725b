//! Pipes for splicing, lent and taken back.
//!
//! Owns every pipe of the process and how many there may be. The kernel counts
//! pipe memory by user, and past `pipe-user-pages-soft` (64 MiB) gives an
//! unprivileged user pipes of two pages; so the number is bounded, a pipe is held
//! only while bytes flow, and who gets none copies.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

/// Bytes that a pipe should hold; fewer than [`LEAST`] aren't worth a splice.
const WANTED: usize = 256 * 1024;
const LEAST: usize = 64 * 1024;

/// Unused pipes that are kept. An empty one costs the kernel some 11 KiB.
const SPARE: usize = 8;

/// A bounded number of pipes. Clones share it.
#[derive(Debug, Clone)]
pub struct Pipes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    most: usize,
    lent: usize,
    spare: Vec<Pipe>,
}

/// Both ends of a pipe, and how many bytes it holds.
#[derive(Debug)]
struct Pipe {
    output: OwnedFd,
    input: OwnedFd,
    size: usize,
}

/// A lent pipe. An empty one goes back when dropped; one with bytes is closed.
#[derive(Debug)]
pub(super) struct Lent {
    /// `None` only while it is being dropped.
    pipe: Option<Pipe>,
    held: usize,
    shared: Arc<Shared>,
}

impl Pipes {
    /// At most `most` pipes at a time, of up to 256 KiB each; 0 never splices.
    pub fn new(most: usize) -> Self {
        let state = State {
            most,
            lent: 0,
            spare: Vec::new(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
            }),
        }
    }

    /// Lends a pipe, if there may be one more.
    pub(super) fn lend(&self) -> Option<Lent> {
        let pipe = {
            let mut state = self.shared.lock();
            if state.lent >= state.most {
                return None;
            }
            state.lent += 1;
            state.spare.pop()
        };
        // From here on, dropping `lent` gives the place back.
        let mut lent = Lent {
            pipe,
            held: 0,
            shared: Arc::clone(&self.shared),
        };
        if lent.pipe.is_none() {
            lent.pipe = Pipe::make();
        }
        lent.pipe.is_some().then_some(lent)
    }

    /// Lends no more pipes, as this kernel can't splice with them.
    pub(super) fn give_up(&self) {
        let mut state = self.shared.lock();
        state.most = 0;
        state.spare.clear();
    }

    /// How many unused pipes are kept.
    #[cfg(test)]
    pub(super) fn spare(&self) -> usize {
        self.shared.lock().spare.len()
    }

    /// How many pipes are lent now.
    pub fn lent(&self) -> usize {
        self.shared.lock().lent
    }
}

impl Default for Pipes {
    /// 64 pipes: 16 MiB, a quarter of the kernel's limit for a user.
    fn default() -> Self {
        Self::new(64)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here can be left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pipe {
    /// `None` if the kernel gives none, or none that is large enough.
    fn make() -> Option<Self> {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (output, input) = pipe_with(flags).ok()?;
        // Over the limit this fails, and the pipe keeps the size it has.
        let size = fcntl_setpipe_size(&input, WANTED)
            .or_else(|_| fcntl_getpipe_size(&input))
            .ok()?;
        let made = Self {
            output,
            input,
            size,
        };
        (size >= LEAST).then_some(made)
    }
}

impl Lent {
    /// How many bytes are in it.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Puts bytes in, by `splice(input, size)`, which says how many.
    pub(super) fn fill(
        &mut self,
        splice: impl FnOnce(&OwnedFd, usize) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let count = splice(&pipe.input, pipe.size)?;
        self.held += count;
        Ok(count)
    }

    /// Takes bytes out, by `splice(output, held)`, which says how many.
    pub(super) fn drain(
        &mut self,
        splice: impl FnOnce(&OwnedFd, usize) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let count = splice(&pipe.output, self.held)?;
        self.held = self.held.saturating_sub(count);
        Ok(count)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let pipe = self.pipe.take().filter(|_| self.held == 0);
        let mut state = self.shared.lock();
        state.lent = state.lent.saturating_sub(1);
        if state.spare.len() < SPARE {
            state.spare.extend(pipe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_allowed_are_lent() {
        let pipes = Pipes::new(2);
        let first = pipes.lend();
        let second = pipes.lend();
        assert!(first.is_some() && second.is_some());
        assert!(pipes.lend().is_none());
        drop(first);
        assert!(pipes.lend().is_some());
        drop(second);
        assert_eq!(pipes.lent(), 0);
    }

    #[test]
    fn none_are_lent_where_they_are_no_use() {
        let pipes = Pipes::new(2);
        pipes.give_up();
        assert!(pipes.lend().is_none());
    }

    #[test]
    fn none_allowed_means_none() {
        assert!(Pipes::new(0).lend().is_none());
    }

    #[test]
    fn an_empty_pipe_is_used_again_and_a_full_one_is_not() {
        let pipes = Pipes::new(2);
        drop(pipes.lend());
        assert_eq!(pipes.spare(), 1);
        let mut lent = pipes.lend().unwrap();
        assert_eq!(pipes.spare(), 0);
        lent.fill(|_, _| Ok(5)).unwrap();
        drop(lent);
        assert_eq!(pipes.spare(), 0);
        assert_eq!(pipes.lent(), 0);
    }

    #[test]
    fn few_spare_ones_are_kept() {
        let pipes = Pipes::new(SPARE * 2);
        let lent: Vec<_> = (0..SPARE * 2).map(|_| pipes.lend().unwrap()).collect();
        drop(lent);
        assert_eq!(pipes.spare(), SPARE);
    }
}
