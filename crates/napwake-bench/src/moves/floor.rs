//! The floor of a move: every slice is written once by a client that decides nothing.

use anyhow::{Context as _, Result};
use futures::{TryStreamExt as _, stream};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use napwake_api::names::slice::{MANAGED_BY, MANAGED_BY_NAPWAKE};
use serde_json::json;

use crate::bare::MARK;
use crate::clock::{Clock, Millis};

/// As many writes under way at once as the operator has.
const AT_ONCE: usize = 24;

/// Writes each of Napwake's slices, and says how long that took.
///
/// What is written is an annotation that nobody reads: whoever watches slices hears of
/// it as of a move, and has nothing to do.
pub(super) async fn write_slices(client: &Client, clock: Clock) -> Result<Millis> {
    let all: Api<EndpointSlice> = Api::all(client.clone());
    let ours = ListParams::default().labels(&format!("{MANAGED_BY}={MANAGED_BY_NAPWAKE}"));
    let slices = all.list_metadata(&ours).await.context("list slices")?;
    let began = clock.now();
    let mark = json!({"metadata": {"annotations": {MARK: clock.day()}}});
    stream::iter(slices.items.into_iter().map(anyhow::Ok))
        .try_for_each_concurrent(AT_ONCE, |slice| {
            let (client, mark) = (client.clone(), Patch::Merge(&mark));
            async move {
                let namespace = slice.namespace().unwrap_or_default();
                let api: Api<EndpointSlice> = Api::namespaced(client, &namespace);
                let name = slice.name_any();
                let written = api.patch(&name, &PatchParams::default(), &mark).await;
                written.with_context(|| format!("set {MARK} of {name}"))?;
                Ok(())
            }
        })
        .await?;
    Ok(clock.now().after(began))
}
