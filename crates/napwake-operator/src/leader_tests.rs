//! Elections against a scripted API server, under a paused clock.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use napwake_decide::lease::STOP_AFTER;
use rstest::rstest;
use serde_json::{Value, json};

use super::{trouble::AGAIN, *};
use crate::fixtures::{NOW, Server, api};

/// Whether somebody works right now.
#[derive(Clone, Default)]
struct Working(Arc<AtomicBool>);

impl Working {
    fn now(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    async fn work(self, _term: Term) -> Infallible {
        struct Stop(Working);
        impl Drop for Stop {
            fn drop(&mut self) {
                self.0.0.store(false, Ordering::Relaxed);
            }
        }
        self.0.store(true, Ordering::Relaxed);
        let _stop = Stop(self);
        std::future::pending().await
    }
}

/// Stands for election while `script` plays the API server and says when to
/// stop; then checks that nothing more was called.
async fn stand<F>(script: impl FnOnce(Server, Working, CancellationToken) -> F)
where
    F: Future<Output = Server>,
{
    let (client, server) = api();
    let server = server.patient(Duration::from_secs(30));
    let (clock, _) = Clock::manual(NOW.parse().unwrap());
    let candidate = Candidate::new(client, "napwake-system", "me".to_owned(), clock);
    let (working, token) = (Working::default(), CancellationToken::new());
    let work = {
        let working = working.clone();
        move |term| working.clone().work(term)
    };
    let leading = lead(candidate, token.clone(), work);
    let (ended, server) = tokio::join!(leading, script(server, working, token));
    ended.unwrap();
    server.done().await;
}

fn lease(version: u32, holder: Option<&str>, renewed: &str) -> Value {
    json!({
        "metadata": {"name": "napwake-operator", "resourceVersion": version.to_string()},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": LEASE_DURATION.as_secs(),
            "leaseTransitions": 4,
            "renewTime": renewed,
        },
    })
}

const EARLIER: &str = "2026-11-30T11:00:00.000000Z";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/napwake-system/leases";

/// Lets everything happen that needs no time to pass.
async fn settle() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

/// It takes a Lease that isn't there, and works.
async fn elect(server: &mut Server, working: &Working) {
    server.refuse(404, "NotFound").await;
    server.answer(201, lease(1, Some("me"), EARLIER)).await;
    works(working).await;
}

/// It works, with no time gone.
async fn works(working: &Working) {
    settle().await;
    assert!(working.now());
}

/// It's told to stop, and gives the Lease back.
async fn dismiss(mut server: Server, token: &CancellationToken) -> Server {
    token.cancel();
    server.answer(200, lease(9, None, EARLIER)).await;
    server
}

#[tokio::test(start_paused = true)]
async fn takes_a_lease_that_is_not_there_and_gives_it_back() {
    stand(async |mut server, working, token| {
        assert_eq!(
            server.refuse(404, "NotFound").await.line,
            format!("GET {LEASES}/napwake-operator")
        );
        assert!(!working.now());
        let taken = server.answer(201, lease(1, Some("me"), EARLIER)).await;
        assert_eq!(taken.line, format!("POST {LEASES}"));
        assert_eq!(taken.body["spec"]["holderIdentity"], "me");
        works(&working).await;
        token.cancel();
        let given = server.answer(200, lease(2, None, EARLIER)).await;
        assert!(!working.now(), "the work has stopped before");
        assert_eq!(given.line, format!("PUT {LEASES}/napwake-operator"));
        assert_eq!(given.body["metadata"]["resourceVersion"], "1");
        assert_eq!(given.body["spec"].get("holderIdentity"), None);
        server
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn renews_while_it_leads() {
    stand(async |mut server, working, token| {
        elect(&mut server, &working).await;
        let begun = Instant::now();
        for version in 2..6 {
            let renewed = server
                .answer(200, lease(version, Some("me"), EARLIER))
                .await;
            assert_eq!(renewed.line, format!("PUT {LEASES}/napwake-operator"));
            let before = (version - 1).to_string();
            assert_eq!(renewed.body["metadata"]["resourceVersion"], *before);
            assert!(working.now());
        }
        assert_eq!(begun.elapsed(), 4 * RENEW_EVERY);
        dismiss(server, &token).await
    })
    .await;
}

/// A Lease that was given back is taken within a retry's time.
#[tokio::test(start_paused = true)]
async fn takes_over_soon_after_it_was_given_back() {
    stand(async |mut server, working, token| {
        server.answer(200, lease(1, Some("other"), EARLIER)).await;
        let begun = Instant::now();
        server.answer(200, lease(2, None, EARLIER)).await;
        let taken = server.answer(200, lease(3, Some("me"), EARLIER)).await;
        assert!(begun.elapsed() <= RENEW_EVERY, "{:?}", begun.elapsed());
        assert_eq!(taken.body["spec"]["leaseTransitions"], 5);
        works(&working).await;
        dismiss(server, &token).await
    })
    .await;
}

/// A holder that has vanished is waited for as long as its Lease is good, from
/// when it was first seen.
#[tokio::test(start_paused = true)]
async fn takes_over_from_one_that_vanished() {
    stand(async |mut server, working, token| {
        server.answer(200, lease(1, Some("other"), EARLIER)).await;
        let begun = Instant::now();
        for _ in 0..LEASE_DURATION.as_secs() / RENEW_EVERY.as_secs() {
            let look = server.answer(200, lease(1, Some("other"), EARLIER)).await;
            assert!(look.line.starts_with("GET"), "{look:?}");
            assert!(!working.now());
        }
        let taken = server.answer(200, lease(2, Some("me"), EARLIER)).await;
        assert!(taken.line.starts_with("PUT"), "{taken:?}");
        assert_eq!(begun.elapsed(), LEASE_DURATION);
        assert_eq!(taken.body["metadata"]["resourceVersion"], "1");
        works(&working).await;
        dismiss(server, &token).await
    })
    .await;
}

/// F-113: a leader that can't renew has stopped before the Lease can be taken.
#[tokio::test(start_paused = true)]
async fn stops_when_it_cannot_renew() {
    stand(async |mut server, working, token| {
        elect(&mut server, &working).await;
        let begun = Instant::now();
        while working.now() {
            server.refuse(500, "InternalError").await;
            settle().await;
            assert!(begun.elapsed() < LEASE_DURATION, "still working");
        }
        assert!(begun.elapsed() >= STOP_AFTER);
        // It's well again before anybody else has taken it.
        server.answer(200, lease(2, Some("me"), EARLIER)).await;
        works(&working).await;
        dismiss(server, &token).await
    })
    .await;
}

/// An API server that does what it's asked, and says so too late each time, is
/// one that can be led under: what was written counts, from when it was sent.
#[tokio::test(start_paused = true)]
async fn leads_though_every_write_is_answered_too_late() {
    stand(async |mut server, working, token| {
        server.refuse(404, "NotFound").await;
        let mut silent = Vec::new();
        for version in 1..6 {
            let (mut call, answer) = server.be_silent().await;
            silent.push(answer);
            assert_ne!(call.line, format!("GET {LEASES}/napwake-operator"));
            call.body["metadata"]["resourceVersion"] = json!(version.to_string());
            let read = server.answer(200, call.body).await;
            assert_eq!(read.line, format!("GET {LEASES}/napwake-operator"));
            settle().await;
            assert!(working.now(), "after {version} writes");
        }
        dismiss(server, &token).await
    })
    .await;
}

/// What was never written counts for nothing, whoever has the Lease.
#[tokio::test(start_paused = true)]
async fn a_write_that_never_arrived_does_not_count() {
    stand(async |mut server, working, token| {
        elect(&mut server, &working).await;
        let begun = Instant::now();
        let mut silent = Vec::new();
        while working.now() {
            silent.push(server.be_silent().await);
            server.answer(200, lease(1, Some("me"), EARLIER)).await;
            settle().await;
            assert!(begun.elapsed() < 2 * LEASE_DURATION, "still working");
        }
        token.cancel();
        server
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn stops_at_once_when_another_has_it() {
    stand(async |mut server, working, token| {
        elect(&mut server, &working).await;
        server.refuse(409, "Conflict").await;
        server.answer(200, lease(5, Some("other"), EARLIER)).await;
        settle().await;
        assert!(!working.now());
        // Nothing is given back that isn't ours.
        token.cancel();
        server
    })
    .await;
}

/// DRAIN-10: told to stop while a renewal is under way, it gives back what that made of
/// the Lease, be it written before the Lease is looked at again or right after.
#[rstest]
#[case::lands_first(2, 0)]
#[case::lands_between(1, 1)]
#[tokio::test(start_paused = true)]
async fn gives_back_what_a_renewal_under_way_renews(#[case] seen: u32, #[case] conflicts: u32) {
    stand(async |mut server, working, token| {
        elect(&mut server, &working).await;
        let (renewal, _answer) = server.be_silent().await;
        assert!(renewal.line.starts_with("PUT"), "{renewal:?}");
        token.cancel();
        server.answer(200, lease(seen, Some("me"), EARLIER)).await;
        for _ in 0..conflicts {
            server.refuse(409, "Conflict").await;
            server.answer(200, lease(2, Some("me"), EARLIER)).await;
        }
        let given = server.answer(200, lease(3, None, EARLIER)).await;
        assert_eq!(given.line, format!("PUT {LEASES}/napwake-operator"));
        assert_eq!(given.body["metadata"]["resourceVersion"], "2");
        assert_eq!(given.body["spec"].get("holderIdentity"), None);
        server
    })
    .await;
}

/// DRAIN-10: also the one that it was about to take.
#[tokio::test(start_paused = true)]
async fn gives_back_what_it_was_about_to_take() {
    stand(async |mut server, _, token| {
        server.refuse(404, "NotFound").await;
        let (mut taken, _answer) = server.be_silent().await;
        assert_eq!(taken.line, format!("POST {LEASES}"));
        token.cancel();
        taken.body["metadata"]["resourceVersion"] = json!("1");
        server.answer(200, taken.body).await;
        let given = server.answer(200, lease(2, None, EARLIER)).await;
        assert_eq!(given.body["spec"].get("holderIdentity"), None);
        server
    })
    .await;
}

/// It isn't another's to give back, nor fought for.
#[tokio::test(start_paused = true)]
async fn leaves_a_lease_that_another_took_while_it_stopped() {
    stand(async |mut server, working, token| {
        elect(&mut server, &working).await;
        let (_renewal, _answer) = server.be_silent().await;
        token.cancel();
        server.answer(200, lease(2, Some("other"), EARLIER)).await;
        server
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_alone_needs_no_lease() {
    let (clock, _) = Clock::manual(NOW.parse().unwrap());
    let (working, token) = (Working::default(), CancellationToken::new());
    let work = {
        let working = working.clone();
        move |term| working.clone().work(term)
    };
    let leading = lead(Candidate::alone(clock), token.clone(), work);
    let watching = async {
        works(&working).await;
        token.cancel();
    };
    let (ended, ()) = tokio::join!(leading, watching);
    ended.unwrap();
    assert!(!working.now());
}

/// What is refused is tried later and later: in a namespace that is being
/// deleted nothing can be made any more.
#[tokio::test(start_paused = true)]
async fn backs_off_where_it_is_refused() {
    stand(async |server, working, token| {
        let mut server = server.patient(2 * AGAIN.last);
        server.refuse(404, "NotFound").await;
        server.refuse(403, "Forbidden").await;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let begun = Instant::now();
            let call = server.refuse(403, "Forbidden").await;
            assert_eq!(call.line, format!("POST {LEASES}"));
            waits.push(begun.elapsed());
        }
        let expected = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
        assert_eq!(waits, expected.map(Duration::from_millis));
        server.answer(201, lease(1, Some("me"), EARLIER)).await;
        works(&working).await;
        dismiss(server, &token).await
    })
    .await;
}

/// Nothing is found in a namespace that is gone, and there's no hurry.
#[tokio::test(start_paused = true)]
async fn does_not_spin_where_its_namespace_is_gone() {
    stand(async |mut server, _, token| {
        server.refuse(404, "NotFound").await;
        server.refuse(404, "NotFound").await;
        let begun = Instant::now();
        let call = server.refuse(404, "NotFound").await;
        assert_eq!(call.line, format!("POST {LEASES}"));
        assert_eq!(begun.elapsed(), AGAIN.first);
        settle().await;
        token.cancel();
        server
    })
    .await;
}
