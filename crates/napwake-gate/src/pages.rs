//! The pages a person's browser gets: one while an environment is asleep, one
//! while it wakes up.
//!
//! Owns their statuses, headers, text and looks. Never decides who gets one, and
//! names no namespace, workload or Service: it isn't told any (ASK-78, PAGE-10).
//! What a caller sent appears in the text alone, escaped and shortened, and never
//! in a header (T-103).

mod address;
mod assets;
mod duration;
mod policy;
#[cfg(test)]
mod tests;

use std::time::Duration;

use askama::Template;

use crate::answer::{Answer, AnswerKind, Body, Page};
use crate::token::Token;
use address::Shown;
use assets::Assets;
use duration::Spoken;

/// The name of the form field that marks a post as the button's, and holds its token.
pub const FIELD: &str = "napwake-wake";

/// After this long it's said who can find out why it doesn't open.
const LONG: Duration = Duration::from_mins(2);

/// What a browser asked for, as it sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The `Host`, with its port if it names one; empty if none was sent (T-53).
    pub host: &'a str,
    /// The request target.
    pub target: &'a str,
}

/// The page that reloads until the app answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakingPage<'a> {
    /// What the person opened.
    pub address: Address<'a>,
    /// How long it has been Resuming, if it is (PAGE-08, PAGE-09).
    pub starting_for: Option<Duration>,
}

/// The page with the `Wake it` button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsleepPage<'a> {
    /// What the person opened.
    pub address: Address<'a>,
    /// What became of a click.
    pub said: Said,
    /// What the button posts. Without a key there's none, and no button (T-25).
    pub token: Option<Token>,
}

/// What the asleep page says of the click that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// Nothing: it was no click (ASK-51, ASK-24).
    Nothing,
    /// Its button had run out, or was never ours (ASK-11, T-20).
    RanOut,
    /// It came from a page at another address (ASK-14).
    OtherAddress,
    /// It came within a minute of the last wake request (ASK-19).
    TooSoon,
    /// The browser doesn't say where it came from, as old ones don't (ASK-22, T-13).
    OldBrowser,
    /// A browser that would say so doesn't say that a person pressed the button (T-14).
    NotPressed,
}

impl Said {
    const fn status(self) -> &'static str {
        match self {
            Self::Nothing => "200 OK",
            Self::TooSoon => "429 Too Many Requests",
            Self::RanOut | Self::OtherAddress | Self::OldBrowser | Self::NotPressed => {
                "403 Forbidden"
            }
        }
    }
}

impl WakingPage<'_> {
    /// The page, as an answer to a GET, a HEAD or a click.
    pub fn answer(&self, body: Body) -> Answer {
        let assets = &*assets::WAKING;
        let drawn = WakingTemplate {
            assets,
            shown: Shown::new(self.address),
            starting_for: self.starting_for.map(Spoken),
            long: self.starting_for.is_some_and(|so_far| so_far >= LONG),
        };
        // PAGE-24
        let own = [("Retry-After", "3")];
        let status = "503 Service Unavailable";
        answer("waking_page", status, assets, &own, &drawn, body)
    }
}

impl AsleepPage<'_> {
    /// The page, as an answer to a GET or a POST.
    pub fn answer(&self) -> Answer {
        let assets = &*assets::ASLEEP;
        let drawn = AsleepTemplate {
            assets,
            shown: Shown::new(self.address),
            field: FIELD,
            token: self.token.as_ref().map(Token::as_str),
            said: self.said,
        };
        let mut own = vec![("X-Frame-Options", "DENY")];
        if self.said == Said::TooSoon {
            // ASK-20
            own.push(("Retry-After", "60"));
        }
        let status = self.said.status();
        answer("asleep_page", status, assets, &own, &drawn, Body::Sent)
    }
}

fn answer(
    label: &'static str,
    status: &'static str,
    assets: &'static Assets,
    own: &[(&'static str, &'static str)],
    drawn: &impl Template,
    body: Body,
) -> Answer {
    let mut headers = vec![
        ("Content-Security-Policy", assets.policy.as_str()),
        ("Referrer-Policy", "same-origin"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Robots-Tag", "noindex"),
    ];
    headers.extend(own);
    // Writing to a String fails only if a value's own Display does, and none does.
    let html = drawn.render().unwrap_or_default();
    let kind = AnswerKind::Page(Page {
        label,
        status,
        headers,
        html,
    });
    Answer { kind, body }
}

#[derive(Template)]
#[template(path = "waking.html")]
struct WakingTemplate {
    assets: &'static Assets,
    shown: Shown,
    starting_for: Option<Spoken>,
    long: bool,
}

#[derive(Template)]
#[template(path = "asleep.html")]
struct AsleepTemplate<'a> {
    assets: &'static Assets,
    shown: Shown,
    field: &'static str,
    token: Option<&'a str>,
    said: Said,
}

/// For fuzzing: whatever an address is made of, it adds no markup to a page, and
/// nothing to its headers.
#[doc(hidden)]
pub fn fuzz_page(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (host, target) = text.split_once('\n').unwrap_or((&text, "/"));
    // No letter, which could make a scheme of what was none.
    let tame = |text: &str| text.replace(['<', '>', '"', '\'', '&'], "~");
    let (tame_host, tame_target) = (tame(host), tame(target));
    let draw = |host, target| {
        let page = AsleepPage {
            address: Address { host, target },
            token: None,
            said: Said::Nothing,
        };
        page.answer().to_bytes()
    };
    let (sent, tame) = (draw(host, target), draw(&tame_host, &tame_target));
    for mark in ['<', '>', '"', '\'', '\n'] {
        let count = |page: &[u8]| String::from_utf8_lossy(page).matches(mark).count();
        assert_eq!(count(&sent), count(&tame), "{mark:?}");
    }
}
