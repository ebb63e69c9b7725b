//! Which requirement ids the tests of a Rust source name.
//!
//! An id counts where it stands in a test function: in its documentation, in
//! an attribute (a case's values) or in a string of its body. Plain comments
//! don't count, and neither does anything outside of tests, because there an
//! id only tells where a number comes from.

use std::collections::BTreeSet;

use quote::ToTokens;
use syn::{
    Attribute, ItemFn, ItemMacro, Macro,
    visit::{self, Visit},
};

/// A requirement's id, such as `HOLD-21`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    area: String,
    number: u16,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{:02}", self.area, self.number)
    }
}

/// The ids in a text, wherever they stand as words of their own.
pub fn ids_in(text: &str) -> BTreeSet<Id> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.split(|c: char| !is_word(c))
        .filter_map(parse)
        .collect()
}

/// Reads one word as an id: two to six capitals, a hyphen, two or three digits.
pub fn parse(word: &str) -> Option<Id> {
    let (area, digits) = word.split_once('-')?;
    let area_fits = (2..=6).contains(&area.len()) && area.chars().all(|c| c.is_ascii_uppercase());
    let digits_fit = (2..=3).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_digit());
    if !area_fits || !digits_fit {
        return None;
    }
    Some(Id {
        area: area.to_owned(),
        number: digits.parse().ok()?,
    })
}

/// The ids that tests in `source` name.
pub fn in_tests(source: &str) -> syn::Result<BTreeSet<Id>> {
    let file = syn::parse_file(source)?;
    let mut found = Found::default();
    found.visit_file(&file);
    Ok(found.0)
}

#[derive(Default)]
struct Found(BTreeSet<Id>);

impl Found {
    /// Takes what `item` holds, attributes and documentation included.
    fn take(&mut self, item: &impl ToTokens) {
        self.0.extend(ids_in(&item.to_token_stream().to_string()));
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if item.attrs.iter().any(marks_a_test) {
            self.take(item);
        } else {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        if writes_tests(&item.mac) {
            self.take(item);
        }
    }
}

/// `#[test]`, `#[tokio::test]`, `#[rstest]`: all end in one of these words.
fn marks_a_test(attribute: &Attribute) -> bool {
    let last = attribute.path().segments.last();
    last.is_some_and(|segment| segment.ident == "test" || segment.ident == "rstest")
}

fn writes_tests(mac: &Macro) -> bool {
    mac.path
        .segments
        .last()
        .is_some_and(|segment| segment.ident == "proptest")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn names(source: &str) -> Vec<String> {
        in_tests(source)
            .expect("parses")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[rstest]
    #[case("/// ZZ-21: again every second.\n#[test]\nfn a() {}", &["ZZ-21"])]
    #[case("#[rstest]\n#[case(\"ZZ-24\", 1)]\nfn a() {}", &["ZZ-24"])]
    #[case("mod m { #[tokio::test]\nasync fn a() { check(\"ZZ-26\"); } }", &["ZZ-26"])]
    #[case("proptest! { /// ZZ-22\n #[test] fn a(x in 0..1) {} }", &["ZZ-22"])]
    fn counts_what_a_test_names(#[case] source: &str, #[case] expected: &[&str]) {
        assert_eq!(names(source), expected);
    }

    #[rstest]
    #[case("/// ZZ-21\nconst A: u8 = 1;")]
    #[case("/// ZZ-21\nfn helper() { let _ = \"ZZ-21\"; }")]
    #[case("// ZZ-21\n#[test]\nfn a() {}")]
    #[case("/// RFC-9112 and X-1 and ZZ-1\n#[test]\nfn a() {}")]
    fn leaves_out_what_no_test_names(#[case] source: &str) {
        let known: Vec<_> = names(source)
            .into_iter()
            .filter(|id| !id.starts_with("RFC"))
            .collect();
        assert_eq!(known, Vec::<String>::new());
    }
}
