//! The writes before an uninstall: stopping the operator's Deployment, letting
//! every ManagedWorkload go, and waking what is left with a mark.
//!
//! What a deleted ManagedWorkload leads to is decided as ever.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{DeleteParams, Patch, Preconditions},
};
use napwake_api::ManagedWorkload;
use napwake_decide::world::{TargetId, Workload};
use serde_json::json;

use super::{Applier, ApplyError, patch_params, scale::Step};

impl Applier {
    /// Scales the operator's own Deployment to 0; one that isn't there is
    /// stopped already.
    pub(crate) async fn stop_operator(&self, namespace: &str, name: &str) -> kube::Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        match api.patch_scale(name, &patch_params(), &none).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Asks for the ManagedWorkload of that uid to be deleted.
    pub(crate) async fn let_go(&self, workload: &Workload) -> kube::Result<()> {
        let api: Api<ManagedWorkload> =
            Api::namespaced(self.client.clone(), &workload.key.namespace);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(workload.uid.clone()),
            resource_version: None,
        });
        match api.delete(&workload.key.name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives a target that Napwake paused, and that has no ManagedWorkload any
    /// more, its replicas back, and takes the mark off.
    pub(crate) async fn wake_marked(
        &self,
        namespace: &str,
        target: &TargetId,
        replicas: i32,
    ) -> Result<(), ApplyError> {
        let step = Step {
            from: 0,
            to: replicas,
            version: None,
        };
        self.scale(namespace, target, &step).await?;
        self.mark(namespace, target, None, None).await?;
        Ok(())
    }
}
