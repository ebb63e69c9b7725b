//! What a request's head says, as far as it matters.
//!
//! Owns which headers are looked at, and which one counts where there are several.

use httparse::Header;

use super::Extent;
use crate::{
    caller::{self, BodyForm},
    form::{Form, named},
};

/// A request. Borrows the held bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http1<'a> {
    /// The method, in the case the caller wrote it.
    pub method: &'a str,
    /// The request target, in whichever form.
    pub target: &'a str,
    /// The first `User-Agent` (T-41).
    pub user_agent: Option<&'a [u8]>,
    /// What form of body its `Accept` asks for.
    pub wants: BodyForm,
    /// Whether its `Accept` asks for HTML by name (T-32).
    pub asks_for_html: bool,
    /// Whether it asks for a WebSocket (PAGE-17, ASK-38).
    pub asks_for_websocket: bool,
    /// Its `Host`.
    pub host: Host<'a>,
    /// Its `Origin`.
    pub origin: Option<&'a [u8]>,
    /// What the browser says of the request itself.
    pub fetch: Fetch,
    /// What its body is, if it may be the button's form.
    pub form: Form,
    /// How much of the head this is.
    pub extent: Extent,
}

/// The host a request names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Host<'a> {
    /// None, as HTTP/1.0 allows (T-53).
    #[default]
    None,
    /// This one.
    One(&'a [u8]),
    /// This one first, and then another: nothing to rely on (T-41).
    Several(&'a [u8]),
}

/// Fetch metadata, which browsers send over HTTPS, and scripts can't change
/// (F-167, F-171).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// Whether any of it was sent.
    pub is_sent: bool,
    /// `Sec-Fetch-Site`.
    pub site: Site,
    /// `Sec-Fetch-Mode`.
    pub mode: Mode,
    /// Whether `Sec-Fetch-User` says that a person started it (F-170).
    pub is_by_a_person: bool,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Site {
    /// It isn't said.
    #[default]
    Unsaid,
    /// From a page of the same scheme, host and port.
    SameOrigin,
    /// From anywhere else, or from nowhere (T-15).
    Other,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It isn't said.
    #[default]
    Unsaid,
    /// For a page to be shown.
    Navigate,
    /// For anything else, such as a script.
    Other,
}

/// What the headers say of a request.
pub(super) fn read<'a>(
    method: &'a str,
    target: &'a str,
    headers: &[Header<'a>],
    extent: Extent,
) -> Http1<'a> {
    Http1 {
        method,
        target,
        user_agent: named(headers, "user-agent").next(),
        wants: caller::body_form(named(headers, "accept")),
        asks_for_html: caller::asks_for_html(named(headers, "accept")),
        asks_for_websocket: named(headers, "upgrade").any(names_websocket),
        host: host(headers),
        origin: named(headers, "origin").next(),
        fetch: fetch(headers),
        form: Form::None,
        extent,
    }
}

fn names_websocket(value: &[u8]) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|one| one.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

fn host<'a>(headers: &[Header<'a>]) -> Host<'a> {
    let mut hosts = named(headers, "host");
    let Some(first) = hosts.next() else {
        return Host::None;
    };
    if hosts.all(|other| other.eq_ignore_ascii_case(first)) {
        Host::One(first)
    } else {
        Host::Several(first)
    }
}

fn fetch(headers: &[Header<'_>]) -> Fetch {
    let first = |name| named(headers, name).next();
    let (site, mode) = (first("sec-fetch-site"), first("sec-fetch-mode"));
    let (user, dest) = (first("sec-fetch-user"), first("sec-fetch-dest"));
    Fetch {
        is_sent: [site, mode, user, dest].iter().any(Option::is_some),
        site: match site {
            None => Site::Unsaid,
            Some(b"same-origin") => Site::SameOrigin,
            Some(_) => Site::Other,
        },
        mode: match mode {
            None => Mode::Unsaid,
            Some(b"navigate") => Mode::Navigate,
            Some(_) => Mode::Other,
        },
        is_by_a_person: user == Some(b"?1"),
    }
}
