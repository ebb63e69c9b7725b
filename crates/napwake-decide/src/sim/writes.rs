//! Writes to the simulated cluster, each held to its precondition.

use napwake_api::names::slice::MANAGED_BY_NAPWAKE;

use super::*;
use crate::plan::Over;

impl Cluster {
    pub(crate) fn write(&mut self, name: &str, write: Write) -> Result<(), Conflict> {
        match &write {
            Write::ScaleTarget {
                target,
                from,
                to,
                unchanged_since,
            } => {
                self.scale_target(name, target, (*from, *to), unchanged_since.as_ref())?;
            }
            Write::MarkTarget {
                target,
                paused_replicas,
                unchanged_since,
            } => {
                self.mark_target(name, target, *paused_replicas, unchanged_since.as_ref())?;
            }
            Write::ApplySlice { slice, over } => self.apply_slice(name, slice, over)?,
            Write::DeleteSlice { name: slice, uid } => {
                self.slices.retain(|_, known| known.uid != *uid);
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
            } => {
                self.expect(name, resource_version)?;
                let version = self.version();
                let workload = self.workload(name);
                workload.status = (**status).clone();
                workload.resource_version = version;
                let (key, status) = (workload.key.clone(), workload.status.clone());
                self.ports.observe(&key, &status);
            }
            Write::AddFinalizer { resource_version } => {
                self.expect(name, resource_version)?;
                let version = self.version();
                let workload = self.workload(name);
                workload.finalizers.insert(names::FINALIZER.to_owned());
                workload.resource_version = version;
            }
            Write::RemoveFinalizer { resource_version } => {
                self.expect(name, resource_version)?;
                let version = self.version();
                let workload = self.workload(name);
                workload.finalizers.remove(names::FINALIZER);
                workload.resource_version = version;
                if workload.deleted.is_some() {
                    let key = workload.key.clone();
                    self.app(name).workload = None;
                    self.ports.forget(&key);
                }
            }
            Write::Event(_) => {}
        }
        self.log.push((self.now, name.to_owned(), write));
        self.check_last_write();
        Ok(())
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
        if is_there && !listener.pod.ends_with(objects::DEAF) && self.listens(listener.port) {
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
        unchanged_since: Option<&String>,
    ) -> Result<(), Conflict> {
        let marked = self.app(name).marked.clone();
        let Some(target) = &self.app(name).target else {
            return Err(Conflict);
        };
        // The mark before a scale-down moves the version on; the operator goes
        // by its answer.
        let is_unchanged = unchanged_since.is_none_or(|since| {
            let current = &target.resource_version;
            since == current || marked == Some((since.clone(), current.clone()))
        });
        if target.id != *id || target.replicas != from || !is_unchanged {
            return Err(Conflict);
        }
        self.set_replicas(name, to);
        Ok(())
    }

    fn mark_target(
        &mut self,
        name: &str,
        id: &TargetId,
        replicas: Option<i32>,
        unchanged_since: Option<&String>,
    ) -> Result<(), Conflict> {
        let version = self.version();
        let Some(target) = self
            .app(name)
            .target
            .as_mut()
            .filter(|target| target.id == *id)
        else {
            return Err(Conflict);
        };
        if unchanged_since.is_some_and(|since| *since != target.resource_version) {
            return Err(Conflict);
        }
        target.resource_version.clone_from(&version);
        let key = names::signal::PAUSED_REPLICAS;
        match replicas {
            Some(replicas) => target
                .annotations
                .insert(key.to_owned(), replicas.to_string()),
            None => target.annotations.remove(key),
        };
        self.app(name).marked = unchanged_since.map(|since| (since.clone(), version));
        Ok(())
    }

    fn apply_slice(&mut self, name: &str, spec: &SliceSpec, over: &Over) -> Result<(), Conflict> {
        let now = self.now;
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
            let failure =
                self.app(name)
                    .failures
                    .entry(spec.name.clone())
                    .or_insert(SliceFailure {
                        at: now,
                        count: 0,
                        why: why.clone(),
                    });
            *failure = SliceFailure {
                at: now,
                count: failure.count + 1,
                why,
            };
            return Err(Conflict);
        }
        let version = self.version();
        let uid = known.map_or_else(|| format!("slice-{version}"), |known| known.uid);
        self.slices.insert(
            spec.name.clone(),
            Slice {
                uid,
                resource_version: version,
                managed_by: Some(MANAGED_BY_NAPWAKE.to_owned()),
                spec: spec.clone(),
            },
        );
        self.app(name).failures.remove(&spec.name);
        Ok(())
    }
}
