//! Every byte that the doorman itself sends to a caller.
//!
//! Owns the status, the headers and the bodies. Names no namespace, workload or
//! Service, and puts nothing the caller sent into a header (ASK-78, T-105).
//! Nothing else makes bytes for a caller.

use crate::caller::BodyForm;

/// How long a client that was turned away should stay away, in seconds (ASK-29).
const ASLEEP_RETRY_AFTER: &str = "300";

/// More bytes than any head here has.
const HEAD_ROOM: usize = 1024;

/// An answer, after which the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it says.
    pub kind: AnswerKind,
    /// Whether the body is sent.
    pub body: Body,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// To a known probe, scraper or monitor: `503` (CLASS-08).
    Probe,
    /// To Google Cloud's load balancer check: `200` (CLASS-12).
    GoogleHealthCheck,
    /// To a request for a hidden file: `404` (CLASS-18).
    HiddenFile,
    /// To anything but a person, where a workload asks: `503` (ASK-28).
    TurnedAway(BodyForm),
    /// To a person's browser.
    Page(Page),
}

/// A page for a person's browser, as [`crate::pages`] drew it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub(crate) label: &'static str,
    pub(crate) status: &'static str,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) html: String,
}

/// Whether an answer's body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// With the body.
    Sent,
    /// Without it, as to a HEAD; the headers are the same (RFC 9110, section 9.3.2).
    LeftOut,
}

impl Body {
    /// What a request with this method gets.
    pub fn to(method: &str) -> Self {
        if method == "HEAD" {
            Self::LeftOut
        } else {
            Self::Sent
        }
    }
}

/// One kind's status, headers of its own, and body.
struct Content<'a> {
    status: &'static str,
    media_type: &'static str,
    headers: &'a [(&'static str, &'static str)],
    body: &'a str,
}

impl AnswerKind {
    /// The kind as a metric's label.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::GoogleHealthCheck => "google_health_check",
            Self::HiddenFile => "hidden_file",
            Self::TurnedAway(_) => "turned_away",
            Self::Page(page) => page.label,
        }
    }

    fn content(&self) -> Content<'_> {
        const PLAIN: &str = "text/plain; charset=utf-8";
        const ASLEEP: &[(&str, &str)] = &[("Retry-After", ASLEEP_RETRY_AFTER)];
        match self {
            Self::Probe => Content {
                status: "503 Service Unavailable",
                media_type: PLAIN,
                headers: &[],
                body: "Asleep. Checks like this one wake nothing.\n",
            },
            Self::GoogleHealthCheck => Content {
                status: "200 OK",
                media_type: PLAIN,
                headers: &[],
                body: "OK\n",
            },
            Self::HiddenFile => Content {
                status: "404 Not Found",
                media_type: PLAIN,
                headers: &[],
                body: "Not found.\n",
            },
            Self::TurnedAway(BodyForm::Plain) => Content {
                status: "503 Service Unavailable",
                media_type: PLAIN,
                headers: ASLEEP,
                body: "This environment is asleep, and a request like this one doesn't wake it.\n\
                       To wake it, open its address in a browser and press \"Wake it\", or have\n\
                       someone with access to the cluster run: kubectl napwake wake\n",
            },
            Self::TurnedAway(BodyForm::Json) => Content {
                status: "503 Service Unavailable",
                media_type: "application/json",
                headers: ASLEEP,
                body: concat!(
                    r#"{"error":"asleep","#,
                    r#""message":"This environment is asleep, and a request like this one doesn't wake it.","#,
                    r#""wake":"Open its address in a browser and press \"Wake it\", or have someone "#,
                    r#"with access to the cluster run: kubectl napwake wake"}"#,
                    "\n",
                ),
            },
            Self::Page(page) => Content {
                status: page.status,
                media_type: "text/html; charset=utf-8",
                headers: &page.headers,
                body: &page.html,
            },
        }
    }
}

impl Answer {
    /// The answer as it goes to the caller, of HTTP/1.0 or HTTP/1.1 alike
    /// (T-53): with its length, so that it is whole even where the close is
    /// lost, and never to be stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let content = self.kind.content();
        let length = content.body.len().to_string();
        let common = [
            ("Content-Type", content.media_type),
            ("Content-Length", &length),
            ("Cache-Control", "no-store"),
            // CLASS-09, T-52
            ("Connection", "close"),
        ];
        // Room for it all at once: a page would be copied several times as it grows.
        let mut text = String::with_capacity(content.body.len() + HEAD_ROOM);
        text.extend(["HTTP/1.1 ", content.status, "\r\n"]);
        for (name, value) in common.iter().chain(content.headers) {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        if self.body == Body::Sent {
            text.push_str(content.body);
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests;
