//! Hears whether a watch's server is still there.
//!
//! Watchers don't tell of bookmarks, nor of a watch that ended as it should and
//! was begun again. So the client of each watch is wrapped: every byte of a
//! successful answer counts as having heard something.

use std::{sync::Arc, time::Duration};

use http::Request;
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Between the beginnings of two watch requests. A server or proxy that ends
/// each watch at once would make a watcher spin, since that is no error.
const PACE: Duration = Duration::from_millis(250);

/// When something was last heard. Made with the watch, which counts as such.
#[derive(Debug)]
pub(super) struct Ear {
    heard: Mutex<Instant>,
    watched: Mutex<Option<Instant>>,
}

impl Ear {
    pub(super) fn new() -> Self {
        Self {
            heard: Mutex::new(Instant::now()),
            watched: Mutex::new(None),
        }
    }

    /// How long ago something was heard.
    pub(super) fn silent_for(&self) -> Duration {
        self.heard.lock().elapsed()
    }

    fn hear(&self) {
        *self.heard.lock() = Instant::now();
    }

    /// When the next watch request may be sent, `None` for at once.
    fn next_watch(&self) -> Option<Instant> {
        let mut watched = self.watched.lock();
        let now = Instant::now();
        let next = watched.map_or(now, |last| now.max(last + PACE));
        *watched = Some(next);
        (next > now).then_some(next)
    }

    /// A client that does the same as `client`, overheard by `ear`.
    pub(super) fn listening(client: &Client, ear: &Arc<Self>) -> Client {
        let (inner, ear) = (client.clone(), Arc::clone(ear));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, ear) = (inner.clone(), Arc::clone(&ear));
            async move {
                if is_watch(&request)
                    && let Some(next) = ear.next_watch()
                {
                    sleep_until(next).await;
                }
                let response = inner.send(request).await?;
                let heard = response.status().is_success();
                if heard {
                    ear.hear();
                }
                let body = |body: Body| {
                    body.map_frame(move |frame| {
                        if heard {
                            ear.hear();
                        }
                        frame
                    })
                };
                Ok::<_, kube::Error>(response.map(body))
            }
        });
        Client::new(service, client.default_namespace())
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| part == "watch=true")
}
