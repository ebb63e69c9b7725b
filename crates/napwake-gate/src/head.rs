//! The first bytes of a connection: an HTTP/1 head, an HTTP/2 preface, TLS, or
//! something else.
//!
//! Owns when enough has been seen and what it says. The bytes stay where they
//! are: nothing is copied or allocated, and nothing after the head is looked at
//! but a small form. Never judges who the caller is.

mod http1;
mod scan;
#[cfg(test)]
mod tests;

use scan::{Scan, Step};

use crate::form::{Form, Posting};
pub use http1::{Fetch, Host, Http1, Mode, Site};

/// How much of a head is read; where it is longer, this much decides (PAGE-20, PAGE-21).
pub const HEAD_LIMIT: usize = 16 * 1024;

/// How far the end of a longer head is looked for, where a small form may be
/// behind it (T-42).
const FORM_HEAD_LIMIT: usize = 1024 * 1024;

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
/// Each call looks for the head's end only in bytes that earlier calls haven't
/// seen. The result is that of the shortest beginning that decides, so it is the
/// same however the bytes were split.
#[derive(Debug, Default)]
pub struct HeadScan(Scan);

impl Head<'_> {
    /// Whether more bytes may make it another one.
    pub const fn is_open(&self) -> bool {
        match self {
            Self::MoreNeeded => true,
            Self::Http1(request) => matches!(request.form, Form::Unfinished),
            Self::HttpBegun | Self::Http2Preface | Self::Tls | Self::Other => false,
        }
    }

    fn with(self, form: Form) -> Self {
        match self {
            Self::Http1(request) => Self::Http1(Http1 { form, ..request }),
            other => other,
        }
    }
}

impl HeadScan {
    /// A scan that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What `bytes` are: everything the caller sent since it connected.
    ///
    /// Bytes that can't begin an HTTP request are judged at once (T-43).
    pub fn look<'a>(&mut self, bytes: &'a [u8]) -> Head<'a> {
        let near = within(HEAD_LIMIT, bytes);
        match self.0.step(near) {
            _ if self.0.seen() > HEAD_LIMIT => self.look_far(near, bytes),
            Step::More if near.len() < HEAD_LIMIT => Head::MoreNeeded,
            Step::More => self.look_far(near, bytes),
            Step::Preface => Head::Http2Preface,
            Step::Tls => Head::Tls,
            Step::Refused => Head::Other,
            Step::Whole(len) => {
                let (head, body) = bytes.split_at_checked(len).unwrap_or((near, &[]));
                let (head, posting) = read(head, Extent::Whole(len));
                head.with(posting.read(body))
            }
        }
    }

    /// What `bytes` are, if no more will come: the caller fell silent in the
    /// middle (T-43), or nothing more may be read of it (T-44).
    ///
    /// Never [open](Head::is_open).
    pub fn settle<'a>(&mut self, bytes: &'a [u8]) -> Head<'a> {
        match self.look(bytes) {
            Head::MoreNeeded => {
                let (head, posting) = self.beginning(within(HEAD_LIMIT, bytes));
                match posting {
                    Posting::None => head,
                    Posting::Form(..) => head.with(Form::Stalled),
                }
            }
            head if head.is_open() => head.with(Form::Stalled),
            head => head,
        }
    }

    fn beginning<'a>(&self, bytes: &'a [u8]) -> (Head<'a>, Posting) {
        if self.0.is_past_request_line() {
            read(bytes, Extent::Beginning)
        } else if self.0.reads_as_http() {
            (Head::HttpBegun, Posting::None)
        } else {
            (Head::Other, Posting::None)
        }
    }

    /// A head over the limit: what is `near` decides, and if it announces a form,
    /// that is read behind the whole of the head (T-42).
    fn look_far<'a>(&mut self, near: &'a [u8], bytes: &'a [u8]) -> Head<'a> {
        // Beyond the limit there are header lines alone, or nothing is scanned.
        let (head, posting) = if self.0.seen() > HEAD_LIMIT {
            read(near, Extent::Beginning)
        } else {
            self.beginning(near)
        };
        match posting {
            Posting::None => head,
            Posting::Form(..) => head.with(self.far_form(within(FORM_HEAD_LIMIT, bytes), bytes)),
        }
    }

    fn far_form(&mut self, within: &[u8], bytes: &[u8]) -> Form {
        match self.0.step(within) {
            Step::More if within.len() < FORM_HEAD_LIMIT => Form::Unfinished,
            Step::Whole(len) => match bytes.split_at_checked(len) {
                Some((head, body)) => read(head, Extent::Beginning).1.read(body),
                None => Form::None,
            },
            Step::More | Step::Preface | Step::Tls | Step::Refused => Form::None,
        }
    }
}

fn within(limit: usize, bytes: &[u8]) -> &[u8] {
    bytes.get(..limit).unwrap_or(bytes)
}

/// Parses a head whose request line is complete.
fn read(bytes: &[u8], extent: Extent) -> (Head<'_>, Posting) {
    let mut room = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut room);
    // Whether the last header line was complete doesn't matter: those before it
    // have been filled in, and the request line was checked by the scan.
    let _complete = scan::parser().parse_request(&mut request, bytes);
    let (Some(method), Some(target), Some(_)) = (request.method, request.path, request.version)
    else {
        return (Head::Other, Posting::None);
    };
    let head = http1::read(method, target, request.headers, extent);
    (Head::Http1(head), Posting::of(method, request.headers))
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
        if !found.is_open() {
            assert_eq!(found, whole, "split into pieces of {piece}");
            return;
        }
    }
    assert_eq!(scan.settle(bytes), whole, "settled after pieces of {piece}");
}
