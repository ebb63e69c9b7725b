//! The run: make the apps, look at memory, do the rounds, print.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use tokio::time::{Instant, sleep};

use crate::audit::AuditLog;
use crate::clock::Clock;
use crate::cold::{Cold, share};
use crate::field::{self, Field};
use crate::memory::{self, Held};
use crate::report::{self, Part};
use crate::sights::{App, Sights};
use crate::way_in::Log;
use crate::{Apps, Arguments, Slices, machine, print, say};

/// As many apps as are woken at once at most: the others only stay there.
const WOKEN: usize = 25;

/// What a wake leaves behind settles within this: routes drain for 30 s, and
/// nothing else takes longer.
const SETTLES: Duration = Duration::from_secs(40);

/// The memory of Napwake's processes at some time.
type Memory<'a> = Vec<(&'a str, BTreeMap<String, Held>)>;

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let client = Client::try_default().await.context("KUBECONFIG")?;
    let clock = Clock::start();
    let names = field::names(arguments.workloads.max(WOKEN));
    let (machine, load) = (machine::describe(), machine::load());
    print(&format!(
        "Machine: {machine}; load average {load} at the start"
    ))?;
    let mut memory: Memory<'_> = Vec::new();
    if arguments.workloads > WOKEN {
        memory.push(("none managed", memory::of_napwake(&client).await?));
    }
    say(&format!("making {} workloads…", names.len()));
    let field = Field::make(client.clone(), &names, arguments.kind()).await?;
    field.make_spare(WOKEN).await?;
    let sights = Sights::of(clock, &names);
    let cold = Cold {
        clock,
        field,
        sights: sights.clone(),
    };
    let namespace = cold.field.namespace.clone();
    tokio::select! {
        done = measure(arguments, &cold, memory) => done,
        failed = sights.look(&client, &namespace) => failed,
    }
}

async fn measure(arguments: &Arguments, cold: &Cold, mut memory: Memory<'_>) -> Result<()> {
    let Cold { field, sights, .. } = cold;
    let names: Vec<_> = field
        .services
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    sights.wait_for_all(&names, "awake", App::is_awake).await?;
    let with_memory = !memory.is_empty();
    if with_memory {
        sleep(SETTLES).await;
        memory.push(("all running", memory::of_napwake(&field.client).await?));
    }
    say("pausing all…");
    cold.put_to_sleep(&field.services).await?;
    if with_memory {
        memory.push(("all paused", memory::of_napwake(&field.client).await?));
    }
    let log = AuditLog::from_now(&arguments.audit_log)?;
    let parts = rounds(arguments, cold).await?;
    if with_memory {
        memory.push(("after the rounds", memory::of_napwake(&field.client).await?));
    }
    print_report(arguments, cold, &parts, &memory, &log)
}

async fn rounds(arguments: &Arguments, cold: &Cold) -> Result<Vec<Part>> {
    let end = Instant::now() + Duration::from_secs(60 * arguments.minutes);
    let sizes = arguments.rounds();
    let mut parts = Vec::new();
    for (index, wanted) in sizes.iter().enumerate() {
        let at_once = wanted.at_once;
        say(&format!(
            "waking {at_once} at once, {} rounds…",
            wanted.rounds
        ));
        let left = end.saturating_duration_since(Instant::now());
        let until = Instant::now() + share(left, sizes.len() - index);
        let woken = &cold.field.services[..WOKEN.min(cold.field.services.len())];
        let rounds = cold.run(woken, *wanted, until).await?;
        parts.push(Part { at_once, rounds });
    }
    Ok(parts)
}

fn print_report(
    arguments: &Arguments,
    cold: &Cold,
    parts: &[Part],
    memory: &Memory<'_>,
    log: &AuditLog,
) -> Result<()> {
    let log = Log::of(cold.clock, &cold.field.namespace, log.read()?);
    let written = report::written(parts, &log);
    print(&format!("Load average {} at the end", machine::load()))?;
    print(&match arguments.slices {
        Slices::Prompt => "EndpointSlices follow their pods as they do\n".to_owned(),
        Slices::Late => "EndpointSlices are held back for up to 1.5 s\n".to_owned(),
    })?;
    print(match arguments.apps {
        Apps::AtOnce => "Apps are Ready as soon as they serve\n",
        Apps::Later => "Apps are Ready 4 s after their start\n",
    })?;
    print(&report::cold_start(parts).render())?;
    print(&report::slices(parts).render())?;
    print(&report::way_in(parts, &written).render())?;
    print(&report::steps(&written).render())?;
    print(&report::writes(parts, &written, &log).render())?;
    if !memory.is_empty() {
        print(&report::memory(memory).render())?;
    }
    if let Some(bytes) = arguments.image_bytes {
        print(&report::image(bytes))?;
    }
    print(&report::failures(parts))?;
    match &arguments.samples {
        Some(file) => save(file, parts, &log),
        None => Ok(()),
    }
}

/// Every wake's times, for whoever wants to look closer: a line each, in
/// microseconds since the run began.
fn save(file: &Path, parts: &[Part], log: &Log) -> Result<()> {
    let mut text = "at_once\tway\tapp\tsent\tstamp\tstamp_done\tscale\tscale_done\tasked_for\t\
                    ready\tnamed\tslice_ready\tanswered\n"
        .to_owned();
    for round in parts.iter().flat_map(|part| &part.rounds) {
        for wake in &round.wakes {
            let written = log
                .written(wake)
                .filter(|_| round.way == crate::cold::Way::Doorman);
            let (stamp, scale) =
                written.map_or((None, None), |one| (Some(one.stamp), Some(one.scale)));
            let times = [
                Some(wake.sent),
                stamp.map(|stamp| stamp.0),
                stamp.map(|stamp| stamp.1),
                scale.map(|scale| scale.0),
                scale.map(|scale| scale.1),
                Some(wake.asked_for),
                Some(wake.ready),
                Some(wake.named),
                Some(wake.slice_ready),
                Some(wake.answered),
            ];
            let times = times.map(|at| at.map_or_else(String::new, |at| at.micros().to_string()));
            writeln!(
                text,
                "{}\t{:?}\t{}\t{}",
                round.at_once,
                round.way,
                wake.app,
                times.join("\t")
            )?;
        }
    }
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
}
