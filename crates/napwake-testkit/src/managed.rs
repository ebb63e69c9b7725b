//! ManagedWorkloads in tests: making, pausing, waking, and waiting for phases.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use napwake_api::{
    ManagedWorkload, ManagedWorkloadStatus,
    condition::{self, ConditionType},
    names::signal,
    stamp::Stamp,
    workload::Phase,
};
use serde_json::{Value, json};

use crate::{place::Place, wait};

/// How long a pause or a wake may take on a busy machine of two cores.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Makes a ManagedWorkload named as its target, with `spec` merged in.
pub async fn manage(place: &Place, kind: &str, name: &str, spec: Value) -> Result<ManagedWorkload> {
    let mut wanted = json!({
        "targetRef": {"kind": kind, "name": name},
        "idleAfter": "1h", "lookout": "0s",
    });
    let (Value::Object(wanted_fields), Value::Object(fields)) = (&mut wanted, spec) else {
        anyhow::bail!("a test's own spec must be an object");
    };
    wanted_fields.extend(fields);
    place
        .create(json!({
            "apiVersion": "napwake.dev/v1alpha1", "kind": "ManagedWorkload",
            "metadata": {"name": name, "namespace": place.namespace}, "spec": wanted,
        }))
        .await
}

/// Sets an annotation on the ManagedWorkload.
pub async fn annotate(place: &Place, name: &str, key: &str, value: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    let api = place.api::<ManagedWorkload>();
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .with_context(|| format!("set {key} on {name}"))?;
    Ok(())
}

/// Changes parts of the spec, and gives the generation that it has then.
pub async fn respec(place: &Place, name: &str, spec: Value) -> Result<i64> {
    let api = place.api::<ManagedWorkload>();
    let patch = Patch::Merge(json!({"spec": spec}));
    let patched = api.patch(name, &PatchParams::default(), &patch).await;
    let patched = patched.with_context(|| format!("change the spec of {name}"))?;
    patched.metadata.generation.context("its generation")
}

/// Waits until the status is about this generation of the spec.
pub async fn observed(place: &Place, name: &str, generation: i64) -> Result<ManagedWorkloadStatus> {
    let what = format!("the status of {name} to be about generation {generation}");
    let is_it = |status: &ManagedWorkloadStatus| status.observed_generation == Some(generation);
    wait::until(&what, PATIENCE, || status(place, name), is_it).await
}

/// The present time, as people's tooling stamps it.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests' one reading of the clock"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Sets an annotation to the present time.
pub async fn stamp(place: &Place, name: &str, key: &str) -> Result<()> {
    annotate(place, name, key, &Stamp::now(now()).to_string()).await
}

/// Asks for a pause, as `kubectl napwake pause` does.
pub async fn ask_to_pause(place: &Place, name: &str) -> Result<()> {
    stamp(place, name, signal::PAUSE_REQUESTED).await
}

/// Asks for a wake, as `kubectl napwake wake` does.
pub async fn ask_to_wake(place: &Place, name: &str) -> Result<()> {
    stamp(place, name, signal::WAKE_REQUESTED).await
}

/// Asks for a pause and waits until the pods are gone.
pub async fn pause(place: &Place, name: &str) -> Result<ManagedWorkloadStatus> {
    ask_to_pause(place, name).await?;
    phase(place, name, Phase::Paused).await
}

/// Asks for a pause and waits until the pods are gone and the doorman is in
/// their place.
pub async fn pause_routed(place: &Place, name: &str) -> Result<()> {
    pause(place, name).await?;
    wake_reason(place, name, "DoormanRouted").await?;
    Ok(())
}

/// The status as it stands.
pub async fn status(place: &Place, name: &str) -> Result<ManagedWorkloadStatus> {
    let found = place
        .api::<ManagedWorkload>()
        .get(name)
        .await
        .context("read the ManagedWorkload")?;
    Ok(found.status.unwrap_or_default())
}

/// Waits for a phase.
pub async fn phase(place: &Place, name: &str, wanted: Phase) -> Result<ManagedWorkloadStatus> {
    let what = format!("{name} to be {wanted:?}");
    wait::until(
        &what,
        PATIENCE,
        || status(place, name),
        |status| status.phase == Some(wanted),
    )
    .await
}

/// Waits until `WakeOnRequest` has the reason `reason`, and gives its message.
pub async fn wake_reason(place: &Place, name: &str, reason: &str) -> Result<String> {
    let what = format!("WakeOnRequest of {name} to be {reason}");
    let is_reason = |status: &ManagedWorkloadStatus| {
        condition::get(&status.conditions, ConditionType::WakeOnRequest)
            .is_some_and(|known| known.reason == reason)
    };
    let status = wait::until(&what, PATIENCE, || status(place, name), is_reason).await?;
    let known = condition::get(&status.conditions, ConditionType::WakeOnRequest);
    Ok(known.map(|known| known.message.clone()).unwrap_or_default())
}

/// The value of an annotation of the ManagedWorkload.
pub async fn annotation(place: &Place, name: &str, key: &str) -> Result<Option<String>> {
    let found = place
        .api::<ManagedWorkload>()
        .get(name)
        .await
        .context("read the ManagedWorkload")?;
    Ok(found.metadata.annotations.unwrap_or_default().remove(key))
}
