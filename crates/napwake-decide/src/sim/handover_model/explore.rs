//! Breadth first through every state that can be reached.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::{self, Debug, Write as _},
    hash::{DefaultHasher, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What can be explored.
pub(super) trait Model {
    /// Where it stands.
    type State;
    /// A step.
    type Act: Debug;

    /// Every step from here, with where it leads.
    fn steps(&self, from: &Self::State) -> Vec<(Self::Act, Self::State)>;

    /// What tells a state from others: all that what comes later goes by, and no
    /// more.
    fn tell(&self, state: &Self::State, out: &mut Fingerprint) -> fmt::Result;

    /// What is to be seen in a state, for people and for tests of how far it gets.
    fn sights(&self, state: &Self::State) -> Vec<String>;

    /// What must hold in each state.
    fn check(&self, state: &Self::State) -> Result<(), String>;

    /// What must hold of where a state leads in the end. It costs more, and is asked
    /// of one state in [`ENDS`].
    fn check_end(&self, state: &Self::State) -> Result<(), String>;
}

/// Of how many states one is looked at to its end.
pub(super) const ENDS: usize = 100;

/// What was found.
#[derive(Debug)]
pub(super) struct Explored {
    /// Different states.
    pub(super) states: usize,
    /// Within how many steps nothing is left to see; or how many lead to what doesn't
    /// hold.
    pub(super) depth: usize,
    /// Whether nothing lies beyond.
    pub(super) is_all: bool,
    /// All that was to be seen.
    pub(super) sights: BTreeSet<String>,
    /// What doesn't hold, and the steps to where it doesn't: as few as can be.
    pub(super) broken: Option<(String, Vec<String>)>,
}

/// Takes in what a state says, and keeps a number of it. Two states of one number
/// would be taken for one: with a million states of 64 bits, one chance in ten
/// million.
#[derive(Default)]
pub(super) struct Fingerprint(DefaultHasher);

impl fmt::Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// A state that was reached, by which step from which other one.
struct Reached<A> {
    from: usize,
    by: Option<A>,
}

/// Explores from `start` until something doesn't hold, everything was seen, or so many
/// states were.
pub(super) fn explore<M: Model>(model: &M, start: M::State, states: usize) -> Explored {
    let mut seen = HashSet::from([number(model, &start)]);
    let mut reached = vec![Reached { from: 0, by: None }];
    let mut found = Explored {
        states: 1,
        depth: 0,
        is_all: false,
        sights: model.sights(&start).into_iter().collect(),
        broken: None,
    };
    let mut edge = vec![(0, start)];
    loop {
        let mut next = Vec::new();
        for (at, state) in edge {
            if reached.len() >= states {
                found.states = reached.len();
                return found;
            }
            let Ok(steps) = catch_unwind(AssertUnwindSafe(|| model.steps(&state))) else {
                let why = "a step from here fails what the cluster holds writes to";
                found.broken = Some((why.to_owned(), way(&reached, at)));
                found.states = reached.len();
                return found;
            };
            for (by, state) in steps {
                if !seen.insert(number(model, &state)) {
                    continue;
                }
                let (from, by) = (at, Some(by));
                reached.push(Reached { from, by });
                found.sights.extend(model.sights(&state));
                let mut checked = model.check(&state);
                if checked.is_ok() && reached.len().is_multiple_of(ENDS) {
                    checked = model.check_end(&state);
                }
                if let Err(why) = checked {
                    found.broken = Some((why, way(&reached, reached.len() - 1)));
                    found.states = reached.len();
                    found.depth += 1;
                    return found;
                }
                next.push((reached.len() - 1, state));
            }
        }
        found.states = reached.len();
        found.is_all = next.is_empty();
        if found.is_all {
            return found;
        }
        found.depth += 1;
        edge = next;
    }
}

fn number<M: Model>(model: &M, state: &M::State) -> u64 {
    let mut fingerprint = Fingerprint::default();
    model.tell(state, &mut fingerprint).expect("it takes all");
    fingerprint.write_str("\0").expect("it takes all");
    fingerprint.0.finish()
}

/// The steps to a state that was reached.
fn way<A: Debug>(reached: &[Reached<A>], mut at: usize) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some(by) = &reached[at].by {
        steps.push(format!("{by:?}"));
        at = reached[at].from;
    }
    steps.reverse();
    steps
}
