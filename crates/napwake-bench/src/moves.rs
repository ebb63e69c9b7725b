//! Many paused Services: how soon each is routed after its pause was decided, and
//! how soon all are moved off a doorman pod that stops.
//!
//! Owns the order of what is done. Judges nothing.

mod book;
mod floor;
mod report;
mod view;

use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, Client};

use self::book::Key;
use self::view::View;
use crate::clock::{Clock, Millis};
use crate::field::{self, Field, Kind};
use crate::memory::NAMESPACE;
use crate::{machine, print, say};

/// How many doorman pods there are.
const DOORMEN: usize = 2;

/// Fewer than a namespace may have routes.
const IN_A_NAMESPACE: usize = 200;

/// Pauses asked for together.
const AT_ONCE: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many paused Services are moved, each number in turn
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        default_value = "100,1000"
    )]
    services: Vec<usize>,
    /// How often so many are moved
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    moves: usize,
    /// Pauses that are asked for one by one; the others come a hundred at once
    #[arg(long, value_name = "NUMBER", default_value_t = 40)]
    alone: usize,
}

/// Pauses asked for so many at once.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    pub(crate) at_once: usize,
    /// For each, from the decision until its slices stood.
    pub(crate) took: Vec<Millis>,
    /// For as many at once, two writes by a client that decides nothing.
    pub(crate) bare: Vec<Millis>,
}

/// All slices leave one doorman pod, and take in the one that follows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    /// From its deletion until no slice named it any more.
    pub(crate) left: Millis,
    /// From the next one's Ready until every slice named it.
    pub(crate) joined: Millis,
    /// Right before, for as many slices, a write each by a client that decides nothing.
    pub(crate) bare: Millis,
}

/// Moves of so many Services.
#[derive(Debug)]
pub(crate) struct Moves {
    pub(crate) services: usize,
    pub(crate) moves: Vec<Move>,
}

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let client = Client::try_default().await.context("KUBECONFIG")?;
    let clock = Clock::start();
    let (machine, load) = (machine::describe(), machine::load());
    print(&format!(
        "Machine: {machine}; load average {load} at the start"
    ))?;
    let view = View::new(clock);
    let mut farm = Farm {
        client: client.clone(),
        clock,
        view: view.clone(),
        asleep: 0,
        alone: Pauses {
            at_once: 1,
            ..Pauses::default()
        },
        together: Pauses {
            at_once: AT_ONCE,
            ..Pauses::default()
        },
    };
    tokio::select! {
        done = farm.measure(arguments) => done,
        failed = view.look(&client) => failed,
    }
}

/// The paused Services, of which there are more and more.
struct Farm {
    client: Client,
    clock: Clock,
    view: View,
    asleep: usize,
    alone: Pauses,
    together: Pauses,
}

impl Farm {
    async fn measure(&mut self, arguments: &Arguments) -> Result<()> {
        let mut sizes = arguments.services.clone();
        sizes.sort_unstable();
        let mut done = Vec::new();
        for services in sizes {
            while self.asleep < services {
                let more = IN_A_NAMESPACE.min(services - self.asleep);
                self.put_to_sleep(more, arguments.alone).await?;
            }
            self.view.wait_for_all(self.asleep, DOORMEN).await?;
            let mut moves = Vec::new();
            for number in 1..=arguments.moves {
                say(&format!("moving {services} Services, {number}…"));
                moves.push(self.move_all().await?);
            }
            done.push(Moves { services, moves });
        }
        print(&format!("Load average {} at the end", machine::load()))?;
        print(&report::pauses(&[&self.alone, &self.together]).render())?;
        print(&report::moves(&done).render())
    }

    /// Makes so many apps and pauses them: the first of all one by one.
    async fn put_to_sleep(&mut self, count: usize, alone: usize) -> Result<()> {
        say(&format!("making and pausing {count} workloads…"));
        let names = field::names(count);
        let field = Field::make(self.client.clone(), &names, Kind::Nowhere).await?;
        field.make_spare(AT_ONCE.min(count)).await?;
        let single = alone.saturating_sub(self.asleep).min(count);
        let (single, rest) = names.split_at(single);
        for name in single {
            let (bare, took) = self.pause(&field, std::slice::from_ref(name)).await?;
            self.alone.bare.extend(bare);
            self.alone.took.extend(took);
        }
        for names in rest.chunks(AT_ONCE) {
            let (bare, took) = self.pause(&field, names).await?;
            self.together.bare.extend(bare);
            self.together.took.extend(took);
        }
        self.asleep += count;
        Ok(())
    }

    /// Pauses these at once, and says how long each waited for its slices; before that,
    /// how long as many bare writes took.
    async fn pause(&self, field: &Field, names: &[String]) -> Result<(Vec<Millis>, Vec<Millis>)> {
        let keys: Vec<_> = names
            .iter()
            .map(|name| Key::new(&field.namespace, name))
            .collect();
        self.view.wait_for_managed(&keys).await?;
        let apps: Vec<_> = names.iter().map(String::as_str).collect();
        let bare = field.write_barely(self.clock, &apps).await?;
        field.pause(self.clock, names).await?;
        Ok((bare, self.view.wait_for_slices(&keys).await?))
    }

    /// Ends a doorman pod, and says how soon all slices had left it, and named the next.
    async fn move_all(&self) -> Result<Move> {
        let bare = floor::write_slices(&self.client, self.clock).await?;
        let (name, address) = self.view.a_doorman(DOORMEN).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let deleted = pods.delete(&name, &DeleteParams::default()).await;
        deleted.with_context(|| format!("delete pod {name}"))?;
        let left = self.view.wait_for_leave(&name, address).await?;
        let joined = self.view.wait_for_joined(self.asleep, DOORMEN).await?;
        ensure!(
            !self.view.is_named(address),
            "{address} is named again by a slice"
        );
        Ok(Move { left, joined, bare })
    }
}

/// A doorman pod and its address.
type Doorman = (String, IpAddr);
