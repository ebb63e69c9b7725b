//! Doorman pods leave: routes move to the others, and no caller notices.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use napwake_api::workload::Phase;
use napwake_testkit::{
    Context, Result, apps::App, bail, ensure, managed, place, place::Place, wait,
};

use crate::{
    own::{self, Eviction, Own, Part},
    setup, slices, steady,
};

/// DRAIN-03: both doorman pods can't be evicted at once. DRAIN-05: the slices
/// lose the one that leaves and keep the other; no connection is refused
/// meanwhile.
#[tokio::test]
async fn one_doorman_pod_is_evicted_and_the_other_stays() {
    place::with("evicted", async |place| {
        let own = Own::of(&place);
        // A rollout before this one may not be over for the pods that leave.
        own.until_settled(Part::Doorman).await?;
        own.until_evictable(1).await?;
        setup::asleep(&place, &App::new("web", "http")).await?;
        let all = addresses(&own.pods(Part::Doorman).await?);
        let standing = slices::doormen(&place, "web").await?;
        ensure!(standing == all, "routed to {standing:?}, not {all:?}");
        let address = format!("{}:80", place.address("web").await?);
        let eviction = async {
            let pods = own.pods(Part::Doorman).await?;
            let [one, other] = &pods[..] else {
                bail!("not two doorman pods: {pods:?}");
            };
            let (first, second) = (one.name_any(), other.name_any());
            let evictions = tokio::try_join!(own.evict(&first), own.evict(&second))?;
            let (leaves, stays) = match evictions {
                (Eviction::Granted, Eviction::Refused) => (one, other),
                (Eviction::Refused, Eviction::Granted) => (other, one),
                others => bail!("not one of them is granted: {others:?}"),
            };
            let left = addresses(std::slice::from_ref(leaves));
            let kept = addresses(std::slice::from_ref(stays));
            let has_moved = |to: &BTreeSet<String>| to.is_disjoint(&left) && kept.is_subset(to);
            until_routed_to(&place, "web", has_moved).await?;
            own.until_whole(Part::Doorman).await?;
            until_routed_to(&place, "web", |to| to.len() == all.len()).await
        };
        let (answered, ()) = steady::CHECKS.during(&address, eviction).await?;
        ensure!(answered > 0, "nobody called");
        Ok(())
    })
    .await;
}

/// The pods' IPv4 addresses.
fn addresses(pods: &[Pod]) -> BTreeSet<String> {
    let ips = pods
        .iter()
        .filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    ips.collect()
}

async fn until_routed_to(
    place: &Place,
    service: &str,
    wanted: impl Fn(&BTreeSet<String>) -> bool,
) -> Result<()> {
    let what = format!("the route of {service} to move");
    let probe = || slices::doormen(place, service);
    wait::until(&what, Duration::from_secs(30), probe, wanted).await?;
    Ok(())
}

/// DRAIN-16: `helm upgrade` replaces the doorman's and the operator's pods at
/// the same time; of constant calls to paused Services none is refused, reset
/// or left without its answer. DRAIN-09: an old doorman pod stops 5 seconds
/// after each new one is Ready.
#[tokio::test]
async fn an_upgrade_of_both_parts_loses_no_connection() {
    place::with("upgrade", async |place| {
        let own = Own::of(&place);
        // Those of an earlier rollout who still leave are neither old nor new here.
        own.until_settled(Part::Doorman).await?;
        own.until_whole(Part::Operator).await?;
        let old = own.staying(Part::Doorman).await?;
        let apps = ["web", "woken1", "woken2"].map(|name| App::new(name, "http"));
        try_join_all(apps.iter().map(|app| setup::asleep(&place, app))).await?;
        let address = format!("{}:80", place.address("web").await?);
        let over = Cell::new(false);
        let replaced = async {
            upgrade(&own).await?;
            let pods = until_replaced(&own, &old).await;
            over.set(true);
            pods
        };
        let woken = try_join_all(apps[1..].iter().map(|app| ask_until(&place, app, &over)));
        let work = async { tokio::try_join!(replaced, woken) };
        let (checks, (pods, requests)) = steady::CHECKS.during(&address, work).await?;
        ensure!(checks > 0 && requests.iter().all(|count| *count > 0));
        one_after_the_other(&pods, &old)
    })
    .await;
}

/// Has both parts' pods replaced.
async fn upgrade(own: &Own) -> Result<()> {
    // A filter for logs that changes nothing but is another each time.
    let value = format!("log.level=info\\,round{}=info", managed::now().as_second());
    own.upgrade(&value).await
}

/// Pauses the app and asks it again and again, each time to be answered by it.
async fn ask_until(place: &Place, app: &App, over: &Cell<bool>) -> Result<usize> {
    let mut answered = 0;
    while !over.get() {
        setup::request(place, &app.name).await?;
        answered += 1;
        managed::phase(place, &app.name, Phase::Running).await?;
        managed::pause_routed(place, &app.name).await?;
    }
    Ok(answered)
}

/// Waits until both parts are whole again without the old doorman pods, and
/// gives each doorman pod as it was last seen.
async fn until_replaced(own: &Own, old: &BTreeSet<String>) -> Result<BTreeMap<String, Pod>> {
    let seen = std::cell::RefCell::new(BTreeMap::new());
    let probe = async || {
        let whole = own.is_whole(Part::Doorman).await? && own.is_whole(Part::Operator).await?;
        // Looked at after that, and once: what is seen last must show all of it.
        let pods = own.pods(Part::Doorman).await?;
        let staying = pods.iter().filter(|pod| own::stays(pod));
        let stays: BTreeSet<_> = staying.map(ResourceExt::name_any).collect();
        seen.borrow_mut()
            .extend(pods.into_iter().map(|pod| (pod.name_any(), pod)));
        Ok((whole, stays))
    };
    let is_over = |(whole, stays): &(bool, BTreeSet<String>)| *whole && stays.is_disjoint(old);
    wait::until("the upgrade", Duration::from_mins(3), probe, is_over).await?;
    Ok(seen.into_inner())
}

/// That the old pods stopped one after the other, each 5 s after a new one was
/// Ready and not much later.
fn one_after_the_other(pods: &BTreeMap<String, Pod>, old: &BTreeSet<String>) -> Result<()> {
    let (leaving, new): (Vec<_>, Vec<_>) =
        pods.values().partition(|pod| old.contains(&pod.name_any()));
    let stopped = leaving
        .into_iter()
        .map(|pod| stopped_at(pod).context("it was told to stop"));
    let ready = new
        .into_iter()
        .map(|pod| ready_at(pod).context("it was Ready"));
    let mut stopped = stopped.collect::<Result<Vec<_>>>()?;
    let mut ready = ready.collect::<Result<Vec<_>>>()?;
    stopped.sort();
    ready.sort();
    ensure!(
        stopped.len() == old.len() && ready.len() == old.len(),
        "{ready:?} {stopped:?}"
    );
    for (ready, stopped) in ready.iter().zip(&stopped) {
        let after = stopped.duration_since(*ready);
        ensure!(
            (5..15).contains(&after.as_secs()),
            "stopped {after:?} after another was Ready"
        );
    }
    Ok(())
}

/// When the pod was told to stop: what the API shows is when its time is up.
fn stopped_at(pod: &Pod) -> Option<Timestamp> {
    let grace = pod.metadata.deletion_grace_period_seconds?;
    let until = pod.metadata.deletion_timestamp.as_ref()?.0;
    Some(until - SignedDuration::from_secs(grace))
}

/// When the pod was last Ready.
fn ready_at(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

mod long {
    use tokio::time::Instant;

    use super::*;

    /// How many upgrades there are, one after the other.
    const UPGRADES: usize = 3;

    /// DRAIN-16: upgrades of both parts in a row, under at least fifty calls a second to
    /// workloads that are paused, wake and are paused again. None is refused and none is
    /// lost: not one in thousands.
    #[tokio::test]
    async fn upgrades_under_fifty_calls_a_second_lose_none() {
        place::with("upgrades", async |place| {
            let own = Own::of(&place);
            own.until_settled(Part::Doorman).await?;
            own.until_whole(Part::Operator).await?;
            // Serving on, they refuse nobody whom kube-proxy still sends them.
            let app = |name| App::new(name, "http").arg("-serve-on=3s");
            let apps = ["web", "woken1", "woken2"].map(app);
            try_join_all(apps.iter().map(|app| setup::asleep(&place, app))).await?;
            let addresses = apps.iter().map(|app| address(&place, app));
            let [web, woken1, woken2] = &try_join_all(addresses).await?[..] else {
                bail!("not three addresses");
            };
            let over = Cell::new(false);
            let begun = Instant::now();
            let upgrades = async {
                for _ in 0..UPGRADES {
                    let old = own.staying(Part::Doorman).await?;
                    upgrade(&own).await?;
                    until_replaced(&own, &old).await?;
                }
                over.set(true);
                Ok(())
            };
            let woken = try_join_all(apps[1..].iter().map(|app| call_until(&place, app, &over)));
            let work = async { tokio::try_join!(upgrades, woken) };
            let work = Box::pin(steady::PROBES.during(woken1, work));
            let work = Box::pin(steady::PROBES.during(woken2, work));
            let (checks, (probes2, (probes1, ((), requests)))) =
                steady::CHECKS.during(web, work).await?;
            let counts = [checks, probes1, probes2, requests.iter().sum()];
            println!("{counts:?} calls answered in {:?}", begun.elapsed());
            let calls: usize = counts.iter().sum();
            let seconds = usize::try_from(begun.elapsed().as_secs())?;
            ensure!(
                calls >= 50 * seconds,
                "{counts:?} in {seconds} s are too few"
            );
            ensure!(requests.iter().all(|count| *count > 0), "{requests:?}");
            Ok(())
        })
        .await;
    }

    async fn address(place: &Place, app: &App) -> Result<String> {
        Ok(format!("{}:80", place.address(&app.name).await?))
    }

    /// Calls the paused app all the while until it runs, and pauses it, over and over.
    async fn call_until(place: &Place, app: &App, over: &Cell<bool>) -> Result<usize> {
        let address = address(place, app).await?;
        let mut answered = 0;
        while !over.get() {
            let wakes = async {
                managed::phase(place, &app.name, Phase::Running).await?;
                Ok(())
            };
            answered += steady::REQUESTS.during(&address, wakes).await?.0;
            managed::pause_routed(place, &app.name).await?;
        }
        Ok(answered)
    }
}
