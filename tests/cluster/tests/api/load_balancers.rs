//! Services behind load balancers that go to pods directly, as GKE's do, and which
//! refuse the doorman's (the forwarder is off).

use k8s_openapi::api::{core::v1::Service, networking::v1::Ingress};
use kube::api::{DeleteParams, Patch, PatchParams};
use napwake_testkit::{Result, apps::App, ensure, place::Place};
use serde_json::{Value, json};

use crate::setup::{self, Stage, Target, course, events, slices};

/// The annotation that GKE puts on every new Service of a VPC-native cluster.
const NEG: &str = "cloud.google.com/neg";

/// A Service on port 80 before the pods of `app`, with these annotations.
async fn serve(place: &Place, name: &str, app: &str, annotations: Value) -> Result<()> {
    place
        .create::<Service>(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "selector": {"app": app},
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            },
        }))
        .await?;
    Ok(())
}

async fn annotate(place: &Place, service: &str, annotations: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let api = place.api::<Service>();
    api.patch(service, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// An Ingress of that class, by the annotation, that leads to a Service.
async fn ingress(place: &Place, name: &str, class: &str, service: &str) -> Result<()> {
    let backend = json!({"service": {"name": service, "port": {"name": "http"}}});
    place
        .create::<Ingress>(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": name, "annotations": {"kubernetes.io/ingress.class": class}},
            "spec": {"rules": [{"http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": backend},
            ]}}]},
        }))
        .await?;
    Ok(())
}

async fn workload(stage: &Stage<'_>, name: &str) -> Result<Target> {
    stage
        .managed_alone(&App::new(name, "http"), json!({}))
        .await
}

/// ROUTE-54, ROUTE-55, ROUTE-56, NEG-03, NEG-20, OBS-11: a Service in NEGs isn't
/// routed, before a GKE Ingress or with groups of its own, as GKE Gateway sets; a
/// warning tells of it. NEG-04: nor was it for a moment. NEG-14: nor is one whose
/// groups are listed. ROUTE-41, ROUTE-76: awake, its reason stays.
#[tokio::test]
async fn a_service_in_negs_is_not_routed() {
    setup::with("negs", async |stage| {
        let place = stage.place();
        let groups = "{\"network_endpoint_groups\": {\"80\": \"k8s1-a\"}}";
        for (name, annotations, says) in [
            (
                "used",
                json!({NEG: "{\"ingress\": true}"}),
                "GKE Ingress web",
            ),
            (
                "gateway",
                json!({NEG: "{\"exposed_ports\": {\"80\": {}}}"}),
                "exposed_ports",
            ),
            (
                "listed",
                json!({"cloud.google.com/neg-status": groups}),
                "neg-status",
            ),
        ] {
            serve(place, name, name, annotations).await?;
            if name == "used" {
                ingress(place, "web", "gce", name).await?;
            }
            let target = workload(stage, name).await?;
            course::pause(place, &target).await?;
            let found = course::reason(place, name, "UnsupportedLoadBalancer").await?;
            ensure!(found.status == "False", "{found:?}");
            ensure!(found.message.contains(says), "{found:?}");
            let told = events::until(place, name, "UnsupportedLoadBalancer", 1).await?;
            ensure!(told[0].type_.as_deref() == Some("Warning"), "{told:#?}");
            course::wake(place, &target).await?;
            let kept = course::reason(place, name, "UnsupportedLoadBalancer").await?;
            ensure!(kept.message.starts_with("at its last pause: "), "{kept:?}");
        }
        let writes = stage.operator.writes();
        let made = writes
            .iter()
            .find(|one| one.path.contains("/endpointslices"));
        ensure!(made.is_none(), "{made:#?}");
        Ok(())
    })
    .await;
}

/// ROUTE-57, NEG-22: a Service of its own that no GKE Ingress uses is routed, and
/// the message names the one that isn't, with a warning. NEG-80: the annotation that
/// GKE puts on each of them says nothing alone.
#[tokio::test]
async fn beside_a_routed_service_the_one_in_negs_is_named() {
    setup::with("internal", async |stage| {
        let place = stage.place();
        let marked = || json!({NEG: "{\"ingress\": true}"});
        serve(place, "api", "api", marked()).await?;
        serve(place, "api-internal", "api", marked()).await?;
        ingress(place, "web", "gce", "api").await?;
        let target = workload(stage, "api").await?;
        course::sleep(place, &target).await?;
        let found = course::reason(place, "api", "DoormanRouted").await?;
        let named = "Service api isn't routed: it is behind GKE";
        ensure!(found.message.contains(named), "{found:?}");
        ensure!(!found.message.contains("api-internal"), "{found:?}");
        ensure!(slices::of(place, "api").await?.is_empty(), "api is routed");
        ensure!(
            slices::of(place, "api-internal").await?.len() == 1,
            "api-internal isn't routed"
        );
        let told = events::until(place, "api", "UnsupportedLoadBalancer", 1).await?;
        ensure!(told[0].type_.as_deref() == Some("Warning"), "{told:#?}");
        Ok(())
    })
    .await;
}

/// NEG-02, NEG-05, NEG-07: asleep, it comes off the doorman once a GKE Ingress uses
/// it. NEG-08: and is routed again once none does. NEG-12: another's Ingress doesn't
/// count. NEG-06, NEG-16, NEG-18: `{"ingress": false}` gets it routed at once. T-90:
/// so does what can't be read.
#[tokio::test]
async fn routing_follows_ingresses_and_annotations() {
    setup::with("follows", async |stage| {
        let place = stage.place();
        serve(place, "api", "api", json!({NEG: "{\"ingress\": true}"})).await?;
        ingress(place, "others", "nginx", "api").await?;
        let target = workload(stage, "api").await?;
        course::sleep(place, &target).await?;
        for undo in ["{\"ingress\": false}", "not JSON", "delete"] {
            slices::until(place, "api", 1).await?;
            ingress(place, "web", "gce-internal", "api").await?;
            course::reason(place, "api", "UnsupportedLoadBalancer").await?;
            slices::until(place, "api", 0).await?;
            if undo == "delete" {
                delete(place, "web").await?;
                course::reason(place, "api", "DoormanRouted").await?;
            } else {
                annotate(place, "api", json!({NEG: undo})).await?;
                course::reason(place, "api", "DoormanRouted").await?;
                slices::until(place, "api", 1).await?;
                delete(place, "web").await?;
                annotate(place, "api", json!({NEG: "{\"ingress\": true}"})).await?;
            }
        }
        slices::until(place, "api", 1).await?;
        Ok(())
    })
    .await;
}

async fn delete(place: &Place, ingress: &str) -> Result<()> {
    let api = place.api::<Ingress>();
    api.delete(ingress, &DeleteParams::default()).await?;
    Ok(())
}
