//! Finds where a head ends, byte by byte, without looking at any byte twice.
//!
//! Knows just enough of the grammar to stop at the first byte that no HTTP/1
//! request can have there. What a request line or a header means is httparse's
//! to say.

/// What clients of HTTP/2 in clear send first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first byte of a TLS handshake record (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// T-117: the request line must end in `HTTP/1.0` or `HTTP/1.1`.
const VERSION: &[u8] = b"HTTP/1.";

/// httparse, taking a head as servers in the field do: a header line that can't
/// be read, such as a folded one, is passed over (F-191).
pub(super) fn parser() -> httparse::ParserConfig {
    let mut config = httparse::ParserConfig::default();
    config.ignore_invalid_headers_in_requests(true);
    config
}

/// How far the bytes seen so far lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    More,
    Preface,
    Tls,
    Refused,
    /// A head of this many bytes.
    Whole(usize),
}

/// Where in a head the next byte will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// The very first byte.
    #[default]
    Start,
    /// Among empty lines before the request line (RFC 9112, section 2.2).
    Blank,
    BlankCr,
    Method,
    /// The first byte of the target.
    Target,
    /// Within a target.
    InTarget(Shape),
    /// So many bytes into [`VERSION`], after such a target.
    Version(Shape, u8),
    VersionEnd,
    VersionCr,
    /// At the first byte of a header line.
    Line,
    LineCr,
    InLine,
    InLineCr,
    Tls,
    Refused,
    Ended,
}

/// What a target has looked like so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `/…`, as of an HTTP request.
    Path,
    /// Anything else.
    Unclear,
}

/// A scan of one connection's first bytes.
#[derive(Debug, Default)]
pub(super) struct Scan {
    at: At,
    seen: usize,
}

impl Scan {
    /// Goes on to the end of `bytes`, of which the first were seen before.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Step {
        if bytes.starts_with(PREFACE) {
            return Step::Preface;
        }
        if PREFACE.starts_with(bytes) {
            return Step::More;
        }
        self.advance(bytes);
        match self.at {
            At::Tls => Step::Tls,
            At::Refused => Step::Refused,
            At::Ended => Step::Whole(self.seen),
            _ => Step::More,
        }
    }

    /// So many of the bytes that were looked at are gone.
    pub(super) const fn forget(&mut self, bytes: usize) {
        self.seen = self.seen.saturating_sub(bytes);
    }

    /// Whether a whole request line of HTTP/1 was seen.
    pub(super) fn is_past_request_line(&self) -> bool {
        matches!(self.at, At::Line | At::LineCr | At::InLine | At::InLineCr)
    }

    /// Whether an unfinished request line reads as HTTP: a method, and a path
    /// after it. `GET key` may be any text protocol.
    pub(super) fn reads_as_http(&self) -> bool {
        matches!(
            self.at,
            At::InTarget(Shape::Path)
                | At::Version(Shape::Path, _)
                | At::VersionEnd
                | At::VersionCr
        )
    }

    fn advance(&mut self, bytes: &[u8]) {
        while let Some(byte) = bytes.get(self.seen) {
            if matches!(self.at, At::Tls | At::Refused | At::Ended) {
                return;
            }
            let was = self.at;
            self.at = was.after(*byte);
            self.seen += 1;
            if matches!((was, self.at), (At::VersionEnd | At::VersionCr, At::Line)) {
                self.check_request_line(bytes);
            }
        }
    }

    /// httparse has the last word on the request line, as soon as it is whole.
    fn check_request_line(&mut self, bytes: &[u8]) {
        let line = bytes.get(..self.seen).unwrap_or(bytes);
        let mut request = httparse::Request::new(&mut []);
        let parsed = parser().parse_request(&mut request, line);
        if parsed.is_err() || request.version.is_none() {
            self.at = At::Refused;
        }
    }
}

impl At {
    fn after(self, byte: u8) -> Self {
        match self {
            Self::Start if byte == TLS_HANDSHAKE => Self::Tls,
            Self::Start
            | Self::Blank
            | Self::BlankCr
            | Self::Method
            | Self::Target
            | Self::InTarget(_)
            | Self::Version(..)
            | Self::VersionEnd
            | Self::VersionCr => self.in_request_line(byte),
            Self::Line | Self::LineCr | Self::InLine | Self::InLineCr => self.in_headers(byte),
            Self::Tls | Self::Refused | Self::Ended => self,
        }
    }

    fn in_request_line(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Start | Self::Blank, b'\r') => Self::BlankCr,
            (Self::Start | Self::Blank | Self::BlankCr, b'\n') => Self::Blank,
            (Self::Start | Self::Blank | Self::Method, _) if is_token(byte) => Self::Method,
            (Self::Method, b' ') => Self::Target,
            (Self::Target, b'/') => Self::InTarget(Shape::Path),
            (Self::Target, b'!'..=b'~' | 0x80..) => Self::InTarget(Shape::Unclear),
            (Self::InTarget(shape), b' ') => Self::Version(shape, 0),
            (Self::InTarget(shape), b'!'..=b'~' | 0x80..) => Self::InTarget(shape),
            (Self::Version(shape, at), _) if VERSION.get(usize::from(at)) == Some(&byte) => {
                Self::Version(shape, at + 1)
            }
            (Self::Version(_, at), b'0' | b'1') if usize::from(at) == VERSION.len() => {
                Self::VersionEnd
            }
            (Self::VersionEnd, b'\r') => Self::VersionCr,
            (Self::VersionEnd | Self::VersionCr, b'\n') => Self::Line,
            _ => Self::Refused,
        }
    }

    /// A NUL, or a CR that ends no line, is in no head.
    fn in_headers(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Line | Self::LineCr, b'\n') => Self::Ended,
            (Self::InLine | Self::InLineCr, b'\n') => Self::Line,
            (Self::LineCr | Self::InLineCr, _) | (_, b'\0') => Self::Refused,
            (Self::Line, b'\r') => Self::LineCr,
            (_, b'\r') => Self::InLineCr,
            _ => Self::InLine,
        }
    }
}

/// What methods are made of (RFC 9110, section 5.6.2): any, known or not.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
