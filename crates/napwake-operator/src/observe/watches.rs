//! The watches that fill the index.
//!
//! Each hands on what changed, converted to the little that is kept, and asks
//! for work on everybody whom it concerns. What can't be read is told in an
//! event about the object, once, and never stops a watch.

use std::{convert::Infallible, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use napwake_api::{
    ManagedWorkload,
    names::{event, slice as slice_label},
    workload::TargetKind,
};
use napwake_cluster::{
    events::{Events, Kind, Limit, Notice},
    thin as common,
    watch::{Change, ObjectKey, Unreadable, Watch, Watched},
};
use napwake_decide::world::WorkloadKey;
use napwake_kit::{ready::Readiness, supervise::Supervisor};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Concerns,
    convert::{self, ObservedService, ObservedTarget},
    index::{DoormanService, Index},
    ingresses,
    layered::{Key, Versioned},
    negs, thin,
};
use crate::shared::Shared;

/// Complaints that wait to be said; what is beyond is in the log alone.
const COMPLAINTS: usize = 64;

/// What starting watches needs.
pub(crate) struct Watches<'a> {
    pub(crate) client: &'a Client,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) events: &'a Arc<Events>,
    pub(crate) readiness: &'a Readiness,
    pub(crate) supervisor: &'a mut Supervisor,
    pub(crate) doorman: &'a DoormanService,
}

/// How a kind's changes reach the index.
struct Hand<V> {
    apply: fn(&mut Index, Arc<V>, Instant) -> Concerns,
    delete: fn(&mut Index, &Key, &str, Instant) -> Concerns,
    spoil: fn(&mut Index, &Key, &Unreadable, Instant) -> Concerns,
}

/// Starts every watch; what is returned ends once all have been filled.
pub(crate) fn start(mut watches: Watches<'_>) -> impl Future<Output = ()> + Send + use<> {
    let (complain, complaints) = mpsc::channel(COMPLAINTS);
    let events = Arc::clone(watches.events);
    watches
        .supervisor
        .endless("complaints", say(events, complaints));
    let mut synced = vec![
        watches.workloads(&complain),
        watches.targets::<thin::Deployment>("deployments", &complain),
        watches.targets::<thin::StatefulSet>("statefulsets", &complain),
        watches.namespaces(&complain),
        watches.services(&complain),
        watches.ingresses(&complain),
        watches.slices(&complain),
    ];
    if let DoormanService::Named { namespace, .. } = watches.doorman {
        synced.push(watches.pods(namespace, &complain));
    }
    futures::future::join_all(synced).map(|_| ())
}

type Complain = mpsc::Sender<Notice>;
type Synced = BoxFuture<'static, ()>;

impl Watches<'_> {
    fn workloads(&mut self, complain: &Complain) -> Synced {
        let watch = Watch::<ManagedWorkload>::all(self.client)
            .keep(|object| Some(convert::workload(object)));
        let hand = Hand {
            apply: Index::apply_workload,
            delete: |index, key, uid, now| index.delete_workload(&workload_key(key), uid, now),
            spoil: |index, key, object, now| {
                let (why, doorman) = (object.error.clone(), convert::doorman(&object.status));
                index.spoil_workload(&workload_key(key), why, doorman, now)
            },
        };
        self.start("managedworkloads", watch, &hand, complain)
    }

    fn targets<K: Target>(&mut self, name: &'static str, complain: &Complain) -> Synced {
        let watch = Watch::<K>::all(self.client)
            .keep(|object| Some(convert::target(K::KIND, object.scalable())));
        let hand: Hand<ObservedTarget> = Hand {
            apply: Index::apply_target,
            delete: |index, key, uid, now| index.delete_target(K::KIND, key, uid, now),
            spoil: |index, key, object, now| {
                index.spoil_target(K::KIND, key, object.error.clone(), now)
            },
        };
        self.start(name, watch, &hand, complain)
    }

    fn namespaces(&mut self, complain: &Complain) -> Synced {
        let watch = Watch::<common::Namespace>::all(self.client)
            .keep(|object| Some(convert::namespace(object)));
        let hand = Hand {
            apply: Index::apply_namespace,
            delete: |index, (_, name), uid, now| index.delete_namespace(name, uid, now),
            spoil: |index, (_, name), object, now| {
                index.spoil_namespace(name, object.error.clone(), now)
            },
        };
        self.start("namespaces", watch, &hand, complain)
    }

    fn services(&mut self, complain: &Complain) -> Synced {
        let watch = Watch::<common::Service>::all(self.client)
            .keep(|object| Some(convert::service(object)));
        let hand: Hand<ObservedService> = Hand {
            apply: |index, new, now| {
                let key = (new.namespace.clone(), new.service.name.clone());
                negs::tell(index.look_service(&key, now).known().as_deref(), &new);
                index.apply_service(new, now)
            },
            delete: Index::delete_service,
            spoil: |index, key, object, now| index.spoil_service(key, object.error.clone(), now),
        };
        self.start("services", watch, &hand, complain)
    }

    /// One that can't be read is passed over: which Services it uses can't be told.
    fn ingresses(&mut self, complain: &Complain) -> Synced {
        let watch = Watch::<common::Ingress>::all(self.client)
            .keep(|object| Some(ingresses::ingress(object)));
        let hand = Hand {
            apply: Index::apply_ingress,
            delete: Index::delete_ingress,
            spoil: |index, key, _, now| index.delete_ingress(key, "", now),
        };
        self.start("ingresses", watch, &hand, complain)
    }

    /// Ours alone (ROUTE-35).
    fn slices(&mut self, complain: &Complain) -> Synced {
        let ours = format!(
            "{}={}",
            slice_label::MANAGED_BY,
            slice_label::MANAGED_BY_NAPWAKE
        );
        let watch = Watch::<thin::EndpointSlice>::all(self.client)
            .keep(|object| Some(convert::slice(object)))
            .labels(&ours);
        let hand = Hand {
            apply: Index::apply_slice,
            delete: Index::delete_slice,
            // Nothing of it could be trusted; that it's there shows on writing.
            spoil: |_, _, _, _| Concerns::nobody(),
        };
        self.start("endpointslices", watch, &hand, complain)
    }

    fn pods(&mut self, namespace: &str, complain: &Complain) -> Synced {
        let watch = Watch::<common::Pod>::within(self.client, namespace)
            .keep(|object| Some(convert::pod(object)));
        let hand = Hand {
            apply: Index::apply_pod,
            delete: Index::delete_pod,
            spoil: |index, key, _, now| index.delete_pod(key, "", now),
        };
        self.start("pods", watch, &hand, complain)
    }

    fn start<K, V>(
        &mut self,
        name: &'static str,
        watch: Watch<K, V>,
        hand: &Hand<V>,
        complain: &Complain,
    ) -> Synced
    where
        K: Watched,
        V: Versioned + Send + Sync + 'static,
    {
        let &Hand {
            apply,
            delete,
            spoil,
        } = hand;
        let (shared, complain) = (Arc::clone(self.shared), complain.clone());
        let watch =
            watch
                .ready(self.readiness.handle(name))
                .on_change(move |change| match change {
                    Change::Applied { new, .. } => {
                        shared.change(|index, now| apply(index, new, now));
                    }
                    Change::Removed { key, old } => {
                        let uid = old.as_ref().map_or("", |old| old.uid());
                        shared.change(|index, now| delete(index, &names(key), uid, now));
                    }
                    Change::Unreadable { object, .. } => {
                        // Where there's no room the log says it.
                        complain.try_send(unreadable::<K>(&object)).ok();
                        let key = names(object.key.clone());
                        shared.change(|index, now| spoil(index, &key, &object, now));
                    }
                });
        let (store, running) = watch.start();
        self.supervisor.endless(name, running);
        async move { store.synced().await }.boxed()
    }
}

/// What both kinds of target have in common.
trait Target: Watched {
    const KIND: TargetKind;

    fn scalable(self) -> thin::Scalable;
}

impl Target for thin::Deployment {
    const KIND: TargetKind = TargetKind::Deployment;

    fn scalable(self) -> thin::Scalable {
        self.0
    }
}

impl Target for thin::StatefulSet {
    const KIND: TargetKind = TargetKind::StatefulSet;

    fn scalable(self) -> thin::Scalable {
        self.0
    }
}

fn names(key: ObjectKey) -> Key {
    (key.namespace, key.name)
}

fn workload_key((namespace, name): &Key) -> WorkloadKey {
    WorkloadKey {
        namespace: namespace.clone(),
        name: name.clone(),
    }
}

fn unreadable<K: Resource<DynamicType = ()>>(object: &Unreadable) -> Notice {
    let namespace = Some(object.key.namespace.clone());
    Notice {
        kind: Kind::Warning,
        reason: event::UNREADABLE_OBJECT,
        action: "Read",
        note: format!(
            "Napwake passes it over, for it can't be read: {}",
            object.error
        ),
        regarding: ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            name: Some(object.key.name.clone()),
            uid: object.uid.clone(),
            ..ObjectReference::default()
        },
        related: None,
        limit: Limit::once_per(object.error.clone()),
    }
}

/// Says what the watches complain of.
async fn say(
    events: Arc<Events>,
    mut complaints: mpsc::Receiver<Notice>,
) -> Result<Infallible, Infallible> {
    loop {
        let Some(notice) = complaints.recv().await else {
            // The watches are gone, and with them soon this.
            return std::future::pending().await;
        };
        if let Err(error) = events.publish(notice).await {
            tracing::warn!(%error, "an event is lost");
        }
    }
}
