//! Operator and doorman get along with the rights that the chart gives them, and
//! make use of every one.
//!
//! They ask on behalf of accounts that have those rights and no others, and what
//! they ask for is held against them: a right that's missing shows as something
//! that never comes about, and one that's too many as something never asked for.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    core::v1::{Event, Namespace, Secret},
    discovery::v1::EndpointSlice,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Api, Resource, api::PostParams};
use napwake_api::{
    ManagedWorkload, names,
    workload::{Phase, WakeMode},
};
use napwake_testkit::{
    Context, Result,
    apps::App,
    callers, ensure,
    managed::{self, PATIENCE},
    place::Place,
    wait,
};
use napwake_tests_process::{
    SOON,
    api_way::Request,
    caller::{Caller, GET},
    doorman::{Doorman, METRICS, MetricsOver},
    hosts::{Family, Host},
    operator::Operator,
    route::Standing,
    upstream::Upstream,
    world::World,
};
use serde_json::{Value, json};

use crate::{
    chart,
    setup::{self, HTTP, Stage, Target, course, doormen, events, pods, slices},
};

/// Rights of the operator that nothing here makes use of.
const SPARED_OPERATOR: [&str; 3] = [
    // OpenShift asks for it of whoever writes addresses into slices (F-109).
    "discovery.k8s.io/endpointslices/restricted create",
    // For metrics over HTTPS, which the doorman's test shows.
    "authentication.k8s.io/tokenreviews create",
    "authorization.k8s.io/subjectaccessreviews create",
];

/// Likewise, of the doorman.
const SPARED_DOORMAN: [&str; 1] = [
    // Where there are more pods to follow than it may watch.
    "/pods get",
];

/// Each right as `group/resource verb`.
type Rights = BTreeSet<String>;

/// The rules of a part of Napwake, as the chart has them: for the whole cluster,
/// and for its own namespace.
fn rules(part: &str) -> [Value; 2] {
    let rendered = chart::default_render();
    let name = format!("napwake-{part}");
    ["ClusterRole", "Role"].map(|kind| rendered.get(kind, &name)["rules"].clone())
}

/// What rules allow.
fn allowed(rules: &[Value]) -> Rights {
    let words = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    };
    let mut all = Rights::new();
    for rule in rules.iter().filter_map(Value::as_array).flatten() {
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                let verbs = words(&rule["verbs"]).into_iter();
                all.extend(verbs.map(|verb| format!("{group}/{resource} {verb}")));
            }
        }
    }
    all
}

/// The right that a request needs, none where everybody may.
fn needed(request: &Request) -> Option<String> {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let mut parts = path.strip_prefix('/')?.split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let _version = parts.next()?;
    let mut rest: Vec<_> = parts.collect();
    if rest.len() > 2 && rest[0] == "namespaces" {
        rest.drain(..2);
    }
    let resource = match rest.as_slice() {
        [resource] | [resource, _] => (*resource).to_owned(),
        [resource, _, part] => format!("{resource}/{part}"),
        _ => return None,
    };
    let is_one = rest.len() > 1;
    let watches = query.split('&').any(|part| part == "watch=true");
    let verb = match request.method.as_str() {
        "GET" if watches => "watch",
        "GET" if is_one => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if is_one => "delete",
        other => other,
    };
    Some(format!("{group}/{resource} {verb}"))
}

/// Holds what was asked for against the rights of this part.
fn compare(part: &str, spared: &[&str], asked: &[Request]) -> Result<()> {
    let mut given = allowed(&rules(part));
    for right in spared {
        ensure!(given.remove(*right), "{right} isn't given any more");
    }
    let used: Rights = asked.iter().filter_map(needed).collect();
    let missing: Vec<_> = used.difference(&given).collect();
    let unused: Vec<_> = given.difference(&used).collect();
    ensure!(missing.is_empty(), "asked for and not given: {missing:?}");
    ensure!(unused.is_empty(), "given and never asked for: {unused:?}");
    Ok(())
}

/// Gives an account of the test's namespace the rights of this part, and waits
/// until it has them; who it is. They go with the namespace.
async fn give(place: &Place, part: &str) -> Result<String> {
    give_rules(place, part, rules(part)).await
}

/// The same without these verbs for one group's resource in the whole cluster.
pub(crate) async fn give_without(
    place: &Place,
    part: &str,
    (group, resource, verbs): (&str, &str, &[&str]),
) -> Result<String> {
    let [mut cluster, own] = rules(part);
    for rule in cluster.as_array_mut().into_iter().flatten() {
        let is_it = rule["apiGroups"][0] == group && rule["resources"][0] == resource;
        if let Some(given) = rule["verbs"].as_array_mut().filter(|_| is_it) {
            given.retain(|verb| !verb.as_str().is_some_and(|verb| verbs.contains(&verb)));
        }
    }
    give_rules(place, part, [cluster, own]).await
}

async fn give_rules(place: &Place, part: &str, [cluster, own]: [Value; 2]) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    let namespace = namespaces.get(&place.namespace).await?;
    let owner = namespace.owner_ref(&()).context("a namespace has a uid")?;
    let name = format!("{}-{part}", place.namespace);
    let kept = json!({"name": name, "ownerReferences": [owner]});
    let bound = |metadata: &Value, kind: &str| {
        json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{
                "kind": "ServiceAccount", "name": part, "namespace": place.namespace,
            }],
        })
    };
    let role = json!({"metadata": kept, "rules": cluster});
    let role: ClusterRole = serde_json::from_value(role)?;
    let binding: ClusterRoleBinding = serde_json::from_value(bound(&kept, "ClusterRole"))?;
    let (client, params) = (&place.client, PostParams::default());
    Api::all(client.clone()).create(&params, &role).await?;
    Api::all(client.clone()).create(&params, &binding).await?;
    let named = json!({"name": name});
    let role = json!({"metadata": named, "rules": own});
    place.create::<Role>(role).await?;
    place.create::<RoleBinding>(bound(&named, "Role")).await?;
    let user = format!("system:serviceaccount:{}:{part}", place.namespace);
    until_seen(place, &user, &own).await?;
    Ok(user)
}

/// The API server sees new rights a moment later: one for the whole cluster, and
/// the last of those for the account's own namespace.
async fn until_seen(place: &Place, user: &str, own: &Value) -> Result<()> {
    let last = own.as_array().and_then(|own| own.last());
    let last = last.context("a rule")?;
    let word = |list: &str| last[list][0].as_str().unwrap_or_default().to_owned();
    let (group, resource) = (word("apiGroups"), word("resources"));
    let own = format!("{resource}.{group}/{}", word("resourceNames"));
    let own = own.replace("./", "/");
    let (who, where_) = (format!("--as={user}"), format!("-n={}", place.namespace));
    for (verb, what) in [
        ("create", "tokenreviews.authentication.k8s.io"),
        ("get", &own),
    ] {
        let asked = ["auth", "can-i", verb, what, &who, &where_];
        let seen = || async { Ok(callers::run("kubectl", &asked).await?.code == Some(0)) };
        let what = format!("the right to {verb} {what}");
        wait::until(&what, PATIENCE, seen, |seen| *seen).await?;
    }
    Ok(())
}

/// The operator gets along with the rights that the chart gives it, through all
/// that it does, and needs each of them.
#[tokio::test]
async fn the_operator_needs_the_rights_it_has() {
    setup::bare("operator", async |world| {
        let place = &world.place;
        let user = give(place, "operator").await?;
        let stage = Stage {
            world,
            doorman: doormen::start(world).await?,
            operator: Operator::start_as(world, &user, &[]).await?,
        };
        opt_in_and_out(&stage).await?;
        let web = stage.managed(&App::new("web", "http")).await?;
        course::sleep(place, &web).await?;
        let stateful = foreign_slice(&stage).await?;
        course::pause(place, &stateful).await?;
        course::reason(place, "db", "RoutingFailed").await?;
        let _second = doormen::start_second(world).await?;
        let both = |found: &Vec<EndpointSlice>| {
            found.len() == 1 && slices::addresses(&found[0]).len() == 2
        };
        let probe = || slices::of(place, "web");
        wait::until("both doormen in the slice", PATIENCE, probe, both).await?;
        course::wake(place, &web).await?;
        course::wake(place, &stateful).await?;
        slices::until(place, "web", 0).await?;
        is_told_of_a_wake(place).await?;
        compare("operator", &SPARED_OPERATOR, &stage.operator.way().asked())
    })
    .await;
}

/// Waits until an event says that somebody woke it. It may have been Resuming before,
/// where the operator saw the ManagedWorkload sooner than its Ready pods.
async fn is_told_of_a_wake(place: &Place) -> Result<()> {
    let says = |one: &Event| {
        one.message
            .as_deref()
            .is_some_and(|it| it.contains("asked for"))
    };
    let probe = || events::about(place, "web", "Resuming");
    let is_told = |found: &Vec<Event>| found.iter().any(says);
    wait::until("an event of the wake", PATIENCE, probe, is_told).await?;
    Ok(())
}

/// Opts a workload in by label, changes a setting of its, and opts it out.
async fn opt_in_and_out(stage: &Stage<'_>) -> Result<()> {
    let place = stage.place();
    let target = stage.workload(&App::new("labelled", "http")).await?;
    let mark = async |marks: Value| target.patch(json!({"metadata": marks})).await;
    mark(json!({"labels": {"napwake.dev/managed": "true"}})).await?;
    let api = place.api::<ManagedWorkload>();
    let probe = || async { Ok(api.get_opt("labelled").await?) };
    wait::until("one made by label", PATIENCE, probe, Option::is_some).await?;
    course::awake(place, "labelled").await?;
    mark(json!({"annotations": {"napwake.dev/wake": "ask"}})).await?;
    let asks = |found: &Option<ManagedWorkload>| {
        let found = found.as_ref();
        found.is_some_and(|one| one.spec.wake.mode == WakeMode::Ask)
    };
    wait::until("its setting", PATIENCE, probe, asks).await?;
    mark(json!({"labels": {"napwake.dev/managed": null}})).await?;
    wait::until("it to be opted out", PATIENCE, probe, Option::is_none).await?;
    Ok(())
}

/// A StatefulSet whose Service has somebody else's slice, under the name that
/// Napwake would use.
async fn foreign_slice(stage: &Stage<'_>) -> Result<Target> {
    stage.serve("api", "db", &[HTTP], &["IPv4"]).await?;
    stage
        .place()
        .create::<EndpointSlice>(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "api-o0c3922427e", "labels": {
                names::slice::SERVICE_NAME: "api",
                names::slice::MANAGED_BY: "somebody.example",
            }},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"]}],
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        }))
        .await?;
    let app = App::new("db", "http").stateful();
    stage.managed_alone(&app, json!({})).await
}

/// ROUTE-81: the doorman writes no EndpointSlice. ADM-07: the only Secret that it
/// reads is its own wake key, by name. It gets along with the rights that the
/// chart gives it, through all that it does, and needs each of them.
#[tokio::test]
async fn the_doorman_needs_the_rights_it_has() {
    setup::bare("doorman", async |world| {
        let place = &world.place;
        let user = give(place, "doorman").await?;
        let key = json!({"metadata": {"name": "napwake-doorman-wake-key"}});
        place.create::<Secret>(key).await?;
        world.api.speak_for(&user);
        let (host, https) = (Host::Doorman(0), MetricsOver::Https);
        let doorman = Doorman::start(world, host, &[], https).await?;
        doormen::service(place).await?;
        doormen::pod(world, 0, &[Family::V4, Family::V6]).await?;
        let mut stage = Stage {
            world,
            doorman,
            operator: Operator::start(world, &[]).await?,
        };
        read_metrics(world).await?;
        serve_a_caller(&stage).await?;
        turn_a_caller_away(&stage).await?;
        // What it turned away is counted at its end at the latest.
        stage.doorman.stop()?;
        // It may take its 25 seconds.
        stage.doorman.ended(4 * SOON).await?;
        compare("doorman", &SPARED_DOORMAN, &world.api.asked())
    })
    .await;
}

/// Asks for the metrics as somebody who may not read them.
async fn read_metrics(world: &World) -> Result<()> {
    let namespace = world.place.namespace.as_str();
    let args = ["-n", namespace, "create", "token", "default"];
    let token = callers::run("kubectl", &args).await?.ok()?;
    let address = Host::Doorman(0).at(world.block, Family::V4);
    let url = format!("https://{address}:{METRICS}/metrics");
    let header = format!("Authorization: Bearer {}", token.trim());
    let more = ["-k", "-w", "%{http_code}", "-o", "/dev/null", "-H", &header];
    let code = callers::curl(&url, &more).await?.ok()?;
    ensure!(code == "403", "{code}");
    Ok(())
}

/// The doorman's port of a workload that sleeps.
async fn port_of(stage: &Stage<'_>, app: &App, spec: Value) -> Result<u16> {
    let place = stage.place();
    stage
        .serve(&app.name, &app.name, &[HTTP], &["IPv4"])
        .await?;
    let target = stage.managed_alone(app, spec).await?;
    let asleep = course::sleep(place, &target).await?;
    let ports = course::doorman_ports(&asleep);
    ports.first().copied().context("a port")
}

/// Holds a caller until a pod is Ready.
async fn serve_a_caller(stage: &Stage<'_>) -> Result<()> {
    let (place, world) = (stage.place(), stage.world);
    let port = port_of(stage, &App::new("web", "http"), json!({})).await?;
    let doorman = stage.doorman.at(Family::V4, port);
    let mut caller = Caller::calling(world.caller(0), doorman, GET).await?;
    managed::phase(place, "web", Phase::Resuming).await?;
    let address = world.pod(0);
    let _app = Upstream::web(address).await?;
    pods::make(place, "web-0", &json!({"app": "web"}), &[address]).await?;
    pods::stands(place, "web-0", Standing::Ready).await?;
    pods::endpoint(place, "web", "web-0", address, Standing::Ready).await?;
    let answer = caller.read_head(SOON).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    events::until(place, "web", "WokenByRequest", 1).await?;
    Ok(())
}

/// Turns a caller away whose workload asks before waking.
async fn turn_a_caller_away(stage: &Stage<'_>) -> Result<()> {
    let asks = json!({"wake": {"mode": "Ask"}});
    let port = port_of(stage, &App::new("asks", "http"), asks).await?;
    let doorman = stage.doorman.at(Family::V4, port);
    let mut caller = Caller::calling(stage.world.caller(0), doorman, GET).await?;
    let answer = caller.read_head(SOON).await?;
    ensure!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    Ok(())
}

#[test]
fn a_request_needs_a_right() {
    let cases = [
        ("GET", "/api/v1/services?watch=true&x=y", "/services watch"),
        ("GET", "/api/v1/namespaces?limit=2", "/namespaces list"),
        ("GET", "/api/v1/namespaces/a/pods?limit=500", "/pods list"),
        ("GET", "/api/v1/namespaces/a/secrets/b", "/secrets get"),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b/scale?fieldManager=c",
            "apps/deployments/scale patch",
        ),
        (
            "DELETE",
            "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/b",
            "discovery.k8s.io/endpointslices delete",
        ),
    ];
    for (method, path, expected) in cases {
        let request = Request {
            at: tokio::time::Instant::now(),
            method: method.to_owned(),
            path: path.to_owned(),
            body: Value::Null,
        };
        assert_eq!(needed(&request).as_deref(), Some(expected));
    }
}
