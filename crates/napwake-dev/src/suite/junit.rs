//! The counts in nextest's JUnit report.

use super::Counts;

/// Reads the counts of the report's first element, `<testsuites …>`.
pub(super) fn counts(report: &str) -> Option<Counts> {
    let start = report.find("<testsuites")?;
    let element = report.get(start..)?.split('>').next()?;
    let total = number(element, "tests")?;
    let failed = number(element, "failures")? + number(element, "errors")?;
    Some(Counts {
        passed: total.saturating_sub(failed),
        failed,
    })
}

fn number(element: &str, attribute: &str) -> Option<usize> {
    let (_, after) = element.split_once(&format!(" {attribute}=\""))?;
    after.split('"').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_errors_count_as_failed() {
        let report = "<?xml version=\"1.0\"?>\n<testsuites name=\"nextest-run\" tests=\"7\" \
                      failures=\"1\" errors=\"2\" uuid=\"x\">\n<testsuite tests=\"9\"/>";
        assert_eq!(
            counts(report),
            Some(Counts {
                passed: 4,
                failed: 3
            })
        );
        assert_eq!(counts("<testsuite tests=\"9\"/>"), None);
    }
}
