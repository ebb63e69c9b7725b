//! Events about a ManagedWorkload, and about others in its namespace.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use napwake_api::ManagedWorkload;
use napwake_cluster::events::{Kind, Limit, Notice};
use napwake_decide::{
    plan::{Event, EventType},
    world::Workload,
};

use super::Applier;

impl Applier {
    /// Says it; what can't be said is lost.
    pub(super) async fn emit(&self, workload: &Workload, event: Event) {
        let Event {
            type_,
            reason,
            note,
        } = event;
        let notice = Notice {
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
        };
        if let Err(error) = self.events.publish(notice).await {
            tracing::warn!(
                namespace = workload.key.namespace,
                workload = workload.key.name,
                reason,
                %error,
                "an event is lost"
            );
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
