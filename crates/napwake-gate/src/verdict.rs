//! What is done with a caller: hold, pass, answer or close.
//!
//! Owns the decision, whether it wakes anything, and whether it counts as turned
//! away. Never carries it out. A held caller stays held, whatever the settings
//! become (T-102); it is judged again only when a pod becomes Ready.

mod door;
mod standing;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use napwake_api::{stamp::RequestKind, workload::WakeMode};

use crate::{
    Moment,
    answer::{Answer, AnswerKind, Body},
    caller::{self, Agents, BodyForm, Checker},
    click::{self, Origin},
    form::Form,
    head::{Head, HeadScan, Host, Http1, Mode},
    pages::{Address, AsleepPage, Said, WakingPage},
    token::{Keys, Token},
};
use door::Clicked;
pub use door::Door;
pub use standing::{Pods, Sleeper, Standing};

/// What was heard of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// It sent something.
    Head(Head<'a>),
    /// The same, but not all of it is held any more, so that it can be answered and
    /// not passed on (T-42).
    Cut(Head<'a>),
    /// It connected and sent nothing for [`crate::deadline::SILENCE`] (CLASS-04).
    Silence,
    /// It closed its connection, or shut its sending side, which looks the same
    /// (HOLD-33, HOLD-35), before it had said enough to be judged.
    Left,
}

/// What is done with a caller.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Wait for more of it.
    MoreNeeded,
    /// Pass it to a Ready pod, unread.
    Pass,
    /// Hold it until a pod is Ready.
    Hold(Wake),
    /// Answer it and close.
    Answer(Answer, Counted),
    /// Answer it with the waking-up page, at once (PAGE-01), and close. Whatever
    /// becomes of the wake, the page is given (PAGE-37).
    Waking(WakingPage<'a>, Body, Wake),
    /// Answer it with the asleep page and close. Nothing wakes, and nobody is
    /// turned away (AWAY-15).
    Asleep(AsleepPage<'a>),
    /// A person pressed the button.
    Click(Click<'a>),
    /// Read the wake key's Secret, and judge anew (T-23).
    ReadKey,
    /// Close it with nothing sent.
    Close(Counted),
}

/// A good click. It wakes every workload behind the route, each unless
/// [`click::press`] says otherwise of what is read of it then: another pod may
/// have been first (T-10). What is answered is for [`click::pressed`] to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Click<'a> {
    /// To whom something wakes.
    pub waking: WakingPage<'a>,
    /// To whom nothing does, for another was first.
    pub too_soon: AsleepPage<'a>,
}

/// Whether a request wakes.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It wakes each workload behind the route that requests wake, as this kind.
    Yes(RequestKind),
    /// It wakes nothing.
    No,
}

/// As what a caller counts in what a pause turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// AWAY-02, AWAY-03: it sent something, and the workload asks.
    TurnedAway,
    /// AWAY-05, AWAY-15, T-28, T-46, T-47: anything else.
    Not,
}

/// What is done with a caller of whom this was heard, at this door.
///
/// The same bytes get the same verdict from wherever they come (CLASS-33).
pub fn judge<'a>(heard: &Heard<'a>, door: &Door<'_>) -> Verdict<'a> {
    match heard {
        Heard::Left => Verdict::Close(Counted::Not),
        Heard::Cut(Head::Http1(request)) if door.standing != Standing::Asks => {
            // As a button's post, it's never handed to the app (T-08).
            let wake = door.wake(kind_of(request, RequestKind::Page));
            Verdict::Waking(waking_page(request, door), Body::Sent, wake)
        }
        Heard::Cut(cut) if door.standing == Standing::Asks => judge(&Heard::Head(*cut), door),
        Heard::Cut(_) => Verdict::MoreNeeded,
        _ if door.standing == Standing::Served => Verdict::Pass,
        Heard::Head(Head::MoreNeeded) => Verdict::MoreNeeded,
        Heard::Head(Head::Http1(request)) => judge_request(request, door),
        Heard::Head(Head::HttpBegun) => {
            held_or(door.standing, turned_away(Body::Sent, BodyForm::Plain))
        }
        Heard::Head(Head::Http2Preface | Head::Tls | Head::Other) => {
            // ASK-42, ASK-43, ASK-83
            held_or(door.standing, Verdict::Close(Counted::TurnedAway))
        }
        Heard::Silence => {
            // T-46: it asked for nothing, and may be a browser's spare connection.
            held_or(door.standing, Verdict::Close(Counted::Not))
        }
    }
}

/// Whether a caller that was passed on calls off a pause, by a copy of its first
/// bytes or its silence; `None` until enough was heard (HOLD-11, T-02, T-03).
///
/// To be asked for each pausing workload behind the route. In Ask nothing that
/// is passed on wakes it (T-04).
pub fn would_wake(heard: &Heard<'_>, mode: WakeMode, agents: &Agents) -> Option<Wake> {
    match heard {
        _ if mode == WakeMode::Ask => Some(Wake::No),
        Heard::Left | Heard::Cut(_) => Some(Wake::No),
        Heard::Head(Head::MoreNeeded) => None,
        Heard::Head(Head::Http1(request)) => Some(match own_answer(request, agents) {
            Some(_) => Wake::No,
            None => Wake::Yes(kind_of(request, RequestKind::Request)),
        }),
        Heard::Head(Head::HttpBegun | Head::Http2Preface | Head::Tls | Head::Other)
        | Heard::Silence => Some(Wake::Yes(RequestKind::Request)),
    }
}

/// What the doorman itself answers, whatever the mode (ASK-44).
fn own_answer(request: &Http1<'_>, agents: &Agents) -> Option<AnswerKind> {
    // T-34: the agent first, on GET and HEAD; hidden files next, on any method.
    match agents.checker(request.method, request.user_agent) {
        Some(Checker::Probe) => Some(AnswerKind::Probe),
        Some(Checker::GoogleHealthCheck) => Some(AnswerKind::GoogleHealthCheck),
        None => caller::is_hidden(request.target).then_some(AnswerKind::HiddenFile),
    }
}

fn judge_request<'a>(request: &Http1<'a>, door: &Door<'_>) -> Verdict<'a> {
    // T-61: with a pod Ready, these wait like the rest.
    let own = match door.standing {
        Standing::Crowded => None,
        _ => own_answer(request, door.agents),
    };
    let body = Body::to(request.method);
    match (own, door.standing) {
        (Some(kind), _) => Verdict::Answer(Answer { kind, body }, Counted::Not),
        (None, Standing::Asks) => judge_asking(request, door),
        (None, _) => judge_waking(request, door),
    }
}

/// A request that is held, unless a browser opens a page by it.
fn judge_waking<'a>(request: &Http1<'a>, door: &Door<'_>) -> Verdict<'a> {
    let wake = |kind| door.wake(kind_of(request, kind));
    let page = || waking_page(request, door);
    match request.form {
        Form::Unfinished => Verdict::MoreNeeded,
        // T-08: never handed to the app, whoever posts it.
        Form::Button(_) => Verdict::Waking(page(), Body::Sent, wake(RequestKind::Page)),
        _ if caller::opens_page(request) && door.gives_pages() => {
            let body = Body::to(request.method);
            Verdict::Waking(page(), body, wake(RequestKind::Page))
        }
        _ => Verdict::Hold(wake(RequestKind::Request)),
    }
}

/// A request to one that asks: a person's browser opens a page or posts a small
/// form, or it is turned away.
fn judge_asking<'a>(request: &Http1<'a>, door: &Door<'_>) -> Verdict<'a> {
    if !is_a_persons(request) {
        return turned_away(Body::to(request.method), request.wants);
    }
    match request.form {
        // ASK-37: a HEAD is nobody's.
        Form::None if request.method == "GET" && caller::opens_page(request) => page(request, door),
        Form::Foreign => page(request, door),
        Form::Button(token) => click(request, token, door),
        Form::Unfinished => Verdict::MoreNeeded,
        // AWAY-15: a person's connection that broke down halfway is no robot's.
        Form::Stalled => no_page(Body::to(request.method), request.wants, Counted::Not),
        Form::None => turned_away(Body::to(request.method), request.wants),
    }
}

/// Whether it may be a person who opens a page or presses the button.
fn is_a_persons(request: &Http1<'_>) -> bool {
    let is_a_scripts = request.fetch.mode == Mode::Other || request.asks_for_websocket;
    // T-41
    let is_clear = !matches!(request.host, Host::Several(_));
    caller::is_browser(request.user_agent) && is_clear && !is_a_scripts
}

/// What a person who opens a page sees of one that asks (ASK-24, T-06).
fn page<'a>(request: &Http1<'a>, door: &Door<'_>) -> Verdict<'a> {
    if door.is_asked_for() {
        Verdict::Waking(waking_page(request, door), Body::Sent, Wake::No)
    } else {
        Verdict::Asleep(door.asleep(address(request), Said::Nothing))
    }
}

/// A post with the button's field: first where it came from (T-19).
fn click<'a>(request: &Http1<'a>, token: Option<Token>, door: &Door<'_>) -> Verdict<'a> {
    let asleep = |said| door.asleep(address(request), said);
    let clicked = match click::origin(request) {
        Origin::Elsewhere => Clicked::Bad(Said::OtherAddress),
        Origin::Unsaid => Clicked::Bad(Said::OldBrowser),
        Origin::Script => Clicked::Bad(Said::NotPressed),
        Origin::Page => door.click(token),
    };
    match clicked {
        Clicked::Bad(said) => Verdict::Asleep(asleep(said)),
        Clicked::ReadKey => Verdict::ReadKey,
        Clicked::Good => Verdict::Click(Click {
            waking: waking_page(request, door),
            too_soon: asleep(Said::TooSoon),
        }),
    }
}

fn waking_page<'a>(request: &Http1<'a>, door: &Door<'_>) -> WakingPage<'a> {
    WakingPage {
        address: address(request),
        starting_for: door.starting_for(),
    }
}

fn address<'a>(request: &Http1<'a>) -> Address<'a> {
    Address {
        host: click::named_host(request).unwrap_or_default(),
        target: request.target,
    }
}

/// `kind`, or a robot's by its `User-Agent`.
fn kind_of(request: &Http1<'_>, kind: RequestKind) -> RequestKind {
    match request.user_agent {
        Some(agent) if caller::names_robot(agent) => RequestKind::Robot,
        _ => kind,
    }
}

/// What isn't told apart further: held, or `asked` by one that asks.
fn held_or(standing: Standing, asked: Verdict<'_>) -> Verdict<'_> {
    match standing {
        Standing::Served => Verdict::Pass,
        Standing::Wakes => Verdict::Hold(Wake::Yes(RequestKind::Request)),
        Standing::Waits | Standing::Crowded => Verdict::Hold(Wake::No),
        Standing::Asks => asked,
    }
}

fn turned_away<'a>(body: Body, form: BodyForm) -> Verdict<'a> {
    no_page(body, form, Counted::TurnedAway)
}

/// What whoever isn't shown a page is told of one that asks.
fn no_page<'a>(body: Body, form: BodyForm, counted: Counted) -> Verdict<'a> {
    let kind = AnswerKind::TurnedAway(form);
    Verdict::Answer(Answer { kind, body }, counted)
}

/// For fuzzing: whatever `bytes` are, a workload that asks holds nobody and wakes
/// for nobody without a token of its own, and whoever is answered gets an answer
/// that says so.
#[doc(hidden)]
pub fn fuzz_verdict(bytes: &[u8]) {
    let heard = Heard::Head(HeadScan::new().settle(bytes));
    let keys = Keys::default();
    let door = Door {
        standing: Standing::Asks,
        sleepers: &[],
        agents: &Agents::built_in(),
        signer: keys.at(Moment::ORIGIN),
        now: Timestamp::UNIX_EPOCH,
        came: Some(Moment::ORIGIN),
    };
    let verdict = judge(&heard, &door);
    let answer = match &verdict {
        Verdict::Answer(answer, _) => Some(answer.clone()),
        Verdict::Asleep(page) => Some(page.answer()),
        _ => None,
    };
    let is_answered = answer.is_some_and(|answer| answer.to_bytes().starts_with(b"HTTP/1.1 "));
    let is_other = matches!(
        verdict,
        Verdict::ReadKey | Verdict::Close(Counted::TurnedAway)
    );
    assert!(is_answered || is_other, "{verdict:?}");
}
