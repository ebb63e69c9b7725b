//! The life of a doorman process: the wiring, and nothing else.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use kube::Client;
use napwake_cluster::authorize::KubernetesAuthorizer;
use napwake_cluster::client::connect;
use napwake_cluster::events::Events;
use napwake_gate::allowance::{Allowance, Rates};
use napwake_gate::budget::{Budget, Limits};
use napwake_gate::caller::Agents;
use napwake_gate::drain::POD_ENDS;
use napwake_gate::places::{Caps, Places};
use napwake_kit::admin::Admin;
use napwake_kit::clock::Clock;
use napwake_kit::metrics::{self, Registry};
use napwake_kit::run::{Context, Fault};
use napwake_kit::supervise::Supervisor;
use napwake_net::dial::{AddressRule, Dialer, Pace};
use napwake_net::relay::Pipes;
use tokio_util::task::TaskTracker;

use crate::args::DoormanArgs;
use crate::conversation::{Doorman, Sockets};
use crate::key::WakeKey;
use crate::listeners::Listeners;
use crate::metrics::{Gauges, Metrics};
use crate::pods::{Judge, Keepers};
use crate::report::Reporter;
use crate::routes::{Board, Feed, TableChanges};
use crate::steady::Steady;
use crate::stopping::{LAST_WRITES, NOTICE, Stopping};
use crate::tally::Tallies;
use crate::wake::{ApiStamper, Wakes, WakesParts, keep_warm};

/// What the doorman says its events come from.
const CONTROLLER: &str = "napwake.dev/doorman";

/// Pipes for splicing at most. At 256 KiB each, twice as many would be all that
/// an unprivileged user gets of that size.
const PIPES: usize = 128;

type Production = Doorman<Sockets, ApiStamper>;

/// Runs the doorman until it is told to stop and has drained.
pub async fn run(args: DoormanArgs, context: Context) -> Result<(), Fault> {
    let agents = args.agents().map_err(|error| Fault::Usage(error.into()))?;
    let admin = Admin::bind(&args.admin)?;
    let client = connect(context.program.version).await?;
    let for_stamps = connect(context.program.version).await?;
    let mut registry = metrics::registry(context.program.version);
    let mut tasks = Supervisor::new(context.token.clone());
    let stopping = Stopping::default();
    let Context {
        clock, readiness, ..
    } = &context;

    let steady = Steady::start();
    let parts = Parts {
        client: client.clone(),
        for_stamps: for_stamps.clone(),
        clock: clock.clone(),
        steady,
        looking: TaskTracker::new(),
        writing: TaskTracker::new(),
        metrics: Metrics::register(&mut registry),
        agents,
        key: wake_key(&args, &client, steady),
        tallies: Tallies::new(client.clone(), clock.clone(), getrandom::u32()?),
    };
    let read_once = readiness.handle("wake key");
    tasks.endless("wake key", parts.key.clone().follow(read_once));
    let telling = parts.tallies.clone().follow(stopping.ended.clone());
    tasks.draining("turned away", telling);
    let last_writes = stopping.clone().last_writes(parts.writing.clone());
    tasks.draining("wakes", last_writes);
    let rule = address_rule(&args);
    let board = Board::new(parts.keepers(&args), rule.clone());
    let metrics = parts.metrics.clone();
    let feed = Feed::start(
        &client,
        board,
        clock.clone(),
        metrics,
        readiness,
        &mut tasks,
    );
    let doorman = parts.doorman(&args, rule, &stopping);
    gauges(&doorman, &feed).register(&mut registry);

    let connections = doorman.tasks.clone();
    let welcome = move |route, caller| doorman.welcome(route, caller);
    let accepting = stopping.accepting.clone();
    let listeners = Listeners::new(&args.pod_ips, welcome, accepting, connections.clone());
    let opened = readiness.handle("listeners");
    tasks.endless("listeners", listeners.follow(feed.table, opened));
    tasks.endless("warmth", keep_warm(for_stamps));
    let ending = stopping.carry_out(context.token.clone(), connections);
    tasks.draining("connections", ending);
    serve(admin, &context, &client, registry, &mut tasks);
    Ok(tasks.run(POD_ENDS + LAST_WRITES + 2 * NOTICE).await?)
}

/// What the doorman is made of.
struct Parts {
    client: Client,
    /// With connections of its own, of which one is kept warm: watches of Pods
    /// take what connections there are, and close them when they end.
    for_stamps: Client,
    clock: Clock,
    steady: Steady,
    /// For the Pods that are looked at. It leaves nothing undone.
    looking: TaskTracker,
    /// For wakes and events, which are waited for at the end.
    writing: TaskTracker,
    metrics: Metrics,
    agents: Agents,
    key: WakeKey,
    tallies: Tallies,
}

impl Parts {
    fn keepers(&self, args: &DoormanArgs) -> Keepers {
        let judge = Judge::new(&args.namespace);
        Keepers::new(self.client.clone(), judge, self.looking.clone())
    }

    fn doorman(
        self,
        args: &DoormanArgs,
        rule: AddressRule,
        stopping: &Stopping,
    ) -> Arc<Production> {
        let events = Events::new(
            &self.client,
            self.clock.clone(),
            CONTROLLER,
            &*args.pod_name,
        );
        let reporter = Reporter::new(Arc::new(events), self.writing.clone());
        let wakes = Wakes::new(WakesParts {
            stamper: ApiStamper::new(self.for_stamps),
            allowance: Allowance::new(Rates::default()),
            clock: self.clock.clone(),
            steady: self.steady,
            reporter: reporter.clone(),
            tasks: self.writing,
        });
        let budget_limits = Limits::default();
        Arc::new(Doorman {
            places: Places::new(Caps::default()),
            budget: Budget::new(budget_limits),
            budget_limits,
            agents: Arc::new(self.agents),
            dialer: Dialer::new(rule, Pace::default()),
            pipes: Pipes::new(PIPES),
            wakes,
            reporter,
            metrics: self.metrics,
            key: self.key,
            tallies: self.tallies,
            steady: self.steady,
            clock: self.clock,
            cut: stopping.cut.clone(),
            tasks: TaskTracker::new(),
        })
    }
}

fn wake_key(args: &DoormanArgs, client: &Client, steady: Steady) -> WakeKey {
    let (namespace, name) = (&args.namespace, &args.wake_key_secret);
    WakeKey::new(client.clone(), namespace, name, steady)
}

/// Where the doorman may connect: pods, and never itself.
fn address_rule(args: &DoormanArgs) -> AddressRule {
    let own: HashSet<IpAddr> = args.pod_ips.iter().map(IpAddr::to_canonical).collect();
    AddressRule::pods(move |address| own.contains(&address))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floating point; these are small"
)]
fn gauges(doorman: &Arc<Production>, feed: &Feed) -> Gauges {
    let (held, passed, budget) = (
        doorman.places.clone(),
        doorman.places.clone(),
        doorman.budget.clone(),
    );
    let (table, lag) = (feed.table.clone(), feed.lag());
    Gauges {
        held: Box::new(move || held.held() as f64),
        passed: Box::new(move || passed.passed() as f64),
        held_bytes: Box::new(move || budget.held() as f64),
        routes: Box::new(move || open_ports(&table) as f64),
        cache_lag: Box::new(move || lag().as_secs_f64()),
    }
}

fn open_ports(table: &TableChanges) -> usize {
    table.borrow().as_ref().map_or(0, |table| table.len())
}

fn serve(
    admin: Admin,
    context: &Context,
    client: &Client,
    registry: Registry,
    tasks: &mut Supervisor,
) {
    let metrics = metrics::Metrics::new(registry);
    let authorizer = Arc::new(KubernetesAuthorizer::new(client));
    let (readiness, log) = (context.readiness.clone(), context.log.clone());
    tasks.endless("health", admin.health.serve(readiness, log));
    tasks.endless("metrics", admin.metrics.serve(metrics, authorizer));
}
