//! What is done before it's known what a few of the callers get: a click is
//! pressed, the wake key is read, a place to pass is queued for.
//!
//! Owns how long these may take, and what the caller gets where they come to
//! nothing. What a click comes to is `napwake_gate`'s to say.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use napwake_api::stamp::RequestKind;
use napwake_gate::answer::{Answer, Body};
use napwake_gate::click::{Pressed, pressed};
use napwake_gate::pages::{AsleepPage, Said};
use napwake_gate::verdict::{Click, Counted, Standing};
use napwake_net::transport::Connect;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Conversation;
use super::budget::Caller;
use super::greet::{Greeting, Hearing, Next};
use super::patience::{Impatience, Watcher};
use crate::pods::Outlook;
use crate::routes::Route;
use crate::wake::{Asker, How, Stamper};

/// How long a click waits for the key to be read (T-23). Whoever shares it reads
/// it once in a few seconds.
const KEY: Duration = Duration::from_secs(10);

/// How long a click on a page of another pause waits for the watch to show that
/// pause, which the API server did already.
const ANOTHER_PAUSE: Duration = Duration::from_secs(2);

/// Something to be done.
#[derive(Debug)]
pub(super) enum Errand {
    /// A pod is Ready and no place is free to pass (T-61).
    Queue,
    /// The button is pressed, and what comes of that is the answer.
    Press(Box<Pressing>),
    /// The key is read, and then the caller judged anew (T-23).
    ReadKey,
}

/// A good click, with what is answered to it.
#[derive(Debug)]
pub(super) struct Pressing {
    /// The route as it was when the click was judged good.
    judged: Arc<Route>,
    waking: Answer,
    too_soon: Answer,
    /// For a pause that isn't on any more.
    ran_out: Answer,
}

impl Pressing {
    pub(super) fn new(click: &Click<'_>, judged: &Arc<Route>) -> Self {
        let ran_out = AsleepPage {
            said: Said::RanOut,
            ..click.too_soon
        };
        Self {
            judged: Arc::clone(judged),
            waking: click.waking.answer(Body::Sent),
            too_soon: click.too_soon.answer(),
            ran_out: ran_out.answer(),
        }
    }
}

impl<C: Connect<Stream = TcpStream> + 'static, S: Stamper> Conversation<C, S> {
    /// Does it. `None` if the caller is to be judged anew.
    pub(super) async fn carry_out(
        &self,
        errand: Errand,
        caller: &mut Caller,
        watcher: &mut Watcher,
        hearing: &mut Hearing,
    ) -> Option<Greeting> {
        match errand {
            Errand::Queue => self.queue(caller, watcher, hearing).await,
            Errand::Press(pressing) => self.press(caller, watcher, hearing, pressing).await,
            Errand::ReadKey => self.read_key(caller, hearing).await,
        }
    }

    /// Queues for a place, unless it's a browser that opens a page: that gets the
    /// waking-up page. Whoever else it is, nothing is decided of whom a pod may
    /// still take.
    async fn queue(
        &self,
        caller: &mut Caller,
        watcher: &mut Watcher,
        hearing: &mut Hearing,
    ) -> Option<Greeting> {
        let mut place = pin!(self.place.pass());
        loop {
            let (route, Outlook::Ready(_)) = watcher.latest() else {
                return None;
            };
            let until = match self.judge(caller.bytes(), hearing, &route, Standing::Crowded) {
                Next::Greeting(page @ Greeting::Waking(..)) => return Some(page),
                Next::Listen(until) => until,
                Next::Greeting(_) | Next::Errand(_) | Next::Forget(_) | Next::Look => {
                    return Some(Greeting::Ready(None));
                }
            };
            drop(route);
            tokio::select! {
                biased;
                heard = self.listen(caller, watcher, hearing, until) => {
                    if let Err(ended) = heard {
                        return Some(Greeting::Ended(ended));
                    }
                }
                place = &mut place => return Some(Greeting::Ready(Some(place))),
            }
        }
    }

    /// Presses the button. `None` if the caller is to be judged anew: another
    /// pause has begun, which its token isn't for.
    async fn press(
        &self,
        caller: &mut Caller,
        watcher: &mut Watcher,
        hearing: &mut Hearing,
        pressing: Box<Pressing>,
    ) -> Option<Greeting> {
        let asker = Asker {
            source: self.place.source(),
            kind: RequestKind::Click,
            how: How::Waits,
        };
        let Pressing {
            judged,
            waking,
            too_soon,
            ran_out,
        } = *pressing;
        let patience = self.patience();
        let wakes = &self.doorman.wakes;
        let clicking = pin!(wakes.click(&self.route, &judged, asker, patience.until));
        let presses = match patience.wait(caller, clicking).await {
            Ok(presses) => presses,
            // It goes on, as one that can't be written yet does.
            Err(Impatience::TimedOut) => return Some(answered(waking)),
            Err(ended) => return Some(Greeting::Ended(ended)),
        };
        match pressed(presses) {
            Pressed::Waking => Some(answered(waking)),
            Pressed::TooSoon => Some(answered(too_soon)),
            Pressed::OtherPause if hearing.is_pressed => Some(answered(ran_out)),
            Pressed::OtherPause => {
                hearing.is_pressed = true;
                let newer = pin!(timeout(ANOTHER_PAUSE, watcher.changed()));
                match patience.wait(caller, newer).await {
                    Ok(Ok(())) => None,
                    Ok(Err(_)) | Err(Impatience::TimedOut) => Some(answered(ran_out)),
                    Err(ended) => Some(Greeting::Ended(ended)),
                }
            }
        }
    }

    /// Sees to it that the key was read since the caller came, if it can be in
    /// time, and that it isn't asked for again. `None` if the caller is to be
    /// judged anew.
    async fn read_key(&self, caller: &mut Caller, hearing: &mut Hearing) -> Option<Greeting> {
        let came = self.doorman.steady.moment(self.accepted);
        let reading = pin!(timeout(KEY, self.doorman.key.read_since(came)));
        hearing.is_key_read = true;
        match self.patience().wait(caller, reading).await {
            Ok(Ok(()) | Err(_)) | Err(Impatience::TimedOut) => None,
            Err(ended) => Some(Greeting::Ended(ended)),
        }
    }
}

/// Nobody is turned away by any of these (AWAY-15).
fn answered(answer: Answer) -> Greeting {
    Greeting::Answer(answer, Counted::Not)
}
