//! Leading: who of the operators writes.
//!
//! Carries out `decide::lease` on a Lease, and runs the work while this process
//! leads. It stops the work before anyone else may lead (F-113), and gives the
//! Lease back at the end, so that the next one leads within a retry's time.
//! Knows nothing of the work.

mod trouble;

use std::{convert::Infallible, future::Future, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::PostParams,
    core::{ObjectMeta, Status},
};
use napwake_api::{
    names::{LEADER_LEASE, OPERATOR_FIELD_MANAGER},
    stamp,
};
use napwake_cluster::plain;
use napwake_decide::lease::{Election, LEASE_DURATION, Moment, RENEW_EVERY, Record, Step};
use napwake_kit::clock::Clock;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::trouble::{Failure, Trouble};

/// How long one call about the Lease may take.
const CALL: Duration = Duration::from_millis(1500);

/// How long giving the Lease back may take, with a write under way to wait for: less
/// than others would wait for it to expire.
const GIVING_BACK: Duration = Duration::from_secs(3);

/// How often giving it back is tried within that.
const TRIES: usize = 3;

/// Until when this process leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leads {
    No,
    Until(Instant),
    /// There's nobody to take turns with.
    Always,
}

impl Leads {
    fn now(self) -> bool {
        match self {
            Self::No => false,
            Self::Until(until) => Instant::now() < until,
            Self::Always => true,
        }
    }
}

/// Time as the leader. Ask it right before each write.
#[derive(Clone, Debug)]
pub(crate) struct Term(watch::Receiver<Leads>);

impl Term {
    /// Whether this process may write.
    pub(crate) fn is_mine(&self) -> bool {
        self.0.borrow().now()
    }

    /// One that always lasts, for tests.
    #[cfg(test)]
    pub(crate) fn endless() -> Self {
        Self(watch::channel(Leads::Always).1)
    }

    /// One that lasts until what is returned with it is called, for tests.
    #[cfg(test)]
    pub(crate) fn until_ended() -> (Self, impl FnOnce()) {
        let (leads, term) = watch::channel(Leads::Always);
        (Self(term), move || {
            leads.send_replace(Leads::No);
        })
    }

    async fn begins(&mut self) {
        while !self.is_mine() {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn ends(&mut self) {
        loop {
            let leads = *self.0.borrow_and_update();
            if !leads.now() {
                return;
            }
            let deadline = async {
                match leads {
                    Leads::Until(until) => sleep_until(until).await,
                    Leads::No | Leads::Always => std::future::pending().await,
                }
            };
            tokio::select! {
                () = deadline => {}
                changed = self.0.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Runs `work` in each term of this process until `token` is cancelled, then
/// gives the Lease back.
pub(crate) async fn lead<W, F>(
    mut candidate: Candidate,
    token: CancellationToken,
    work: W,
) -> Result<(), Infallible>
where
    W: Fn(Term) -> F,
    F: Future<Output = Infallible>,
{
    let (leads, _) = watch::channel(Leads::No);
    let mut term = Term(leads.subscribe());
    let terms = async {
        loop {
            term.begins().await;
            tracing::info!("leading");
            let working = Term(leads.subscribe());
            tokio::select! {
                never = work(working) => match never {},
                () = term.ends() => tracing::warn!("not the leader any more"),
            }
        }
    };
    // Cancelling drops the work where it stands, before the Lease is given back.
    tokio::select! {
        never = terms => never,
        never = candidate.stand(&leads) => match never {},
        () = token.cancelled() => {}
    }
    candidate.give_back().await;
    Ok(())
}

/// One who would lead.
#[derive(Debug)]
pub(crate) struct Candidate {
    leases: Option<Api<Lease>>,
    me: String,
    clock: Clock,
    election: Election,
    /// The Lease as last read or written.
    lease: Option<Lease>,
    /// The last write, and when it was sent, where nobody has said how it went: it
    /// took too long, or this process was told to stop meanwhile.
    unanswered: Option<(Record, Moment)>,
    begun: Instant,
    reading: Trouble,
    writing: Trouble,
}

impl Candidate {
    /// Takes turns with others by the Lease of that namespace.
    pub(crate) fn new(client: Client, namespace: &str, me: String, clock: Clock) -> Self {
        let leases = Api::namespaced(client, namespace);
        Self::with(Some(leases), me, clock)
    }

    /// There's nobody to take turns with.
    pub(crate) fn alone(clock: Clock) -> Self {
        Self::with(None, String::new(), clock)
    }

    fn with(leases: Option<Api<Lease>>, me: String, clock: Clock) -> Self {
        Self {
            leases,
            election: Election::new(me.clone()),
            me,
            clock,
            lease: None,
            unanswered: None,
            begun: Instant::now(),
            reading: Trouble::new("can't read the lease"),
            writing: Trouble::new("can't write the lease"),
        }
    }

    /// Stands for election again and again, and tells how it goes.
    async fn stand(&mut self, leads: &watch::Sender<Leads>) -> Infallible {
        let Some(leases) = self.leases.clone() else {
            leads.send_replace(Leads::Always);
            return std::future::pending().await;
        };
        self.look(&leases).await;
        loop {
            let step = self.election.step(self.now());
            let pause = match step {
                Step::Hold { until } => until.saturating_sub(self.now()),
                Step::Wait { until } => {
                    let wait = until.saturating_sub(self.now()).min(RENEW_EVERY);
                    sleep(wait).await;
                    self.look(&leases).await;
                    Duration::ZERO
                }
                Step::Renew | Step::Take => self.write(&leases, step).await,
            };
            leads.send_if_modified(|known| {
                let new = self
                    .election
                    .leads_until()
                    .map_or(Leads::No, |until| Leads::Until(self.begun + until));
                std::mem::replace(known, new) != new
            });
            sleep(pause).await;
        }
    }

    /// Reads the Lease, as often as it takes.
    async fn look(&mut self, leases: &Api<Lease>) {
        loop {
            let failure = match timeout(CALL, leases.get_opt(LEADER_LEASE)).await {
                Ok(Ok(lease)) => {
                    self.reading.over();
                    self.saw(lease);
                    return;
                }
                Ok(Err(error)) => Failure::Told(error),
                Err(_) => Failure::Silence,
            };
            sleep(self.reading.failed(&failure)).await;
        }
    }

    /// Takes in the Lease as read. A write of mine that wasn't answered in time but
    /// stands there counts like any other: else an API server that answers slowly
    /// is one under which nobody ever leads.
    fn saw(&mut self, lease: Option<Lease>) {
        let seen = lease.as_ref().map(record);
        self.lease = lease;
        self.election.observe(seen.clone(), self.now());
        if let Some((wanted, begun)) = self.unanswered.take()
            && seen.as_ref() == Some(&wanted)
        {
            self.writing.over();
            self.election.wrote(wanted, begun);
        }
    }

    /// Writes the Lease with my name; how long to wait before the next step.
    async fn write(&mut self, leases: &Api<Lease>, step: Step) -> Duration {
        let begun = self.now();
        let wanted = self.wanted(&self.me, step);
        let params = params();
        self.unanswered = Some((record(&wanted), begun));
        let written = match &self.lease {
            None => timeout(CALL, leases.create(&params, &wanted)).await,
            Some(_) => timeout(CALL, leases.replace(LEADER_LEASE, &params, &wanted)).await,
        };
        if matches!(written, Ok(Ok(_) | Err(kube::Error::Api(_)))) {
            self.unanswered = None;
        }
        let failure = match written {
            Ok(Ok(lease)) => {
                self.writing.over();
                self.election.wrote(record(&lease), begun);
                self.lease = Some(lease);
                return Duration::ZERO;
            }
            // Somebody else was quicker, or it's gone: see who.
            Ok(Err(kube::Error::Api(status))) if self.is_overtaken(&status) => {
                self.look(leases).await;
                return Duration::ZERO;
            }
            Ok(Err(error)) => Failure::Told(error),
            Err(_) => Failure::Silence,
        };
        let wait = self.writing.failed(&failure);
        if matches!(failure, Failure::Silence) {
            // It may have been written all the same.
            self.look(leases).await;
        }
        wait
    }

    /// Whether the Lease isn't as it was seen. Where none was, not to find it
    /// means that its namespace is gone.
    fn is_overtaken(&self, status: &Status) -> bool {
        status.code == 409 || (status.code == 404 && self.lease.is_some())
    }

    /// So that another one may lead at once (DRAIN-10).
    async fn give_back(&mut self) {
        let Some(leases) = self.leases.take() else {
            return;
        };
        match timeout(GIVING_BACK, self.let_go(&leases)).await {
            Ok(Ok(true)) => tracing::info!("gave the lease back"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(error = plain(&error), "can't give the lease back"),
            Err(_) => tracing::warn!("can't give the lease back in time"),
        }
    }

    /// Takes my name off the Lease, if it's mine; whether it was.
    ///
    /// A renewal may have been under way when this process was told to stop: then the
    /// Lease isn't as it was seen, and is looked at again.
    async fn let_go(&mut self, leases: &Api<Lease>) -> kube::Result<bool> {
        if self.unanswered.is_some() {
            self.look(leases).await;
        }
        let mut tries = TRIES;
        while self.election.leads(self.now()) {
            let wanted = self.wanted("", Step::Renew);
            tries -= 1;
            match leases.replace(LEADER_LEASE, &params(), &wanted).await {
                Ok(_) => return Ok(true),
                Err(kube::Error::Api(status)) if tries > 0 && self.is_overtaken(&status) => {
                    self.look(leases).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// The Lease with that holder, over the one that was seen.
    fn wanted(&self, holder: &str, step: Step) -> Lease {
        let now = MicroTime(stamp::to_micros(self.clock.now()));
        let seen = self.lease.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(LEADER_LEASE.to_owned()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let before = seen.spec.unwrap_or_default();
        let takes = matches!(step, Step::Take);
        let transitions = before.lease_transitions.unwrap_or_default();
        Lease {
            metadata: ObjectMeta {
                managed_fields: None,
                ..seen.metadata
            },
            spec: Some(LeaseSpec {
                holder_identity: (!holder.is_empty()).then(|| holder.to_owned()),
                lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
                acquire_time: if takes {
                    Some(now.clone())
                } else {
                    before.acquire_time
                },
                renew_time: Some(now),
                lease_transitions: Some(transitions.saturating_add(i32::from(takes))),
                ..LeaseSpec::default()
            }),
        }
    }

    fn now(&self) -> Moment {
        self.begun.elapsed()
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(OPERATOR_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let at = |time: Option<MicroTime>| time.map_or(Timestamp::MIN, |time| time.0);
    let seconds = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        renewal: format!(
            "{} {} {}",
            at(spec.renew_time),
            at(spec.acquire_time),
            spec.lease_transitions.unwrap_or_default()
        ),
        duration: seconds.map_or(LEASE_DURATION, Duration::from_secs),
    }
}

#[cfg(test)]
#[path = "leader_tests.rs"]
mod tests;
