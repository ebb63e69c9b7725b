//! The first bytes of a connection: an HTTP/1 head, an HTTP/2 preface, TLS, or
//! something else.
//!
//! Owns when enough has been seen and what it says. The bytes stay where they
//! are: nothing is copied or allocated, and nothing after the head is looked at.
//! Never judges who the caller is.

mod scan;
#[cfg(test)]
mod tests;

use scan::{Scan, Step};

use crate::caller::{self, BodyForm};

/// How much of a head is read; where it is longer, this much decides (PAGE-20, PAGE-21).
pub const HEAD_LIMIT: usize = 16 * 1024;

/// How many header lines are looked at. Far more than any server takes; in a
/// head with more, the first ones decide.
const MAX_HEADERS: usize = 256;

/// What a caller's first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head<'a> {
    /// Not enough was seen yet.
    MoreNeeded,
    /// A request of HTTP/1.0 or HTTP/1.1.
    Http1(Http1<'a>),
    /// The beginning of a request line and no more: it reads as HTTP, but says
    /// nothing that could be relied on. Only [`HeadScan::settle`] finds this.
    HttpBegun,
    /// The preface of HTTP/2 in clear (RFC 9113, section 3.4).
    Http2Preface,
    /// A TLS handshake (RFC 8446, section 5.1). Its first byte tells it from
    /// HTTP; the rest is never read.
    Tls,
    /// Something else, such as a database protocol.
    Other,
}

/// What a request's head says, as far as it matters. Borrows the held bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http1<'a> {
    /// The method, in the case the caller wrote it.
    pub method: &'a str,
    /// The request target, in whichever form.
    pub target: &'a str,
    /// The first `User-Agent` (T-41).
    pub user_agent: Option<&'a [u8]>,
    /// What form of body its `Accept` asks for.
    pub wants: BodyForm,
    /// How much of the head this is.
    pub extent: Extent,
}

/// How much of a head was there to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it; the body, if any, begins after this many bytes.
    Whole(usize),
    /// Only its beginning: more than [`HEAD_LIMIT`], or the caller fell silent.
    /// The header lines that were complete count.
    Beginning,
}

/// Reads a head as it arrives, in however many pieces.
///
/// Each call looks only at bytes that earlier calls haven't seen, and the head
/// is parsed twice at most. The result is that of the shortest beginning that
/// decides, so it is the same however the bytes were split.
#[derive(Debug, Default)]
pub struct HeadScan(Scan);

impl HeadScan {
    /// A scan that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What `bytes` are: everything the caller sent since it connected.
    ///
    /// Bytes that can't begin an HTTP request are judged at once (T-43).
    pub fn look<'a>(&mut self, bytes: &'a [u8]) -> Head<'a> {
        let bytes = within_limit(bytes);
        match self.0.step(bytes) {
            Step::More if bytes.len() < HEAD_LIMIT => Head::MoreNeeded,
            Step::More => self.beginning(bytes),
            Step::Preface => Head::Http2Preface,
            Step::Tls => Head::Tls,
            Step::Refused => Head::Other,
            Step::Whole(len) => read(bytes.get(..len).unwrap_or(bytes), Extent::Whole(len)),
        }
    }

    /// What `bytes` are, if no more will come: the caller fell silent in the
    /// middle (T-43), or nothing more may be read of it (T-44).
    ///
    /// Never [`Head::MoreNeeded`].
    pub fn settle<'a>(&mut self, bytes: &'a [u8]) -> Head<'a> {
        match self.look(bytes) {
            Head::MoreNeeded => self.beginning(within_limit(bytes)),
            decided => decided,
        }
    }

    fn beginning<'a>(&self, bytes: &'a [u8]) -> Head<'a> {
        if self.0.is_past_request_line() {
            read(bytes, Extent::Beginning)
        } else if self.0.reads_as_http() {
            Head::HttpBegun
        } else {
            Head::Other
        }
    }
}

fn within_limit(bytes: &[u8]) -> &[u8] {
    bytes.get(..HEAD_LIMIT).unwrap_or(bytes)
}

/// Parses a head whose request line is complete.
fn read(bytes: &[u8], extent: Extent) -> Head<'_> {
    let mut room = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut room);
    // Whether the last header line was complete doesn't matter: those before it
    // have been filled in, and the request line was checked by the scan.
    let _complete = scan::parser().parse_request(&mut request, bytes);
    let (Some(method), Some(target), Some(_)) = (request.method, request.path, request.version)
    else {
        return Head::Other;
    };
    let named = |name: &'static str| {
        request
            .headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    };
    Head::Http1(Http1 {
        method,
        target,
        user_agent: named("user-agent").next(),
        wants: caller::body_form(named("accept")),
        extent,
    })
}

/// For fuzzing: splits `bytes` at every place that its own first byte names,
/// and checks that the head found doesn't depend on it.
#[doc(hidden)]
pub fn fuzz_head(bytes: &[u8]) {
    let whole = HeadScan::new().settle(bytes);
    let piece = bytes.first().map_or(1, |first| usize::from(*first).max(1));
    let mut scan = HeadScan::new();
    let mut end = 0;
    while end < bytes.len() {
        end = (end + piece).min(bytes.len());
        let found = scan.look(bytes.get(..end).unwrap_or(bytes));
        if found != Head::MoreNeeded {
            assert_eq!(found, whole, "split into pieces of {piece}");
            return;
        }
    }
    assert_eq!(scan.settle(bytes), whole, "settled after pieces of {piece}");
}
