//! Says events beside the work that they are about: no plan, and so no wake, waits
//! for them (ROUTE-39).
//!
//! They are said in the order in which they were told, a few at once, so that the
//! calls about them leave room for others. What still waits at the end of the
//! process is said before it ends, for as long as there's time.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, stream};
use napwake_cluster::events::{Events, Notice};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// Events that wait to be said: several for each of a thousand workloads that are
/// paused at once.
const WAITING: usize = 4096;

/// Events that are said at once.
const AT_ONCE: usize = 16;

/// How long what is left is said once the process is to stop.
const LAST_WORDS: Duration = Duration::from_secs(4);

/// Takes events. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Teller(mpsc::Sender<Notice>);

/// Says what its tellers were told.
#[derive(Debug)]
pub(crate) struct Telling {
    events: Arc<Events>,
    notices: mpsc::Receiver<Notice>,
}

/// A teller, and what says the events that it's told.
pub(crate) fn teller(events: Arc<Events>) -> (Teller, Telling) {
    let (tell, notices) = mpsc::channel(WAITING);
    (Teller(tell), Telling { events, notices })
}

impl Teller {
    /// Never waits. What there's no room for is in the log alone.
    pub(crate) fn tell(&self, notice: Notice) {
        if let Err(TrySendError::Full(notice) | TrySendError::Closed(notice)) =
            self.0.try_send(notice)
        {
            let about = notice.regarding;
            tracing::warn!(
                namespace = about.namespace,
                object = about.name,
                reason = notice.reason,
                note = notice.note,
                "an event is lost: too many wait"
            );
        }
    }
}

impl Telling {
    /// Says them until `stop`, and then what is left.
    pub(crate) async fn until(self, stop: CancellationToken) -> Result<(), Infallible> {
        let Self {
            events,
            mut notices,
        } = self;
        let mut stopped = pin!(stop.cancelled().fuse());
        let told = stream::poll_fn(|context| {
            if stopped.as_mut().poll(context).is_ready() {
                notices.close();
            }
            notices.poll_recv(context)
        });
        let saying = told.for_each_concurrent(AT_ONCE, |notice| say(&events, notice));
        let out_of_time = async {
            stop.cancelled().await;
            sleep(LAST_WORDS).await;
        };
        tokio::select! {
            biased;
            () = saying => {}
            () = out_of_time => tracing::warn!("events are lost: the process ends"),
        }
        Ok(())
    }
}

async fn say(events: &Events, notice: Notice) {
    let about = notice.regarding.clone();
    if let Err(error) = events.publish(notice).await {
        tracing::warn!(
            namespace = about.namespace,
            object = about.name,
            %error,
            "an event is lost"
        );
    }
}

#[cfg(test)]
#[path = "tell_tests.rs"]
mod tests;
