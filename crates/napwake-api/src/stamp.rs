//! Stamps: the times that annotations carry, and how they compare.
//!
//! Writes microseconds, reads any RFC 3339 time. Reads no clock.

use std::{fmt, str::FromStr};

use jiff::{Timestamp, Unit};

/// A time as an annotation gave it.
///
/// Remembers whether it was given in whole seconds, as people's tooling often
/// does, because such a stamp counts as newer when its second isn't before
/// that of the time it's compared with (T-127).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    at: Timestamp,
    whole_seconds: bool,
}

/// A text that is no [`Stamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an RFC 3339 time such as 2026-10-23T18:04:12Z")]
pub struct NotAStamp;

impl Stamp {
    /// A stamp of the present, cut to microseconds.
    pub fn now(now: Timestamp) -> Self {
        Self {
            at: to_micros(now),
            whole_seconds: false,
        }
    }

    /// The time itself.
    pub const fn at(self) -> Timestamp {
        self.at
    }

    /// Whether this stamp counts as newer than `time`; in doubt it does (T-127).
    pub fn is_newer_than(self, time: Timestamp) -> bool {
        if self.whole_seconds {
            self.at.as_second() >= time.as_second()
        } else {
            self.at > time
        }
    }
}

/// `time` cut to microseconds, the precision of everything Napwake writes (T-127).
pub fn to_micros(time: Timestamp) -> Timestamp {
    let micros = time.as_microsecond();
    Timestamp::from_microsecond(micros).unwrap_or(time)
}

/// RFC 3339 in UTC with six digits, as every time of Napwake's is written.
pub fn render(time: Timestamp) -> String {
    format!("{time:.6}")
}

impl FromStr for Stamp {
    type Err = NotAStamp;

    fn from_str(text: &str) -> Result<Self, NotAStamp> {
        let at: Timestamp = text.parse().map_err(|_| NotAStamp)?;
        let whole = at.round(Unit::Second).is_ok_and(|rounded| rounded == at);
        Ok(Self {
            at,
            whole_seconds: whole && !text.contains('.'),
        })
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render(self.at))
    }
}

/// What kind of caller a request came from, as the doorman stamps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A held request.
    Request,
    /// A browser that got the waking-up page.
    Page,
    /// A person's click on `Wake it`.
    Click,
    /// A held request whose User-Agent names a robot.
    Robot,
}

impl RequestKind {
    /// The word in the annotation.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Page => "page",
            Self::Click => "click",
            Self::Robot => "robot",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Request, Self::Page, Self::Click, Self::Robot]
            .into_iter()
            .find(|kind| kind.word() == word)
    }
}

/// Bytes that a Service's name has at most: it is a DNS label.
const LONGEST_SERVICE: usize = 63;

/// The value of `napwake.dev/last-request`: `<time> <kind> <service>`.
///
/// Readers take a bare time too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRequest {
    /// When the request came.
    pub stamp: Stamp,
    /// What kind of caller sent it; a plain request where the value doesn't say.
    pub kind: RequestKind,
    /// The Service it came to, where the value says so.
    pub service: Option<String>,
}

impl FromStr for LastRequest {
    type Err = NotAStamp;

    fn from_str(text: &str) -> Result<Self, NotAStamp> {
        let mut words = text.split_ascii_whitespace();
        let stamp = words.next().ok_or(NotAStamp)?.parse()?;
        let kind = words
            .next()
            .and_then(RequestKind::from_word)
            .unwrap_or(RequestKind::Request);
        Ok(Self {
            stamp,
            kind,
            // Whoever may write the annotation may write much: it isn't kept.
            service: words
                .next()
                .filter(|name| name.len() <= LONGEST_SERVICE)
                .map(str::to_owned),
        })
    }
}

impl fmt::Display for LastRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.stamp, self.kind.word())?;
        self.service
            .iter()
            .try_for_each(|service| write!(f, " {service}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a test's own time")
    }

    #[rstest]
    #[case("2026-11-30T08:00:00.000001Z", "2026-11-30T08:00:00Z", true)]
    #[case("2026-11-30T08:00:00.000000Z", "2026-11-30T08:00:00Z", false)]
    #[case("2026-11-30T08:00:00Z", "2026-11-30T08:00:00.9Z", true)]
    #[case("2026-11-30T09:00:00+01:00", "2026-11-30T08:00:00.9Z", true)]
    #[case("2026-11-30T07:59:59Z", "2026-11-30T08:00:00Z", false)]
    fn whole_seconds_count_as_newer_in_doubt(
        #[case] stamp: &str,
        #[case] than: &str,
        #[case] newer: bool,
    ) {
        let stamp: Stamp = stamp.parse().expect("readable");
        assert_eq!(stamp.is_newer_than(time(than)), newer);
    }

    #[test]
    fn writes_microseconds() {
        let stamp = Stamp::now(time("2026-11-30T08:00:00.1234567Z"));
        assert_eq!(stamp.to_string(), "2026-11-30T08:00:00.123456Z");
        assert_eq!(stamp.to_string().parse(), Ok(stamp));
    }

    #[rstest]
    #[case(
        "2026-11-30T08:00:00.123456Z click api",
        RequestKind::Click,
        Some("api")
    )]
    #[case(
        "2026-11-30T08:00:00.123456Z robot api-v2",
        RequestKind::Robot,
        Some("api-v2")
    )]
    #[case("2026-11-30T08:00:00.123456Z", RequestKind::Request, None)]
    #[case(
        "2026-11-30T08:00:00.123456Z novel api",
        RequestKind::Request,
        Some("api")
    )]
    fn reads_last_request(
        #[case] text: &str,
        #[case] kind: RequestKind,
        #[case] service: Option<&str>,
    ) {
        let read: LastRequest = text.parse().expect("readable");
        assert_eq!((read.kind, read.service.as_deref()), (kind, service));
    }

    /// What can be no Service's name isn't kept, however long it is.
    #[rstest]
    #[case(63, true)]
    #[case(64, false)]
    #[case(200_000, false)]
    fn keeps_no_more_than_a_name(#[case] length: usize, #[case] kept: bool) {
        let text = format!("2026-11-30T08:00:00Z request {}", "a".repeat(length));
        let read: LastRequest = text.parse().expect("readable");
        assert_eq!(read.service.is_some(), kept);
    }

    #[rstest]
    #[case("")]
    #[case("yesterday")]
    #[case("request api")]
    #[case("1764489600")]
    fn refuses_what_is_no_time(#[case] text: &str) {
        assert_eq!(text.parse::<LastRequest>(), Err(NotAStamp));
    }
}
