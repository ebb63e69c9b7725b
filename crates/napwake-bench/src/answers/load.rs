//! Load: connections of one request each, read to the end.
//!
//! A process of its own, so that it has a network and a core of its own. A thread for
//! each caller: with blocking calls it costs the least, and a request begins when it's
//! due, which a runtime's timer knows to a millisecond only.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::stats::Times;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Until all callers have begun.
const GATHER: Duration = Duration::from_millis(20);

/// More than an answer of the doorman's has.
const ROOM: usize = 64 * 1024;

/// What to ask, and how often.
#[derive(Debug, Args)]
pub(crate) struct Wish {
    /// Whom to ask
    #[arg(long)]
    address: SocketAddr,
    /// A file with the request
    #[arg(long, value_name = "FILE")]
    request: PathBuf,
    /// The status of the answers
    #[arg(long)]
    status: u16,
    /// How long
    #[arg(long, value_name = "MILLISECONDS")]
    millis: u64,
    /// How many ask at once at most
    #[arg(long, value_name = "NUMBER")]
    callers: u32,
    /// Requests a second, whatever becomes of them; as many as can be without it
    #[arg(long)]
    rate: Option<u32>,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Whole answers.
    pub(crate) done: u32,
    /// Everything else.
    pub(crate) failed: u32,
    /// The first failure.
    pub(crate) why: Option<String>,
    pub(crate) seconds: f64,
    /// From when the request was due until its answer had ended, half of them, in
    /// microseconds.
    pub(crate) p50: f64,
    /// The same, all but one in a hundred.
    pub(crate) p99: f64,
}

/// What became of one caller's requests.
#[derive(Debug, Default)]
struct Tally {
    micros: Vec<f64>,
    failed: u32,
    why: Option<String>,
}

/// Asks, and prints what came of it as JSON.
pub(crate) fn run(wish: &Wish) -> Result<()> {
    let request = std::fs::read(&wish.request).context("read the request")?;
    let start = Instant::now() + GATHER;
    let tallies = thread::scope(|scope| {
        let callers = (0..wish.callers).map(|number| {
            let request = &request;
            scope.spawn(move || caller(wish, request, start, number))
        });
        let callers: Vec<_> = callers.collect();
        let ended = callers.into_iter().map(|caller| caller.join().ok());
        ended.collect::<Option<Vec<_>>>()
    });
    let done = sum(
        tallies.context("a caller panicked")?,
        start.elapsed().as_secs_f64(),
    );
    crate::print(&serde_json::to_string(&done)?)
}

fn sum(tallies: Vec<Tally>, seconds: f64) -> Outcome {
    let failed = tallies.iter().map(|tally| tally.failed).sum();
    let why = tallies.iter().find_map(|tally| tally.why.clone());
    let micros: Times = tallies.into_iter().flat_map(|tally| tally.micros).collect();
    Outcome {
        done: u32::try_from(micros.len()).unwrap_or(u32::MAX),
        failed,
        why,
        seconds,
        p50: micros.p50().unwrap_or_default(),
        p99: micros.p99().unwrap_or_default(),
    }
}

fn caller(wish: &Wish, request: &[u8], start: Instant, number: u32) -> Tally {
    let end = start + Duration::from_millis(wish.millis);
    let mut tally = Tally::default();
    let mut answer = vec![0; ROOM];
    let mut due = start;
    if let Some(rate) = wish.rate {
        precisely();
        due += Duration::from_secs(1) * number / rate;
    }
    while due < end {
        sleep_until(due);
        let asked = ask(wish, request, &mut answer);
        tally.add(&asked, due);
        due = match wish.rate {
            Some(rate) => due + Duration::from_secs(1) * wish.callers / rate,
            None => Instant::now(),
        };
    }
    tally
}

impl Tally {
    fn add(&mut self, asked: &Result<()>, due: Instant) {
        match asked {
            Ok(()) => self.micros.push(due.elapsed().as_secs_f64() * 1e6),
            Err(error) => {
                self.failed += 1;
                self.why.get_or_insert_with(|| format!("{error:#}"));
            }
        }
    }
}

/// Otherwise the kernel lets a thread sleep for 50 µs longer than it should. Where it
/// can't be told, it does so with both servers alike.
fn precisely() {
    drop(std::fs::write("/proc/thread-self/timerslack_ns", "1"));
}

#[expect(
    clippy::disallowed_methods,
    reason = "no runtime here, and a request has its time"
)]
fn sleep_until(due: Instant) {
    let span = due.saturating_duration_since(Instant::now());
    if !span.is_zero() {
        thread::sleep(span);
    }
}

fn ask(wish: &Wish, request: &[u8], answer: &mut [u8]) -> Result<()> {
    let mut stream = TcpStream::connect(wish.address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let mut length = 0;
    loop {
        match stream.read(&mut answer[length..])? {
            0 => break,
            count => length += count,
        }
    }
    let answer = &answer[..length];
    let status = status(answer);
    ensure!(status == Some(wish.status), "answered with {status:?}");
    ensure!(is_whole(answer), "an answer of {length} bytes isn't whole");
    Ok(())
}

/// The status of an answer.
pub(super) fn status(answer: &[u8]) -> Option<u16> {
    let rest = answer.strip_prefix(b"HTTP/1.1 ")?;
    std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()
}

/// Whether an answer is as long as it says.
pub(super) fn is_whole(answer: &[u8]) -> bool {
    let Some((head, body)) = split(answer) else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("Content-Length").then_some(value)
    });
    length.and_then(|length| length.parse().ok()) == Some(body.len())
}

/// Head and body of an answer.
pub(super) fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    Some((head, &answer[end + 4..]))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\nno\n";

    #[test]
    fn an_answer_has_its_status_and_its_length() {
        assert_eq!(status(ANSWER), Some(503));
        assert!(is_whole(ANSWER));
        assert!(!is_whole(&ANSWER[..ANSWER.len() - 1]));
        assert_eq!(status(b""), None);
    }

    #[test]
    fn every_request_is_done_or_failed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = thread::spawn(move || {
            for number in 0..20 {
                let (mut stream, _) = listener.accept().unwrap();
                let length = stream.read(&mut [0; 100]).unwrap();
                assert_eq!(length, 3);
                let whole = ANSWER.len() - usize::from(number == 7);
                stream.write_all(&ANSWER[..whole]).unwrap();
            }
        });
        let wish = Wish {
            address,
            request: PathBuf::new(),
            status: 503,
            millis: 200,
            callers: 1,
            rate: Some(100),
        };
        let done = sum(vec![caller(&wish, b"GET", Instant::now(), 0)], 0.2);
        answering.join().unwrap();
        assert_eq!((done.done, done.failed), (19, 1));
        assert!(done.why.unwrap().contains("isn't whole"));
        assert!(done.p50 > 0.0 && done.p50 <= done.p99);
    }
}
