//! Browsers: a page that is opened, and a person who opens it.

use crate::head::{Http1, Mode};

use super::names_robot;

/// What every browser's `User-Agent` starts with (ASK-49).
const MOZILLA: &[u8] = b"Mozilla/";

/// Whether a request opens a page, whoever's it is (PAGE-11, PAGE-12, PAGE-13).
///
/// What the browser says of the request rules; only where it says nothing, as
/// older ones don't, does it matter what is asked for (T-32).
pub fn opens_page(request: &Http1<'_>) -> bool {
    let is_for_a_page = match request.fetch.mode {
        Mode::Navigate => true,
        Mode::Unsaid => request.asks_for_html,
        Mode::Other => false,
    };
    let gets = matches!(request.method, "GET" | "HEAD");
    gets && is_for_a_page && !request.asks_for_websocket
}

/// Whether this is the `User-Agent` of a person's browser, or of a robot that
/// passes for one (ASK-49, ASK-50, ASK-62).
pub fn is_browser(user_agent: Option<&[u8]>) -> bool {
    user_agent.is_some_and(|agent| agent.starts_with(MOZILLA) && !names_robot(agent))
}
