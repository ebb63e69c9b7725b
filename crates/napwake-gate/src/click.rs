//! Clicks on the button: did a person press it on a page from here?
//!
//! Owns what a browser must say of where a post comes from, and the minute
//! between two wakes. Whether the token is any good is [`token`](crate::token)'s
//! to say.

use std::time::Duration;

use jiff::Timestamp;
use napwake_api::{stamp::Stamp, workload::Phase};

use crate::{
    age::is_within,
    head::{Host, Http1, Site},
    target::Target,
};

/// How long after a wake request a click wakes nothing (TOKEN-26, TOKEN-27).
pub const BETWEEN_WAKES: Duration = Duration::from_mins(1);

/// Where a post comes from, as far as the browser says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The page, and a person pressed its button.
    Page,
    /// Another address (ASK-14, ASK-15, ASK-16).
    Elsewhere,
    /// The page, but a script pressed the button (T-14).
    Script,
    /// The browser doesn't say, as those from before about 2020 don't (ASK-22).
    Unsaid,
}

/// Where a post by a browser comes from.
///
/// Fetch metadata decides where there is any, whatever `Origin` says (T-16):
/// behind a proxy that ends TLS and rewrites `Host`, the two may differ.
pub fn origin(request: &Http1<'_>) -> Origin {
    let fetch = request.fetch;
    match fetch.site {
        Site::Other => Origin::Elsewhere,
        Site::SameOrigin if fetch.is_by_a_person => Origin::Page,
        Site::SameOrigin if says_who_pressed(request.user_agent.unwrap_or_default()) => {
            Origin::Script
        }
        Site::SameOrigin => Origin::Page,
        Site::Unsaid if fetch.is_sent => Origin::Unsaid,
        Site::Unsaid => match request.origin {
            None => Origin::Unsaid,
            Some(origin) if is_served_at(origin, named_host(request)) => Origin::Page,
            // T-17: `null`, too.
            Some(_) => Origin::Elsewhere,
        },
    }
}

/// What names a browser that sends `Sec-Fetch-User` (ASK-68): Firefox, and
/// everything that is made from Chromium.
const SAYS: [&[u8]; 3] = [b"Chrome/", b"Chromium/", b"Firefox/"];

/// What names a device on which every browser is Safari inside (ASK-70), and what
/// such a browser still says when it is to pass for a computer's.
const SAFARI_INSIDE: [&[u8]; 7] = [
    b"iPhone", b"iPad", b"iPod", b"CriOS/", b"FxiOS/", b"EdgiOS/", b"OPiOS/",
];

/// Whether this browser marks what a person started (F-169, F-170).
fn says_who_pressed(user_agent: &[u8]) -> bool {
    let names = |name: &&[u8]| user_agent.windows(name.len()).any(|window| window == *name);
    SAYS.iter().any(names) && !SAFARI_INSIDE.iter().any(names)
}

/// The host that a request names, with its port if it names one: that of the
/// target, where that is a whole address (RFC 9112, section 3.2.2), or of its
/// `Host`. Never of `X-Forwarded-Host` (T-18).
pub fn named_host<'a>(request: &Http1<'a>) -> Option<&'a str> {
    Target::read(request.target)
        .host()
        .or_else(|| match request.host {
            Host::None => None,
            Host::One(host) | Host::Several(host) => str::from_utf8(host).ok(),
        })
}

/// Whether `origin` is the address of a page that was served at `host` (ASK-71).
///
/// Where either leaves its port out, that of the origin's scheme is meant. The
/// schemes aren't compared: the doorman can't see whether TLS ended before it.
fn is_served_at(origin: &[u8], host: Option<&str>) -> bool {
    let address = str::from_utf8(origin)
        .ok()
        .and_then(|origin| origin.split_once("://"));
    let (Some((scheme, address)), Some(host)) = (address, host) else {
        return false;
    };
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    match (
        host_and_port(address, default),
        host_and_port(host, default),
    ) {
        (Some((one, port)), Some((other, other_port))) => {
            port == other_port && one.eq_ignore_ascii_case(other)
        }
        _ => false,
    }
}

/// A host, with its brackets if it has any, and a port.
fn host_and_port(text: &str, default: u16) -> Option<(&str, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address without a port.
        Some((_, last)) if last.ends_with(']') => (text, ""),
        Some((host, port)) => (host, port),
        None => (text, ""),
    };
    let port = match port {
        "" => default,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        _ => return None,
    };
    (!host.is_empty()).then_some((host, port))
}

/// One workload that a click would wake, as last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Where it stands.
    pub phase: Phase,
    /// When its pause began.
    pub pause_started: Timestamp,
    /// The newest wake request: the later of `napwake.dev/last-request` and
    /// `napwake.dev/wake-requested` (T-11).
    pub last_wake: Option<Stamp>,
}

/// What a good click does to one workload.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Press {
    /// It wakes it. The stamp is written only over what was read; if somebody
    /// else wrote in between, it is read and asked for again (T-10).
    Stamp,
    /// Nothing: it wakes already (T-07).
    IsWaking,
    /// Nothing: the last wake request was less than a minute ago (ASK-19).
    TooSoon,
    /// Nothing: another pause has begun, which the token isn't for (TOKEN-05).
    OtherPause,
}

/// What a click at `now` does to a workload, if its token is for `pause`.
pub fn press(asked: Asked, pause: Timestamp, now: Timestamp) -> Press {
    match asked.phase {
        Phase::Running | Phase::Resuming => Press::IsWaking,
        Phase::Pausing | Phase::Paused if asked.pause_started != pause => Press::OtherPause,
        Phase::Pausing | Phase::Paused if is_too_soon(asked.last_wake, now) => Press::TooSoon,
        Phase::Pausing | Phase::Paused => Press::Stamp,
    }
}

/// What a good click comes to, whose button wakes several workloads at once (T-75).
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressed {
    /// At least one of them wakes: the waking-up page.
    Waking,
    /// None does, for it was too soon.
    TooSoon,
    /// None does, for its token is for another pause: the caller is judged anew.
    OtherPause,
}

/// What a click comes to that did these things, one for each workload.
///
/// A stamp that waits for its allowance, or couldn't be written yet, counts as
/// one that was written: it's tried again (T-63, T-112).
pub fn pressed(presses: impl IntoIterator<Item = Press>) -> Pressed {
    let mut otherwise = Pressed::TooSoon;
    for press in presses {
        match press {
            Press::Stamp | Press::IsWaking => return Pressed::Waking,
            Press::OtherPause => otherwise = Pressed::OtherPause,
            Press::TooSoon => {}
        }
    }
    otherwise
}

/// Whether the minute isn't over (TOKEN-27). It may have begun before the pause
/// did (TOKEN-28). A stamp too far ahead doesn't count (T-12).
fn is_too_soon(last_wake: Option<Stamp>, now: Timestamp) -> bool {
    last_wake.is_some_and(|stamp| is_within(BETWEEN_WAKES, stamp.at(), now))
}

#[cfg(test)]
mod tests;
