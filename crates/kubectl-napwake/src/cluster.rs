//! The connection to the cluster that kubectl would use.

use anyhow::{Context, Result, anyhow};
use kube::{Api, Client, Config, config::KubeConfigOptions, core::Status};
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
        kube::Error::Api(status) if status.is_not_found() && names_it(status) => {
            "; there is none of that name, `kubectl napwake status` lists what there is"
        }
        kube::Error::Api(status) if status.is_not_found() => {
            "; Napwake seems not to be installed there"
        }
        kube::Error::Api(status) if status.is_forbidden() => {
            "; ask for rights on managedworkloads.napwake.dev"
        }
        _ => "",
    };
    let said = match error {
        // The error's own text holds the whole answer, in a form for programmers.
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => other.into(),
    };
    said.context(format!("can't {doing}{hint}"))
}

/// Whether it's an object that wasn't found, rather than its kind.
fn names_it(status: &Status) -> bool {
    let details = status.details.as_ref();
    details.is_some_and(|details| !details.name.is_empty())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::outcome::one_line;

    fn answer(code: u16, reason: &str) -> kube::Error {
        about("db", code, reason)
    }

    fn about(name: &str, code: u16, reason: &str) -> kube::Error {
        let status = serde_json::json!({
            "code": code, "reason": reason, "message": "managedworkloads \"db\" said no",
            "details": {"name": name, "kind": "managedworkloads"},
        });
        kube::Error::Api(serde_json::from_value(status).expect("readable"))
    }

    #[rstest]
    #[case::missing(
        answer(404, "NotFound"),
        "can't wake it; there is none of that name, `kubectl napwake status` lists what \
        there is: managedworkloads \"db\" said no"
    )]
    #[case::not_installed(
        about("", 404, "NotFound"),
        "can't wake it; Napwake seems not to be installed there: managedworkloads \"db\" said no"
    )]
    #[case::forbidden(
        answer(403, "Forbidden"),
        "can't wake it; ask for rights on \
        managedworkloads.napwake.dev: managedworkloads \"db\" said no"
    )]
    #[case::invalid(
        answer(422, "Invalid"),
        "can't wake it: managedworkloads \"db\" said no"
    )]
    fn says_what_the_api_server_said_and_no_more(#[case] error: kube::Error, #[case] told: &str) {
        assert_eq!(one_line(&explain(error, "wake it")), told);
    }

    #[test]
    fn says_why_there_is_no_connection() {
        let refused = std::io::Error::other("Connection refused");
        let error = explain(kube::Error::Service(refused.into()), "wake it");
        assert_eq!(
            one_line(&error),
            "can't wake it: ServiceError: Connection refused"
        );
    }
}
