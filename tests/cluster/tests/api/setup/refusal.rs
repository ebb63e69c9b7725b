//! An API server that refuses Napwake's EndpointSlices in a test's namespace.

use k8s_openapi::api::{
    admissionregistration::v1::{
        ValidatingAdmissionPolicy as Policy, ValidatingAdmissionPolicyBinding as Binding,
    },
    core::v1::Namespace,
    discovery::v1::EndpointSlice,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use napwake_api::names::slice as names;
use napwake_testkit::{Context, Result, managed::PATIENCE, place::Place, wait};
use serde_json::json;

/// What the API server says.
pub(crate) const MESSAGE: &str = "no slices of Napwake's in this test";

/// Begins to refuse, and waits until it does. What is made for it goes with the
/// namespace.
pub(crate) async fn begin(place: &Place) -> Result<()> {
    let name = &place.namespace;
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    let uid = namespaces.get(name).await?.metadata.uid;
    let metadata = json!({"name": name, "ownerReferences": [
        {"apiVersion": "v1", "kind": "Namespace", "name": name, "uid": uid},
    ]});
    let ours = format!(
        "has(object.metadata.labels) && '{label}' in object.metadata.labels && \
         object.metadata.labels['{label}'] == '{}'",
        names::MANAGED_BY_NAPWAKE,
        label = names::MANAGED_BY,
    );
    let policy: Policy = serde_json::from_value(json!({
        "metadata": metadata,
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [{
                    "apiGroups": ["discovery.k8s.io"], "apiVersions": ["v1"],
                    "resources": ["endpointslices"], "operations": ["CREATE", "UPDATE"],
                }],
            },
            "matchConditions": [{"name": "ours", "expression": ours}],
            "validations": [{"expression": "false", "message": MESSAGE}],
        },
    }))?;
    let binding: Binding = serde_json::from_value(json!({
        "metadata": metadata,
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }))?;
    let params = PostParams::default();
    let policies: Api<Policy> = Api::all(place.client.clone());
    policies.create(&params, &policy).await?;
    bindings(place).create(&params, &binding).await?;
    until(place, Answer::Refuses).await
}

/// Stops refusing, and waits until it has.
pub(crate) async fn end(place: &Place) -> Result<()> {
    let (bindings, params) = (bindings(place), DeleteParams::default());
    let deleted = bindings.delete(&place.namespace, &params).await;
    deleted.context("lift the refusal")?;
    until(place, Answer::Takes).await
}

fn bindings(place: &Place) -> Api<Binding> {
    Api::all(place.client.clone())
}

/// What the API server does with a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Takes,
    Refuses,
}

async fn until(place: &Place, wanted: Answer) -> Result<()> {
    let what = format!("the API server to answer: {wanted:?}");
    wait::until(&what, PATIENCE, || try_one(place), |one| *one == wanted).await?;
    Ok(())
}

/// Asks without effect.
async fn try_one(place: &Place) -> Result<Answer> {
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": "trial", "labels": {names::MANAGED_BY: names::MANAGED_BY_NAPWAKE}},
        "addressType": "IPv4", "endpoints": [],
    }))?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = place.api::<EndpointSlice>().create(&dry, &slice).await;
    match made {
        Ok(_) => Ok(Answer::Takes),
        Err(kube::Error::Api(status)) if status.message.contains(MESSAGE) => Ok(Answer::Refuses),
        Err(error) => Err(error.into()),
    }
}
