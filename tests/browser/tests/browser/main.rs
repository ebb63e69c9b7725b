//! Tests with real browsers on a real cluster: level B.
//!
//! They run in the cluster's network, each in a namespace of its own and with
//! browsers of its own. Cases that take minutes are in modules named `long`.

mod access;
mod asking;
mod elsewhere;
mod ingress;
mod looks;
mod pictures;
mod waking;

/// What a person's Firefox calls itself.
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";

/// A page with a form that posts the button's token there.
fn form(url: &str, token: &str) -> String {
    format!(
        "<!doctype html><title>Elsewhere</title><form method=post action='{url}'>\
         <input type=hidden name=napwake-wake value='{token}'><button>Win</button></form>"
    )
}
