//! `status`: where each workload stands, and which need attention.

use std::io::Write;

use jiff::Timestamp;
use kube::{ResourceExt, api::ListParams};
use napwake_api::{
    ManagedWorkload, Span,
    condition::{self, ConditionType, RouteReason},
};

use crate::{
    cli::Output,
    cluster::{Cluster, explain},
    outcome::Failure,
    signal, table,
};

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The namespace of the command line or the context.
    One,
    /// All of them.
    All,
}

/// Prints the ManagedWorkloads.
pub(crate) async fn print(cluster: &Cluster, scope: Scope, output: Output) -> Result<(), Failure> {
    let api = match scope {
        Scope::One => cluster.here(),
        Scope::All => cluster.everywhere(),
    };
    let listed = api.list(&ListParams::default()).await;
    let mut workloads = listed
        .map_err(|error| explain(error, "list managedworkloads"))?
        .items;
    workloads.sort_by_key(|workload| (workload.namespace(), workload.name_any()));
    let mut out = anstream::stdout();
    match output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&workloads)?)?,
        Output::Yaml => write!(out, "{}", serde_saphyr::to_string(&workloads)?)?,
        Output::Table => out.write_all(render(&workloads, scope, signal::now())?.as_bytes())?,
    }
    if workloads.is_empty() && output == Output::Table {
        let place = match scope {
            Scope::One => format!(" in namespace {}", cluster.namespace()),
            Scope::All => String::new(),
        };
        writeln!(anstream::stderr(), "No managed workloads found{place}.")?;
    }
    Ok(())
}

/// The table, and below it what needs attention and what was turned away.
fn render(workloads: &[ManagedWorkload], scope: Scope, now: Timestamp) -> anyhow::Result<String> {
    let mut out = Vec::new();
    if workloads.is_empty() {
        return Ok(String::new());
    }
    let mut heads = vec!["NAME", "KIND", "PHASE", "MODE", "LAST ACTIVITY", "REASON"];
    if scope == Scope::All {
        heads.insert(0, "NAMESPACE");
    }
    let rows: Vec<_> = workloads
        .iter()
        .map(|workload| row(workload, scope, now))
        .collect();
    table::write(&mut out, &heads, &rows)?;
    let needy: Vec<_> = workloads
        .iter()
        .filter_map(|workload| attention(workload, scope))
        .collect();
    if !needy.is_empty() {
        writeln!(out, "\nNeeds attention:")?;
        for (name, message) in needy {
            writeln!(out, "  {name}: {message}")?;
        }
    }
    let refusing: Vec<_> = workloads
        .iter()
        .filter_map(|workload| turned_away(workload, scope))
        .collect();
    if !refusing.is_empty() {
        writeln!(out, "\nTurned requests away:")?;
        for line in refusing {
            writeln!(out, "  {line}")?;
        }
        // AWAY-17
        writeln!(
            out,
            "A person isn't turned away. Many such requests mean that something calls the\n\
             workload on its own, such as a monitor, a webhook or another service."
        )?;
    }
    Ok(String::from_utf8(out)?)
}

fn row(workload: &ManagedWorkload, scope: Scope, now: Timestamp) -> Vec<String> {
    let status = workload.status.clone().unwrap_or_default();
    let route = condition::get(&status.conditions, ConditionType::WakeOnRequest);
    let phase = status
        .phase
        .map_or_else(|| "-".to_owned(), |phase| format!("{phase:?}"));
    let activity = status.clock.map_or_else(
        || "-".to_owned(),
        |clock| {
            let ago = age(clock.last_activity.0, now);
            let source = serde_json::to_value(clock.last_activity_source).unwrap_or_default();
            format!("{ago} ago, {}", source.as_str().unwrap_or_default())
        },
    );
    let mut row = vec![
        workload.name_any(),
        workload.spec.target_ref.kind.as_str().to_owned(),
        phase,
        format!("{:?}", workload.spec.wake.mode),
        activity,
        route.map_or_else(|| "-".to_owned(), |route| route.reason.clone()),
    ];
    if scope == Scope::All {
        row.insert(0, workload.namespace().unwrap_or_default());
    }
    row
}

/// The largest two units of a time past, as kubectl prints ages.
fn age(then: Timestamp, now: Timestamp) -> String {
    let secs = u64::try_from((now.as_second() - then.as_second()).max(0)).unwrap_or(0);
    match secs {
        0..120 => format!("{secs}s"),
        120..7200 => format!("{}m", secs / 60),
        7200..172_800 => Span::from_mins(secs / 60).to_string(),
        _ => format!("{}d", secs / 86_400),
    }
}

/// What somebody should do something about: a workload that can't be managed,
/// or whose requests fail while it's paused.
fn attention(workload: &ManagedWorkload, scope: Scope) -> Option<(String, String)> {
    let status = workload.status.as_ref()?;
    let failing = [
        ConditionType::Ready,
        ConditionType::TargetAvailable,
        ConditionType::WakeOnRequest,
    ]
    .into_iter()
    .filter_map(|type_| condition::get(&status.conditions, type_))
    // One line for each workload: the most particular of what fails.
    .rfind(|known| known.status == "False" && known.reason != RouteReason::NotPaused.to_string())?;
    let name = name(workload, scope);
    Some((name, format!("{}: {}", failing.reason, failing.message)))
}

/// How many requests a workload turned away, if it did (AWAY-13).
fn turned_away(workload: &ManagedWorkload, scope: Scope) -> Option<String> {
    let status = workload.status.as_ref()?;
    let requests = status.turned_away.as_ref()?.requests;
    let when = if status.pause.is_some() {
        "in this pause"
    } else {
        "in its last pause"
    };
    (requests > 0).then(|| format!("{}: {requests} {when}", name(workload, scope)))
}

fn name(workload: &ManagedWorkload, scope: Scope) -> String {
    match scope {
        Scope::One => workload.name_any(),
        Scope::All => format!(
            "{}/{}",
            workload.namespace().unwrap_or_default(),
            workload.name_any()
        ),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn workload(name: &str, status: &serde_json::Value) -> ManagedWorkload {
        serde_json::from_value(json!({
            "apiVersion": "napwake.dev/v1alpha1",
            "kind": "ManagedWorkload",
            "metadata": {"name": name, "namespace": "preview-42"},
            "spec": {"targetRef": {"kind": "Deployment", "name": name}},
            "status": status,
        }))
        .expect("readable")
    }

    fn condition(status: &str, reason: &str, message: &str) -> serde_json::Value {
        json!([{
            "type": "WakeOnRequest", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-30T08:00:00Z",
        }])
    }

    #[test]
    fn lists_workloads_and_what_needs_attention() {
        let workloads = [
            workload(
                "api",
                &json!({
                    "phase": "Paused",
                    "clock": {
                        "lastActivity": "2026-11-30T08:00:00.000000Z",
                        "lastActivitySource": "request",
                    },
                    "conditions": condition("True", "DoormanRouted", "requests are held and wake the workload"),
                }),
            ),
            workload(
                "worker",
                &json!({
                    "phase": "Running",
                    "conditions": condition("False", "NotPaused", "the workload is awake"),
                }),
            ),
            workload(
                "db",
                &json!({
                    "phase": "Paused",
                    "conditions": condition("False", "NoServices", "no Service selects the workload"),
                }),
            ),
        ];
        let now = "2026-11-30T08:42:00Z".parse().expect("a time");
        let shown = render(&workloads, Scope::All, now).expect("renders");
        expect![[r"
            NAMESPACE    NAME     KIND         PHASE     MODE      LAST ACTIVITY      REASON
            preview-42   api      Deployment   Paused    Request   42m ago, request   DoormanRouted
            preview-42   worker   Deployment   Running   Request   -                  NotPaused
            preview-42   db       Deployment   Paused    Request   -                  NoServices

            Needs attention:
              preview-42/db: NoServices: no Service selects the workload
        "]]
        .assert_eq(&shown);
    }

    /// AWAY-13, AWAY-17: those that turned requests away, and no others, and what
    /// that means.
    #[test]
    fn lists_what_was_turned_away() {
        let pause = "2026-11-30T08:00:00.000000Z";
        let pausing = json!({"startedAt": pause, "reason": "Idle", "replicas": 1});
        let count = |requests| json!({"pausedAt": pause, "requests": requests});
        let workloads = [
            workload(
                "api",
                &json!({"phase": "Paused", "pause": pausing, "turnedAway": count(312)}),
            ),
            workload("quiet", &json!({"phase": "Paused", "turnedAway": count(0)})),
            workload("web", &json!({"phase": "Running", "turnedAway": count(1)})),
            workload("worker", &json!({"phase": "Running"})),
        ];
        let now = "2026-11-30T08:42:00Z".parse().expect("a time");
        let shown = render(&workloads, Scope::All, now).expect("renders");
        let (_, below) = shown.split_once("\n\n").expect("something below the table");
        expect![[r"
            Turned requests away:
              preview-42/api: 312 in this pause
              preview-42/web: 1 in its last pause
            A person isn't turned away. Many such requests mean that something calls the
            workload on its own, such as a monitor, a webhook or another service.
        "]]
        .assert_eq(below);
    }

    #[test]
    fn fits_a_terminal_of_eighty_columns_in_one_namespace() {
        let status = json!({"phase": "Resuming", "clock": {
            "lastActivity": "2026-11-30T08:00:00Z", "lastActivitySource": "annotation"}});
        let now = "2026-11-30T09:59:00Z".parse().expect("a time");
        let shown = render(&[workload("checkout", &status)], Scope::One, now).expect("renders");
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
    }
}
