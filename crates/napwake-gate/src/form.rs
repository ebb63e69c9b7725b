//! Small forms: what a browser posts that may be the button's.
//!
//! Owns which posts are read past their head, how much of them, and whether the
//! button's field is in it. What is too large, or can't be told apart from what
//! follows it, is never read. Never judges where a form came from.

use httparse::{Header, Status};

use crate::{pages::FIELD, token::Token};

/// The largest form that is read, chunk sizes and the like left out (ASK-26, T-48).
pub const LIMIT: usize = 1024;

/// How much of a chunked form is looked at, chunk sizes, extensions and all: a
/// form in chunks of one byte takes less than half.
const CHUNKED_LIMIT: usize = 16 * 1024;

const URL_ENCODED: &[u8] = b"application/x-www-form-urlencoded";

/// What a request's body is, if a small form can be it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// No small form: another method, another type of content, too large, or of a
    /// length that isn't clear (T-49). Its body is never read.
    #[default]
    None,
    /// A small form so far, of which there is more to come.
    Unfinished,
    /// A small form that stopped short (T-48).
    Stalled,
    /// A whole one without the button's field, or with nothing in it (T-50).
    Foreign,
    /// A whole one with the button's field, and the token in it, if one can be
    /// what the field holds.
    Button(Option<Token>),
}

/// What a head says of the body behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// No small form.
    None,
    /// Perhaps a small form.
    Form(Framing, Media),
}

/// How a body's end is told (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After this many bytes.
    Length(usize),
    /// By its chunks (ASK-27).
    Chunked,
}

/// What type of content a body is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    UrlEncoded,
    /// Fine for a body with nothing in it (T-50).
    Unsaid,
}

/// How much of a chunked body was there.
enum Unchunked {
    Partial,
    /// This many bytes.
    Whole(usize),
    /// Too large, or no chunks at all.
    Refused,
}

impl Posting {
    /// What a request with this method and these headers posts.
    pub(crate) fn of(method: &str, headers: &[Header<'_>]) -> Self {
        // T-108: who expects an answer before it sends its body is no browser.
        let expects = named(headers, "expect").next().is_some();
        if method != "POST" || expects {
            return Self::None;
        }
        match (media(headers), framing(headers)) {
            (Some(Media::Unsaid), Some(Framing::Length(1..))) | (None, _) | (_, None) => Self::None,
            (_, Some(Framing::Length(length))) if length > LIMIT => Self::None,
            (Some(media), Some(framing)) => Self::Form(framing, media),
        }
    }

    /// What `body` is: everything that came behind the head so far.
    pub(crate) fn read(self, body: &[u8]) -> Form {
        match self {
            Self::None => Form::None,
            Self::Form(Framing::Length(length), _) => {
                body.get(..length).map_or(Form::Unfinished, look_for_button)
            }
            Self::Form(Framing::Chunked, media) => {
                let mut form = [0; LIMIT];
                let room = match media {
                    Media::UrlEncoded => LIMIT,
                    Media::Unsaid => 0,
                };
                match unchunk(body, form.get_mut(..room).unwrap_or_default()) {
                    Unchunked::Partial => Form::Unfinished,
                    Unchunked::Refused => Form::None,
                    Unchunked::Whole(length) => {
                        look_for_button(form.get(..length).unwrap_or_default())
                    }
                }
            }
        }
    }
}

/// The values of all headers with this name, in any case (T-40).
pub(crate) fn named<'h, 'a: 'h>(
    headers: &'h [Header<'a>],
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> + 'h {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

/// None for any other than a URL-encoded form, a file upload among them (ASK-41).
fn media(headers: &[Header<'_>]) -> Option<Media> {
    let Some(value) = named(headers, "content-type").next() else {
        return Some(Media::Unsaid);
    };
    let kind = value.split(|byte| *byte == b';').next()?;
    kind.trim_ascii()
        .eq_ignore_ascii_case(URL_ENCODED)
        .then_some(Media::UrlEncoded)
}

/// None where two headers differ, or one can't be read (T-49).
fn framing(headers: &[Header<'_>]) -> Option<Framing> {
    let mut codings = named(headers, "transfer-encoding");
    let mut lengths = named(headers, "content-length");
    match (codings.next(), lengths.next()) {
        (None, None) => Some(Framing::Length(0)),
        (None, Some(length)) => {
            let is_clear = lengths.all(|other| other == length);
            number(length).filter(|_| is_clear).map(Framing::Length)
        }
        (Some(coding), None) => {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
            is_chunked.then_some(Framing::Chunked)
        }
        (Some(_), Some(_)) => None,
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    let all_digits = digits.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(digits).ok().filter(|_| all_digits)?;
    text.parse().ok()
}

fn look_for_button(form: &[u8]) -> Form {
    let mut fields = form_urlencoded::parse(form);
    match fields.find(|(name, _)| name == FIELD) {
        Some((_, value)) => Form::Button(Token::read(value.as_bytes())),
        None => Form::Foreign,
    }
}

/// Puts the chunks of `raw` one after the other. Extensions are skipped, and so
/// is what comes after the last chunk (T-48).
fn unchunk(raw: &[u8], form: &mut [u8]) -> Unchunked {
    let within = raw.get(..CHUNKED_LIMIT).unwrap_or(raw);
    let mut rest = within;
    let mut length = 0;
    loop {
        match chunk(rest, form.get_mut(length..).unwrap_or_default()) {
            Chunk::Taken(0, _) => return Unchunked::Whole(length),
            Chunk::Taken(size, behind) => {
                length += size;
                rest = behind;
            }
            Chunk::Partial if within.len() < CHUNKED_LIMIT => return Unchunked::Partial,
            Chunk::Partial | Chunk::Refused => return Unchunked::Refused,
        }
    }
}

enum Chunk<'a> {
    Partial,
    /// A chunk of this size, and what is behind it.
    Taken(usize, &'a [u8]),
    Refused,
}

fn chunk<'a>(raw: &'a [u8], room: &mut [u8]) -> Chunk<'a> {
    // httparse takes a line without a digit for a size of 0.
    if raw.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) {
        return Chunk::Refused;
    }
    let (line, size) = match httparse::parse_chunk_size(raw) {
        Ok(Status::Complete(found)) => found,
        Ok(Status::Partial) => return Chunk::Partial,
        Err(_) => return Chunk::Refused,
    };
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let behind_line = raw.get(line..).unwrap_or_default();
    if size == 0 {
        return Chunk::Taken(0, behind_line);
    }
    let Some(room) = room.get_mut(..size) else {
        return Chunk::Refused;
    };
    let Some((data, behind)) = behind_line.split_at_checked(size) else {
        return Chunk::Partial;
    };
    match behind {
        [b'\r', b'\n', behind @ ..] => {
            room.copy_from_slice(data);
            Chunk::Taken(size, behind)
        }
        [] | [b'\r'] => Chunk::Partial,
        _ => Chunk::Refused,
    }
}

/// For fuzzing: what a form is doesn't depend on how its bytes are split, and a
/// decision stands whatever comes behind it.
#[doc(hidden)]
pub fn fuzz_form(body: &[u8]) {
    let length = body.first().map_or(0, |first| usize::from(*first) * 5);
    for framing in [Framing::Length(length.min(LIMIT)), Framing::Chunked] {
        fuzz_framed(Posting::Form(framing, Media::UrlEncoded), body);
    }
}

/// For fuzzing: the same of chunks alone.
#[doc(hidden)]
pub fn fuzz_chunks(body: &[u8]) {
    fuzz_framed(Posting::Form(Framing::Chunked, Media::UrlEncoded), body);
}

fn fuzz_framed(posting: Posting, body: &[u8]) {
    let whole = posting.read(body);
    for end in 0..=body.len() {
        let found = posting.read(body.get(..end).unwrap_or(body));
        if found != Form::Unfinished {
            assert_eq!(found, whole, "decided after {end} bytes of {posting:?}");
            return;
        }
    }
    assert_eq!(whole, Form::Unfinished);
}

#[cfg(test)]
mod tests;
