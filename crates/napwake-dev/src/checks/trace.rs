//! `trace-requirements`: which ids of `docs/requirements.md` no test shows.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::{
    named::{self, Id},
    sources,
};

/// What the trace found.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    /// Ids that no test names, in the list's order.
    pub missing: Vec<Id>,
    /// How many ids tests name.
    pub shown: usize,
    /// How many rows `docs/compatibility.md` lists as unchecked.
    pub unchecked: usize,
}

/// Reads the list, the tests and the unchecked rows of the checkout.
pub fn run() -> Result<Trace> {
    let list = sources::read("docs/requirements.md".as_ref())?;
    let compatibility = sources::read("docs/compatibility.md".as_ref()).unwrap_or_default();
    Ok(judge(&list, &unchecked(&compatibility), &shown()?))
}

/// The ids that the tree's tests name.
fn shown() -> Result<BTreeSet<Id>> {
    let mut shown = BTreeSet::new();
    for path in sources::files("rs")? {
        let source = sources::read(&path)?;
        let found = named::in_tests(&source)
            .with_context(|| format!("{} is no Rust that can be parsed", path.display()))?;
        shown.extend(found);
    }
    Ok(shown)
}

fn judge(list: &str, unchecked: &BTreeSet<Id>, shown: &BTreeSet<Id>) -> Trace {
    let wanted: Vec<Id> = list.lines().filter_map(testable).collect();
    let (skipped, due): (Vec<_>, Vec<_>) = wanted
        .into_iter()
        .partition(|id| unchecked.contains(id) && !shown.contains(id));
    let all = due.len();
    let missing: Vec<Id> = due.into_iter().filter(|id| !shown.contains(id)).collect();
    Trace {
        shown: all - missing.len(),
        missing,
        unchecked: skipped.len(),
    }
}

/// The id of a row of the list, unless its proof is documentation alone.
fn testable(line: &str) -> Option<Id> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let id = named::parse(cells.next()?)?;
    let proof = cells.next_back().filter(|cell| !cell.is_empty());
    let proof = proof.or_else(|| {
        line.trim_end_matches(['|', ' '])
            .rsplit('|')
            .next()
            .map(str::trim)
    });
    proof
        .is_none_or(|proof| proof.trim_end_matches('.') != "doc")
        .then_some(id)
}

/// The rows that `docs/compatibility.md` lists under `## Unchecked`, each in a
/// table row that begins with the id and gives the reason.
fn unchecked(compatibility: &str) -> BTreeSet<Id> {
    let section = compatibility
        .split("\n## ")
        .find(|part| part.starts_with("Unchecked"));
    let rows = section.unwrap_or_default().lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let id = named::parse(cells.next()?)?;
        cells.next().filter(|reason| !reason.is_empty()).map(|_| id)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
| ID | Requirement | How |
| ZZ-01 | one. (L5) | C: pause. |
| ZZ-02 | two. (L5) | doc |
| ZZ-03 | three. (L5) | doc; C: both. |
| ZZ-12 | mesh. | doc; C with Istio. |
| T-01 | edge | Decided. |
";

    fn ids(text: &str) -> BTreeSet<Id> {
        named::ids_in(text)
    }

    #[test]
    fn lists_what_no_test_names() {
        let unchecked = unchecked("# C\n\n## Unchecked\n| ZZ-12 | no mesh runs here |\n");
        let trace = judge(LIST, &unchecked, &ids("ZZ-01"));
        assert_eq!(trace.missing, Vec::from_iter(ids("ZZ-03")));
        assert_eq!((trace.shown, trace.unchecked), (1, 1));
    }

    /// The settled edges and the facts that a text names, such as `T-01`.
    fn edges_and_facts(text: &str) -> BTreeSet<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let words = text.split(|c: char| !is_word(c));
        words
            .filter(|word| {
                let digits = word.strip_prefix("T-").or_else(|| word.strip_prefix("F-"));
                digits.is_some_and(|digits| {
                    (2..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
                })
            })
            .map(str::to_owned)
            .collect()
    }

    /// Whoever reads an id in a comment finds in `docs` what it stands for.
    #[test]
    fn edges_and_facts_that_sources_name_are_written_down() {
        let docs = ["docs/requirements.md", "docs/kubernetes-facts.md"];
        let docs = docs.map(|path| sources::read(path.as_ref()).unwrap());
        let written = edges_and_facts(&docs.concat());
        let files = sources::files("rs").unwrap();
        let texts = files.iter().map(|path| sources::read(path).unwrap());
        let named: BTreeSet<_> = texts.flat_map(|text| edges_and_facts(&text)).collect();
        let missing: Vec<_> = named.difference(&written).collect();
        assert!(!named.is_empty() && missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn an_unchecked_row_needs_its_reason() {
        assert!(unchecked("\n## Unchecked\n| ZZ-12 | |\n").is_empty());
    }
}
