//! Owns every task of a process.
//!
//! Two kinds: those that work until the process is asked to stop and then end
//! well ([`Supervisor::draining`]), and those that never end
//! ([`Supervisor::endless`]). A task that ends in any other way is an error
//! that stops the process, so nothing dies unnoticed. Together with the
//! `TaskTracker`s of those who have many short tasks, this is the only place
//! that spawns.

use std::{collections::HashMap, convert::Infallible, error::Error, time::Duration};

use tokio::{
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error_span};

use crate::chain::Chain;

/// Any error of a task.
pub type TaskError = Box<dyn Error + Send + Sync + 'static>;

/// The tasks of one process, all tied to one token.
#[derive(Debug)]
pub struct Supervisor {
    token: CancellationToken,
    tasks: JoinSet<End>,
    names: HashMap<Id, Task>,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Draining,
    Endless,
}

type End = Result<(), TaskError>;

/// Why the process must stop, or how its stopping went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("task {task} failed")]
    Failed {
        task: &'static str,
        source: TaskError,
    },
    /// It ended though nobody asked it to.
    #[error("task {task} ended by itself")]
    Ended { task: &'static str },
    #[error("task {task} panicked")]
    Panicked {
        task: &'static str,
        source: JoinError,
    },
    /// The time to drain ran out.
    #[error("still busy after {} s of draining: {}", .grace.as_secs(), .tasks.join(", "))]
    Overdue {
        grace: Duration,
        tasks: Vec<&'static str>,
    },
}

impl Supervisor {
    /// Tasks that are asked to stop by `token`.
    pub fn new(token: CancellationToken) -> Self {
        Self {
            token,
            tasks: JoinSet::new(),
            names: HashMap::new(),
        }
    }

    /// The token that asks the tasks to stop.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Starts a task that works until the token is cancelled and then ends with
    /// `Ok`. Ending earlier, or with an error, stops the process.
    pub fn draining<E>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<TaskError>,
    {
        let task = async move { task.await.map_err(Into::into) };
        self.start(
            Task {
                name,
                kind: Kind::Draining,
            },
            task,
        );
    }

    /// Starts a task that never ends; it is dropped where it stands once the
    /// draining ones are done. An error stops the process.
    pub fn endless<E>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<Infallible, E>> + Send + 'static,
    ) where
        E: Into<TaskError>,
    {
        let task = async move {
            let Err(error) = task.await;
            Err(error.into())
        };
        self.start(
            Task {
                name,
                kind: Kind::Endless,
            },
            task,
        );
    }

    fn start(&mut self, task: Task, future: impl Future<Output = End> + Send + 'static) {
        let span = error_span!("task", name = task.name);
        let handle = self.tasks.spawn(future.instrument(span));
        self.names.insert(handle.id(), task);
    }

    /// Waits for the end: until the token is cancelled, or a task ends that
    /// should not, which cancels the token too. Then gives the draining tasks
    /// `grace` to end. The first failure is the answer; those after it are
    /// logged. Dropping this future drops every task.
    pub async fn run(mut self, grace: Duration) -> Result<(), Failure> {
        let first = self.until_stopping().await;
        self.token.cancel();
        let drained = self.drain(grace).await;
        match (first, drained) {
            (Some(failure), Err(second)) => {
                tracing::error!(error = %Chain(&second), "draining failed too");
                Err(failure)
            }
            (Some(failure), Ok(())) => Err(failure),
            (None, drained) => drained,
        }
    }

    /// Waits until the process is to stop; a failure, if that is why.
    async fn until_stopping(&mut self) -> Option<Failure> {
        let token = self.token.clone();
        tokio::select! {
            biased;
            () = token.cancelled() => None,
            Some(ended) = self.tasks.join_next_with_id() => Some(self.judge_early(ended)),
        }
    }

    async fn drain(&mut self, grace: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + grace;
        let mut first = Ok(());
        while self.names.values().any(|task| task.kind == Kind::Draining) {
            let failure = tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => match self.judge_late(ended) {
                    Ok(()) => continue,
                    Err(failure) => failure,
                },
                () = sleep_until(deadline) => {
                    return first.and(Err(Failure::Overdue { grace, tasks: self.busy() }));
                }
            };
            tracing::error!(error = %Chain(&failure), "a task failed while draining");
            first = first.and(Err(failure));
        }
        first
    }

    fn busy(&self) -> Vec<&'static str> {
        let draining = self
            .names
            .values()
            .filter(|task| task.kind == Kind::Draining);
        let mut names: Vec<_> = draining.map(|task| task.name).collect();
        names.sort_unstable();
        names
    }

    /// Any end before the process is to stop is a failure.
    fn judge_early(&mut self, ended: Result<(Id, End), JoinError>) -> Failure {
        let task = self.forget(&ended).name;
        match ended {
            Ok((_, Ok(()))) => Failure::Ended { task },
            Ok((_, Err(source))) => Failure::Failed { task, source },
            Err(source) => Failure::Panicked { task, source },
        }
    }

    /// While draining, an `Ok` is what we wait for.
    fn judge_late(&mut self, ended: Result<(Id, End), JoinError>) -> Result<(), Failure> {
        match ended {
            Ok((_, Ok(()))) => {
                let task = self.forget(&ended);
                tracing::debug!(task = task.name, "drained");
                Ok(())
            }
            Ok((_, Err(_))) | Err(_) => Err(self.judge_early(ended)),
        }
    }

    fn forget(&mut self, ended: &Result<(Id, End), JoinError>) -> Task {
        let id = match ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let unknown = Task {
            name: "unknown",
            kind: Kind::Endless,
        };
        self.names.remove(&id).unwrap_or(unknown)
    }
}

#[cfg(test)]
#[path = "supervise_tests.rs"]
mod tests;
