//! Tables for opting in by label.

use napwake_api::{
    Span,
    names::setting,
    workload::{WakeMode, WakePage},
};
use rstest::rstest;

use super::*;

const LABELLED: &[(&str, &str)] = &[(opt::MANAGED, "true")];
const NONE: &[(&str, &str)] = &[];

fn map(pairs: &[(&str, &str)]) -> Map {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Labels and annotations of the workload and of its namespace.
#[derive(Clone, Copy)]
struct Marks {
    labels: &'static [(&'static str, &'static str)],
    annotations: &'static [(&'static str, &'static str)],
    namespace_labels: &'static [(&'static str, &'static str)],
    namespace_annotations: &'static [(&'static str, &'static str)],
}

const PLAIN: Marks = Marks {
    labels: NONE,
    annotations: NONE,
    namespace_labels: NONE,
    namespace_annotations: NONE,
};

fn check(marks: Marks, existing: &[Existing<'_>]) -> OptIn {
    let (labels, annotations) = (map(marks.labels), map(marks.annotations));
    let (ns_labels, ns_annotations) = (
        map(marks.namespace_labels),
        map(marks.namespace_annotations),
    );
    let subject = Subject {
        kind: TargetKind::Deployment,
        name: "api",
        uid: "w1",
        life: Life::Stays,
        labels: &labels,
        annotations: &annotations,
    };
    let around = Surroundings {
        life: Life::Stays,
        labels: &ns_labels,
        annotations: &ns_annotations,
        existing,
        defaults: Defaults::default(),
    };
    opt_in(&subject, &around)
}

fn spec(kind: TargetKind, name: &str) -> ManagedWorkloadSpec {
    ManagedWorkloadSpec {
        target_ref: TargetRef {
            kind,
            name: name.to_owned(),
        },
        idle_after: Span::from_mins(30),
        lookout: Span::from_secs(30),
        wake: WakeSpec::default(),
        suspend: false,
    }
}

fn existing<'a>(name: &'a str, origin: Origin<'a>, spec: &'a ManagedWorkloadSpec) -> Existing<'a> {
    Existing {
        name,
        uid: "m1",
        resource_version: "7",
        life: Life::Stays,
        origin,
        spec,
    }
}

const BY_LABEL: Origin<'_> = Origin::ByLabel { owner: Some("w1") };

fn made_name(opt_in: &OptIn) -> Option<&str> {
    match &opt_in.wish {
        Wish::Make { name, .. } => Some(name),
        _ => None,
    }
}

/// LIFE-18, LIFE-19: the label on the workload or its namespace opts in, and
/// `ignore` keeps out.
#[rstest]
#[case::no_label(PLAIN, false)]
#[case::own_label(Marks { labels: LABELLED, ..PLAIN }, true)]
#[case::other_value(Marks { labels: &[(opt::MANAGED, "yes")], ..PLAIN }, false)]
#[case::an_annotation_is_no_label(Marks { annotations: LABELLED, ..PLAIN }, false)]
#[case::namespace(Marks { namespace_labels: LABELLED, ..PLAIN }, true)]
#[case::own_no_wins(
    Marks { labels: &[(opt::MANAGED, "false")], namespace_labels: LABELLED, ..PLAIN },
    false
)]
#[case::ignore_label(
    Marks { labels: &[(opt::IGNORE, "true")], namespace_labels: LABELLED, ..PLAIN },
    false
)]
#[case::ignore_annotation(
    Marks { labels: LABELLED, annotations: &[(opt::IGNORE, "true")], ..PLAIN },
    false
)]
#[case::ignore_false(
    Marks { labels: LABELLED, annotations: &[(opt::IGNORE, "false")], ..PLAIN },
    true
)]
#[case::ignored_namespace(
    Marks { labels: LABELLED, namespace_annotations: &[(opt::IGNORE, "true")], ..PLAIN },
    false
)]
fn labels_opt_in(#[case] marks: Marks, #[case] expected: bool) {
    let opt_in = check(marks, &[]);
    assert_eq!(made_name(&opt_in).is_some(), expected, "{opt_in:?}");
}

/// SET-03, SET-04, SET-13, SET-16, T-98: annotations become the spec, the workload's own
/// before its namespace's.
#[test]
fn the_spec_comes_from_annotations() {
    let marks = Marks {
        labels: LABELLED,
        annotations: &[
            (setting::WAKE, "ask"),
            (setting::WAKE_MAX_WAIT, "5m"),
            (setting::WAKE_PAGE, "false"),
            (setting::LOOKOUT, "10s"),
        ],
        namespace_annotations: &[(setting::IDLE_AFTER, "2h"), (setting::WAKE, "request")],
        ..PLAIN
    };
    let Wish::Make { name, spec: made } = check(marks, &[]).wish else {
        panic!("one should be made");
    };
    let expected = ManagedWorkloadSpec {
        idle_after: Span::from_mins(120),
        lookout: Span::from_secs(10),
        wake: WakeSpec {
            mode: WakeMode::Ask,
            page: WakePage(false),
            max_wait: MaxWait(Span::from_mins(5)),
        },
        ..spec(TargetKind::Deployment, "api")
    };
    assert_eq!((name.as_str(), *made), ("api", expected));
}

/// What can't be read is told, and the workload is managed all the same.
#[test]
fn unreadable_settings_are_told() {
    let marks = Marks {
        labels: LABELLED,
        annotations: &[(setting::WAKE, "Ask"), (setting::IDLE_AFTER, "soon")],
        ..PLAIN
    };
    let opt_in = check(marks, &[]);
    let told: Vec<_> = opt_in.unreadable.iter().map(|one| one.annotation).collect();
    assert_eq!(told, [setting::WAKE, setting::IDLE_AFTER]);
    assert_eq!(made_name(&opt_in), Some("api"));
}

#[rstest]
#[case::fine("45m", false)]
#[case::unreadable("soon", true)]
#[case::too_short("5s", true)]
fn unreadable_idle_after_is_never_idle(#[case] value: &str, #[case] expected: bool) {
    let workload = map(&[(setting::IDLE_AFTER, value)]);
    let never = never_idle(&workload, &Map::new(), Defaults::default());
    assert_eq!(never.is_some(), expected, "{never:?}");
}

#[test]
fn takes_the_second_name_where_the_first_is_taken() {
    let other = spec(TargetKind::StatefulSet, "api");
    let marks = Marks {
        labels: LABELLED,
        ..PLAIN
    };
    let first = existing("api", Origin::ByLabel { owner: Some("w2") }, &other);
    assert_eq!(made_name(&check(marks, &[first])), Some("api-deployment"));
    let second = existing("api-deployment", Origin::ByHand, &other);
    assert_eq!(
        check(marks, &[first, second]).wish,
        Wish::NamesTaken {
            names: ["api".to_owned(), "api-deployment".to_owned()]
        }
    );
}

/// What is there for the same workload, and what becomes of it.
#[rstest]
#[case::as_it_should_be(LABELLED, BY_LABEL, "nothing")]
#[case::label_gone(NONE, BY_LABEL, "remove")]
#[case::by_hand_wins(LABELLED, Origin::ByHand, "nothing")]
#[case::by_hand_without_label(NONE, Origin::ByHand, "nothing")]
#[case::of_an_earlier_workload(LABELLED, Origin::ByLabel { owner: Some("w0") }, "remove")]
#[case::owner_taken_off(LABELLED, Origin::ByLabel { owner: None }, "remove")]
fn one_is_there(
    #[case] labels: &'static [(&'static str, &'static str)],
    #[case] origin: Origin<'static>,
    #[case] expected: &str,
) {
    let there = spec(TargetKind::Deployment, "api");
    let marks = Marks { labels, ..PLAIN };
    let wish = check(marks, &[existing("api", origin, &there)]).wish;
    let word = match wish {
        Wish::Nothing => "nothing",
        Wish::Remove { .. } => "remove",
        _ => "other",
    };
    assert_eq!(word, expected, "{wish:?}");
}

/// One written by hand replaces the one that was made.
#[test]
fn the_made_one_goes_once_one_is_written_by_hand() {
    let there = spec(TargetKind::Deployment, "api");
    let marks = Marks {
        labels: LABELLED,
        ..PLAIN
    };
    let both = [
        existing("mine", Origin::ByHand, &there),
        existing("api", BY_LABEL, &there),
    ];
    assert_eq!(
        check(marks, &both).wish,
        Wish::Remove {
            name: "api".to_owned(),
            uid: "m1".to_owned(),
            resource_version: "7".to_owned(),
        }
    );
}

#[test]
fn changed_annotations_change_the_spec_and_keep_suspend() {
    let there = ManagedWorkloadSpec {
        suspend: true,
        ..spec(TargetKind::Deployment, "api")
    };
    let marks = Marks {
        labels: LABELLED,
        annotations: &[(setting::LOOKOUT, "0s")],
        ..PLAIN
    };
    let wish = check(marks, &[existing("api", BY_LABEL, &there)]).wish;
    let Wish::Change {
        resource_version,
        spec: changed,
        ..
    } = wish
    else {
        panic!("{wish:?}");
    };
    assert_eq!(resource_version, "7");
    let expected = ManagedWorkloadSpec {
        lookout: Span::from_secs(0),
        ..there
    };
    assert_eq!(*changed, expected);
}

#[test]
fn waits_for_one_that_is_going() {
    let there = spec(TargetKind::Deployment, "api");
    let marks = Marks {
        labels: LABELLED,
        ..PLAIN
    };
    let going = Existing {
        life: Life::Going,
        ..existing("api", BY_LABEL, &there)
    };
    assert_eq!(check(marks, &[going]).wish, Wish::Nothing);
}
