//! One direction of a relayed connection.
//!
//! Owns the bytes on their way from a reader to a writer, and the choice between
//! copying and splicing. It knows neither the other direction nor any limit of
//! time.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};
use tokio::io::{Interest, ReadBuf};

use super::pipes::{Lent, Pipes};
use super::tap::{Tap, TapVerdict};
use crate::transport::Stream;

/// Bytes copied at once. A burst of fewer between two pauses is a small
/// exchange, for which copying is the faster way.
const PIECE: usize = 16 * 1024;

/// Bytes moved in large bursts before a direction is spliced.
const BULK: usize = 64 * 1024;

/// Bytes moved in one poll before other tasks get their turn.
const TURN: usize = 1024 * 1024;

/// How a direction failed. The kind says what the kernel said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowError {
    /// It can't be read from.
    Read(io::ErrorKind),
    /// It can't be written to.
    Write(io::ErrorKind),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// The reader ended, and everything was delivered but the end itself.
    Ending,
    Over,
}

/// Bytes that were read and couldn't be written yet.
#[derive(Debug, Default)]
enum Carry {
    #[default]
    Nothing,
    Copied {
        bytes: Box<[u8]>,
        done: usize,
    },
    /// In a pipe, which may be empty for a moment.
    Piped(Lent),
}

/// How the bytes come: what tells bulk from small exchanges.
#[derive(Debug, Default)]
struct Rhythm {
    /// Since the reader had nothing last.
    burst: usize,
    /// Since a burst was small last.
    streak: usize,
}

impl Rhythm {
    fn moved(&mut self, bytes: usize) {
        self.burst = self.burst.saturating_add(bytes);
        self.streak = self.streak.saturating_add(bytes);
    }

    fn paused(&mut self) {
        if self.burst < PIECE {
            self.streak = 0;
        }
        self.burst = 0;
    }

    fn is_bulk(&self) -> bool {
        self.streak >= BULK
    }
}

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Flow {
    stage: Stage,
    carry: Carry,
    rhythm: Rhythm,
}

impl Flow {
    /// Whether this direction has ended, in order or not.
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Moves what can be moved. Ready once: when the end was relayed, or when the
    /// direction failed. Pending ever after.
    pub(super) fn poll<R: Stream, W: Stream>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
        tap: &mut Option<Tap>,
        pipes: &Pipes,
    ) -> Poll<Result<(), FlowError>> {
        let result = ready!(self.poll_open(cx, reader, writer, tap, pipes));
        self.stage = Stage::Over;
        self.carry = Carry::Nothing;
        Poll::Ready(result)
    }

    fn poll_open<R: Stream, W: Stream>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
        tap: &mut Option<Tap>,
        pipes: &Pipes,
    ) -> Poll<Result<(), FlowError>> {
        let mut moved = 0;
        loop {
            ready!(self.poll_deliver(cx, writer))?;
            match self.stage {
                Stage::Open => {}
                Stage::Ending => {
                    return Pin::new(&mut *writer)
                        .poll_shutdown(cx)
                        .map_err(write_error);
                }
                Stage::Over => return Poll::Pending,
            }
            if moved >= TURN {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if tap.is_none() && self.rhythm.is_bulk() && matches!(self.carry, Carry::Nothing) {
                self.carry = begin_splice(reader, writer, pipes);
            }
            let taken = match &mut self.carry {
                Carry::Piped(pipe) => poll_splice(cx, pipe, reader),
                Carry::Nothing | Carry::Copied { .. } => {
                    self.poll_copy(cx, reader, writer, tap).map_ok(Some)
                }
            };
            let Poll::Ready(count) = taken else {
                // Nothing to carry, and nothing to carry it in.
                self.carry = Carry::Nothing;
                self.rhythm.paused();
                return Poll::Pending;
            };
            match count? {
                None => {
                    pipes.give_up();
                    self.carry = Carry::Nothing;
                }
                Some(0) => self.stage = Stage::Ending,
                Some(count) => {
                    moved += count;
                    self.rhythm.moved(count);
                }
            }
        }
    }

    /// Writes what was read before. Ready when nothing is left of it.
    fn poll_deliver<W: Stream>(
        &mut self,
        cx: &mut Context<'_>,
        writer: &mut W,
    ) -> Poll<Result<(), FlowError>> {
        match &mut self.carry {
            Carry::Nothing => {}
            Carry::Copied { bytes, done } => {
                while *done < bytes.len() {
                    *done += ready!(poll_write(cx, writer, &bytes[*done..]))?;
                }
                self.carry = Carry::Nothing;
            }
            Carry::Piped(pipe) => {
                while pipe.held() > 0 {
                    ready!(poll_drain(cx, pipe, writer))?;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads a piece and writes at once what can be written of it. The space for
    /// it is on the stack; only what is left over is kept.
    fn poll_copy<R: Stream, W: Stream>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
        tap: &mut Option<Tap>,
    ) -> Poll<Result<usize, FlowError>> {
        let mut scratch = [MaybeUninit::<u8>::uninit(); PIECE];
        let mut piece = ReadBuf::uninit(&mut scratch);
        ready!(Pin::new(reader).poll_read(cx, &mut piece)).map_err(read_error)?;
        let bytes = piece.filled();
        if tap.as_mut().map(|tap| tap.show(bytes)) == Some(TapVerdict::Enough) {
            *tap = None;
        }
        let mut done = 0;
        while done < bytes.len() {
            let Poll::Ready(count) = poll_write(cx, writer, &bytes[done..]) else {
                self.carry = Carry::Copied {
                    bytes: Box::from(&bytes[done..]),
                    done: 0,
                };
                break;
            };
            done += count?;
        }
        Poll::Ready(Ok(bytes.len()))
    }
}

/// A pipe, if both ends are sockets and there is one.
fn begin_splice<R: Stream, W: Stream>(reader: &R, writer: &W, pipes: &Pipes) -> Carry {
    if reader.socket().is_none() || writer.socket().is_none() {
        return Carry::Nothing;
    }
    pipes.lend().map_or(Carry::Nothing, Carry::Piped)
}

/// Fills an empty pipe from the reader's socket. `None`: this kernel can't.
///
/// Only an empty pipe is filled, so that "would block" means the socket.
fn poll_splice<R: Stream>(
    cx: &mut Context<'_>,
    pipe: &mut Lent,
    reader: &mut R,
) -> Poll<Result<Option<usize>, FlowError>> {
    loop {
        let Some(socket) = reader.socket() else {
            return Poll::Ready(Ok(None));
        };
        ready!(socket.poll_read_ready(cx)).map_err(read_error)?;
        let filled = pipe.fill(|input, room| {
            socket.try_io(Interest::READABLE, || {
                let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                Ok(splice(socket.as_fd(), None, input, None, room, flags)?)
            })
        });
        match filled {
            Ok(count) => {
                reader.read_past(count);
                return Poll::Ready(Ok(Some(count)));
            }
            Err(error) if is_passing(&error) => {}
            // Sandboxed kernels may lack it for sockets.
            Err(error) if is_unsupported(&error) => return Poll::Ready(Ok(None)),
            Err(error) => return Poll::Ready(Err(read_error(error))),
        }
    }
}

/// Moves bytes from the pipe to the writer's socket.
fn poll_drain<W: Stream>(
    cx: &mut Context<'_>,
    pipe: &mut Lent,
    writer: &mut W,
) -> Poll<Result<(), FlowError>> {
    loop {
        let Some(socket) = writer.socket() else {
            return Poll::Ready(Err(FlowError::Write(io::ErrorKind::Unsupported)));
        };
        ready!(socket.poll_write_ready(cx)).map_err(write_error)?;
        let drained = pipe.drain(|output, held| {
            socket.try_io(Interest::WRITABLE, || {
                let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                Ok(splice(output, None, socket.as_fd(), None, held, flags)?)
            })
        });
        match drained {
            Ok(0) => return Poll::Ready(Err(FlowError::Write(io::ErrorKind::WriteZero))),
            Ok(count) => {
                writer.written_past(count);
                return Poll::Ready(Ok(()));
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => return Poll::Ready(Err(write_error(error))),
        }
    }
}

fn poll_write<W: Stream>(
    cx: &mut Context<'_>,
    writer: &mut W,
    bytes: &[u8],
) -> Poll<Result<usize, FlowError>> {
    match ready!(Pin::new(writer).poll_write(cx, bytes)) {
        Ok(0) => Poll::Ready(Err(FlowError::Write(io::ErrorKind::WriteZero))),
        Ok(count) => Poll::Ready(Ok(count)),
        Err(error) => Poll::Ready(Err(write_error(error))),
    }
}

/// Try again: the next look at the socket's readiness waits if it must.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
    )
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn read_error(error: io::Error) -> FlowError {
    FlowError::Read(error.kind())
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn write_error(error: io::Error) -> FlowError {
    FlowError::Write(error.kind())
}
