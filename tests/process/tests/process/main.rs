//! Tests on the real `napwake doorman` process, with upstreams, callers and
//! stock clients at addresses of their own and a real API server: level D.
//!
//! Each has a world of its own. Cases that take long are in modules named
//! `long`.

mod api_away;
mod asking;
mod browsers;
mod bytes;
mod checkers;
mod classify;
mod clicks;
mod drain;
mod field;
mod hold;
mod leaving;
mod limits;
mod new_key;
mod observe;
mod pass;
mod programs;
mod protocols;
mod proxied;
mod ready;
mod two_doormen;
mod verdicts;
mod wakes;
mod waking_page;
