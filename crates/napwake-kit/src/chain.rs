//! How an error is told on one line.
//!
//! Our errors leave their source to `source()`, so whoever prints only the
//! error loses the reason. Those of some libraries say it twice, in their text
//! and as their source: that is told once.

use std::{error::Error, fmt};

/// An error with its sources, on one line, for logs.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&tell(self.0, |_| Share::Text))
    }
}

/// What an error of a chain adds to the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Its text.
    Text,
    /// This instead, and all that its sources would say.
    Whole(String),
    /// Nothing: it only wraps its source, or says again what wraps it.
    Nothing,
}

/// Tells an error with its sources on one line, for those who know what the
/// errors of a library are worth.
pub fn tell(
    error: &(dyn Error + 'static),
    share: impl Fn(&(dyn Error + 'static)) -> Share,
) -> String {
    let mut line = Line::default();
    let mut next = Some(error);
    while let Some(error) = next {
        next = error.source();
        match share(error) {
            Share::Text => line.add(&own_text(error)),
            Share::Whole(text) => {
                line.add(&text);
                break;
            }
            Share::Nothing => {}
        }
    }
    if line.said.is_empty() {
        line.add(&error.to_string());
    }
    line.said
}

#[derive(Default)]
struct Line {
    said: String,
}

impl Line {
    fn add(&mut self, text: &str) {
        // Messages from elsewhere may have several lines.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() || self.said.ends_with(&text) {
            return;
        }
        if !self.said.is_empty() {
            self.said.push_str(": ");
        }
        self.said.push_str(&text);
    }
}

/// The text of an error without that of its source, where that ends it.
fn own_text(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let source = error.source().map(ToString::to_string);
    let own = source.and_then(|source| text.strip_suffix(&*source));
    match own.map(str::trim_end) {
        Some("") => String::new(),
        Some(own) => own.strip_suffix(':').unwrap_or(&text).to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("can't ask")]
    struct Ours(#[source] Theirs);

    #[derive(Debug, thiserror::Error)]
    #[error("client error: {0}")]
    struct Theirs(#[source] io::Error);

    #[test]
    fn tells_every_source_once() {
        let error = Ours(Theirs(io::Error::other("refused")));
        assert_eq!(
            Chain(&error).to_string(),
            "can't ask: client error: refused"
        );
    }

    #[test]
    fn an_error_without_a_source_is_told_as_it_is() {
        let error = io::Error::other("no");
        assert_eq!(Chain(&error).to_string(), "no");
    }

    #[test]
    fn is_one_line() {
        let error = Ours(Theirs(io::Error::other("no:\n  not today\n")));
        assert_eq!(
            Chain(&error).to_string(),
            "can't ask: client error: no: not today"
        );
    }

    #[test]
    fn what_a_library_is_worth_can_be_said() {
        let error = Ours(Theirs(io::Error::other("refused")));
        let without_theirs = |error: &(dyn Error + 'static)| {
            if error.is::<Theirs>() {
                Share::Nothing
            } else {
                Share::Text
            }
        };
        assert_eq!(tell(&error, without_theirs), "can't ask: refused");
        let theirs_is_all = |error: &(dyn Error + 'static)| {
            if error.is::<Theirs>() {
                Share::Whole("no way".to_owned())
            } else {
                Share::Text
            }
        };
        assert_eq!(tell(&error, theirs_is_all), "can't ask: no way");
        assert_eq!(tell(&io::Error::other("no"), |_| Share::Nothing), "no");
    }
}
