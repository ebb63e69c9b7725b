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
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = error.to_string();
            if !said.ends_with(&text) {
                write!(f, ": {text}")?;
                said = text;
            }
            next = error.source();
        }
        Ok(())
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
}
