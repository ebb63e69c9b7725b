//! The operator: watches, decides, applies.
//!
//! Owns the lifecycle of every ManagedWorkload, the routes to the doorman, the
//! conditions and events, and opting in by label. Makes no choices itself:
//! they are all in `napwake-decide`.

mod apply;
mod args;
mod backoff;
#[cfg(test)]
mod fixtures;
mod holdups;
mod leader;
mod metrics;
mod observe;
mod optin;
mod orphans;
mod probe;
mod queue;
mod reconcile;
mod run;
mod shared;
mod tell;
mod wake_everybody;
mod work;

pub use self::{args::OperatorArgs, run::run};
