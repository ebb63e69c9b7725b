//! The writes before an uninstall: stopping the operator's Deployment, letting
//! every ManagedWorkload go, and waking what is left with a mark; and starting the
//! operator again where that came to nothing.
//!
//! What a deleted ManagedWorkload leads to is decided as ever.

use std::fmt::Debug;

use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, Preconditions},
};
use napwake_api::ManagedWorkload;
use napwake_decide::{
    left_behind::Freeing,
    world::{Target, Workload},
};
use serde::Serialize;
use serde_json::json;

use super::{Applier, ApplyError, ask, patch_params, scale::Step};
use crate::{leader::Term, observe::thin};

impl Applier {
    /// How many replicas the operator's own Deployment has; none if there's no such
    /// Deployment.
    pub(crate) async fn operator_replicas(
        &self,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<i32>> {
        let api: Api<thin::Deployment> = Api::namespaced(self.client.clone(), namespace);
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = api.list(&named).await?.items.into_iter().next();
        Ok(found.map(|deployment| deployment.0.spec.replicas))
    }

    /// Scales the operator's own Deployment to 0; one that isn't there is
    /// stopped already.
    pub(crate) async fn stop_operator(&self, namespace: &str, name: &str) -> kube::Result<()> {
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        self.scale_operator(namespace, name, &none, 404).await
    }

    /// Gives the operator's own Deployment its replicas back, unless somebody has
    /// started it already.
    pub(crate) async fn start_operator(
        &self,
        namespace: &str,
        name: &str,
        replicas: i32,
    ) -> kube::Result<()> {
        // A Scale leaves out replicas of 0.
        let patch = json!([
            {"op": "test", "path": "/spec", "value": {}},
            {"op": "add", "path": "/spec/replicas", "value": replicas},
        ]);
        let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
        self.scale_operator(namespace, name, &Patch::<()>::Json(patch), 422)
            .await
    }

    /// An answer of the code `settled` says that there's nothing to do.
    async fn scale_operator<P: Serialize + Debug>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch<P>,
        settled: u16,
    ) -> kube::Result<()> {
        let api: Api<thin::Deployment> = Api::namespaced(self.client.clone(), namespace);
        match api.patch_scale(name, &patch_params(), patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == settled => Ok(()),
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
