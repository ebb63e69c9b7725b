//! What can happen next.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use napwake_api::{names::signal, workload::Phase};

use super::{
    super::{
        Check, CheckOutcome, Cluster, Conflict, Doorman, Listener, Ports, Seen, World, Write,
        fails_alone, objects,
    },
    Broken, Rules,
    state::{Late, Outdated, State},
};
use crate::{Plan, decide};

/// A step. Each but [`Act::See`] may leave watches behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Time passes.
    Tick,
    /// Time passes, and a pause or a wake is asked for.
    Ask(String),
    /// The leader decides for a workload, and carries the plan out.
    Work(String),
    /// The leader decides for a workload, writes so much of the plan and loses the
    /// Lease, with the next write under way. Another one leads.
    Lose(String, usize),
    /// The write that was under way lands.
    Land,
    /// A watch shows the next change.
    See(Viewer),
}

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Viewer {
    Doorman(usize),
    Proxy,
    Leader,
}

const VIEWERS: [Viewer; 4] = [
    Viewer::Doorman(0),
    Viewer::Doorman(1),
    Viewer::Proxy,
    Viewer::Leader,
];

impl Rules {
    /// Every step, with where it leads: one place for each set of watches that it
    /// leaves behind.
    pub(super) fn steps_from(&self, from: &State) -> Vec<(String, State)> {
        let before: BTreeSet<Viewer> = from.late_viewers().collect();
        let mut steps = Vec::new();
        for (act, to) in self.acts(from) {
            if let Act::See(_) = act {
                steps.push((format!("{act:?}"), to));
                continue;
            }
            let late: Vec<Viewer> = to.late_viewers().collect();
            for set in subsets(&late) {
                let is_seen = !set.contains(&Viewer::Leader) || self.is(Broken::Sight);
                if is_seen && set.is_superset(&before) && set.len() <= self.late_at_once {
                    let mut to = to.clone();
                    for viewer in late.iter().filter(|one| !set.contains(one)) {
                        to.see_all(*viewer);
                    }
                    let behind = if set.is_empty() {
                        String::new()
                    } else {
                        format!(", behind: {set:?}")
                    };
                    steps.push((format!("{act:?}{behind}"), to));
                }
            }
        }
        steps
    }

    fn acts(&self, from: &State) -> Vec<(Act, State)> {
        let mut acts = Vec::new();
        let mut is_done = true;
        for app in from.apps() {
            if let Some(to) = self.work(from, &app) {
                acts.push((Act::Work(app.clone()), to));
                is_done = false;
            }
            acts.extend(self.losses(from, &app));
        }
        for viewer in from.late_viewers() {
            let mut to = from.clone();
            to.see(viewer);
            acts.push((Act::See(viewer), to));
        }
        if from.late.is_some() {
            acts.push((Act::Land, self.land(from)));
        }
        if is_done || from.idle < self.idle {
            acts.extend(self.time(from, is_done));
        }
        for (_, to) in &mut acts {
            to.publish();
        }
        acts
    }

    /// Time passes, unless a watch would be later than it can be.
    fn time(&self, from: &State, is_done: bool) -> Vec<(Act, State)> {
        let now = from.cluster.now + self.tick;
        let is_late = |since: Timestamp| now.duration_since(since) > self.latest;
        if from.behind_since().any(is_late) {
            return Vec::new();
        }
        let mut to = from.clone();
        to.idle = if is_done { 0 } else { from.idle + 1 };
        to.cluster.now = now;
        to.cluster.run_pods();
        for pod in &mut to.pods {
            pod.settle(now);
        }
        // One that is later than it can be is lost.
        to.late
            .take_if(|late| now.duration_since(late.since) > self.latest_write);
        let mut acts = vec![(Act::Tick, to.clone())];
        for app in to.apps() {
            let key = match to.phase(&app) {
                Some(Phase::Running) => signal::PAUSE_REQUESTED,
                Some(Phase::Pausing | Phase::Paused) => signal::LAST_REQUEST,
                _ => continue,
            };
            if to.asks > 0 {
                let mut to = to.clone();
                to.asks -= 1;
                to.cluster.stamp(&app, key);
                acts.push((Act::Ask(app), to));
            }
        }
        acts
    }

    /// The leader's work, if it has an effect.
    fn work(&self, from: &State, app: &str) -> Option<State> {
        let mut to = from.clone();
        let plan = Self::decide(&mut to, app);
        let has_effect = self.carry_out(&mut to, app, &plan.writes);
        to.idle = 0;
        has_effect.then_some(to)
    }

    /// Lets everybody see everything, and the leader do all there is to do.
    fn rest(&self, state: &mut State) {
        for _ in 0..60 {
            for viewer in VIEWERS {
                state.see_all(viewer);
            }
            let apps = state.apps();
            let done = apps.iter().find_map(|app| self.work(state, app));
            let Some(next) = done else {
                return;
            };
            *state = next;
            state.publish();
        }
    }

    /// Where it leads once nothing is late any more and everybody is asked to wake.
    pub(super) fn end_well(&self, from: &State) -> State {
        let mut to = from.clone();
        to.late = None;
        self.rest(&mut to);
        for app in to.apps() {
            to.cluster.now += secs(1);
            to.cluster.stamp(&app, signal::WAKE_REQUESTED);
        }
        for _ in 0..20 {
            self.rest(&mut to);
            to.cluster.now += secs(15);
            to.cluster.run_pods();
            for pod in &mut to.pods {
                pod.settle(to.cluster.now);
            }
        }
        self.rest(&mut to);
        to
    }

    /// Decides, and reads about Services only what the plan asks for.
    fn decide(state: &mut State, app: &str) -> Plan {
        let mut world = state.world(app);
        let not_read = Seen::Unknown("not read".to_owned());
        let served = std::mem::replace(&mut world.served, not_read);
        let now = state.cluster.now;
        let plan = decide(&world, &mut state.cluster.ports, now);
        if !plan.is_empty() || (plan.reads.is_empty() && plan.asks.is_empty()) {
            return plan;
        }
        state.cluster.read_behind(&plan.asks);
        world.behind = state.cluster.behind();
        if !plan.reads.is_empty() {
            world.served = served;
        }
        decide(&world, &mut state.cluster.ports, now)
    }

    /// Every way to lose the Lease while working for `app`.
    fn losses(&self, from: &State, app: &str) -> Vec<(Act, State)> {
        if from.terms == 0 || from.late.is_some() {
            return Vec::new();
        }
        let mut decided = from.clone();
        let plan = Self::decide(&mut decided, app);
        let writes = plan.writes.iter().enumerate();
        let counts = writes.filter(|(_, write)| is_change(write));
        let losses = counts.map(|(done, write)| {
            let mut to = decided.clone();
            self.carry_out(&mut to, app, &plan.writes[..done]);
            to.late = Some(Late {
                since: to.cluster.now,
                app: app.to_owned(),
                write: write.clone(),
            });
            to.terms -= 1;
            self.begin_term(&mut to);
            (Act::Lose(app.to_owned(), done), to)
        });
        losses.collect()
    }

    /// A leader that has read every status (DRAIN-23).
    fn begin_term(&self, state: &mut State) {
        state.outdated = None;
        state.cluster.ports = Ports::within(&self.ports);
        state.cluster.behind.clear();
        for app in state.cluster.apps.values_mut() {
            app.checks.clear();
            if let Some(workload) = &app.workload {
                state.cluster.ports.observe(&workload.key, &workload.status);
            }
        }
    }

    /// The late write lands, if what it's written over is as it was. The leader
    /// learns of it by its watch.
    fn land(&self, from: &State) -> State {
        let mut to = from.clone();
        let Some(Late { app, write, .. }) = to.late.take() else {
            return to;
        };
        let workload = to.cluster.workload(&app).clone();
        let ports = to.cluster.ports.clone();
        to.cluster.is_overtaken = true;
        let landed = self.put(&mut to.cluster, &app, &write);
        to.cluster.is_overtaken = !self.listeners;
        to.cluster.ports = ports;
        let is_of_workload = matches!(
            write,
            Write::WriteStatus { .. } | Write::AddFinalizer { .. } | Write::RemoveFinalizer { .. }
        );
        if landed.is_ok() && is_of_workload {
            let since = to.cluster.now;
            to.outdated = Some(Outdated {
                since,
                app,
                workload,
            });
        }
        to
    }

    /// Carries writes out in order; says whether any had an effect.
    fn carry_out(&self, state: &mut State, app: &str, writes: &[Write]) -> bool {
        let mut has_effect = false;
        for write in writes {
            let proves = matches!(write, Write::WriteStatus { .. } | Write::MarkTarget { .. });
            let before = state.cluster.version;
            let done = match write {
                Write::Event(_) => continue,
                Write::CheckListeners(listeners) => {
                    self.check_listeners(state, app, listeners);
                    Ok(())
                }
                write => self.put(&mut state.cluster, app, write),
            };
            match done {
                Ok(()) => {
                    has_effect |= !proves || state.cluster.version != before;
                }
                Err(Conflict) if fails_alone(write) => {}
                Err(Conflict) => break,
            }
        }
        has_effect
    }

    /// One write to the API server, held to its precondition.
    fn put(&self, cluster: &mut Cluster, app: &str, write: &Write) -> Result<(), Conflict> {
        let mut write = write.clone();
        if let Write::WriteStatus { status, .. } = &mut write
            && let Some(doorman) = status.doorman.as_mut().filter(|_| self.is(Broken::Rest))
        {
            doorman.resting.clear();
        }
        cluster.try_write(app, &write)?;
        cluster.take_note();
        Ok(())
    }

    /// Connects to each listener (ROUTE-79).
    fn check_listeners(&self, state: &mut State, app: &str, listeners: &[Listener]) {
        let at = state.cluster.now;
        for listener in listeners {
            let outcome = if self.is(Broken::Check) || state.listens(listener) {
                CheckOutcome::Listening
            } else {
                CheckOutcome::Silent
            };
            let checks = &mut state.cluster.app(app).checks;
            checks.insert(listener.clone(), Check { at, outcome });
        }
    }
}

impl State {
    /// Those who haven't seen everything.
    fn late_viewers(&self) -> impl Iterator<Item = Viewer> {
        VIEWERS.into_iter().filter(|viewer| match viewer {
            Viewer::Doorman(n) => self
                .pods
                .get(*n)
                .is_some_and(|pod| pod.statuses.is_behind()),
            Viewer::Proxy => self.proxy.is_behind(),
            Viewer::Leader => self.outdated.is_some(),
        })
    }

    /// When the oldest change was that each of them hasn't seen.
    fn behind_since(&self) -> impl Iterator<Item = Timestamp> {
        let pods = self
            .pods
            .iter()
            .filter_map(|pod| pod.statuses.behind_since());
        pods.chain(self.proxy.behind_since())
            .chain(self.outdated.iter().map(|outdated| outdated.since))
    }

    fn see(&mut self, viewer: Viewer) {
        match viewer {
            Viewer::Doorman(n) => {
                self.pods[n].statuses.see();
                self.pods[n].settle(self.cluster.now);
            }
            Viewer::Proxy => self.proxy.see(),
            Viewer::Leader => {
                if let Some(seen) = self.outdated.take() {
                    let workload = self.cluster.workload(&seen.app).clone();
                    self.cluster.ports.observe(&workload.key, &workload.status);
                }
            }
        }
    }

    pub(super) fn see_all(&mut self, viewer: Viewer) {
        while self.late_viewers().any(|late| late == viewer) {
            self.see(viewer);
        }
    }

    /// Whether a pod has the port of a check open.
    fn listens(&self, listener: &Listener) -> bool {
        let Doorman::Enabled(Seen::Known(known)) = &self.cluster.doorman else {
            return false;
        };
        let mut pods = known.iter().zip(&self.pods);
        pods.any(|(known, pod)| {
            known.pod.uid == listener.pod && pod.holder(listener.port).is_some()
        })
    }

    /// What the leader sees.
    fn world(&self, app: &str) -> World {
        let mut world = self.cluster.world(app).expect("it's there");
        if let Some(outdated) = &self.outdated {
            if outdated.app == app {
                world.workload = outdated.workload.clone();
            } else if let Seen::Known(peers) = &mut world.peers {
                peers.retain(|peer| peer.name != outdated.app);
                peers.push(objects::peer(&outdated.workload));
            }
        }
        world
    }
}

/// Whether it changes an object that the hand-over goes by.
fn is_change(write: &Write) -> bool {
    !matches!(write, Write::Event(_) | Write::CheckListeners(_))
}

fn subsets(of: &[Viewer]) -> Vec<BTreeSet<Viewer>> {
    let mut sets = vec![BTreeSet::new()];
    for viewer in of {
        let with: Vec<_> = sets
            .iter()
            .map(|set| set.iter().chain([viewer]).copied().collect())
            .collect();
        sets.extend(with);
    }
    sets
}

/// A span of whole seconds.
pub(super) const fn secs(secs: i64) -> SignedDuration {
    SignedDuration::from_secs(secs)
}
