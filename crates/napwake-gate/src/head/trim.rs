//! What of a long head nothing needs any more, while the form behind it is awaited.
//!
//! Owns which header lines these are: those over the limit that say nothing of
//! what is behind the head (T-42). What is left reads as the same request with
//! the same form.

use std::ops::Range;

/// The headers that say what is behind a head.
const NEEDED: [&[u8]; 4] = [
    b"content-length",
    b"content-type",
    b"expect",
    b"transfer-encoding",
];

/// As much of a line without a colon as tells that it begins no needed header.
const NAME: usize = 32;

/// How far the lines of a head were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    /// What is before this stays.
    limit: usize,
    /// Where the first line begins that wasn't whole.
    line: usize,
    /// Up to where that line has no end: it's looked for further on only, however
    /// long the line grows.
    seen: usize,
}

impl Trim {
    /// Of a head of which `near` is what is within the limit.
    pub(super) fn beyond(near: &[u8]) -> Self {
        let before = near.iter().rposition(|byte| *byte == b'\n');
        Self {
            limit: near.len(),
            line: before.map_or(0, |end| end + 1),
            seen: near.len(),
        }
    }

    /// A whole head without what is needless: what is behind it is told by the same
    /// lines, whether the others were forgotten before or not.
    pub(super) fn kept(mut self, head: &[u8]) -> Vec<u8> {
        let (mut kept, mut from) = (Vec::new(), 0);
        for gone in self.needless(head) {
            kept.extend_from_slice(head.get(from..gone.start).unwrap_or_default());
            from = gone.end;
        }
        kept.extend_from_slice(head.get(from..).unwrap_or_default());
        kept
    }

    /// What is needless of the lines that came since, in their order. They count
    /// as gone from now on.
    pub(super) fn needless(&mut self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut gone: Vec<Range<usize>> = Vec::new();
        let (mut start, mut seen) = (self.line, self.seen);
        let mut take = |range: Range<usize>| match gone.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ => gone.push(range),
        };
        while let Some(rest) = bytes.get(start..) {
            let fresh = bytes.get(seen..).unwrap_or_default();
            let Some(end) = fresh.iter().position(|byte| *byte == b'\n') else {
                let kept = start + kept_of_unfinished(rest);
                take(kept.max(self.limit)..bytes.len().max(self.limit));
                break;
            };
            let end = seen + end;
            let (line, next) = (bytes.get(start..end).unwrap_or_default(), end + 1);
            if !is_needed(line) {
                // The line that begins within the limit keeps its end.
                let from_limit = self.limit..(next - 1).max(self.limit);
                take(if start < self.limit {
                    from_limit
                } else {
                    start..next
                });
            }
            (start, seen) = (next, next);
        }
        let before: usize = gone
            .iter()
            .filter(|range| range.start < start)
            .map(|range| range.end.min(start) - range.start)
            .sum();
        let count: usize = gone.iter().map(ExactSizeIterator::len).sum();
        self.line = start - before;
        self.seen = bytes.len() - count;
        gone
    }
}

/// Whether a whole line is a needed header. One that can't be read is none.
fn is_needed(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let has_colon = name.len() < line.len();
    has_colon
        && NEEDED
            .iter()
            .any(|needed| name.eq_ignore_ascii_case(needed))
}

/// How much of a line that goes on is needed: all of it if it may be a needed
/// header, or its name, so that what follows isn't taken for one.
fn kept_of_unfinished(line: &[u8]) -> usize {
    match line.iter().position(|byte| *byte == b':') {
        Some(_) if is_needed(line) => line.len(),
        Some(colon) => colon + 1,
        None => line.len().min(NAME),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use crate::form::Form;
    use crate::head::{HEAD_LIMIT, Head, HeadScan};

    /// A post whose head is over the limit, with these lines behind that.
    fn post(lines: &str, body: &str) -> Vec<u8> {
        let start = "POST / HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n";
        let filling = "x".repeat(HEAD_LIMIT);
        format!("{start}Cookie: {filling}\r\n{lines}\r\n{body}").into_bytes()
    }

    /// What comes in such pieces, with what is needless forgotten after each: what
    /// it is found to be, by itself or once nothing more comes, and how much was
    /// kept at most.
    fn check(bytes: &[u8], piece: usize) -> usize {
        let whole = HeadScan::new().settle(bytes);
        let (mut scan, mut kept, mut most) = (HeadScan::new(), Vec::new(), 0);
        for piece in bytes.chunks(piece) {
            kept.extend_from_slice(piece);
            let head = scan.look(&kept);
            if !head.is_open() {
                assert_eq!(head, whole);
                return most;
            }
            for gone in scan.forget(&kept).into_iter().rev() {
                kept.drain(gone);
            }
            most = most.max(kept.len());
        }
        assert_eq!(scan.settle(&kept), whole);
        most
    }

    fn form(bytes: &[u8]) -> Form {
        match HeadScan::new().settle(bytes) {
            Head::Http1(request) => request.form,
            other => panic!("{other:?}"),
        }
    }

    /// T-42: of large cookies behind the first 16 KiB next to nothing is kept, in
    /// one line or in many.
    #[rstest]
    #[case::one("Cookie: ", "y", 500_000)]
    #[case::many("", "Cookie: a=b\r\n", 30_000)]
    #[case::no_header_at_all("", "y", 500_000)]
    fn little_is_kept(#[case] name: &str, #[case] part: &str, #[case] times: usize) {
        let lines = format!(
            "{name}{}\r\nContent-Length: 3\r\n",
            part.repeat(times).trim_end()
        );
        let bytes = post(&lines, "a=b");
        assert_eq!(form(&bytes), Form::Foreign);
        let most = check(&bytes, 10_000);
        assert!(most < HEAD_LIMIT + 11_000, "{most} bytes kept");
    }

    /// What is forgotten never makes a header of what was none.
    #[rstest]
    #[case::of_a_value("Cookie: Content-Length: 3\r\n", Form::Foreign)]
    #[case::of_a_fold("Cookie: a\r\n Content-Length: 3\r\n", Form::Foreign)]
    #[case::in_any_case("CONTENT-LENGTH: 3\r\n", Form::Foreign)]
    #[case::another_length("content-length: 3\r\nContent-Length: 4\r\n", Form::None)]
    #[case::expected("Expect: 100-continue\r\nContent-Length: 3\r\n", Form::None)]
    #[case::chunked("Transfer-Encoding: chunked\r\n", Form::None)]
    fn what_is_needed_stays(#[case] lines: &str, #[case] expected: Form) {
        let bytes = post(lines, "a=b");
        assert_eq!(form(&bytes), expected);
        for piece in [1, 2, 7, 100, HEAD_LIMIT] {
            check(&bytes, piece);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is forgotten, and however the bytes are split, the same is found.
        #[test]
        fn forgetting_changes_nothing(
            lines in prop::collection::vec(prop::sample::select(vec![
                "Cookie: a=b", "X: content-length: 9", "content-length", " Content-Length: 5",
                "\tfolded", ":", "", "Content-Length: 3", "CONTENT-length:3", "Expect: x",
                "Transfer-Encoding: chunked", "Content-Type: text/plain", "Content-Length : 4",
                "a-name-that-is-longer-than-any-that-is-needed: x", "no colon in here at all",
            ]), 0..8),
            ending in prop::sample::select(vec!["\r\n", "\n"]),
            body in prop::sample::select(vec!["", "a=b", "3\r\na=b\r\n0\r\n\r\n"]),
            piece in 1..200_usize,
        ) {
            let lines: Vec<_> = lines.iter().flat_map(|line| [*line, ending]).collect();
            check(&post(&lines.concat(), body), piece);
        }
    }
}
