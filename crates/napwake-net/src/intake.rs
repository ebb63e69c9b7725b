//! Reading a held caller.
//!
//! Owns the bytes a caller sends while it is held, read within a [`Budget`], and
//! notices at once that the caller left, even while nothing more may be read. It
//! never interprets a byte, and never writes to the caller.
//!
//! A held caller has left when it closes, resets, or shuts its sending side alone
//! (HOLD-33, HOLD-35). The first and the last look alike until something is written
//! back, so whoever reads one that isn't held is told of them apart from a reset.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Bytes asked for, and read, at once.
const PIECE: usize = 16 * 1024;

/// Memory is grown by this many bytes at a time, so that no more than this is
/// unused: what is counted is what is owned.
const GROWTH: usize = 8 * 1024;

/// How many bytes may be read from one caller, and whether more may be later.
///
/// The value belongs to one caller. Dropping it gives back everything taken and
/// not given back; it is dropped with the last of the bytes, which may be after
/// the caller was passed on.
pub trait Budget: Send + 'static {
    /// Takes up to `want` bytes and says how many; 0 if there are none now.
    fn take(&mut self, want: usize) -> usize;

    /// Gives back `bytes` of those taken.
    fn give_back(&mut self, bytes: usize);

    /// Completes when asking again may give more. What was freed since the last
    /// refused [`Budget::take`] counts, so that nothing is missed in between.
    /// Must be cancel-safe. Never completes if this caller may have no more.
    fn freed(&mut self) -> impl Future<Output = ()> + Send;
}

/// What happened to a held caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakeEvent {
    /// It sent more: see [`Intake::bytes`].
    Bytes,
    /// It closed, or shut its sending side alone. Said again if asked again.
    Shut,
    /// It reset. Said again if asked again.
    Reset,
}

/// A held caller's connection and what it sent so far.
#[derive(Debug)]
pub struct Intake<B> {
    stream: TcpStream,
    held: Vec<u8>,
    budget: B,
    /// How it left.
    left: Option<IntakeEvent>,
}

/// What one look at the socket found.
enum Look {
    Event(IntakeEvent),
    /// The budget gives nothing now.
    Exhausted,
}

impl<B: Budget> Intake<B> {
    /// Begins to read `stream` within `budget`.
    pub fn new(stream: TcpStream, budget: B) -> Self {
        Self {
            stream,
            held: Vec::new(),
            budget,
            left: None,
        }
    }

    /// Everything the caller sent so far that could be read.
    pub fn bytes(&self) -> &[u8] {
        &self.held
    }

    /// Waits for more bytes, or for the caller to leave.
    ///
    /// Cancel-safe: what was read is in [`Intake::bytes`], and nothing is held
    /// across the wait, a share of the budget included. While the budget gives
    /// nothing, it waits for the budget and for the caller to leave: the kernel
    /// tells of a close once everything before it has been received, read or
    /// not (LIMIT-29), so only a body that fills the socket's buffer hides it
    /// (HOLD-37).
    pub async fn next(&mut self) -> IntakeEvent {
        loop {
            match std::future::poll_fn(|cx| self.poll_look(cx)).await {
                Look::Event(event) => return event,
                Look::Exhausted => {}
            }
            tokio::select! {
                biased;
                // Which of them it is would be known once the rest was read.
                () = closed(&self.stream) => return self.leaves(IntakeEvent::Shut),
                () = self.budget.freed() => {}
            }
        }
    }

    fn poll_look(&mut self, cx: &mut Context<'_>) -> Poll<Look> {
        if let Some(left) = self.left {
            return Poll::Ready(Look::Event(left));
        }
        // Nothing is taken from the budget before there is something to read.
        if ready!(self.stream.poll_read_ready(cx)).is_err() {
            return Poll::Ready(Look::Event(self.leaves(IntakeEvent::Reset)));
        }
        let room = self.budget.take(PIECE).min(PIECE);
        if room == 0 {
            return Poll::Ready(Look::Exhausted);
        }
        let polled = self.poll_piece(cx, room);
        let used = match &polled {
            Poll::Ready(Ok(count)) => *count,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        if used < room {
            self.budget.give_back(room - used);
        }
        Poll::Ready(Look::Event(match ready!(polled) {
            Ok(0) => self.leaves(IntakeEvent::Shut),
            Err(_) => self.leaves(IntakeEvent::Reset),
            Ok(_) => IntakeEvent::Bytes,
        }))
    }

    fn leaves(&mut self, how: IntakeEvent) -> IntakeEvent {
        self.left = Some(how);
        how
    }

    /// Reads up to `room` bytes. The scratch space is on the stack for the length
    /// of this call: a waiting caller owns no more than what it sent.
    fn poll_piece(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        let mut scratch = [MaybeUninit::<u8>::uninit(); PIECE];
        let mut piece = ReadBuf::uninit(&mut scratch[..room]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        append(&mut self.held, piece.filled());
        Poll::Ready(Ok(piece.filled().len()))
    }

    /// Takes out the bytes at these places, which are in their order, and gives back
    /// what they took of the budget. What is held then isn't what the caller sent:
    /// it can't be passed on any more.
    pub fn forget(&mut self, gone: &[Range<usize>]) {
        let before = self.held.len();
        close_up(&mut self.held, gone);
        let kept = self.held.len();
        self.held.shrink_to(kept.next_multiple_of(GROWTH));
        self.budget.give_back(before - kept);
    }

    /// Ends the intake, forgetting what was read, to answer the caller.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Ends the intake to pass the caller on: its connection, and everything
    /// read from it. The bytes carry the budget, which is dropped with them.
    pub fn into_parts(self) -> (TcpStream, Bytes) {
        let held = Held {
            bytes: self.held,
            _budget: self.budget,
        };
        (self.stream, Bytes::from_owner(held))
    }
}

/// Held bytes, and the share of the budget they stand for.
struct Held<B> {
    bytes: Vec<u8>,
    _budget: B,
}

impl<B> AsRef<[u8]> for Held<B> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Takes out the bytes at these places, and says how many others were moved: none
/// that are before the first of them.
fn close_up(held: &mut Vec<u8>, gone: &[Range<usize>]) -> usize {
    let Some(first) = gone.first() else {
        return 0;
    };
    let mut kept = first.start;
    let ends = gone.iter().skip(1).map(|range| range.start);
    for (range, end) in gone.iter().zip(ends.chain([held.len()])) {
        held.copy_within(range.end..end, kept);
        kept += end - range.end;
    }
    held.truncate(kept);
    kept - first.start
}

fn append(held: &mut Vec<u8>, piece: &[u8]) {
    let needed = held.len().saturating_add(piece.len());
    if needed > held.capacity() {
        // A first request gets just its own size; what grows on grows in steps.
        let size = if held.is_empty() {
            needed
        } else {
            needed.next_multiple_of(GROWTH)
        };
        held.reserve_exact(size - held.len());
    }
    held.extend_from_slice(piece);
}

/// Waits until the caller closed or reset, whether or not there is anything to
/// read. Unread bytes would make a wait for readability end at once and for
/// ever, so this waits for priority data: tokio counts a closed read side under
/// it, and sockets here never register for the rest of it.
async fn closed(stream: &TcpStream) {
    loop {
        match stream.ready(Interest::PRIORITY).await {
            Ok(ready) if !ready.is_read_closed() => tokio::task::yield_now().await,
            // The runtime is going away, and the caller with it.
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests;
