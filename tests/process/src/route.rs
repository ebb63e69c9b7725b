//! Routes, pods and slices, as the operator, kubelets and the EndpointSlice
//! controller would write them.

use std::net::{IpAddr, SocketAddr};

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Pod, discovery::v1::EndpointSlice};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use napwake_api::{
    ManagedWorkload,
    agreed::ROUTE_DRAIN,
    names::{signal, slice as names},
    stamp::{self, LastRequest},
    workload::Phase,
};
use napwake_testkit::{Context, Result, bail, managed, place::Place, wait};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{SOON, doorman::Doorman, hosts::Family, upstream::PORT, world::World};

/// A route that is to be made.
#[derive(Debug)]
pub struct Draft<'a> {
    world: &'a World,
    name: String,
    service: String,
    port_name: String,
    doorman_port: u16,
    phase: Phase,
    wake: Value,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(world: &'a World, name: &str, doorman_port: u16) -> Self {
        let wake = json!({});
        let (name, port_name) = (name.to_owned(), String::new());
        Self {
            world,
            service: name.clone(),
            name,
            port_name,
            doorman_port,
            phase: Phase::Paused,
            wake,
        }
    }

    /// In another phase than Paused.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = phase;
        self
    }

    /// Of a Service that isn't named as the workload.
    #[must_use]
    pub fn of(mut self, service: &str) -> Self {
        service.clone_into(&mut self.service);
        self
    }

    /// On the port that another workload behind the same Service took.
    #[must_use]
    pub fn at_port_of(mut self, other: &Route<'_>) -> Self {
        self.doorman_port = other.port;
        self
    }

    /// Of a Service port with a name.
    #[must_use]
    pub fn named(mut self, port: &str) -> Self {
        port.clone_into(&mut self.port_name);
        self
    }

    /// Whose callers are held no longer than this.
    #[must_use]
    pub fn max_wait(mut self, wait: &str) -> Self {
        self.wake["maxWait"] = json!(wait);
        self
    }

    /// Of a workload that asks before it wakes.
    #[must_use]
    pub fn asking(mut self) -> Self {
        self.wake["mode"] = json!("Ask");
        self
    }

    /// Whose browsers are held like any other caller.
    #[must_use]
    pub fn without_page(mut self) -> Self {
        self.wake["page"] = json!(false);
        self
    }

    /// Makes the ManagedWorkload, with the status as the operator writes it.
    pub async fn make(self) -> Result<Route<'a>> {
        let place = &self.world.place;
        managed::manage(place, "Deployment", &self.name, json!({"wake": self.wake})).await?;
        let route = Route {
            world: self.world,
            name: self.name,
            service: self.service,
            port_name: self.port_name,
            port: self.doorman_port,
        };
        route
            .write(self.phase, &[route.listed("Routed", None)])
            .await?;
        Ok(route)
    }
}

/// A route to a Service, and the workload behind it. Unless the test says
/// otherwise, both have one name.
#[derive(Debug)]
pub struct Route<'a> {
    world: &'a World,
    /// The ManagedWorkload's name.
    pub name: String,
    /// The Service's name.
    service: String,
    port_name: String,
    /// The doorman's port.
    pub port: u16,
}

/// How an endpoint stands, in its slice and in its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has started, and isn't Ready.
    NotReady,
    /// It is Ready.
    Ready,
    /// It is leaving, and still serves.
    Terminating,
}

impl Standing {
    /// The conditions in a slice, as the EndpointSlice controller writes them.
    pub fn conditions(self) -> Value {
        let (serving, terminating) = match self {
            Self::NotReady => (false, false),
            Self::Ready => (true, false),
            Self::Terminating => (true, true),
        };
        json!({"ready": serving && !terminating, "serving": serving, "terminating": terminating})
    }
}

impl Route<'_> {
    fn place(&self) -> &Place {
        &self.world.place
    }

    /// Where its callers connect.
    pub fn at(&self, doorman: &Doorman) -> SocketAddr {
        doorman.at(Family::V4, self.port)
    }

    /// Its entry in the status.
    fn listed(&self, state: &str, draining_until: Option<Timestamp>) -> Value {
        json!({
            "service": self.service,
            "port": {"name": self.port_name, "number": 80},
            "doormanPort": self.port,
            "families": ["IPv4", "IPv6"],
            "state": state,
            "drainingUntil": draining_until.map(stamp::render),
        })
    }

    /// Writes another phase, and waits until the doorman has seen it.
    pub async fn enters(&self, doorman: &Doorman, phase: Phase) -> Result<()> {
        self.rewrites(doorman, phase, &[self.listed("Routed", None)])
            .await
    }

    /// Writes that the route drains from now on, in this phase of the workload.
    pub async fn drains(&self, doorman: &Doorman, phase: Phase) -> Result<()> {
        let until = managed::now() + ROUTE_DRAIN.get();
        let draining = self.listed("Draining", Some(until));
        self.rewrites(doorman, phase, &[draining]).await
    }

    /// Writes that the workload runs and has no route any more.
    pub async fn leaves(&self, doorman: &Doorman) -> Result<()> {
        self.rewrites(doorman, Phase::Running, &[]).await
    }

    /// Beside these routes the status lists another: once the doorman listens
    /// for that one, it has seen the whole of it.
    async fn rewrites(&self, doorman: &Doorman, phase: Phase, routes: &[Value]) -> Result<()> {
        let marker = self.world.marker();
        let mut routes = routes.to_vec();
        routes.push(json!({
            "service": format!("{}-marker", self.name), "port": {"name": "", "number": 80},
            "doormanPort": marker, "families": ["IPv4"], "state": "Routed",
        }));
        self.write(phase, &routes).await?;
        doorman.listens(marker).await
    }

    async fn write(&self, phase: Phase, routes: &[Value]) -> Result<()> {
        let now = stamp::render(managed::now());
        let asleep = matches!(phase, Phase::Pausing | Phase::Paused);
        let pause = asleep.then(|| json!({"startedAt": now, "reason": "Requested", "replicas": 1}));
        let resume =
            (phase == Phase::Resuming).then(|| json!({"startedAt": now, "source": "request"}));
        let status = json!({
            "phase": phase, "pause": pause, "resume": resume, "doorman": {"routes": routes},
        });
        self.write_status(json!({"status": status})).await
    }

    /// Writes parts of the status as they are.
    pub async fn write_status(&self, patch: Value) -> Result<()> {
        let api = self.place().api::<ManagedWorkload>();
        let patch = Patch::Merge(patch);
        let written = api
            .patch_status(&self.name, &PatchParams::default(), &patch)
            .await;
        written.with_context(|| format!("write the status of {}", self.name))?;
        Ok(())
    }

    /// `napwake.dev/last-request`, if it is set.
    pub async fn last_request(&self) -> Result<Option<LastRequest>> {
        let text = managed::annotation(self.place(), &self.name, signal::LAST_REQUEST).await?;
        text.map(|text| text.parse().with_context(|| text.clone()))
            .transpose()
    }

    /// Waits until `napwake.dev/last-request` is set.
    pub async fn stamped(&self) -> Result<LastRequest> {
        let what = format!("a stamp on {}", self.name);
        let found = wait::until(&what, SOON, || self.last_request(), Option::is_some).await?;
        found.context("a stamp")
    }

    /// `napwake.dev/last-request-from`, if it is set.
    pub async fn last_request_from(&self) -> Result<Option<String>> {
        managed::annotation(self.place(), &self.name, signal::LAST_REQUEST_FROM).await
    }

    /// Which version of its ManagedWorkload this is.
    pub async fn version(&self) -> Result<String> {
        let found = self
            .place()
            .api::<ManagedWorkload>()
            .get(&self.name)
            .await?;
        found.metadata.resource_version.context("a version")
    }

    /// The wakes that the API server took since `version` and until the ManagedWorkload
    /// was deleted: of each what both annotations said.
    pub async fn wakes_until_it_went(&self, version: &str) -> Result<Vec<[Option<String>; 2]>> {
        let api = self.place().api::<ManagedWorkload>();
        let own = WatchParams::default().disable_bookmarks();
        let own = own.fields(&format!("metadata.name={}", self.name));
        let mut changes = api.watch(&own, version).await?.boxed();
        let mut wakes = vec![[None, None]];
        loop {
            let change = timeout(SOON, changes.try_next()).await;
            match change.with_context(|| format!("wait for the end of {}", self.name))?? {
                Some(WatchEvent::Modified(object)) => {
                    let kept = object.annotations();
                    let said = [signal::LAST_REQUEST, signal::LAST_REQUEST_FROM];
                    let said = said.map(|name| kept.get(name).cloned());
                    if wakes.last() != Some(&said) {
                        wakes.push(said);
                    }
                }
                Some(WatchEvent::Deleted(_)) => return Ok(wakes.split_off(1)),
                other => bail!("{other:?} of {}", self.name),
            }
        }
    }

    /// A Pod at `address` and a slice that names it, both saying the same.
    pub async fn backend(&self, pod: &str, address: IpAddr, standing: Standing) -> Result<()> {
        self.pod(pod, &[address], standing).await?;
        self.slice(pod, address, standing).await
    }

    /// A Pod, or another status of it. One that is `Terminating` is being
    /// deleted and stays so, since no kubelet ends it.
    pub async fn pod(&self, name: &str, addresses: &[IpAddr], standing: Standing) -> Result<()> {
        let pods = self.place().api::<Pod>();
        if pods.get_opt(name).await?.is_none() {
            self.place().create::<Pod>(self.new_pod(name)).await?;
        }
        let ready = if standing == Standing::NotReady {
            "False"
        } else {
            "True"
        };
        let status =
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        self.write_pod_status(name, status).await?;
        if !addresses.is_empty() {
            let addresses: Vec<_> = addresses.iter().map(|address| json!(address)).collect();
            self.give_addresses(name, &addresses).await?;
        }
        if standing == Standing::Terminating {
            pods.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// Gives a Pod these addresses, written as they are.
    pub async fn give_addresses(&self, pod: &str, addresses: &[Value]) -> Result<()> {
        let ips: Vec<_> = addresses
            .iter()
            .map(|address| json!({"ip": address}))
            .collect();
        let status = json!({"podIP": addresses.first(), "podIPs": ips});
        self.write_pod_status(pod, status).await
    }

    async fn write_pod_status(&self, name: &str, status: Value) -> Result<()> {
        let (pods, params) = (self.place().api::<Pod>(), PatchParams::default());
        let patch = Patch::Merge(json!({"status": status}));
        let written = pods.patch_status(name, &params, &patch).await;
        written.with_context(|| format!("write the status of Pod {name}"))?;
        Ok(())
    }

    fn new_pod(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": self.place().namespace, "labels": {"app": self.name}},
            "spec": {
                "nodeName": "nowhere",
                "containers": [{"name": "app", "image": "none"}],
            },
        })
    }

    /// The slice that names this Pod at this address.
    pub async fn slice(&self, pod: &str, address: IpAddr, standing: Standing) -> Result<()> {
        let endpoint = self.endpoint(pod, address, standing);
        self.write_slice(pod, self.slice_of(address.is_ipv4(), PORT, &[endpoint]))
            .await
    }

    /// An endpoint, as the EndpointSlice controller writes it.
    pub fn endpoint(&self, pod: &str, address: IpAddr, standing: Standing) -> Value {
        json!({
            "addresses": [address], "conditions": standing.conditions(), "nodeName": "nowhere",
            "targetRef": {"kind": "Pod", "name": pod, "namespace": self.place().namespace},
        })
    }

    /// A slice with these endpoints, as the EndpointSlice controller writes it.
    pub fn slice_of(&self, v4: bool, port: u16, endpoints: &[Value]) -> Value {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"labels": {
                names::SERVICE_NAME: self.service,
                names::MANAGED_BY: names::MANAGED_BY_CONTROLLER,
            }},
            "addressType": if v4 { "IPv4" } else { "IPv6" },
            "ports": [{"name": self.port_name, "port": port, "protocol": "TCP"}],
            "endpoints": endpoints,
        })
    }

    /// Writes a slice of the Service, by a part of its name.
    pub async fn write_slice(&self, part: &str, mut slice: Value) -> Result<()> {
        let name = format!("{}-{part}", self.service);
        slice["metadata"]["name"] = json!(name);
        let api = self.place().api::<EndpointSlice>();
        let params = PatchParams::apply("endpointslice-controller").force();
        let written = api.patch(&name, &params, &Patch::Apply(&slice)).await;
        written.with_context(|| format!("write EndpointSlice {slice}"))?;
        Ok(())
    }

    /// Removes a slice of the Service, by a part of its name.
    pub async fn drop_slice(&self, part: &str) -> Result<()> {
        let api = self.place().api::<EndpointSlice>();
        api.delete(
            &format!("{}-{part}", self.service),
            &DeleteParams::default(),
        )
        .await?;
        Ok(())
    }

    /// Deletes the ManagedWorkload.
    pub async fn drop_workload(&self) -> Result<()> {
        let api = self.place().api::<ManagedWorkload>();
        api.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}
