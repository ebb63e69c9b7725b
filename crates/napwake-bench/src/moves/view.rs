//! The watches that fill the book, and waiting for what it says.

use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use kube::{Client, ResourceExt as _};
use napwake_api::ManagedWorkload;
use napwake_api::names::pod::{CONTROL_PLANE, DOORMAN};
use napwake_api::names::slice::{MANAGED_BY, MANAGED_BY_NAPWAKE, SERVICE_NAME};
use tokio::sync::watch;
use tokio::time::timeout;

use super::Doorman;
use super::book::{Book, Key};
use crate::clock::{Clock, Millis, Moment};
use crate::memory::NAMESPACE;
use crate::watching::{Change, Pod, Slice, follow};

/// How long anything may take on a busy machine of two cores.
const PATIENCE: Duration = Duration::from_mins(4);

/// Clones see the same.
#[derive(Clone)]
pub(crate) struct View {
    clock: Clock,
    book: watch::Sender<Book>,
}

impl View {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            book: watch::Sender::new(Book::default()),
        }
    }

    /// Looks until one of the watches fails, which is the end of all measuring.
    pub(crate) async fn look(&self, client: &Client) -> Result<()> {
        let never: Infallible = tokio::try_join!(
            self.slices(client.clone()),
            self.workloads(client.clone()),
            self.doormen(client.clone()),
        )?
        .0;
        match never {}
    }

    async fn slices(&self, client: Client) -> Result<Infallible> {
        let tell = |change: Change<Slice>| {
            let now = self.clock.now();
            let labels = &change.object().metadata.labels;
            let service = labels.get(SERVICE_NAME).cloned().unwrap_or_default();
            self.note(|book| book.slice(&change, &service, now));
        };
        let path = "/apis/discovery.k8s.io/v1/endpointslices".to_owned();
        let ours = format!("{MANAGED_BY}={MANAGED_BY_NAPWAKE}");
        follow(client, path, &ours, tell).await
    }

    async fn workloads(&self, client: Client) -> Result<Infallible> {
        let tell = |change: Change<ManagedWorkload>| {
            let workload = change.object();
            let namespace = workload.namespace().unwrap_or_default();
            let Some(status) = &workload.status else {
                return;
            };
            if status.phase.is_none() {
                return;
            }
            let pause = status.pause.as_ref().map(|pause| pause.started_at.0);
            let key = Key::new(&namespace, &workload.name_any());
            self.note(|book| book.workload(key, pause));
        };
        let path = "/apis/napwake.dev/v1alpha1/managedworkloads".to_owned();
        follow(client, path, "", tell).await
    }

    async fn doormen(&self, client: Client) -> Result<Infallible> {
        let tell = |change: Change<Pod>| {
            let now = self.clock.now();
            self.note(|book| book.doorman(&change, now));
        };
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let doormen = format!("{CONTROL_PLANE}={DOORMAN}");
        follow(client, path, &doormen, tell).await
    }

    fn note(&self, change: impl FnOnce(&mut Book)) {
        self.book.send_modify(change);
    }

    /// What `look` finds in the book, as soon as it finds anything.
    async fn wait<T>(&self, what: &str, look: impl Fn(&Book) -> Option<T>) -> Result<T> {
        let mut book = self.book.subscribe();
        let waited = timeout(PATIENCE, book.wait_for(|book| look(book).is_some()));
        let found = match waited.await {
            Ok(seen) => look(&*seen.context("nobody looks any more")?),
            Err(_) => None,
        };
        found.ok_or_else(|| anyhow!("waited {PATIENCE:?} for {what}"))
    }

    /// Until these are managed.
    pub(crate) async fn wait_for_managed(&self, workloads: &[Key]) -> Result<()> {
        for workload in workloads {
            let what = format!("{workload:?} to be managed");
            let is_managed = |book: &Book| book.is_managed(workload).then_some(());
            self.wait(&what, is_managed).await?;
        }
        Ok(())
    }

    /// Until each of these has a slice; how long after the pause's decision that was.
    pub(crate) async fn wait_for_slices(&self, workloads: &[Key]) -> Result<Vec<Millis>> {
        let mut took = Vec::new();
        for workload in workloads {
            let what = format!("a slice of {workload:?}");
            let (decided, stands) = self.wait(&what, |book| book.pause(workload)).await?;
            took.push(stands.after(self.clock.moment(decided)));
        }
        Ok(took)
    }

    /// Until so many slices name each of so many doorman pods; returns when that was,
    /// and since when the youngest of them is Ready.
    async fn wait_for_names(&self, slices: usize, doormen: usize) -> Result<(Moment, Moment)> {
        let what = format!("{slices} slices to name {doormen} doorman pods");
        let look = |book: &Book| {
            let pods = book.doormen();
            let youngest = pods.first()?.1;
            let named: Option<Vec<_>> = pods.iter().map(|((_, at), _)| book.named(*at)).collect();
            let named = named.filter(|named| named.len() == doormen)?;
            let all = named.iter().all(|(count, _)| *count == slices);
            let last = named.iter().map(|(_, changed)| *changed).max()?;
            all.then_some((last, youngest))
        };
        self.wait(&what, look).await
    }

    pub(crate) async fn wait_for_all(&self, slices: usize, doormen: usize) -> Result<()> {
        self.wait_for_names(slices, doormen).await.map(drop)
    }

    /// How long after the youngest doorman pod's Ready all slices named it.
    pub(crate) async fn wait_for_joined(&self, slices: usize, doormen: usize) -> Result<Millis> {
        let (last, ready) = self.wait_for_names(slices, doormen).await?;
        Ok(last.after(ready))
    }

    /// One of so many doorman pods that are Ready.
    pub(crate) async fn a_doorman(&self, doormen: usize) -> Result<Doorman> {
        let look = |book: &Book| {
            let mut pods = book.doormen();
            let all = pods.len() == doormen;
            pods.pop().filter(|_| all).map(|(pod, _)| pod)
        };
        self.wait("all doorman pods to be Ready", look).await
    }

    /// How long after this pod's deletion no slice named it any more.
    pub(crate) async fn wait_for_leave(&self, pod: &str, address: IpAddr) -> Result<Millis> {
        let what = format!("the slices to leave {pod}");
        let (leaves, last) = self.wait(&what, |book| book.left(pod, address)).await?;
        Ok(last.after(leaves))
    }

    pub(crate) fn is_named(&self, address: IpAddr) -> bool {
        let named = self.book.borrow().named(address);
        named.is_some_and(|(slices, _)| slices > 0)
    }
}
