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
use napwake_decide::{
    left_behind::Freeing,
    world::{Target, Workload},
};
use serde_json::json;

use super::{Applier, ApplyError, ask, patch_params, scale::Step};
use crate::leader::Term;

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
    pub(crate) async fn let_go(&self, term: &Term, workload: &Workload) -> Result<(), ApplyError> {
        let api: Api<ManagedWorkload> =
            Api::namespaced(self.client.clone(), &workload.key.namespace);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(workload.uid.clone()),
            resource_version: None,
        });
        ask(term)?;
        match api.delete(&workload.key.name, &params).await {
            Ok(_) => Ok(()),
            Err(source) => Err(ApplyError::of("delete", source)),
        }
    }

    /// Frees a target with the mark of a pause, and without a ManagedWorkload.
    pub(crate) async fn free(
        &self,
        term: &Term,
        namespace: &str,
        target: &Target,
        freeing: Freeing,
    ) -> Result<(), ApplyError> {
        let version = target.resource_version.clone();
        ask(term)?;
        match freeing {
            Freeing::Unmark => self.mark(namespace, &target.id, None, &version).await,
            Freeing::Wake { replicas } => {
                let step = Step {
                    from: 0,
                    to: replicas,
                    version,
                };
                self.scale(namespace, &target.id, &step).await
            }
        }
    }
}
