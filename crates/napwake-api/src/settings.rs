//! Settings of workloads opted in by label: from the workload's annotations,
//! its namespace's and the chart's defaults to one value each.
//!
//! What can't be read falls to the safe side and is listed, so that an
//! `InvalidSetting` event can say so. Whoever has [`Settings`] never reads an
//! annotation again.

use std::{collections::BTreeMap, fmt};

use crate::{
    Span,
    names::setting,
    workload::{WakeMode, WakePage},
};

/// `idleAfter` where nobody sets it.
pub const DEFAULT_IDLE_AFTER: Span = Span::from_mins(30);
/// `maxWait` where nobody sets it (SET-14).
pub const DEFAULT_MAX_WAIT: Span = Span::from_mins(2);
/// `lookout` where nobody sets it.
pub const DEFAULT_LOOKOUT: Span = Span::from_secs(30);
/// The longest `maxWait` there is (SET-15).
pub const MAX_MAX_WAIT: Span = Span::from_mins(60);
/// The shortest `idleAfter` there is.
pub const MIN_IDLE_AFTER: Span = Span::from_mins(1);
/// The longest `lookout` there is.
pub const MAX_LOOKOUT: Span = Span::from_mins(10);

/// Annotations as Kubernetes keeps them.
pub type Annotations = BTreeMap<String, String>;

/// What the chart sets for workloads opted in by label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// `--default-wake` (SET-07).
    pub wake: WakeMode,
    /// `--default-idle-after`.
    pub idle_after: Span,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            wake: WakeMode::Request,
            idle_after: DEFAULT_IDLE_AFTER,
        }
    }
}

/// One value for each setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who wakes it through the doorman.
    pub wake: WakeMode,
    /// Whether browsers get the waking-up page.
    pub page: WakePage,
    /// How long a connection is held.
    pub max_wait: Span,
    /// How long nobody must have used it, or none where that can't be read:
    /// then it isn't paused on its own.
    pub idle_after: Option<Span>,
    /// How long the route stands before the pods stop.
    pub lookout: Span,
}

/// A setting that couldn't be read, and what stands in for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{annotation}={value:?}{bearer} {problem}; {instead}")]
pub struct Unreadable {
    /// The annotation's key.
    pub annotation: &'static str,
    /// Its value, as given.
    pub value: String,
    /// Which object carries it.
    pub bearer: Bearer,
    /// What the value must be.
    pub problem: &'static str,
    /// What Napwake does until it's mended.
    pub instead: &'static str,
}

/// Which object carries an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// The Deployment or StatefulSet: what is told of it is told there.
    Workload,
    /// Its namespace, where whoever reads that of the workload wouldn't look.
    Namespace,
}

impl fmt::Display for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workload => "",
            Self::Namespace => " on its namespace",
        })
    }
}

/// Reads the settings of a workload opted in by label.
///
/// The workload's annotation wins, then its namespace's, then `defaults`
/// (SET-08). Returns what couldn't be read beside the settings.
pub fn read(
    workload: &Annotations,
    namespace: &Annotations,
    defaults: Defaults,
) -> (Settings, Vec<Unreadable>) {
    let mut unreadable = Vec::new();
    let settings = Settings {
        wake: wake(workload, namespace, defaults.wake, &mut unreadable),
        page: page(workload, &mut unreadable),
        max_wait: max_wait(workload, &mut unreadable),
        idle_after: idle_after(workload, namespace, defaults.idle_after, &mut unreadable),
        lookout: lookout(workload, &mut unreadable),
    };
    (settings, unreadable)
}

/// The workload's annotation, or else its namespace's (SET-08).
fn nearest<'a>(
    annotation: &str,
    workload: &'a Annotations,
    namespace: &'a Annotations,
) -> Option<(&'a str, Bearer)> {
    let on = |bearer, annotations: &'a Annotations| {
        let value = annotations.get(annotation)?;
        Some((value.as_str(), bearer))
    };
    on(Bearer::Workload, workload).or_else(|| on(Bearer::Namespace, namespace))
}

/// Exactly `request` or `ask`; anything else asks, so that a typo never lets
/// robots wake the workload (SET-05, SET-09, SET-11, T-98).
fn wake(
    workload: &Annotations,
    namespace: &Annotations,
    default: WakeMode,
    unreadable: &mut Vec<Unreadable>,
) -> WakeMode {
    let Some((value, bearer)) = nearest(setting::WAKE, workload, namespace) else {
        return default;
    };
    match value {
        "request" => WakeMode::Request,
        "ask" => WakeMode::Ask,
        _ => {
            unreadable.push(Unreadable {
                annotation: setting::WAKE,
                value: value.to_owned(),
                bearer,
                problem: "must be exactly \"request\" or \"ask\"",
                instead: "until then only a person wakes the workload, as with \"ask\"",
            });
            WakeMode::Ask
        }
    }
}

/// Exactly `true` or `false`, and only the workload's own annotation counts
/// (T-101); what can't be read leaves browsers their page (T-100).
fn page(workload: &Annotations, unreadable: &mut Vec<Unreadable>) -> WakePage {
    let Some(value) = workload.get(setting::WAKE_PAGE) else {
        return WakePage::default();
    };
    match value.as_str() {
        "true" => WakePage(true),
        "false" => WakePage(false),
        _ => {
            unreadable.push(Unreadable {
                annotation: setting::WAKE_PAGE,
                value: value.clone(),
                bearer: Bearer::Workload,
                problem: "must be exactly \"true\" or \"false\"",
                instead: "until then browsers get the waking-up page",
            });
            WakePage::default()
        }
    }
}

/// Only the workload's own annotation counts (T-101); over 1h is taken as 1h,
/// and what can't be read as 2m (T-100).
fn max_wait(workload: &Annotations, unreadable: &mut Vec<Unreadable>) -> Span {
    const PROBLEM: &str = "must be a duration such as 90s or 5m, of more than 0s and at most 1h";
    let Some(value) = workload.get(setting::WAKE_MAX_WAIT) else {
        return DEFAULT_MAX_WAIT;
    };
    let (span, instead) = match value.parse::<Span>() {
        Ok(span) if span > MAX_MAX_WAIT => (MAX_MAX_WAIT, "1h is used instead"),
        Ok(span) if span > Span::from_secs(0) => return span,
        _ => (DEFAULT_MAX_WAIT, "2m is used instead"),
    };
    unreadable.push(Unreadable {
        annotation: setting::WAKE_MAX_WAIT,
        value: value.clone(),
        bearer: Bearer::Workload,
        problem: PROBLEM,
        instead,
    });
    span
}

/// What can't be read isn't paused on its own until it reads.
fn idle_after(
    workload: &Annotations,
    namespace: &Annotations,
    default: Span,
    unreadable: &mut Vec<Unreadable>,
) -> Option<Span> {
    let Some((value, bearer)) = nearest(setting::IDLE_AFTER, workload, namespace) else {
        return Some(default);
    };
    match value.parse::<Span>() {
        Ok(span) if span >= MIN_IDLE_AFTER => Some(span),
        _ => {
            unreadable.push(Unreadable {
                annotation: setting::IDLE_AFTER,
                value: value.to_owned(),
                bearer,
                problem: "must be a duration such as 30m or 2h, of at least 1m",
                instead: "until then the workload isn't paused on its own",
            });
            None
        }
    }
}

/// What can't be read is the default; over 10m is taken as 10m.
fn lookout(workload: &Annotations, unreadable: &mut Vec<Unreadable>) -> Span {
    let Some(value) = workload.get(setting::LOOKOUT) else {
        return DEFAULT_LOOKOUT;
    };
    let (span, instead) = match value.parse::<Span>() {
        Ok(span) if span <= MAX_LOOKOUT => return span,
        Ok(_) => (MAX_LOOKOUT, "10m is used instead"),
        Err(_) => (DEFAULT_LOOKOUT, "30s is used instead"),
    };
    unreadable.push(Unreadable {
        annotation: setting::LOOKOUT,
        value: value.clone(),
        bearer: Bearer::Workload,
        problem: "must be a duration such as 30s or 2m, of at most 10m",
        instead,
    });
    span
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// SET-08: the workload's annotation, then the namespace's, then the default.
    #[rstest]
    #[case(None, None, WakeMode::Request, WakeMode::Request, 0)]
    #[case(None, None, WakeMode::Ask, WakeMode::Ask, 0)]
    #[case(None, Some("ask"), WakeMode::Request, WakeMode::Ask, 0)]
    #[case(None, Some("request"), WakeMode::Ask, WakeMode::Request, 0)]
    #[case(Some("request"), Some("ask"), WakeMode::Ask, WakeMode::Request, 0)]
    #[case(Some("ask"), Some("request"), WakeMode::Request, WakeMode::Ask, 0)]
    #[case(Some("Ask"), Some("request"), WakeMode::Request, WakeMode::Ask, 1)]
    #[case(Some("true"), None, WakeMode::Request, WakeMode::Ask, 1)]
    #[case(Some(" ask"), None, WakeMode::Request, WakeMode::Ask, 1)]
    #[case(Some(""), None, WakeMode::Request, WakeMode::Ask, 1)]
    #[case(None, Some("Request"), WakeMode::Request, WakeMode::Ask, 1)]
    #[case(Some("request"), Some("Ask"), WakeMode::Ask, WakeMode::Request, 0)]
    fn wake_goes_by_precedence_and_falls_to_asking(
        #[case] workload: Option<&str>,
        #[case] namespace: Option<&str>,
        #[case] default: WakeMode,
        #[case] expected: WakeMode,
        #[case] unreadable: usize,
    ) {
        let with = |value: Option<&str>| {
            value.map_or_else(Annotations::new, |value| {
                annotations(&[(setting::WAKE, value)])
            })
        };
        let defaults = Defaults {
            wake: default,
            ..Defaults::default()
        };
        let (settings, problems) = read(&with(workload), &with(namespace), defaults);
        assert_eq!((settings.wake, problems.len()), (expected, unreadable));
    }

    /// T-100: `wake-page` is exactly `true` or `false`; anything else
    /// leaves browsers their page, and is listed.
    #[rstest]
    #[case("false", false, 0)]
    #[case("true", true, 0)]
    #[case("False", true, 1)]
    #[case("no", true, 1)]
    #[case("", true, 1)]
    fn wake_page_is_true_in_doubt(
        #[case] value: &str,
        #[case] expected: bool,
        #[case] unreadable: usize,
    ) {
        let workload = annotations(&[(setting::WAKE_PAGE, value)]);
        let (settings, problems) = read(&workload, &Annotations::new(), Defaults::default());
        assert_eq!(
            (settings.page, problems.len()),
            (WakePage(expected), unreadable)
        );
    }

    /// T-100: `wake-max-wait` within its bounds counts; over an hour is an
    /// hour, and what can't be read two minutes, and both are listed.
    #[rstest]
    #[case("5m", Span::from_mins(5), 0)]
    #[case("1h", MAX_MAX_WAIT, 0)]
    #[case("1h1s", MAX_MAX_WAIT, 1)]
    #[case("0s", Span::from_mins(2), 1)]
    #[case("soon", Span::from_mins(2), 1)]
    fn max_wait_has_bounds(#[case] value: &str, #[case] expected: Span, #[case] unreadable: usize) {
        let workload = annotations(&[(setting::WAKE_MAX_WAIT, value)]);
        let (settings, problems) = read(&workload, &Annotations::new(), Defaults::default());
        assert_eq!((settings.max_wait, problems.len()), (expected, unreadable));
    }

    /// T-101: neither `wake-page` nor `wake-max-wait` is read on a namespace.
    #[test]
    fn a_namespace_sets_neither_page_nor_max_wait() {
        let namespace = annotations(&[
            (setting::WAKE_MAX_WAIT, "5m"),
            (setting::WAKE_PAGE, "false"),
        ]);
        let (settings, problems) = read(&Annotations::new(), &namespace, Defaults::default());
        assert_eq!(settings.max_wait, Span::from_mins(2));
        assert_eq!(settings.page, WakePage(true));
        assert_eq!(problems.len(), 0);
    }

    #[rstest]
    #[case("2h", Some(Span::from_mins(120)), 0)]
    #[case("59s", None, 1)]
    #[case("never", None, 1)]
    fn what_cannot_be_read_is_not_paused(
        #[case] value: &str,
        #[case] expected: Option<Span>,
        #[case] unreadable: usize,
    ) {
        let workload = annotations(&[(setting::IDLE_AFTER, value)]);
        let (settings, problems) = read(&workload, &Annotations::new(), Defaults::default());
        assert_eq!(
            (settings.idle_after, problems.len()),
            (expected, unreadable)
        );
    }

    #[rstest]
    #[case("0s", Span::from_secs(0), 0)]
    #[case("11m", MAX_LOOKOUT, 1)]
    #[case("x", Span::from_secs(30), 1)]
    fn lookout_has_bounds(#[case] value: &str, #[case] expected: Span, #[case] unreadable: usize) {
        let workload = annotations(&[(setting::LOOKOUT, value)]);
        let (settings, problems) = read(&workload, &Annotations::new(), Defaults::default());
        assert_eq!((settings.lookout, problems.len()), (expected, unreadable));
    }

    #[test]
    fn a_problem_says_what_to_change_and_what_happens_meanwhile() {
        let workload = annotations(&[(setting::WAKE, "Ask")]);
        let (_, problems) = read(&workload, &Annotations::new(), Defaults::default());
        assert_eq!(
            problems[0].to_string(),
            "napwake.dev/wake=\"Ask\" must be exactly \"request\" or \"ask\"; \
             until then only a person wakes the workload, as with \"ask\""
        );
    }

    /// SET-10: the event is on the workload, so it says where else to look.
    #[rstest]
    #[case(setting::WAKE)]
    #[case(setting::IDLE_AFTER)]
    fn a_problem_of_the_namespace_says_so(#[case] setting: &str) {
        let (bad, fine) = (annotations(&[(setting, "soon")]), Annotations::new());
        let told = |workload, namespace| {
            let (_, problems) = read(workload, namespace, Defaults::default());
            problems[0].to_string()
        };
        let start = format!("{setting}=\"soon\" on its namespace must be ");
        let text = told(&fine, &bad);
        assert!(text.starts_with(&start), "{text}");
        for namespace in [&fine, &bad] {
            let text = told(&bad, namespace);
            assert!(!text.contains("namespace"), "{text}");
        }
    }
}
