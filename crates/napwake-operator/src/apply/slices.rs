//! EndpointSlices that point at the doorman.
//!
//! Failures are noted in the index and hold nothing up (ROUTE-38, ROUTE-39). A
//! foreign slice is never written (ROUTE-72). All writes pass one bounded queue,
//! so that moving a thousand Services leaves room for a wake (DRAIN-07). A wake of
//! the same workload takes its slice out of that queue, and gives up the call about
//! it that is under way: whatever came of that call, the preconditions of the next
//! one hold.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, Preconditions},
    core::Request,
};
use napwake_api::{names::slice as label, workload::IpFamily};
use napwake_cluster::plain;
use napwake_decide::{
    plan::Over,
    slices::{altered, is_known_again},
    world::{Endpoint, Slice, SlicePort, SliceProblem, SliceSpec, WorkloadKey},
};
use prometheus_client::metrics::gauge::Gauge;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Applier, ApplyError, ask, patch_params, post_params};
use crate::{
    leader::Term,
    observe::{Index, convert, convert::ObservedSlice, thin},
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
    /// It says what it should, as the answer shows.
    Stands(Box<SliceSpec>, Arc<ObservedSlice>),
    /// It's deleted.
    Gone,
    /// Someone else was there first with something of ours: decide again. How the
    /// API server says so.
    Stale(String),
    Failed(SliceProblem),
}

/// What became of a slice that was deleted.
#[derive(Debug)]
pub(crate) enum Deleted {
    Gone,
    /// It stands for now, for that reason.
    Kept(String),
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
        self.begin(&key.namespace, &slice.name);
        let name = slice.name.clone();
        let written = match over {
            Over::Nothing => self.create_slice(&key.namespace, slice).await,
            Over::Existing {
                uid,
                resource_version,
            } => {
                self.patch_slice(&key.namespace, slice, &uid, &resource_version)
                    .await
            }
        };
        self.note(key, &name, written);
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
            Ok(Deleted::Gone) => Written::Gone,
            Ok(Deleted::Kept(why)) => Written::Failed(SliceProblem::Refused(why)),
            Err(ApplyError::Stale { source, .. }) => Written::Stale(plain(&source)),
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
    ) -> Result<Deleted, ApplyError> {
        let slice = Found {
            name: orphan.slice.spec.name.clone(),
            uid: orphan.slice.uid.clone(),
            version: orphan.slice.resource_version.clone(),
        };
        self.delete(term, &orphan.namespace, &slice).await
    }

    /// One that isn't there any more is deleted. One that a finalizer keeps sends callers
    /// on, so it's there.
    async fn delete(
        &self,
        term: &Term,
        namespace: &str,
        slice: &Found,
    ) -> Result<Deleted, ApplyError> {
        let _turn = self.slices.turn(term).await?;
        self.begin(namespace, &slice.name);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(slice.uid.clone()),
            resource_version: Some(slice.version.clone()),
        });
        let api = self.slice_api(namespace);
        match api.delete(&slice.name, &params).await {
            Ok(answer) => {
                let left = answer.left();
                if let Some((left, why)) = left.and_then(|left| kept(&left).map(|why| (left, why)))
                {
                    self.wrote_slice(convert::slice(left));
                    return Ok(Deleted::Kept(why));
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(source) => return Err(ApplyError::of("delete slice", source)),
        }
        let key = (namespace.to_owned(), slice.name.clone());
        self.shared
            .change(|index, now| index.deleted_slice(&key, &slice.uid, now));
        Ok(Deleted::Gone)
    }

    async fn create_slice(&self, namespace: &str, slice: SliceSpec) -> Written {
        match self.post_slice(namespace, &slice).await {
            Ok(created) => self.look_at_answer(namespace, slice, created).await,
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let why = status.message.clone();
                self.look_at_slice(namespace, &slice.name, why).await
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

    /// Whether what stands now is what was written. A slice that couldn't be known
    /// again is taken back at once, for nobody would once its time is over.
    async fn look_at_answer(
        &self,
        namespace: &str,
        written: SliceSpec,
        answer: thin::EndpointSlice,
    ) -> Written {
        let observed = convert::slice(answer);
        let Some(what) = altered(&written, &observed.slice) else {
            return Written::Stands(Box::new(written), Arc::new(observed));
        };
        if is_known_again(&written, &observed.slice) {
            self.wrote_slice(observed);
        } else if let Err(error) = self.take_back(namespace, &observed.slice).await {
            tracing::error!(
                namespace,
                slice = written.name,
                error = plain(&error),
                "a slice of Napwake's was altered beyond recognition and can't be taken back"
            );
        }
        Written::Failed(SliceProblem::Altered {
            written: Box::new(written),
            what,
        })
    }

    async fn take_back(&self, namespace: &str, slice: &Slice) -> kube::Result<()> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(slice.uid.clone()),
            resource_version: None,
        });
        let api = self.slice_api(namespace);
        match api.delete(&slice.spec.name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(|_| ()),
        }
    }

    /// Somebody was ahead, as the API server says: who, and with what?
    async fn look_at_slice(&self, namespace: &str, name: &str, why: String) -> Written {
        match self.slice_api(namespace).get_opt(name).await {
            Ok(None) => Written::Stale(why),
            Ok(Some(found)) => {
                let observed = convert::slice(found);
                if observed.slice.managed_by.as_deref() == Some(label::MANAGED_BY_NAPWAKE) {
                    self.wrote_slice(observed);
                    Written::Stale(why)
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
        slice: SliceSpec,
        uid: &str,
        resource_version: &str,
    ) -> Written {
        let mut patch = body(&slice);
        patch["metadata"]["uid"] = json!(uid);
        patch["metadata"]["resourceVersion"] = json!(resource_version);
        let api = self.slice_api(namespace);
        let patched = api
            .patch(&slice.name, &patch_params(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(patched) => self.look_at_answer(namespace, slice, patched).await,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let key = (namespace.to_owned(), slice.name);
                self.shared
                    .change(|index, now| index.deleted_slice(&key, uid, now));
                Written::Stale(status.message)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let why = status.message.clone();
                self.look_at_slice(namespace, &slice.name, why).await
            }
            Err(error) => Written::Failed(refused(&error)),
        }
    }

    fn begin(&self, namespace: &str, slice: &str) {
        self.shared
            .with(|index, _| index.slice_ledger.begin(namespace, slice));
    }

    fn note(&self, key: &WorkloadKey, slice: &str, written: Written) {
        let at = self.clock.now();
        match written {
            Written::Stands(written, answer) => self
                .shared
                .change(|index, now| index.slice_stands(key, *written, answer, (at, now))),
            Written::Gone => self
                .shared
                .with(|index, _| index.slice_ledger.deleted(key, slice)),
            Written::Stale(why) => {
                tracing::debug!(
                    namespace = key.namespace,
                    workload = key.name,
                    slice,
                    why,
                    "a slice has changed since it was decided"
                );
                let ledger_says = |index: &mut Index, _| index.slice_ledger.overtaken(key, slice);
                if self.shared.with(ledger_says) {
                    self.note_failure(key, slice, at, SliceProblem::Refused(why));
                }
            }
            Written::Failed(why) => self.note_failure(key, slice, at, why),
        }
    }

    fn note_failure(&self, key: &WorkloadKey, slice: &str, at: Timestamp, why: SliceProblem) {
        tracing::warn!(
            namespace = key.namespace,
            workload = key.name,
            slice,
            why = why_not(&why),
            "a slice can't be written"
        );
        self.metrics.count_error("slice");
        self.shared
            .with(|index, _| index.slice_ledger.failed(key, slice, at, why));
    }

    fn wrote_slice(&self, observed: ObservedSlice) {
        let observed = Arc::new(observed);
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
        SliceProblem::Altered { what, .. } => what,
        SliceProblem::Foreign => "somebody else's has its name",
        SliceProblem::Refused(why) => why,
    }
}

/// What keeps a slice that was deleted, if anything does.
fn kept(slice: &thin::EndpointSlice) -> Option<String> {
    let finalizers = slice.metadata.finalizers.as_deref().unwrap_or_default();
    let kept = !finalizers.is_empty();
    kept.then(|| format!("it is kept by its finalizer {}", finalizers.join(", ")))
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
