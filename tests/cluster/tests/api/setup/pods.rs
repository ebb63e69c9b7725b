//! Pods as a kubelet would report them, and slices as the EndpointSlice
//! controller would write them.

use std::net::IpAddr;

use k8s_openapi::api::{core::v1::Pod, discovery::v1::EndpointSlice};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use napwake_api::names::slice as names;
use napwake_testkit::{Context, Result, place::Place};
use napwake_tests_process::route::Standing;
use serde_json::{Value, json};

/// The label of a slice that says which Pod it names.
const NAMES: &str = "napwake.test/pod";

/// A Pod with these labels and addresses on a node that isn't there.
pub(crate) async fn make(
    place: &Place,
    name: &str,
    labels: &Value,
    addresses: &[IpAddr],
) -> Result<()> {
    let metadata = json!({"name": name, "labels": labels});
    make_as(place, name, &metadata, addresses).await
}

/// The same, with this metadata.
pub(crate) async fn make_as(
    place: &Place,
    name: &str,
    metadata: &Value,
    addresses: &[IpAddr],
) -> Result<()> {
    place
        .create::<Pod>(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"nodeName": "nowhere", "containers": [{"name": "app", "image": "none"}]},
        }))
        .await?;
    let ips: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let status = json!({"phase": "Running", "podIP": addresses.first(), "podIPs": ips});
    write_status(place, name, status).await
}

/// Says whether a Pod is Ready; one that is `Terminating` is being deleted and
/// stays so, since no kubelet ends it.
pub(crate) async fn stands(place: &Place, name: &str, standing: Standing) -> Result<()> {
    let ready = if standing == Standing::NotReady {
        "False"
    } else {
        "True"
    };
    let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
    write_status(place, name, status).await?;
    if standing == Standing::Terminating {
        let pods = place.api::<Pod>();
        pods.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Ends a Pod, as its kubelet does at last, and no slice names it any more.
pub(crate) async fn end(place: &Place, name: &str) -> Result<()> {
    let at_once = DeleteParams::default().grace_period(0);
    let deleted = place.api::<Pod>().delete(name, &at_once).await;
    deleted.with_context(|| format!("end Pod {name}"))?;
    unname(place, name).await
}

/// Takes away the slices that name this Pod.
pub(crate) async fn unname(place: &Place, pod: &str) -> Result<()> {
    let slices = place.api::<EndpointSlice>();
    let its = ListParams::default().labels(&format!("{NAMES}={pod}"));
    let params = DeleteParams::default();
    let deleted = slices.delete_collection(&params, &its).await;
    deleted.with_context(|| format!("delete the EndpointSlices that name {pod}"))?;
    Ok(())
}

async fn write_status(place: &Place, name: &str, status: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"status": status}));
    let pods = place.api::<Pod>();
    let written = pods
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    written.with_context(|| format!("write the status of Pod {name}"))?;
    Ok(())
}

/// Writes the slice of a Service that names this Pod at this address.
pub(crate) async fn endpoint(
    place: &Place,
    service: &str,
    pod: &str,
    address: IpAddr,
    standing: Standing,
) -> Result<()> {
    let (family, end) = if address.is_ipv4() {
        ("IPv4", "")
    } else {
        ("IPv6", "-v6")
    };
    let name = format!("{service}-{pod}{end}");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {
            names::SERVICE_NAME: service,
            names::MANAGED_BY: names::MANAGED_BY_CONTROLLER,
            NAMES: pod,
        }},
        "addressType": family,
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{
            "addresses": [address], "conditions": standing.conditions(), "nodeName": "nowhere",
            "targetRef": {"kind": "Pod", "name": pod, "namespace": place.namespace},
        }],
    });
    let params = PatchParams::apply("endpointslice-controller").force();
    let api = place.api::<EndpointSlice>();
    let written = api.patch(&name, &params, &Patch::Apply(&slice)).await;
    written.with_context(|| format!("write EndpointSlice {slice}"))?;
    Ok(())
}
