//! The floor of the way in: the two writes of a wake, one after the other, by a
//! client that decides nothing in between.
//!
//! Owns the Deployments that they scale, which never have pods. Whoever wakes by
//! an object of the API and a scale can't be quicker than this.

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use napwake_api::ManagedWorkload;
use serde_json::{Value, json};

use crate::clock::{Clock, Millis};
use crate::field::{self, Field};

/// An annotation that nobody reads, as long as a stamp is.
pub(crate) const MARK: &str = "napwake.dev/bench-floor";

impl Field {
    /// Makes what [`Field::write_barely`] scales, for so many at once.
    pub(crate) async fn make_spare(&self, count: usize) -> Result<()> {
        let deployments: Api<Deployment> = self.api();
        let making = (0..count).map(|number| {
            let deployments = deployments.clone();
            async move {
                let spare = field::read(deployment(&name(number)))?;
                let made = deployments.create(&PostParams::default(), &spare).await;
                made.with_context(|| format!("make {}", name(number)))
            }
        });
        try_join_all(making).await?;
        Ok(())
    }

    /// Writes so to each of these apps at once, and says how long each took, from
    /// the first request until the second one was answered.
    pub(crate) async fn write_barely(&self, clock: Clock, apps: &[&str]) -> Result<Vec<Millis>> {
        let writing = apps.iter().enumerate().map(|(number, app)| async move {
            let began = clock.now();
            self.mark(clock, app).await?;
            self.scale_spare(number, 1).await?;
            anyhow::Ok(clock.now().after(began))
        });
        let took = try_join_all(writing).await?;
        let back = (0..apps.len()).map(|number| self.scale_spare(number, 0));
        try_join_all(back).await?;
        Ok(took)
    }

    async fn mark(&self, clock: Clock, app: &str) -> Result<()> {
        let mark = format!("{} request of={app}", clock.day());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {MARK: mark}}}));
        let workloads: Api<ManagedWorkload> = self.api();
        workloads
            .patch_metadata(app, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("set {MARK} of {app}"))?;
        Ok(())
    }

    async fn scale_spare(&self, number: usize, replicas: i32) -> Result<()> {
        let deployments: Api<Deployment> = self.api();
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments
            .patch_scale(&name(number), &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("scale {}", name(number)))?;
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("spare{number:03}")
}

/// With its rollout held (`spec.paused`) it gets no ReplicaSet, and so no pods.
fn deployment(name: &str) -> Value {
    let labels = json!({"spare": name});
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 0, "paused": true,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "containers": [{"name": "none", "image": "napwake.test/none:1"}],
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scaled_never_has_pods() {
        let spare: Deployment = field::read(deployment("a")).unwrap();
        assert_eq!(spare.spec.unwrap().paused, Some(true));
    }
}
