//! What an operator does while it leads.
//!
//! Begins each term by reading every ManagedWorkload anew: what an earlier
//! leader wrote last may not have come through the watch yet, and a port that it
//! gave away must not be given away again (DRAIN-23).

use std::{convert::Infallible, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{Resource, api::ListParams, core::Request};
use napwake_api::ManagedWorkload;
use napwake_cluster::plain;
use napwake_decide::{Ports, ports::Caps};
use serde::{Deserialize, de::IgnoredAny};
use tokio::{sync::watch, time::sleep};

use crate::{
    apply::Applier, backoff::Waits, leader::Term, observe::convert, optin::OptIns, orphans,
    reconcile::Reconciler,
};

/// Objects in one page of the list.
const PAGE: u32 = 250;

/// How soon a list that failed is tried again: nothing is done until then.
const RETRIES: Waits = Waits {
    first: Duration::from_secs(1),
    last: Duration::from_secs(5),
};

/// The work of a leader.
pub(crate) struct Work {
    reconciler: Reconciler,
    opt_ins: Option<OptIns>,
    caps: Caps,
    led: watch::Sender<Option<Term>>,
}

impl Work {
    pub(crate) fn new(reconciler: Reconciler, opt_ins: Option<OptIns>, caps: Caps) -> Self {
        Self {
            reconciler,
            opt_ins,
            caps,
            led: watch::Sender::default(),
        }
    }

    /// Works until it's dropped.
    pub(crate) async fn run(self: Arc<Self>, term: Term) -> Infallible {
        let _leading = Leading::new(self.applier());
        self.catch_up().await;
        self.led.send_replace(Some(term.clone()));
        let opt_ins = async {
            match &self.opt_ins {
                Some(opt_ins) => opt_ins.run(term.clone()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            never = self.reconciler.run(term.clone()) => never,
            never = opt_ins => never,
            never = orphans::collect(self.applier(), &term) => never,
        }
    }

    /// Waits until this process has led once, and says for how long it leads.
    pub(crate) async fn has_led(&self) -> Term {
        let mut led = self.led.subscribe();
        loop {
            if let Some(term) = led.borrow_and_update().clone() {
                return term;
            }
            // It can't fail: the sender is ours.
            led.changed().await.ok();
        }
    }

    pub(crate) fn applier(&self) -> &Applier {
        &self.reconciler.applier
    }

    /// Reads every ManagedWorkload, and makes the ledger of ports of them.
    async fn catch_up(&self) {
        let mut failures = 0;
        let workloads = loop {
            match self.list().await {
                Ok(workloads) => break workloads,
                Err(error) => tracing::warn!(error = plain(&error), "can't list ManagedWorkloads"),
            }
            failures += 1;
            sleep(RETRIES.after(failures)).await;
        };
        let shared = &self.applier().shared;
        for workload in workloads {
            let observed = Arc::new(convert::workload(workload));
            shared.change(|index, now| index.wrote_workload(observed, now));
        }
        shared.with(|index, now| index.begin_term(Ports::new(self.caps), now));
    }

    /// From the API server's storage rather than its caches, page by page.
    async fn list(&self) -> kube::Result<Vec<ManagedWorkload>> {
        let mut params = ListParams::default().limit(PAGE);
        let mut all = Vec::new();
        loop {
            let path = ManagedWorkload::url_path(&(), None);
            let request = Request::new(path)
                .list(&params)
                .map_err(kube::Error::BuildRequest)?;
            let page: Page = self.applier().client.request(request).await?;
            all.extend(page.items.into_iter().filter_map(Item::readable));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}

/// A page of ManagedWorkloads.
#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    items: Vec<Item>,
}

/// One that can't be read doesn't fail its page; the watch complains of it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    Readable(Box<ManagedWorkload>),
    Unreadable(IgnoredAny),
}

impl Item {
    fn readable(self) -> Option<ManagedWorkload> {
        match self {
            Self::Readable(workload) => Some(*workload),
            Self::Unreadable(_) => None,
        }
    }
}

/// Says for as long as it lives that this process leads.
struct Leading<'a>(&'a Applier);

impl<'a> Leading<'a> {
    fn new(applier: &'a Applier) -> Self {
        applier.metrics.leads.set(1);
        applier.shared.open_queues();
        Self(applier)
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.metrics.leads.set(0);
        self.0.shared.shut_queues();
    }
}
