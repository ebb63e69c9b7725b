//! A cluster of a test's own: a namespace at the API server that all tests
//! share, and in it the real operator and real doormen.
//!
//! They run as processes whose ways to the API server show the test's namespace
//! alone, so each test has operators and doormen of its own, may stop them, and
//! sees every request that its operator makes. They have an administrator's
//! rights.
//!
//! There are no nodes. Of Kubernetes' controllers only those run that remove
//! what belongs to something deleted. What a kubelet, the controllers of
//! Deployments and StatefulSets and the EndpointSlice controller would write,
//! the test writes: [`target`], [`pods`]. The doormen's Pods are objects with
//! the addresses on which doorman processes listen: [`doormen`].

pub(crate) mod course;
pub(crate) mod doormen;
pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod pods;
pub(crate) mod refusal;
pub(crate) mod slices;
pub(crate) mod target;

use k8s_openapi::api::core::v1::Service;
use napwake_testkit::{Result, apps::App, managed, place::Place};
use napwake_tests_process::{doorman::Doorman, operator::Operator, world, world::World};
use serde_json::{Value, json};

pub(crate) use target::Target;

/// Where a test's pods listen: the number of a Service's port, and of theirs.
pub(crate) const HTTP: (&str, u16, u16) = ("", 80, 8080);

/// A cluster with a doorman and an operator.
#[derive(Debug)]
pub(crate) struct Stage<'w> {
    pub(crate) world: &'w World,
    pub(crate) doorman: Doorman,
    pub(crate) operator: Operator,
}

/// Runs `test` in a cluster with neither operator nor doorman.
pub(crate) async fn bare<F>(label: &str, test: F)
where
    F: AsyncFnOnce(&World) -> Result<()>,
{
    world::with(label, async |world| {
        world.api.narrow(&world.place.namespace);
        test(world).await
    })
    .await;
}

/// Runs `test` in a cluster with an operator and one doorman.
pub(crate) async fn with<F>(label: &str, test: F)
where
    F: AsyncFnOnce(&mut Stage<'_>) -> Result<()>,
{
    with_flags(label, &[], test).await;
}

/// The same, the operator with these flags.
pub(crate) async fn with_flags<F>(label: &str, flags: &[&str], test: F)
where
    F: AsyncFnOnce(&mut Stage<'_>) -> Result<()>,
{
    bare(label, async |world| {
        let mut stage = Stage::begin(world, flags).await?;
        test(&mut stage).await
    })
    .await;
}

impl<'w> Stage<'w> {
    /// Starts a doorman, and an operator with these flags.
    pub(crate) async fn begin(world: &'w World, flags: &[&str]) -> Result<Self> {
        Ok(Self {
            world,
            doorman: doormen::start(world).await?,
            operator: Operator::start(world, flags).await?,
        })
    }

    pub(crate) fn place(&self) -> &Place {
        &self.world.place
    }

    /// A workload with Ready pods, not managed yet.
    pub(crate) async fn workload(&self, app: &App) -> Result<Target> {
        Target::make(self.place(), app.kind, app.manifest()).await
    }

    /// A workload with Ready pods, a Service of its name on port 80, and a
    /// ManagedWorkload; Running.
    pub(crate) async fn managed(&self, app: &App) -> Result<Target> {
        self.serve(&app.name, &app.name, &[HTTP], &["IPv4"]).await?;
        self.managed_alone(app, json!({})).await
    }

    /// A workload with Ready pods and a ManagedWorkload with `spec`, and no
    /// Service; Running.
    pub(crate) async fn managed_alone(&self, app: &App, spec: Value) -> Result<Target> {
        let target = self.workload(app).await?;
        managed::manage(self.place(), target.kind_name(), &app.name, spec).await?;
        course::awake(self.place(), &app.name).await?;
        Ok(target)
    }

    /// A Service before the pods labeled `app: <app>`.
    pub(crate) async fn serve(
        &self,
        name: &str,
        app: &str,
        ports: &[(&str, u16, u16)],
        families: &[&str],
    ) -> Result<Service> {
        let manifest = napwake_testkit::apps::service(name, app, ports, families);
        self.place().create(manifest).await
    }
}
