//! What the API accepts and refuses, with messages that say the bound.

use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use napwake_api::ManagedWorkload;
use napwake_testkit::{Context, Result, ensure, managed, place};
use rstest::rstest;
use serde_json::{Value, json};

/// Creates a ManagedWorkload with `spec`, which our own types may not be able
/// to hold, and gives what the API made of it, or its message.
async fn create(spec: Value) -> Result<Result<DynamicObject, String>> {
    let place = place::Place::make("validation").await?;
    let mut object = json!({
        "apiVersion": "napwake.dev/v1alpha1", "kind": "ManagedWorkload",
        "metadata": {"name": "api"},
        "spec": {"targetRef": {"kind": "Deployment", "name": "api"}},
    });
    for (field, value) in spec.as_object().context("a test's own spec")? {
        object["spec"][field] = value.clone();
    }
    let resource = ApiResource::erase::<ManagedWorkload>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(place.client.clone(), &place.namespace, &resource);
    let made = api
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await;
    place.remove().await;
    Ok(made.map_err(|error| error.to_string()))
}

/// SET-02, SET-12, SET-14, SET-15: modes, pages and waits within their bounds are accepted.
#[rstest]
#[case(json!({"wake": {"mode": "Request"}}))]
#[case(json!({"wake": {"mode": "Ask"}}))]
#[case(json!({"wake": {"page": false}}))]
#[case(json!({"wake": {"maxWait": "1h"}}))]
#[case(json!({"wake": {"maxWait": "1ms"}}))]
#[case(json!({"idleAfter": "1m"}))]
#[case(json!({"lookout": "10m"}))]
#[tokio::test]
async fn values_within_their_bounds_are_accepted(#[case] spec: Value) {
    let made = create(spec).await.expect("the API server answers");
    assert!(made.is_ok(), "{made:?}");
}

/// SET-02, SET-12, SET-15, T-100: values out of bounds are refused, and the message
/// says what the bound is.
#[rstest]
#[case(json!({"wake": {"mode": "ask"}}), "\"Request\", \"Ask\"")]
#[case(json!({"wake": {"mode": "Off"}}), "\"Request\", \"Ask\"")]
#[case(json!({"wake": {"page": "false"}}), "boolean")]
#[case(json!({"wake": {"maxWait": "1h1s"}}), "at most 1h")]
#[case(json!({"wake": {"maxWait": "0s"}}), "more than 0s")]
#[case(json!({"wake": {"maxWait": "-5s"}}), "more than 0s")]
#[case(json!({"wake": {"maxWait": "soon"}}), "such as 90s, 2m or 1h")]
#[case(json!({"idleAfter": "59s"}), "at least 1m")]
#[case(json!({"lookout": "10m1s"}), "at most 10m")]
#[case(json!({"targetRef": {"kind": "DaemonSet", "name": "api"}}), "\"StatefulSet\"")]
#[case(json!({"targetRef": {"kind": "Deployment", "name": ""}}), "at least 1 chars")]
#[tokio::test]
async fn values_out_of_bounds_are_refused_by_name(#[case] spec: Value, #[case] says: &str) {
    let made = create(spec).await.expect("the API server answers");
    let message = made.expect_err("it's out of bounds");
    assert!(message.contains(says), "{message}");
}

/// SET-12, SET-14: what isn't set acts as its default.
#[tokio::test]
async fn what_is_not_set_has_its_default() {
    place::with("defaults", async |place| {
        let made: ManagedWorkload = place
            .create(json!({
                "apiVersion": "napwake.dev/v1alpha1", "kind": "ManagedWorkload",
                "metadata": {"name": "api"},
                "spec": {"targetRef": {"kind": "Deployment", "name": "api"}},
            }))
            .await?;
        let shown = serde_json::to_value(&made.spec)?;
        ensure!(
            shown["wake"] == json!({"mode": "Request", "page": true, "maxWait": "2m"}),
            "{shown}"
        );
        ensure!(
            shown["idleAfter"] == "30m" && shown["lookout"] == "30s",
            "{shown}"
        );
        Ok(())
    })
    .await;
}

/// A target can't be exchanged for another: what was paused would stay so.
#[tokio::test]
async fn the_target_cannot_be_changed() {
    place::with("target", async |place| {
        managed::manage(&place, "Deployment", "api", json!({})).await?;
        let patch = json!({"spec": {"targetRef": {"name": "other"}}});
        let api = place.api::<ManagedWorkload>();
        let changed = api
            .patch("api", &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        let error = changed.err().context("it must be refused")?.to_string();
        ensure!(
            error.contains("delete this ManagedWorkload and make another"),
            "{error}"
        );
        Ok(())
    })
    .await;
}
