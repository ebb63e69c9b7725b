//! What `docs/compatibility.md` lists as checked: each line names the tests that
//! check it, and they are there.

use anyhow::Result;

use super::sources;

const LIST: &str = "docs/compatibility.md";

/// Lines of the list that break the rule, one sentence each.
pub fn run() -> Result<Vec<String>> {
    let mut tests = String::new();
    for path in sources::files("rs")? {
        if path.starts_with("tests") {
            tests.push_str(&sources::read(&path)?);
        }
    }
    Ok(judge(&sources::read(LIST.as_ref())?, &tests))
}

fn judge(list: &str, tests: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let lines = checked(list);
    if lines.is_empty() {
        broken.push(format!("{LIST} lists nothing as checked"));
    }
    for line in lines {
        let names = quoted(line);
        if names.is_empty() && !line.contains("every cluster test") {
            broken.push(format!("{LIST} names no test for: {line}"));
        }
        for name in names {
            if !tests.contains(&format!("fn {name}(")) {
                broken.push(format!("{LIST} names a test that isn't there: {name}"));
            }
        }
    }
    broken
}

/// The rows of the table of what was checked, without its head.
fn checked(list: &str) -> Vec<&str> {
    let part = list.split("\n## ").find(|part| part.starts_with("Checked"));
    let rows = part.unwrap_or_default().lines();
    rows.filter(|line| line.starts_with('|')).skip(2).collect()
}

/// The names in backticks; what is said on a command line is none.
fn quoted(line: &str) -> Vec<&str> {
    let is_name = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    line.split('`').skip(1).step_by(2).filter(is_name).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// COMPAT-18: the list exists, and each line of it is one that tests check.
    #[test]
    fn whatever_is_listed_as_checked_has_its_tests() {
        assert_eq!(run().expect("readable"), Vec::<String>::new());
    }

    #[rstest]
    #[case("| nginx | 1 | `asks`, `wakes` |", 0)]
    #[case("| containerd | 1 | every cluster test |", 0)]
    #[case("| nginx | 1 | by hand |", 1)]
    #[case("| nginx | 1 | `asks`, `sleeps` |", 1)]
    fn a_line_names_tests_that_are_there(#[case] line: &str, #[case] broken: usize) {
        let list = format!(
            "# C\n\n## Checked\n\n| Part | V | Tests |\n|---|---|---|\n{line}\n\n## Unchecked\n"
        );
        let tests = "async fn asks(way: Way) {}\nfn wakes() {}";
        assert_eq!(judge(&list, tests).len(), broken);
    }

    #[test]
    fn an_empty_list_is_told() {
        assert_eq!(judge("## Unchecked\n", "").len(), 1);
    }
}
