//! A world of a test's own: a namespace, addresses, doorman ports, and a way to
//! the API server.

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicU16, Ordering},
};

use futures::FutureExt;
use k8s_openapi::api::core::v1::{Event, Pod, Secret, ServiceAccount};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams},
};
use napwake_api::ManagedWorkload;
use napwake_testkit::{Result, block::Block, managed, place::Place, wait};
use serde_json::json;

use crate::{
    SOON,
    api_way::ApiWay,
    daemon,
    doorman::{Doorman, MetricsOver},
    hosts::{self, Family, Host},
    route::Draft,
};

/// Where the API server is found.
pub(crate) const API_PORT: u16 = 8001;

/// A test's own world.
#[derive(Debug)]
pub struct World {
    /// Its namespace.
    pub place: Place,
    /// Its addresses and ports.
    pub block: Block,
    /// The doorman's way to the API server.
    pub api: ApiWay,
    routes: AtomicU16,
    markers: AtomicU16,
}

impl World {
    async fn make(place: Place) -> Result<Self> {
        let block = Block::take()?;
        hosts::add_all(block).await?;
        let api = SocketAddr::new(Host::Api.at(block, Family::V4), API_PORT);
        let api = ApiWay::open(api).await?;
        // Pods can't be made before. A controller makes it too, where one runs.
        let account: ServiceAccount =
            serde_json::from_value(json!({"metadata": {"name": "default"}}))?;
        let accounts: Api<ServiceAccount> = place.api();
        match accounts.create(&PostParams::default(), &account).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        let (routes, markers) = (AtomicU16::new(0), AtomicU16::new(0));
        Ok(Self {
            place,
            block,
            api,
            routes,
            markers,
        })
    }

    /// A pod's IPv4 address, 0 to 5.
    pub fn pod(&self, number: u16) -> IpAddr {
        Host::Pod(number).at(self.block, Family::V4)
    }

    /// A caller's IPv4 address, 0 to 5.
    pub fn caller(&self, number: u16) -> IpAddr {
        Host::Caller(number).at(self.block, Family::V4)
    }

    /// The doorman, with metrics for everybody.
    pub async fn doorman(&self) -> Result<Doorman> {
        self.doorman_with(&[]).await
    }

    /// The same with more flags.
    pub async fn doorman_with(&self, args: &[&str]) -> Result<Doorman> {
        Doorman::start(self, Host::Doorman(0), args, MetricsOver::Http).await
    }

    /// Another doorman beside the first.
    pub async fn second_doorman(&self) -> Result<Doorman> {
        Doorman::start(self, Host::Doorman(1), &[], MetricsOver::Http).await
    }

    /// Makes the wake key's Secret, empty as the chart does.
    pub async fn put_wake_key(&self) -> Result<()> {
        let secret = json!({"metadata": {"name": "napwake-doorman-wake-key"}, "type": "Opaque"});
        self.place.create::<Secret>(secret).await?;
        Ok(())
    }

    /// A route to a Service and a workload of this name.
    pub fn route(&self, name: &str) -> Draft<'_> {
        let index = self.routes.fetch_add(1, Ordering::Relaxed);
        Draft::new(self, name, self.block.port(index))
    }

    /// A doorman port that nothing else uses, for a route that only shows that
    /// the doorman has seen a status.
    pub(crate) fn marker(&self) -> u16 {
        let index = self.markers.fetch_add(1, Ordering::Relaxed);
        self.block.port(15 - index % 6)
    }

    /// The events of this reason, each with what it says.
    pub async fn events(&self, reason: &str) -> Result<Vec<String>> {
        let events: Api<Event> = self.place.api();
        let listed = events.list(&ListParams::default()).await?.items;
        let wanted = listed
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        Ok(wanted
            .map(|event| event.message.unwrap_or_default())
            .collect())
    }

    /// Waits until there are so many events of this reason.
    pub async fn told(&self, reason: &str, count: usize) -> Result<Vec<String>> {
        let what = format!("{count} events {reason}");
        wait::until(
            &what,
            SOON,
            || self.events(reason),
            |events| events.len() >= count,
        )
        .await
    }
}

/// Runs `test` in a world of its own, and shows the world and the doormen's logs
/// if it fails.
pub async fn with<F>(label: &str, test: F)
where
    F: AsyncFnOnce(&World) -> Result<()>,
{
    napwake_testkit::place::with(label, async |place| {
        let world = World::make(place.clone()).await?;
        let ended = AssertUnwindSafe(test(&world)).catch_unwind().await;
        if !matches!(ended, Ok(Ok(()))) {
            eprintln!("{}", daemon::logs(world.api.folder()));
        }
        clear(&place).await?;
        match ended {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
    .await;
}

/// Removes what would keep the namespace from going: no kubelet ends its pods,
/// and no operator is left to take finalizers off. Other doormen no longer have
/// to listen for its routes.
async fn clear(place: &Place) -> Result<()> {
    let at_once = DeleteParams::default().grace_period(0);
    let (pods, all) = (place.api::<Pod>(), ListParams::default());
    pods.delete_collection(&at_once, &all).await?;
    // No more of them is read than it takes.
    let workloads = place.api::<Thin>();
    let probe = || async {
        workloads.delete_collection(&at_once, &all).await?;
        let left = workloads.list_metadata(&all).await?.items;
        let all = left.iter().map(|one| without_finalizers(&workloads, one));
        futures::future::join_all(all).await;
        Ok(left.len())
    };
    let what = "its ManagedWorkloads to go";
    wait::until(what, managed::PATIENCE, probe, |left| *left == 0).await?;
    Ok(())
}

/// A ManagedWorkload of which only the metadata is read.
type Thin = PartialObjectMeta<ManagedWorkload>;

async fn without_finalizers(workloads: &Api<Thin>, one: &impl ResourceExt) {
    let name = one.name_any();
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    let patched = workloads.patch_metadata(&name, &params, &patch).await;
    if let Err(error) = patched {
        // It may have gone in the meantime.
        eprintln!("the finalizers of {name} stay: {error}");
    }
}
