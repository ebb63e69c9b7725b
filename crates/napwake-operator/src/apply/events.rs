//! Events about a ManagedWorkload, and about others in its namespace.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use napwake_api::ManagedWorkload;
use napwake_cluster::events::{Kind, Limit, Notice};
use napwake_decide::{
    World, Write,
    plan::{Event, EventType},
    world::Workload,
};

use super::Applier;

impl Applier {
    /// Has it said, and doesn't wait for that; what can't be said is lost.
    pub(crate) fn tell(&self, workload: &Workload, event: Event) {
        let Event {
            type_,
            reason,
            note,
        } = event;
        self.teller.tell(Notice {
            kind: match type_ {
                EventType::Normal => Kind::Normal,
                EventType::Warning => Kind::Warning,
            },
            reason,
            action: "Manage",
            note,
            regarding: reference(workload),
            related: None,
            limit: Limit::None,
        });
    }

    /// The events among these writes.
    pub(super) fn tell_all(&self, world: &World, writes: impl Iterator<Item = Write>) {
        for write in writes {
            if let Write::Event(event) = write {
                self.tell(&world.workload, event);
            }
        }
    }
}

fn reference(workload: &Workload) -> ObjectReference {
    ObjectReference {
        api_version: Some(ManagedWorkload::api_version(&()).into_owned()),
        kind: Some(ManagedWorkload::kind(&()).into_owned()),
        namespace: Some(workload.key.namespace.clone()),
        name: Some(workload.key.name.clone()),
        uid: Some(workload.uid.clone()),
        ..ObjectReference::default()
    }
}
