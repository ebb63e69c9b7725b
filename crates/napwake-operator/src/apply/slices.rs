//! EndpointSlices that point at the doorman.
//!
//! Failures are noted in the index and hold nothing up (ROUTE-38, ROUTE-39). A
//! foreign slice is never written (ROUTE-72). All writes pass one bounded queue,
//! so that moving a thousand Services leaves room for a wake (DRAIN-07). A wake of
//! the same workload takes its slice out of that queue, and gives up the call about
//! it that is under way: whatever came of that call, the preconditions of the next
//! one hold.

use std::sync::Arc;

use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, Preconditions},
    core::Request,
};
use napwake_api::{names::slice as label, workload::IpFamily};
use napwake_cluster::plain;
use napwake_decide::{
    plan::Over,
    world::{Endpoint, SlicePort, SliceProblem, SliceSpec, WorkloadKey},
};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Applier, ApplyError, ask, patch_params, post_params};
use crate::{
    leader::Term,
    observe::{convert, convert::ObservedSlice, thin},
};

/// Slice writes under way at once (F-163).
const AT_ONCE: usize = 24;

/// The queue of slice writes, first come, first served.
#[derive(Debug)]
pub(crate) struct SliceQueue {
    turns: Semaphore,
    /// Those that wait for a turn.
    waiting: Gauge,
}

impl SliceQueue {
    pub(crate) fn new(waiting: Gauge) -> Self {
        Self {
            turns: Semaphore::new(AT_ONCE),
            waiting,
        }
    }

    /// Waits for a turn and asks whether this process still leads. There's no permit
    /// once the queue is closed, which it never is.
    async fn turn(&self, term: &Term) -> Result<Option<SemaphorePermit<'_>>, ApplyError> {
        /// Counts for as long as it's waited, by whatever path that ends.
        struct Counted<'a>(&'a Gauge);
        impl Drop for Counted<'_> {
            fn drop(&mut self) {
                self.0.dec();
            }
        }
        self.waiting.inc();
        let _waiting = Counted(&self.waiting);
        let permit = self.turns.acquire().await.ok();
        ask(term)?;
        Ok(permit)
    }

    /// Leaves no turn for anybody.
    #[cfg(test)]
    pub(super) fn take_all(&self) -> Option<SemaphorePermit<'_>> {
        let all = u32::try_from(AT_ONCE).ok()?;
        self.turns.try_acquire_many(all).ok()
    }
}

/// A slice as it was seen.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: String,
}

/// What became of a slice write.
enum Written {
    /// It says what it should.
    Done,
    /// Someone else was there first with something of ours: decide again.
    Stale,
    Failed(SliceProblem),
}

impl Applier {
    /// Creates the slice or writes over the one that was seen.
    pub(super) async fn apply_slice(
        &self,
        term: &Term,
        key: &WorkloadKey,
        slice: SliceSpec,
        over: Over,
    ) -> Result<(), ApplyError> {
        let _turn = self.slices.turn(term).await?;
        let written = match over {
            Over::Nothing => self.create_slice(&key.namespace, &slice).await,
            Over::Existing {
                uid,
                resource_version,
            } => {
                self.patch_slice(&key.namespace, &slice, &uid, &resource_version)
                    .await
            }
        };
        self.note(key, &slice.name, written);
        Ok(())
    }

    /// Deletes the slice, if it's as it was seen.
    pub(super) async fn delete_slice(
        &self,
        term: &Term,
        key: &WorkloadKey,
        slice: &Found,
    ) -> Result<(), ApplyError> {
        let written = match self.delete(term, &key.namespace, slice).await {
            Ok(()) => Written::Done,
            Err(ApplyError::Stale { .. }) => Written::Stale,
            Err(ApplyError::Failed { source, .. }) => Written::Failed(refused(&source)),
            Err(error @ (ApplyError::NotLeader | ApplyError::WakeFirst)) => return Err(error),
        };
        self.note(key, &slice.name, written);
        Ok(())
    }

    /// Deletes a slice that no ManagedWorkload stands for, if it's as it was
    /// seen.
    pub(crate) async fn collect(
        &self,
        term: &Term,
        orphan: &ObservedSlice,
    ) -> Result<(), ApplyError> {
        let slice = Found {
            name: orphan.slice.spec.name.clone(),
            uid: orphan.slice.uid.clone(),
            version: orphan.slice.resource_version.clone(),
        };
        self.delete(term, &orphan.namespace, &slice).await
    }

    /// One that isn't there any more is deleted.
    async fn delete(&self, term: &Term, namespace: &str, slice: &Found) -> Result<(), ApplyError> {
        let _turn = self.slices.turn(term).await?;
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(slice.uid.clone()),
            resource_version: Some(slice.version.clone()),
        });
        let api = self.slice_api(namespace);
        match api.delete(&slice.name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(source) => return Err(ApplyError::of("delete slice", source)),
        }
        let key = (namespace.to_owned(), slice.name.clone());
        self.shared
            .change(|index, now| index.deleted_slice(&key, &slice.uid, now));
        Ok(())
    }

    async fn create_slice(&self, namespace: &str, slice: &SliceSpec) -> Written {
        match self.post_slice(namespace, slice).await {
            Ok(created) => {
                self.wrote_slice(created);
                Written::Done
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                self.look_at_slice(namespace, &slice.name).await
            }
            Err(error) => Written::Failed(refused(&error)),
        }
    }

    /// What is answered is of a type that can't be sent, so the request is made
    /// from its parts.
    async fn post_slice(
        &self,
        namespace: &str,
        slice: &SliceSpec,
    ) -> kube::Result<thin::EndpointSlice> {
        let body = serde_json::to_vec(&body(slice)).map_err(kube::Error::SerdeError)?;
        let path = thin::EndpointSlice::url_path(&(), Some(namespace));
        let request = Request::new(path)
            .create(&post_params(), body)
            .map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// The name is taken: by whom?
    async fn look_at_slice(&self, namespace: &str, name: &str) -> Written {
        match self.slice_api(namespace).get_opt(name).await {
            Ok(None) => Written::Stale,
            Ok(Some(found)) => {
                let observed = convert::slice(found);
                if observed.slice.managed_by.as_deref() == Some(label::MANAGED_BY_NAPWAKE) {
                    let observed = Arc::new(observed);
                    self.shared
                        .change(|index, now| index.wrote_slice(observed, now));
                    Written::Stale
                } else {
                    Written::Failed(SliceProblem::Foreign)
                }
            }
            Err(error) => Written::Failed(refused(&error)),
        }
    }

    /// Leaves labels and annotations that others have put on it.
    async fn patch_slice(
        &self,
        namespace: &str,
        slice: &SliceSpec,
        uid: &str,
        resource_version: &str,
    ) -> Written {
        let mut patch = body(slice);
        patch["metadata"]["uid"] = json!(uid);
        patch["metadata"]["resourceVersion"] = json!(resource_version);
        let api = self.slice_api(namespace);
        let patched = api
            .patch(&slice.name, &patch_params(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(patched) => {
                self.wrote_slice(patched);
                Written::Done
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Written::Stale,
            Err(error) => Written::Failed(refused(&error)),
        }
    }

    fn note(&self, key: &WorkloadKey, slice: &str, written: Written) {
        let at = self.clock.now();
        match written {
            Written::Done => self.shared.with(|index, _| index.slice_written(key, slice)),
            Written::Stale => tracing::debug!(
                namespace = key.namespace,
                workload = key.name,
                slice,
                "a slice has changed since it was decided"
            ),
            Written::Failed(why) => {
                tracing::warn!(
                    namespace = key.namespace,
                    workload = key.name,
                    slice,
                    why = why_not(&why),
                    "a slice can't be written"
                );
                self.metrics.count_error("slice");
                self.shared
                    .with(|index, _| index.slice_failed(key, slice, at, why));
            }
        }
    }

    fn wrote_slice(&self, answer: thin::EndpointSlice) {
        let observed = Arc::new(convert::slice(answer));
        self.shared
            .change(|index, now| index.wrote_slice(observed, now));
    }

    fn slice_api(&self, namespace: &str) -> Api<thin::EndpointSlice> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// In words, for the log; conditions have their own.
fn why_not(problem: &SliceProblem) -> &str {
    match problem {
        SliceProblem::Foreign => "somebody else's has its name",
        SliceProblem::Refused(why) => why,
    }
}

fn refused(error: &kube::Error) -> SliceProblem {
    SliceProblem::Refused(plain(error))
}

fn body(slice: &SliceSpec) -> Value {
    let SliceSpec {
        name,
        service,
        service_uid,
        family,
        endpoints,
        ports,
    } = slice;
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "labels": {
                label::SERVICE_NAME: service,
                label::MANAGED_BY: label::MANAGED_BY_NAPWAKE,
            },
            // F-07, F-08, F-110: it goes with the Service, and blocks nothing.
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": service,
                "uid": service_uid,
                "controller": true,
            }],
        },
        "addressType": match family {
            IpFamily::IPv4 => "IPv4",
            IpFamily::IPv6 => "IPv6",
        },
        "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": ports.iter().map(port).collect::<Vec<_>>(),
    })
}

fn endpoint(endpoint: &Endpoint) -> Value {
    let Endpoint {
        address,
        node,
        zone,
        pod,
    } = endpoint;
    let mut body = json!({
        "addresses": [address.to_string()],
        "conditions": {"ready": true, "serving": true, "terminating": false},
    });
    if let Some(node) = node {
        body["nodeName"] = json!(node);
    }
    if let Some(zone) = zone {
        body["zone"] = json!(zone);
    }
    if let Some(pod) = pod {
        body["targetRef"] = json!({
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        });
    }
    body
}

fn port(port: &SlicePort) -> Value {
    let SlicePort {
        name,
        port,
        app_protocol,
    } = port;
    let mut body = json!({"name": name, "port": port, "protocol": "TCP"});
    if let Some(app_protocol) = app_protocol {
        body["appProtocol"] = json!(app_protocol);
    }
    body
}
