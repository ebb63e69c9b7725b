//! A world of a test's own: a namespace, addresses, doorman ports, and a way to
//! the API server.

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicU16, Ordering},
};

use futures::FutureExt;
use k8s_openapi::api::core::v1::{Event, Pod, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use napwake_api::ManagedWorkload;
use napwake_testkit::{Result, block::Block, place::Place, wait};

use crate::{
    SOON,
    api_way::ApiWay,
    doorman::{self, Doorman, MetricsOver},
    hosts::{self, Family, Host},
    route::Draft,
};

/// Where the API server is found.
const API_PORT: u16 = 8001;

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
        // Pods can't be made before.
        let accounts: Api<ServiceAccount> = place.api();
        let probe = || async { Ok(accounts.get_opt("default").await?.is_some()) };
        wait::until("the default ServiceAccount", 3 * SOON, probe, |made| *made).await?;
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
            eprintln!("{}", doorman::logs(world.api.folder()));
        }
        clear(&place).await?;
        match ended {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
    .await;
}

/// Removes what would keep the namespace from going: no kubelet ends its pods.
/// Other doormen no longer have to listen for its routes.
async fn clear(place: &Place) -> Result<()> {
    let at_once = DeleteParams::default().grace_period(0);
    let (pods, all) = (place.api::<Pod>(), ListParams::default());
    pods.delete_collection(&at_once, &all).await?;
    let workloads = place.api::<ManagedWorkload>();
    workloads.delete_collection(&at_once, &all).await?;
    Ok(())
}
