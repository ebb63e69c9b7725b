//! Request targets: which host one names, which path, and what a person sees of it
//! below the host (RFC 9112, section 3.2).
//!
//! Owns where one part ends and the next begins, for whoever asks. Read in two
//! ways, a target could pass for one address here and for another there.

/// A request target, in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    host: Option<&'a str>,
    rest: &'a str,
}

impl<'a> Target<'a> {
    /// Reads a target in any form. A whole address (the absolute form) is only
    /// what begins with a scheme: anything else is no address, whatever is in it.
    pub(crate) fn read(text: &'a str) -> Self {
        let other = Self {
            host: None,
            rest: text,
        };
        match text.split_once("://") {
            Some((scheme, address)) if is_scheme(scheme) => {
                let end = address.find(['/', '?', '#']).unwrap_or(address.len());
                let (authority, rest) = address.split_at_checked(end).unwrap_or((address, ""));
                // Who somebody says to be is no part of the host.
                let host = authority.rsplit('@').next();
                Self { host, rest }
            }
            _ => other,
        }
    }

    /// The host that a whole address names, with its port if it names one.
    pub(crate) const fn host(self) -> Option<&'a str> {
        self.host
    }

    /// The path, without a query; none where there is no path, as in `*`.
    pub(crate) fn path(self) -> Option<&'a str> {
        let path = self.rest.split(['?', '#']).next();
        path.filter(|path| path.starts_with('/'))
    }

    /// What a browser shows behind the host: path and query, or the whole of a
    /// target that has no path.
    pub(crate) fn below_host(self) -> &'a str {
        match (self.host, self.rest) {
            (Some(_), "") => "/",
            (_, rest) => rest,
        }
    }
}

/// RFC 3986, section 3.1.
fn is_scheme(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Host, path and what is shown, of every form there is.
    #[rstest]
    #[case::origin("/a/b?c=d", None, Some("/a/b"), "/a/b?c=d")]
    #[case::root("/", None, Some("/"), "/")]
    #[case::fragment("/a#b", None, Some("/a"), "/a#b")]
    #[case::absolute("http://a.test:81/b?c", Some("a.test:81"), Some("/b"), "/b?c")]
    #[case::in_capitals("HTTPS://a.test/b", Some("a.test"), Some("/b"), "/b")]
    #[case::any_scheme("ws+x.1://a.test/b", Some("a.test"), Some("/b"), "/b")]
    #[case::no_path("http://a.test", Some("a.test"), None, "/")]
    #[case::no_path_but_a_query("http://a.test?b/c", Some("a.test"), None, "?b/c")]
    #[case::no_path_but_a_fragment("http://a.test#/b", Some("a.test"), None, "#/b")]
    #[case::no_host("http:///b", Some(""), Some("/b"), "/b")]
    #[case::somebody("http://b.test@a.test/c", Some("a.test"), Some("/c"), "/c")]
    #[case::authority("a.test:443", None, None, "a.test:443")]
    #[case::asterisk("*", None, None, "*")]
    #[case::an_address_in_a_query("/a?b=http://c.test/d", None, Some("/a"), "/a?b=http://c.test/d")]
    #[case::an_address_in_a_path(
        "/a/http://c.test/.d",
        None,
        Some("/a/http://c.test/.d"),
        "/a/http://c.test/.d"
    )]
    #[case::no_scheme("foo?x=http://evil/y", None, None, "foo?x=http://evil/y")]
    #[case::a_scheme_of_digits("1http://evil/y", None, None, "1http://evil/y")]
    #[case::nothing_for_a_scheme("://evil/y", None, None, "://evil/y")]
    #[case::nothing("", None, None, "")]
    fn reads_every_form(
        #[case] text: &str,
        #[case] host: Option<&str>,
        #[case] path: Option<&str>,
        #[case] shown: &str,
    ) {
        let target = Target::read(text);
        let found = (target.host(), target.path(), target.below_host());
        assert_eq!(found, (host, path, shown));
    }

    proptest! {
        /// The parts are parts of the target, in their order, and nothing that is
        /// in a path or a query is taken for a host.
        #[test]
        fn parts_are_in_their_order(text in "[a-z1:/?#@.=]{0,24}") {
            let target = Target::read(&text);
            let rest = target.below_host();
            prop_assert!(text.ends_with(rest) || rest == "/");
            if let Some(path) = target.path() {
                prop_assert!(rest.starts_with(path) && !path.contains(['?', '#']));
            }
            if let Some(host) = target.host() {
                let before = text.find("://").expect("a scheme");
                prop_assert!(!text[..before].contains(['/', '?', '#', '@']));
                prop_assert!(!host.contains(['/', '?', '#', '@']));
            } else {
                prop_assert_eq!(rest, &*text);
            }
        }
    }
}
