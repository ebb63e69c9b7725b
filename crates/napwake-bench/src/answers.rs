//! The doorman's own answers, beside nginx with the same bytes.
//!
//! Owns the order of the runs. One caller's requests go to one of the two at a time,
//! which is alone on its core.

mod load;
mod nginx;
mod report;
mod server;
mod threads;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{ListParams, Patch, PatchParams};
use napwake_api::ManagedWorkload;
use napwake_api::names::slice::{MANAGED_BY, MANAGED_BY_NAPWAKE, SERVICE_NAME};
use napwake_api::workload::Phase;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::load::{is_whole, status};
use self::nginx::Nginx;
use self::report::{Pair, Part, Run};
use self::server::{Cores, Pinned, Server, beside, ran};
use crate::clock::Clock;
use crate::field::{Field, Kind};
use crate::sights::{App, Sights};
use crate::{machine, memory, print, say};

pub(crate) use self::load::{Wish as Load, run as load};

/// What is asked for.
const TARGET: &str = "/basket";

/// The app that asks before it wakes.
const ASKS: &str = "asks";

/// The app that never comes up.
const WAKES: &str = "wakes";

/// Longer than any run.
const NEVER: Duration = Duration::from_hours(24);

/// How long a single answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// One run.
const RUN: Duration = Duration::from_secs(2);

/// Who asks at once, where as much is asked as can be: fewer than one source may be
/// held for one workload.
const AT_ONCE: u32 = 32;

/// Requests a second, where latency is measured.
const RATE: u32 = 1000;

/// Who asks then: so many that an answer may take 64 ms before somebody is late.
const IN_TURN: u32 = 64;

/// Rounds of either.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A folder for what nginx reads
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// Rounds in which as much is asked as can be
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,
    /// Rounds at 1,000 requests a second
    #[arg(long, value_name = "NUMBER", default_value_t = 15)]
    paced_rounds: usize,
}

/// One answer, and who gets it.
struct Kept {
    name: &'static str,
    app: &'static str,
    status: u16,
    headers: &'static str,
}

const BROWSER: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 \
                       Firefox/140.0\r\nAccept: text/html,application/xhtml+xml,\
                       application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n\
                       Accept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\n\
                       Upgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\n\
                       Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n\
                       Sec-Fetch-User: ?1\r\n";

const ANSWERS: [Kept; 4] = [
    Kept {
        name: "waking-up page",
        app: WAKES,
        status: 503,
        headers: BROWSER,
    },
    Kept {
        name: "asleep page",
        app: ASKS,
        status: 200,
        headers: BROWSER,
    },
    Kept {
        name: "503 to a program",
        app: ASKS,
        status: 503,
        headers: "User-Agent: curl/8.14.1\r\nAccept: */*\r\n",
    },
    Kept {
        name: "503 to a check",
        app: ASKS,
        status: 503,
        headers: "User-Agent: kube-probe/1.33\r\nAccept: */*\r\nConnection: close\r\n",
    },
];

impl Kept {
    fn request(&self) -> String {
        let Self { app, headers, .. } = self;
        format!("GET {TARGET} HTTP/1.1\r\nHost: {app}.example.com\r\n{headers}\r\n")
    }
}

/// Makes the apps, measures and prints.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let client = Client::try_default().await.context("KUBECONFIG")?;
    let clock = Clock::start();
    let (machine, load) = (machine::describe(), machine::load());
    print(&format!(
        "Machine: {machine}; load average {load} at the start"
    ))?;
    say("giving the doorman one thread…");
    threads::one(&client).await?;
    say("making what is answered for…");
    let names = [ASKS, WAKES].map(str::to_owned);
    let field = Field::make(client.clone(), &names, Kind::After(NEVER)).await?;
    let sights = Sights::of(clock, &names);
    let prepared = async {
        prepare(clock, &field, &sights).await?;
        measure(arguments, &field).await
    };
    let parts = tokio::select! {
        parts = prepared => parts?,
        failed = sights.look(&client, &field.namespace) => return failed,
    };
    print(&format!("Load average {} at the end\n", machine::load()))?;
    print(&report::rates(&parts).render())?;
    print(&report::latencies(&parts).render())?;
    print(&report::failures(&parts))
}

/// One is asleep and asks, one is waking up and will not be Ready.
async fn prepare(clock: Clock, field: &Field, sights: &Sights) -> Result<()> {
    let asks = Patch::Merge(json!({"spec": {"wake": {"mode": "Ask"}}}));
    let workloads = field.api::<ManagedWorkload>();
    workloads
        .patch(ASKS, &PatchParams::default(), &asks)
        .await
        .context("let it ask")?;
    let names = [ASKS, WAKES].map(str::to_owned);
    field.pause(clock, &names).await?;
    sights
        .wait_for_all(&names, "asleep", App::is_asleep)
        .await?;
    field.wake(clock, &[WAKES.to_owned()]).await?;
    let is_waking = |app: &App| app.phase == Some(Phase::Resuming) && app.named.is_some();
    sights.wait(WAKES, "waking", is_waking).await?;
    Ok(())
}

async fn measure(arguments: &Arguments, field: &Field) -> Result<Vec<Part>> {
    let cores = Cores::of_here()?;
    std::fs::create_dir_all(&arguments.folder)?;
    let (pod, process) = memory::doorman(&field.client).await?;
    let address = pod.status.and_then(|status| status.pod_ip);
    let address = address.context("the doorman has no address")?.parse()?;
    let (mut doormen, mut answers) = (Vec::new(), Vec::new());
    for kept in &ANSWERS {
        let port = port(field, kept.app).await?;
        let address = SocketAddr::new(address, port);
        doormen.push(Server { process, address });
        answers.push(fetched(kept, address).await?);
    }
    let _pinned = Pinned::to(cores.server, process)?;
    let (_nginx, theirs) = Nginx::start(&answers, doormen[0], cores, &arguments.folder).await?;
    let mut parts = Vec::new();
    for (kept, (ours, theirs)) in ANSWERS.iter().zip(doormen.into_iter().zip(theirs)) {
        say(&format!("measuring the {}…", kept.name));
        let file = arguments.folder.join("request");
        std::fs::write(&file, kept.request())?;
        let bench = Bench {
            cores,
            file: &file,
            ours: (ours, kept.status),
            theirs: (theirs, nginx::STATUS),
        };
        parts.push(bench.part(arguments, kept).await?);
    }
    Ok(parts)
}

/// The port on which doormen listen for an app's Service.
async fn port(field: &Field, app: &str) -> Result<u16> {
    let labels = format!("{SERVICE_NAME}={app},{MANAGED_BY}={MANAGED_BY_NAPWAKE}");
    let slices = field.api::<EndpointSlice>();
    let slices = slices.list(&ListParams::default().labels(&labels)).await?;
    let ports = slices.into_iter().filter_map(|slice| slice.ports);
    let port = ports.flatten().find_map(|port| port.port);
    let port = port.with_context(|| format!("no slice sends {app} to the doorman"))?;
    Ok(u16::try_from(port)?)
}

async fn fetched(kept: &Kept, address: SocketAddr) -> Result<Vec<u8>> {
    let answer = fetch(address, kept.request().as_bytes()).await?;
    let got = status(&answer);
    ensure!(
        got == Some(kept.status),
        "the {} has status {got:?}",
        kept.name
    );
    Ok(answer)
}

/// One answer, to its end.
async fn fetch(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let asked = timeout(PATIENCE, asking).await;
    let answer = asked.with_context(|| format!("no answer of {address}"))??;
    ensure!(is_whole(&answer), "the answer of {address} isn't whole");
    Ok(answer)
}

/// What one answer is measured with.
struct Bench<'a> {
    cores: Cores,
    file: &'a Path,
    /// The doorman, and the status it answers with.
    ours: (Server, u16),
    theirs: (Server, u16),
}

impl Bench<'_> {
    async fn part(&self, arguments: &Arguments, kept: &Kept) -> Result<Part> {
        let request = kept.request();
        let ours = fetch(self.ours.0.address, request.as_bytes()).await?;
        let theirs = fetch(self.theirs.0.address, request.as_bytes()).await?;
        // What is done for the first time isn't measured.
        self.pair(0, None).await?;
        Ok(Part {
            name: kept.name,
            bytes: (ours.len(), theirs.len()),
            rates: self.pairs(arguments.rounds, None).await?,
            paced: self.pairs(arguments.paced_rounds, Some(RATE)).await?,
        })
    }

    async fn pairs(&self, rounds: usize, rate: Option<u32>) -> Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        for round in 0..rounds {
            pairs.push(self.pair(round, rate).await?);
        }
        Ok(pairs)
    }

    /// A round: A B, and then B A, so that whatever grows or wears off meanwhile
    /// weighs the same on both.
    async fn pair(&self, round: usize, rate: Option<u32>) -> Result<Pair> {
        let (ours, theirs);
        if round.is_multiple_of(2) {
            ours = self.run(self.ours, rate).await?;
            theirs = self.run(self.theirs, rate).await?;
        } else {
            theirs = self.run(self.theirs, rate).await?;
            ours = self.run(self.ours, rate).await?;
        }
        Ok(Pair { ours, theirs })
    }

    /// Asks from the doorman's network, where no connection is tracked: closed ones
    /// would be kept for two minutes, and there is room for a few hundred thousand.
    async fn run(&self, (server, status): (Server, u16), rate: Option<u32>) -> Result<Run> {
        let program = std::env::current_exe()?;
        let mut load = beside(server.process, self.cores.load, program);
        load.arg("load");
        load.arg(format!("--address={}", server.address));
        load.arg("--request").arg(self.file);
        load.arg(format!("--status={status}"));
        load.arg(format!("--millis={}", RUN.as_millis()));
        match rate {
            Some(rate) => load.args([format!("--callers={IN_TURN}"), format!("--rate={rate}")]),
            None => load.arg(format!("--callers={AT_ONCE}")),
        };
        let before = ran(server.process)?;
        let ended = tokio::task::spawn_blocking(move || load.output()).await??;
        let ran = ran(server.process)?.saturating_sub(before);
        if !ended.status.success() {
            bail!("load failed: {}", String::from_utf8_lossy(&ended.stderr));
        }
        let outcome = serde_json::from_slice(&ended.stdout).context("read what load says")?;
        Ok(Run { outcome, ran })
    }
}
