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
mod trim;

use std::ops::Range;

use scan::{Scan, Step};
use trim::Trim;

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
/// seen, and the head is parsed once when it's whole and once more when the form
/// behind it is, however long that is on its way. The result is that of the
/// shortest beginning that decides, so it is the same however the bytes were
/// split.
#[derive(Debug, Default)]
pub struct HeadScan {
    scan: Scan,
    /// Few callers post a form, so it costs the others nothing.
    awaited: Option<Box<Awaited>>,
}

/// What is still awaited of a request that announced a form.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    /// The end of its head, which is over the limit (T-42), and of which so many
    /// bytes were forgotten.
    HeadEnd(Trim, usize),
    /// A form of this kind behind so many bytes.
    Form(usize, Posting),
}

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
    /// Bytes that can't begin an HTTP request are judged at once (T-43). A request
    /// whose form is on its way is told once, for those who needn't wait for it;
    /// then more is needed.
    pub fn look<'a>(&mut self, bytes: &'a [u8]) -> Head<'a> {
        if self.awaited.is_some() {
            return match self.form(bytes) {
                Form::Unfinished => Head::MoreNeeded,
                form => self.told(bytes).with(form),
            };
        }
        let near = within(HEAD_LIMIT, bytes);
        match self.scan.step(near) {
            Step::More if near.len() < HEAD_LIMIT => Head::MoreNeeded,
            Step::More => {
                let (head, posting) = self.beginning(near);
                let awaited = Awaited::HeadEnd(Trim::beyond(near), 0);
                self.posted(head, posting, awaited, bytes)
            }
            Step::Preface => Head::Http2Preface,
            Step::Tls => Head::Tls,
            Step::Refused => Head::Other,
            Step::Whole(len) => {
                let (head, posting) = read(within(len, near), Extent::Whole(len));
                self.posted(head, posting, Awaited::Form(len, posting), bytes)
            }
        }
    }

    /// What `bytes` are, if no more will come: the caller fell silent in the
    /// middle (T-43), or nothing more may be read of it (T-44).
    ///
    /// Never [open](Head::is_open).
    pub fn settle<'a>(&mut self, bytes: &'a [u8]) -> Head<'a> {
        match self.look(bytes) {
            Head::MoreNeeded if self.awaited.is_some() => self.told(bytes).with(Form::Stalled),
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

    /// What of `bytes` nothing needs any more, after a look at all of them, while
    /// the end of a head over the limit is awaited: the places, in their order. To
    /// be taken out before the next look, to which they never were (T-42).
    #[must_use]
    pub fn forget(&mut self, bytes: &[u8]) -> Vec<Range<usize>> {
        let Some(Awaited::HeadEnd(trim, forgotten)) = self.awaited.as_deref_mut() else {
            return Vec::new();
        };
        let gone = trim.needless(bytes);
        let count: usize = gone.iter().map(ExactSizeIterator::len).sum();
        *forgotten += count;
        self.scan.forget(count);
        gone
    }

    fn beginning<'a>(&self, bytes: &'a [u8]) -> (Head<'a>, Posting) {
        if self.scan.is_past_request_line() {
            read(bytes, Extent::Beginning)
        } else if self.scan.reads_as_http() {
            (Head::HttpBegun, Posting::None)
        } else {
            (Head::Other, Posting::None)
        }
    }

    /// A head that was just parsed, with the form that it announces, if any.
    fn posted<'a>(
        &mut self,
        head: Head<'a>,
        posting: Posting,
        awaited: Awaited,
        bytes: &[u8],
    ) -> Head<'a> {
        match posting {
            Posting::None => head,
            Posting::Form(..) => {
                self.awaited = Some(Box::new(awaited));
                head.with(self.form(bytes))
            }
        }
    }

    /// The head of a request whose form is awaited: of one over the limit what is
    /// within it (PAGE-21).
    fn told<'a>(&self, bytes: &'a [u8]) -> Head<'a> {
        let near = within(HEAD_LIMIT, bytes);
        match self.awaited.as_deref() {
            Some(Awaited::Form(len, _)) if *len <= HEAD_LIMIT => {
                read(within(*len, near), Extent::Whole(*len)).0
            }
            _ => read(near, Extent::Beginning).0,
        }
    }

    /// The form that is awaited, as far as it came.
    fn form(&mut self, bytes: &[u8]) -> Form {
        if let Some(Awaited::HeadEnd(trim, forgotten)) = self.awaited.as_deref() {
            let limit = FORM_HEAD_LIMIT.saturating_sub(*forgotten);
            let head = within(limit, bytes);
            match self.scan.step(head) {
                Step::More if head.len() < limit => return Form::Unfinished,
                Step::Whole(len) => {
                    let kept = trim.kept(within(len, head));
                    let (_, posting) = read(&kept, Extent::Beginning);
                    self.awaited = Some(Box::new(Awaited::Form(len, posting)));
                }
                Step::More | Step::Preface | Step::Tls | Step::Refused => return Form::None,
            }
        }
        match self.awaited.as_deref() {
            Some(Awaited::Form(len, posting)) => {
                posting.read(bytes.get(*len..).unwrap_or_default())
            }
            Some(Awaited::HeadEnd(..)) | None => Form::None,
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
