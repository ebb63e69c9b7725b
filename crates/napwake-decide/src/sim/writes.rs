//! Writes to the simulated cluster, each held to its precondition.

use napwake_api::names::slice::MANAGED_BY_NAPWAKE;

use super::*;
use crate::{plan::Over, slices};

/// Whether a plan goes on after a failure of this write.
pub(crate) const fn fails_alone(write: &Write) -> bool {
    matches!(
        write,
        Write::ApplySlice { .. } | Write::DeleteSlice { .. } | Write::Event(_)
    )
}

impl Cluster {
    pub(crate) fn write(&mut self, name: &str, write: Write) -> Result<(), Conflict> {
        let written = self.try_write(name, &write);
        if written.is_err() {
            self.conflicts.push((name.to_owned(), write));
            return written;
        }
        self.log.push((self.now, name.to_owned(), write));
        self.check_last_write();
        self.take_note();
        Ok(())
    }

    pub(super) fn try_write(&mut self, name: &str, write: &Write) -> Result<(), Conflict> {
        match write {
            Write::ScaleTarget {
                target,
                from,
                to,
                unchanged_since,
            } => {
                self.scale_target(name, target, (*from, *to), unchanged_since)?;
            }
            Write::MarkTarget {
                target,
                paused_replicas,
                unchanged_since,
            } => {
                self.mark_target(name, target, *paused_replicas, unchanged_since)?;
            }
            Write::ApplySlice { slice, over } => self.apply_slice(name, slice, over)?,
            Write::DeleteSlice {
                name: slice,
                uid,
                resource_version,
            } => {
                let deleted = self.slices.get(slice).cloned();
                self.delete_slice(name, slice, (uid, resource_version))?;
                if let Some(deleted) = deleted {
                    self.check_let_go(name, &deleted.spec);
                    self.check_left_to_others(name, &deleted.spec);
                }
                self.app(name).failures.remove(slice);
            }
            Write::CheckListeners(listeners) => {
                for listener in listeners {
                    let outcome = self.check(listener);
                    let at = self.now;
                    self.app(name)
                        .checks
                        .insert(listener.clone(), Check { at, outcome });
                }
            }
            Write::WriteStatus {
                resource_version,
                status,
            } => self.write_status(name, resource_version, status)?,
            Write::AddFinalizer { resource_version } => {
                self.expect(name, resource_version)?;
                let version = self.version();
                let workload = self.workload(name);
                workload.finalizers.insert(names::FINALIZER.to_owned());
                workload.resource_version = version;
            }
            Write::RemoveFinalizer { resource_version } => {
                self.remove_finalizer(name, resource_version)?;
            }
            Write::Event(_) => {}
        }
        Ok(())
    }

    fn write_status(
        &mut self,
        name: &str,
        seen: &String,
        status: &ManagedWorkloadStatus,
    ) -> Result<(), Conflict> {
        self.expect(name, seen)?;
        if self.status(name) == status {
            return Ok(());
        }
        let course = |status: &ManagedWorkloadStatus| {
            let pause = status.pause.as_ref().map(|pause| pause.started_at.clone());
            (pause, status.phase == Some(Phase::Running))
        };
        if course(self.status(name)) != course(status) {
            self.app(name).failures.clear();
        }
        let version = self.version();
        let workload = self.workload(name);
        workload.status = status.clone();
        workload.resource_version = version;
        let key = workload.key.clone();
        self.ports.observe(&key, status);
        Ok(())
    }

    fn remove_finalizer(&mut self, name: &str, seen: &String) -> Result<(), Conflict> {
        self.expect(name, seen)?;
        let version = self.version();
        let workload = self.workload(name);
        workload.finalizers.remove(names::FINALIZER);
        workload.resource_version = version;
        if workload.deleted.is_some() {
            let key = workload.key.clone();
            self.app(name).workload = None;
            self.ports.forget(&key);
        }
        Ok(())
    }

    /// The targets' controllers take note at once of what was written, which
    /// makes another version of the target, as a Deployment's does.
    pub(super) fn take_note(&mut self) {
        if self.is_unattended {
            return;
        }
        let targets = self.apps.values_mut().filter_map(|app| app.target.as_mut());
        for target in targets.filter(|one| one.observed_generation != one.generation) {
            self.version += 1;
            target.observed_generation = target.generation;
            target.resource_version = self.version.to_string();
        }
    }

    fn expect(&mut self, name: &str, version: &String) -> Result<(), Conflict> {
        match &self.app(name).workload {
            Some(workload) if workload.resource_version == *version => Ok(()),
            _ => Err(Conflict),
        }
    }

    fn check(&self, listener: &Listener) -> CheckOutcome {
        let Doorman::Enabled(Seen::Known(pods)) = &self.doorman else {
            return CheckOutcome::Silent;
        };
        let is_there = pods.iter().any(|pod| pod.pod.uid == listener.pod);
        let family = if listener.address.is_ipv4() {
            IpFamily::IPv4
        } else {
            IpFamily::IPv6
        };
        let is_deaf = listener.pod.ends_with(objects::DEAF) || self.deaf_in == Some(family);
        if is_there && !is_deaf && self.listens(listener.port) {
            CheckOutcome::Listening
        } else {
            CheckOutcome::Silent
        }
    }

    fn scale_target(
        &mut self,
        name: &str,
        id: &TargetId,
        (from, to): (i32, i32),
        unchanged_since: &String,
    ) -> Result<(), Conflict> {
        let target = self.unchanged_target(name, id, unchanged_since)?;
        if target.replicas != from {
            return Err(Conflict);
        }
        self.set_replicas(name, to);
        Ok(())
    }

    /// A Deployment's generation grows with its annotations, too.
    fn mark_target(
        &mut self,
        name: &str,
        id: &TargetId,
        replicas: Option<i32>,
        unchanged_since: &String,
    ) -> Result<(), Conflict> {
        let target = self.unchanged_target(name, id, unchanged_since)?;
        let key = names::signal::PAUSED_REPLICAS.to_owned();
        let wanted = replicas.map(|replicas| replicas.to_string());
        if target.annotations.get(&key) == wanted.as_ref() {
            return Ok(());
        }
        let version = self.version();
        let target = self.unchanged_target(name, id, unchanged_since)?;
        target.resource_version = version;
        target.generation += 1;
        match wanted {
            Some(wanted) => target.annotations.insert(key, wanted),
            None => target.annotations.remove(&key),
        };
        self.see_own_mark(name);
        Ok(())
    }

    /// The target as the answer to its write gave it is what its writer sees, though the
    /// watch stands still.
    fn see_own_mark(&mut self, name: &str) {
        if self.is_overtaken {
            return; // Somebody else wrote it.
        }
        let app = self.app(name);
        if app.outdated.is_some() {
            app.outdated.clone_from(&app.target);
        }
    }

    fn unchanged_target(
        &mut self,
        name: &str,
        id: &TargetId,
        version: &String,
    ) -> Result<&mut Target, Conflict> {
        let target = self.app(name).target.as_mut().ok_or(Conflict)?;
        let is_unchanged = target.id == *id && target.resource_version == *version;
        is_unchanged.then_some(target).ok_or(Conflict)
    }

    fn delete_slice(
        &mut self,
        app: &str,
        name: &str,
        (uid, version): (&str, &str),
    ) -> Result<(), Conflict> {
        if self.is_lasting {
            let why = SliceProblem::Refused("the test says so".to_owned());
            self.fail_slice(app, name, why);
            return Err(Conflict);
        }
        let is_it = |slice: &Slice| slice.uid == uid && slice.resource_version == version;
        match self.slices.get(name) {
            Some(slice) if !is_it(slice) => Err(Conflict),
            _ => {
                self.slices.remove(name);
                Ok(())
            }
        }
    }

    fn apply_slice(&mut self, name: &str, spec: &SliceSpec, over: &Over) -> Result<(), Conflict> {
        let known = self.slices.get(&spec.name).cloned();
        let problem = match (&self.refusal, over, &known) {
            (Some(problem), _, _) => Some(problem.clone()),
            (None, Over::Nothing, Some(slice))
                if slice.managed_by.as_deref() != Some(MANAGED_BY_NAPWAKE) =>
            {
                Some(SliceProblem::Foreign)
            }
            (None, Over::Nothing, Some(_)) => return Err(Conflict),
            (None, Over::Nothing, None) => None,
            (
                None,
                Over::Existing {
                    uid,
                    resource_version,
                },
                known,
            ) => {
                let is_it = known.as_ref().is_some_and(|known| {
                    known.uid == *uid && known.resource_version == *resource_version
                });
                if !is_it {
                    return Err(Conflict);
                }
                None
            }
        };
        if let Some(why) = problem {
            self.fail_slice(name, &spec.name, why);
            return Err(Conflict);
        }
        let version = self.version();
        let uid = known.map_or_else(|| format!("slice-{version}"), |known| known.uid);
        let mut stands = spec.clone();
        if let Some(alter) = self.admission {
            alter(&mut stands);
        }
        let slice = Slice {
            uid,
            resource_version: version,
            managed_by: Some(MANAGED_BY_NAPWAKE.to_owned()),
            spec: stands,
        };
        let what = slices::altered(spec, &slice);
        self.slices.insert(spec.name.clone(), slice);
        match what {
            Some(what) => {
                let written = Box::new(spec.clone());
                self.fail_slice(name, &spec.name, SliceProblem::Altered { written, what });
            }
            None => {
                self.app(name).failures.remove(&spec.name);
            }
        }
        Ok(())
    }

    fn fail_slice(&mut self, name: &str, slice: &str, why: SliceProblem) {
        let at = self.now;
        let failures = &mut self.app(name).failures;
        let count = failures.get(slice).map_or(0, |last| last.count) + 1;
        failures.insert(slice.to_owned(), SliceFailure { at, count, why });
    }
}
