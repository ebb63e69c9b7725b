//! The connection to the cluster that kubectl would use.

use anyhow::{Context, Result};
use kube::{Api, Client, Config, config::KubeConfigOptions};
use napwake_api::ManagedWorkload;

use crate::cli::Place;

/// A cluster and the namespace to look in.
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    /// Reads the kubeconfig as kubectl does.
    pub(crate) async fn connect(place: &Place) -> Result<Self> {
        let options = KubeConfigOptions {
            context: place.context.clone(),
            ..Default::default()
        };
        let config = Config::from_kubeconfig(&options)
            .await
            .context("can't read the kubeconfig (set KUBECONFIG or --context)")?;
        let namespace = place.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("can't set up the connection")?;
        Ok(Self { client, namespace })
    }

    /// ManagedWorkloads of the namespace.
    pub(crate) fn here(&self) -> Api<ManagedWorkload> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// ManagedWorkloads of all namespaces.
    pub(crate) fn everywhere(&self) -> Api<ManagedWorkload> {
        Api::all(self.client.clone())
    }

    /// The namespace looked in.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// What an error of the API server means to somebody at a terminal.
pub(crate) fn explain(error: kube::Error, doing: &str) -> anyhow::Error {
    let hint = match &error {
        kube::Error::Api(status) if status.is_not_found() => {
            "; is Napwake installed, and the name right? `kubectl napwake status` lists them"
        }
        kube::Error::Api(status) if status.is_forbidden() => {
            "; ask for rights on managedworkloads.napwake.dev"
        }
        _ => "",
    };
    anyhow::Error::new(error).context(format!("can't {doing}{hint}"))
}
