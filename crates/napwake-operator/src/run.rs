//! The life of an operator process: the wiring, and nothing else.

use std::{convert::Infallible, sync::Arc, time::Duration};

use kube::Client;
use napwake_cluster::{
    authorize::KubernetesAuthorizer,
    client::{connect, connect_apart},
    events::Events,
};
use napwake_decide::Ports;
use napwake_kit::{
    admin::Admin,
    metrics::{self, Metrics, Registry},
    run::{Context, Fault},
    supervise::Supervisor,
};

use crate::{
    apply::{Applier, SliceQueue},
    args::OperatorArgs,
    leader::{Candidate, lead},
    metrics::{OperatorMetrics, Snapshot},
    observe::{DoormanService, Index, Watches, start},
    optin::OptIns,
    probe::Prober,
    reconcile::Reconciler,
    shared::Shared,
    tell::{Telling, teller},
    wake_everybody::Errand,
    work::Work,
};

/// What the operator says its events come from.
const CONTROLLER: &str = "napwake.dev/operator";

/// How long stopping may take: a call about the Lease, the last events, and some.
const GRACE: Duration = Duration::from_secs(8);

/// Runs the operator until it's told to stop and has given its Lease back.
pub async fn run(args: OperatorArgs, context: Context) -> Result<(), Fault> {
    let admin = Admin::bind(&args.admin)?;
    let client = connect(context.program.version).await?;
    let mut registry = metrics::registry(context.program.version);
    let mut supervisor = Supervisor::new(context.token.clone());
    let shared = Arc::new(Shared::new(index(&args)));
    shared.shut_queues(); // Until it leads.
    let parts = Parts::new(&args, &context, &client, &shared, &mut registry);
    let synced = start(Watches {
        client: &client,
        shared: &shared,
        events: &parts.events,
        readiness: &context.readiness,
        supervisor: &mut supervisor,
        doorman: &doorman(&args),
    });
    let prober = Arc::clone(&parts.applier.prober);
    supervisor.draining("connect checks", prober.stopped());
    let (work, telling) = parts.work(&args);
    supervisor.draining("events", telling.until(context.token.clone()));
    let work = Arc::new(work);
    if args.wake_everybody {
        let errand = Errand::new(&args, Arc::clone(&work));
        supervisor.draining("wake everybody", errand.run(context.token.clone()));
    }
    // So that the Lease doesn't wait behind the work that it's for.
    let for_leading = connect_apart(context.program.version).await?;
    let candidate = candidate(&args, &context, for_leading);
    let token = context.token.clone();
    supervisor.draining("operator", async move {
        tokio::select! {
            () = synced => {}
            () = token.cancelled() => return Ok::<(), Infallible>(()),
        }
        lead(candidate, token, |term| Arc::clone(&work).run(term)).await
    });
    serve(admin, &context, &client, registry, &mut supervisor);
    Ok(supervisor.run(GRACE).await?)
}

/// What the operator's work is made of.
struct Parts {
    applier: Applier,
    telling: Telling,
    events: Arc<Events>,
    shared: Arc<Shared>,
}

impl Parts {
    fn new(
        args: &OperatorArgs,
        context: &Context,
        client: &Client,
        shared: &Arc<Shared>,
        registry: &mut Registry,
    ) -> Self {
        let (client, clock) = (client.clone(), context.clock.clone());
        let shared = Arc::clone(shared);
        let metrics = OperatorMetrics::register(registry);
        registry.register_collector(Box::new(Snapshot {
            shared: Arc::clone(&shared),
            metrics: metrics.clone(),
        }));
        let instance = args.pod_name.clone();
        let events = Arc::new(Events::new(&client, clock.clone(), CONTROLLER, instance));
        let (teller, telling) = teller(Arc::clone(&events));
        let stop = context.token.clone();
        let prober = Prober::new(Arc::clone(&shared), clock.clone(), stop);
        let applier = Applier {
            slices: SliceQueue::new(metrics.slices_waiting.clone()),
            prober: Arc::new(prober),
            shared: Arc::clone(&shared),
            teller,
            client,
            clock,
            metrics,
        };
        Self {
            applier,
            telling,
            events,
            shared,
        }
    }

    fn work(self, args: &OperatorArgs) -> (Work, Telling) {
        let opt_ins = OptIns::new(self.applier.client.clone(), self.shared, self.events);
        // Whoever wakes everybody takes no one in.
        let opt_ins = (!args.wake_everybody).then_some(opt_ins);
        let work = Work::new(Reconciler::new(self.applier), opt_ins, args.caps());
        (work, self.telling)
    }
}

fn index(args: &OperatorArgs) -> Index {
    let index = Index::new(doorman(args), args.defaults(), Ports::new(args.caps()))
        .naming_pods(args.target_refs());
    if args.wake_everybody {
        index.before_the_end()
    } else {
        index
    }
}

fn doorman(args: &OperatorArgs) -> DoormanService {
    if args.doorman_service.is_empty() {
        return DoormanService::Disabled; // SET-20
    }
    DoormanService::Named {
        namespace: args.namespace.clone(),
        name: args.doorman_service.clone(),
    }
}

fn candidate(args: &OperatorArgs, context: &Context, client: Client) -> Candidate {
    let clock = context.clock.clone();
    if args.leader_elect {
        Candidate::new(client, &args.namespace, args.identity(), clock)
    } else {
        Candidate::alone(clock)
    }
}

fn serve(
    admin: Admin,
    context: &Context,
    client: &Client,
    registry: Registry,
    supervisor: &mut Supervisor,
) {
    let authorizer = Arc::new(KubernetesAuthorizer::new(client));
    let metrics = Metrics::new(registry);
    let (readiness, log) = (context.readiness.clone(), context.log.clone());
    supervisor.endless("health", admin.health.serve(readiness, log));
    supervisor.endless("metrics", admin.metrics.serve(metrics, authorizer));
}
