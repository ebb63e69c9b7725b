//! What can't be brought on: tried later and later, and told.

use k8s_openapi::api::events::v1::Event as Said;
use napwake_api::workload::TargetKind;
use napwake_kit::clock::ManualClock;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    apply::Applier,
    fixtures::{
        NOW, Server, api, applier_telling, deployment, deployment_json, namespace, workload,
        workload_json,
    },
    observe::{DoormanService, Index},
};

const EVENTS: &str = "POST /apis/events.k8s.io/v1/namespaces/ns/events";
const SCALE: &str = "PATCH /apis/apps/v1/namespaces/ns/deployments/a/scale";
const STATUS: &str = "PUT /apis/napwake.dev/v1alpha1/namespaces/ns/managedworkloads/a/status";
const TARGET: &str = "PATCH /apis/apps/v1/namespaces/ns/deployments/a";

/// How long is looked on.
const LONG: Duration = Duration::from_mins(10);

/// `a`, of 3 replicas, as its pause leaves it before the scale-down, or behind it.
fn target(replicas: u32) -> Value {
    let ready = json!({"replicas": replicas, "readyReplicas": replicas});
    json!({
        "metadata": {"annotations": {signal::PAUSED_REPLICAS: "3"}},
        "spec": {"replicas": replicas},
        "status": ready,
    })
}

/// `a` in a pause of so many replicas.
fn in_a_pause(phase: &str, replicas: u32, saved: u32) -> Value {
    let hash = deployment("a", 1, json!({})).target.template.hash.clone();
    let at = "2026-11-30T11:00:00.000000Z";
    let mut pause = json!({"startedAt": at, "reason": "Idle", "replicas": saved});
    if phase == "Paused" {
        pause["scaledAt"] = json!(at);
        pause["pausedAt"] = json!(at);
    }
    json!({
        "metadata": {"finalizers": ["napwake.dev/wake-first"]},
        "status": {
            "phase": phase,
            "clock": {"lastActivity": at, "lastActivitySource": "started"},
            "pause": pause,
            "target": {
                "uid": "deployment-a", "template": hash, "replicas": replicas, "generation": 1,
            },
        },
    })
}

/// The cluster as it is told to the reconciler, and what it has said of it.
struct Stage {
    server: Server,
    shared: Arc<Shared>,
    clock: ManualClock,
    object: Value,
    version: u32,
    begun: Instant,
    said: Vec<String>,
}

impl Stage {
    /// The next call but for events, which are noted: its line and its body.
    async fn next(&mut self) -> (String, Value) {
        loop {
            let before = Instant::now();
            let call = self.server.take().await;
            let passed = u32::try_from(before.elapsed().as_millis()).unwrap();
            self.clock.advance_millis(passed + 1);
            if call.line != EVENTS {
                return (call.line, call.body);
            }
            let said: Said = serde_json::from_value(call.body).unwrap();
            self.said
                .push(format!("{}: {}", said.reason.unwrap(), said.note.unwrap()));
            self.server.reply(201, &json!({}));
        }
    }

    /// Takes a status, and the watch shows it.
    fn take_status(&mut self, body: &Value) {
        self.version += 1;
        self.object["status"] = body["status"].clone();
        let written = workload_json("a", self.version, self.object.clone());
        self.server.reply(200, &written);
        let seen = workload("a", self.version, self.object.clone());
        self.shared
            .change(|index, now| index.apply_workload(seen, now));
    }

    fn goes_on(&self) -> bool {
        self.begun.elapsed() < LONG
    }
}

/// Runs the reconciler over `a` while `script` plays the API server.
async fn stage<F>(deployed: Value, object: Value, script: impl FnOnce(Stage) -> F)
where
    F: Future<Output = ()>,
{
    let (client, server) = api();
    let now = Instant::now();
    let mut index = Index::new(
        DoormanService::Disabled,
        napwake_api::settings::Defaults::default(),
        napwake_decide::Ports::default(),
    );
    index.apply_namespace(namespace(1, json!({})), now);
    index.apply_target(deployment("a", 5, deployed), now);
    index.apply_workload(workload("a", 5, object.clone()), now);
    let (clock, hand) = Clock::manual(NOW.parse().unwrap());
    let (applier, telling) = applier_telling(&client, index);
    let reconciler = Reconciler::new(Applier { clock, ..applier });
    drop(client);
    let stage = Stage {
        server: server.patient(Duration::from_mins(2)),
        shared: Arc::clone(&reconciler.shared),
        clock: hand,
        object,
        version: 5,
        begun: now,
        said: Vec::new(),
    };
    let telling = telling.until(CancellationToken::new());
    let running = reconciler.run(Term::endless());
    tokio::select! {
        never = running => match never {},
        _ = telling => panic!("nothing is told any more"),
        () = script(stage) => {}
    }
}

/// A scale-down that is refused, as by a policy, is tried later and later, though a
/// status is written before each try; and somebody hears of it, once.
#[tokio::test(start_paused = true)]
async fn a_refused_scale_down_is_tried_later_and_later() {
    stage(target(3), in_a_pause("Pausing", 3, 3), async |mut stage| {
        let mut tries = Vec::new();
        while stage.goes_on() {
            match stage.next().await {
                (line, body) if line == STATUS => stage.take_status(&body),
                (line, _) if line == SCALE => {
                    tries.push(stage.begun.elapsed().as_secs());
                    stage.server.decline(403, "Forbidden");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!((10..25).contains(&tries.len()), "{tries:?}");
        let [said] = stage.said.as_slice() else {
            panic!("{:?}", stage.said);
        };
        assert!(said.starts_with("HeldUp: "), "{said}");
        assert!(
            said.contains("scale") && said.contains("because of Forbidden"),
            "{said}"
        );
    })
    .await;
}

/// What admission undoes at once isn't written without end.
#[tokio::test(start_paused = true)]
async fn what_is_undone_is_written_later_and_later() {
    stage(target(0), in_a_pause("Paused", 0, 4), async |mut stage| {
        let mut tries = Vec::new();
        while stage.goes_on() {
            match stage.next().await {
                (line, body) if line == STATUS => stage.take_status(&body),
                (line, body) if line == TARGET => {
                    let wanted = &body["metadata"]["annotations"][signal::PAUSED_REPLICAS];
                    assert_eq!(*wanted, json!("4"));
                    tries.push(stage.begun.elapsed().as_secs());
                    stage.server.reply(200, &deployment_json("a", 5, target(0)));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!((10..40).contains(&tries.len()), "{tries:?}");
        let why = "HeldUp: Napwake can't go on with it, and keeps trying: its annotation \
                   napwake.dev/paused-replicas doesn't stay as it is written, over and over";
        assert_eq!(stage.said, [why]);
    })
    .await;
}

/// What can't be read for long, and keeps it from being paused, is told.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_told() {
    stage(target(3), in_a_pause("Pausing", 3, 3), async |mut stage| {
        stage.shared.change(|index, now| {
            let key = ("ns".to_owned(), "a".to_owned());
            index.spoil_target(TargetKind::Deployment, &key, "odd".to_owned(), now)
        });
        while stage.said.is_empty() {
            assert!(stage.goes_on(), "nothing is told");
            match timeout(Duration::from_secs(30), stage.next()).await {
                Err(_) => {}
                // Decided before it couldn't be read.
                Ok((line, _)) if line == STATUS => stage.server.decline(409, "Conflict"),
                Ok(other) => panic!("{other:?}"),
            }
        }
        let why = "HeldUp: Napwake can't go on with it, and keeps trying: the workload can't be \
                   read: odd";
        assert_eq!(stage.said, [why]);
    })
    .await;
}
