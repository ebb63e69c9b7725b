//! Opting in by label: makes, changes and deletes the ManagedWorkloads that
//! `decide::optin` wishes for, and tells of settings that can't be read.
//!
//! Never touches a ManagedWorkload that Napwake didn't make, nor a workload.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, Preconditions},
    core::ObjectMeta,
};
use napwake_api::{
    ManagedWorkload, ManagedWorkloadSpec,
    names::{TRUE, event, opt},
    settings::Unreadable,
    workload::TargetKind,
};
use napwake_cluster::{
    events::{Events, Kind, Limit, Notice},
    plain,
};
use napwake_decide::optin::{Existing, Life, OptIn, Origin, Subject, Surroundings, Wish, opt_in};
use serde_json::json;

use crate::{
    apply::{ApplyError, ask, patch_params, post_params},
    backoff::{Failures, Waits},
    holdups::Holdups,
    leader::Term,
    observe::{Look, TargetKey, convert, convert::Made, convert::ObservedTarget},
    queue::{Next, Room, Urgency},
    shared::Shared,
};

/// Workloads that are looked at at once: there's no hurry.
const ROOM: Room = Room { usual: 4, wakes: 0 };

/// How soon a write that failed is tried again.
const RETRIES: Waits = Waits {
    first: Duration::from_secs(5),
    last: Duration::from_mins(5),
};

/// apps/v1, of Deployments and StatefulSets.
const APPS: &str = "apps/v1";

/// Looks at Deployments and StatefulSets.
pub(crate) struct OptIns {
    client: Client,
    shared: Arc<Shared>,
    events: Arc<Events>,
    failures: Failures<TargetKey>,
    holdups: Holdups<TargetKey>,
}

impl OptIns {
    pub(crate) fn new(client: Client, shared: Arc<Shared>, events: Arc<Events>) -> Self {
        Self {
            client,
            shared,
            events,
            failures: Failures::new(RETRIES),
            holdups: Holdups::default(),
        }
    }

    /// Looks at everybody, and again whenever anything concerns them, for as
    /// long as `term` lasts.
    pub(crate) async fn run(&self, term: Term) -> Infallible {
        self.failures.forget_all();
        self.holdups.forget_all();
        let keys = self.shared.with(|index, now| {
            let kinds = [TargetKind::Deployment, TargetKind::StatefulSet];
            let targets = kinds.map(|kind| {
                let all = index.targets(kind).all(now);
                all.map(|one| key(&one)).collect::<Vec<_>>()
            });
            targets.concat()
        });
        for key in keys {
            self.shared.targets.add(key, Urgency::Usual);
        }
        let work = |key, _| self.look_at(key, &term);
        self.shared.targets.run(ROOM, work).await
    }

    async fn look_at(&self, key: TargetKey, term: &Term) -> Next {
        let Some((target, opt_in)) = self.wish(&key) else {
            self.over(&key);
            return Next::WhenAsked;
        };
        let is_told = !term.is_mine() || self.tell(&target, &opt_in).await;
        let granted = self.grant(term, &key.namespace, &target, opt_in.wish);
        match granted.await {
            Ok(()) if is_told => {
                self.over(&key);
                return Next::WhenAsked;
            }
            // It isn't told yet: it's looked at again all the same.
            Ok(()) | Err(ApplyError::NotLeader) => {}
            Err(error) => self.held_up(&key, &target, &error).await,
        }
        let (_, wait) = self.failures.another(key);
        Next::After(wait)
    }

    fn over(&self, key: &TargetKey) {
        self.failures.over(key);
        self.holdups.over(key);
    }

    /// Says so once that has lasted: most often somebody else was quicker, and it's over
    /// in a moment.
    async fn held_up(&self, key: &TargetKey, target: &ObservedTarget, error: &ApplyError) {
        if !self.holdups.met(key.clone()) {
            return;
        }
        let why = plain(error);
        tracing::warn!(
            namespace = key.namespace,
            workload = key.name,
            kind = key.kind.as_str(),
            error = why,
            "can't opt in or out, trying on"
        );
        let note = format!(
            "Napwake can't do what its labels and annotations say, and keeps trying: {why}"
        );
        self.warn(target, event::HELD_UP, note, Limit::None).await;
    }

    /// What should be, unless the workload or its namespace is gone or can't be
    /// read.
    fn wish(&self, key: &TargetKey) -> Option<(Arc<ObservedTarget>, OptIn)> {
        self.shared.with(|index, now| {
            let layer_key = (key.namespace.clone(), key.name.clone());
            let Look::Known(observed) = index.look_target(key.kind, &layer_key, now) else {
                return None;
            };
            let Look::Known(namespace) = index.look_namespace(&key.namespace, now) else {
                return None;
            };
            let workloads: Vec<_> = index.workloads_within(&key.namespace, now).collect();
            let existing: Vec<_> = workloads.iter().map(|one| existing(one)).collect();
            let target = &observed.target;
            let subject = Subject {
                kind: key.kind,
                name: &key.name,
                uid: &target.id.uid,
                life: life(target.deleted),
                labels: &target.labels,
                annotations: &target.annotations,
            };
            let around = Surroundings {
                life: life(namespace.deleted),
                labels: &namespace.labels,
                annotations: &namespace.annotations,
                existing: &existing,
                defaults: index.defaults(),
            };
            let opt_in = opt_in(&subject, &around);
            Some((observed, opt_in))
        })
    }

    async fn grant(
        &self,
        term: &Term,
        namespace: &str,
        target: &ObservedTarget,
        wish: Wish,
    ) -> Result<(), ApplyError> {
        let api: Api<ManagedWorkload> = Api::namespaced(self.client.clone(), namespace);
        let failed = |source| ApplyError::of("opting in", source);
        ask(term)?;
        match wish {
            Wish::Nothing | Wish::NamesTaken { .. } => {}
            Wish::Make { name, spec } => {
                let made = api
                    .create(&post_params(), &object(target, &name, *spec))
                    .await
                    .map_err(failed)?;
                self.wrote(made);
                tracing::info!(namespace, workload = name, "opted in");
            }
            Wish::Change {
                name,
                uid,
                resource_version,
                spec,
            } => {
                let patch = Patch::Merge(json!({
                    "metadata": {"uid": uid, "resourceVersion": resource_version},
                    "spec": *spec,
                }));
                let changed = api
                    .patch(&name, &patch_params(), &patch)
                    .await
                    .map_err(failed)?;
                self.wrote(changed);
                tracing::info!(namespace, workload = name, "settings changed");
            }
            Wish::Remove {
                name,
                uid,
                resource_version,
            } => {
                let params = DeleteParams::default().preconditions(Preconditions {
                    uid: Some(uid),
                    resource_version: Some(resource_version),
                });
                api.delete(&name, &params).await.map_err(failed)?;
                tracing::info!(namespace, workload = name, "opted out");
            }
        }
        Ok(())
    }

    fn wrote(&self, workload: ManagedWorkload) {
        let observed = Arc::new(convert::workload(workload));
        self.shared
            .change(|index, now| index.wrote_workload(observed, now));
    }

    /// Tells of what people have to do something about. Whether all of it is told by now.
    async fn tell(&self, target: &ObservedTarget, opt_in: &OptIn) -> bool {
        let mut is_told = true;
        for one in &opt_in.unreadable {
            is_told &= self.complain(target, one).await;
        }
        if let Wish::NamesTaken { names } = &opt_in.wish {
            is_told &= self.names_taken(target, names).await;
        }
        is_told
    }

    /// Once for each value (SET-10).
    async fn complain(&self, target: &ObservedTarget, unreadable: &Unreadable) -> bool {
        let occasion = format!("{}={}", unreadable.annotation, unreadable.value);
        let limit = Limit::once_per(occasion).about(unreadable.annotation);
        self.warn(
            target,
            event::INVALID_SETTING,
            unreadable.to_string(),
            limit,
        )
        .await
    }

    async fn names_taken(&self, target: &ObservedTarget, names: &[String; 2]) -> bool {
        let note = format!(
            "No ManagedWorkload can be made for it: {} and {} are taken",
            names[0], names[1]
        );
        self.warn(target, event::NAMES_TAKEN, note, Limit::once_per(""))
            .await
    }

    async fn warn(
        &self,
        target: &ObservedTarget,
        reason: &'static str,
        note: String,
        limit: Limit,
    ) -> bool {
        let notice = Notice {
            kind: Kind::Warning,
            reason,
            action: "OptIn",
            note,
            regarding: ObjectReference {
                api_version: Some(APPS.to_owned()),
                kind: Some(target.target.id.kind.as_str().to_owned()),
                namespace: Some(target.namespace.clone()),
                name: Some(target.target.id.name.clone()),
                uid: Some(target.target.id.uid.clone()),
                ..ObjectReference::default()
            },
            related: None,
            limit,
        };
        let told = self.events.publish(notice).await;
        if let Err(error) = &told {
            tracing::warn!(
                namespace = target.namespace,
                workload = target.target.id.name,
                %error,
                "trying on"
            );
        }
        told.is_ok()
    }
}

/// The ManagedWorkload to be made, owned by the workload.
fn object(target: &ObservedTarget, name: &str, spec: ManagedWorkloadSpec) -> ManagedWorkload {
    let id = &target.target.id;
    ManagedWorkload {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(
                opt::OPTED_IN.to_owned(),
                TRUE.to_owned(),
            )])),
            // Not its controller, and blocking nothing (F-110, F-111).
            owner_references: Some(vec![OwnerReference {
                api_version: APPS.to_owned(),
                kind: id.kind.as_str().to_owned(),
                name: id.name.clone(),
                uid: id.uid.clone(),
                controller: None,
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

fn existing(observed: &convert::ObservedWorkload) -> Existing<'_> {
    let workload = &observed.workload;
    Existing {
        name: &workload.key.name,
        uid: &workload.uid,
        resource_version: &workload.resource_version,
        life: life(workload.deleted),
        origin: match &observed.made {
            Made::ByHand => Origin::ByHand,
            Made::ByLabel(owner) => Origin::ByLabel {
                owner: owner.as_deref(),
            },
        },
        spec: &workload.spec,
    }
}

fn key(observed: &ObservedTarget) -> TargetKey {
    TargetKey {
        kind: observed.target.id.kind,
        namespace: observed.namespace.clone(),
        name: observed.target.id.name.clone(),
    }
}

const fn life(deleted: Option<jiff::Timestamp>) -> Life {
    if deleted.is_some() {
        Life::Going
    } else {
        Life::Stays
    }
}

#[cfg(test)]
#[path = "optin_tests.rs"]
mod tests;
