//! The allowance: how many wakes may be asked for, per source and overall.
//!
//! Owns the two rates of one doorman pod (T-64). Only a request that would wake
//! a paused workload is to ask (LIMIT-15); what becomes of one that is refused
//! is decided elsewhere.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

use crate::{Moment, places::Source};

/// Above this many sources, those that have their whole burst again are forgotten.
/// The overall rate lets through far fewer within the minute that a source
/// takes to recover, so this bounds the memory whatever anybody sends.
const SOURCES_KEPT: usize = 1024;

/// A rate with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many at once.
    pub burst: u32,
    /// Then one each.
    pub every: Duration,
}

/// Both rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// From one source (LIMIT-11, LIMIT-12).
    pub per_source: Rate,
    /// From all sources together (LIMIT-13, LIMIT-14).
    pub overall: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            per_source: Rate {
                burst: 30,
                every: Duration::from_secs(2),
            },
            overall: Rate {
                burst: 200,
                every: Duration::from_millis(100),
            },
        }
    }
}

/// Why a wake isn't allowed now. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OverRate {
    /// LIMIT-11, LIMIT-12.
    #[error("the source has asked for as many wakes as it may for now")]
    Source,
    /// LIMIT-13, LIMIT-14.
    #[error("as many wakes were asked for as the doorman pod may for now")]
    Overall,
}

/// What is left of the rates.
#[derive(Debug)]
pub struct Allowance {
    rates: Rates,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    overall: Bucket,
    sources: HashMap<Source, Bucket>,
}

impl Allowance {
    /// Both bursts whole.
    pub fn new(rates: Rates) -> Self {
        Self {
            rates,
            buckets: Mutex::default(),
        }
    }

    /// Charges one wake by `source` to both rates, or to neither: a wake refused
    /// overall uses nothing of its source's allowance (LIMIT-16).
    ///
    /// A time somewhat before that of an earlier call, as threads may disagree,
    /// does no harm: it is never in the caller's favor.
    pub fn take(&self, source: Source, now: Moment) -> Result<(), OverRate> {
        let mut buckets = self.buckets.lock();
        let by_source = buckets.sources.get(&source).copied().unwrap_or_default();
        let by_source = by_source
            .charged(self.rates.per_source, now)
            .ok_or(OverRate::Source)?;
        let overall = buckets
            .overall
            .charged(self.rates.overall, now)
            .ok_or(OverRate::Overall)?;
        buckets.overall = overall;
        buckets.sources.insert(source, by_source);
        if buckets.sources.len() > SOURCES_KEPT {
            buckets.sources.retain(|_, bucket| !bucket.is_whole(now));
        }
        Ok(())
    }

    /// Gives back what one [`Allowance::take`] by `source` charged, for its wake turned
    /// out to be another's (LIMIT-15).
    pub fn give_back(&self, source: Source) {
        let mut buckets = self.buckets.lock();
        buckets.overall.give_back(self.rates.overall);
        // Who was forgotten has its whole burst already.
        if let Some(bucket) = buckets.sources.get_mut(&source) {
            bucket.give_back(self.rates.per_source);
        }
    }

    /// How many sources are remembered.
    pub fn sources(&self) -> usize {
        self.buckets.lock().sources.len()
    }
}

/// A leaky bucket as one time: when it will have leaked empty, so that its
/// burst is whole again.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    empty_at: Moment,
}

impl Bucket {
    /// The bucket with one more in it, if there is room.
    fn charged(self, rate: Rate, now: Moment) -> Option<Self> {
        let empty_at = self.empty_at.max(now).plus(rate.every);
        let room = rate.every.saturating_mul(rate.burst);
        (empty_at.since(now) <= room).then_some(Self { empty_at })
    }

    /// One less. Each that is in it put its time off by just so much.
    fn give_back(&mut self, rate: Rate) {
        let empty_at = self.empty_at.since_origin();
        self.empty_at = Moment::new(empty_at.saturating_sub(rate.every));
    }

    fn is_whole(self, now: Moment) -> bool {
        self.empty_at <= now
    }
}

#[cfg(test)]
mod tests;
