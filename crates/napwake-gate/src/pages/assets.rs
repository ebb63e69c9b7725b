//! What the pages carry besides their text: style, script, tab icon, policy.
//!
//! Owns these, worked out once. Nothing here comes from a caller, so the templates
//! write it as it is.

use std::sync::LazyLock;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::policy;

/// One page's.
pub(super) struct Assets {
    pub(super) style: &'static str,
    pub(super) script: &'static str,
    /// The tab icon as an address of its own (PAGE-28).
    pub(super) icon: String,
    pub(super) policy: String,
}

pub(super) static WAKING: LazyLock<Assets> = LazyLock::new(|| {
    let style = concat!(
        include_str!("templates/page.css"),
        include_str!("templates/waking.css")
    );
    Assets {
        style,
        script: "",
        icon: drawn_in(include_str!("templates/waking-icon.svg")),
        policy: policy::waking(style),
    }
});

pub(super) static ASLEEP: LazyLock<Assets> = LazyLock::new(|| {
    let style = concat!(
        include_str!("templates/page.css"),
        include_str!("templates/asleep.css")
    );
    let script = include_str!("templates/asleep.js");
    Assets {
        style,
        script,
        icon: drawn_in(include_str!("templates/asleep-icon.svg")),
        policy: policy::asleep(style, script),
    }
});

/// What would end the address or the attribute that it stands in.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'<')
    .add(b'>');

fn drawn_in(svg: &str) -> String {
    let svg = svg.trim_end();
    format!("data:image/svg+xml,{}", utf8_percent_encode(svg, ENCODED))
}
