//! [`Span`]: a length of time as people write it, such as `90s` or `1h30m`.
//!
//! Parsing is kube's, which reads Go's form; this module only narrows it to
//! the form of Gateway API's durations, which Go, CEL and Rust read alike.

use std::{fmt, str::FromStr, time::Duration};

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time, zero or more, as people write it: `90s`, `2m`, `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(Duration);

/// A text that is no [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a duration such as 90s, 2m or 1h30m")]
pub struct NotASpan;

impl Span {
    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// A span of whole minutes.
    pub const fn from_mins(mins: u64) -> Self {
        Self(Duration::from_secs(mins * 60))
    }

    /// The same length as the standard library's type.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The same length for arithmetic with times of day.
    pub const fn signed(self) -> SignedDuration {
        let seconds = self.0.as_secs().cast_signed();
        if seconds < 0 {
            return SignedDuration::MAX; // It was too long for the type.
        }
        SignedDuration::new(seconds, self.0.subsec_nanos().cast_signed())
    }
}

impl From<Duration> for Span {
    fn from(value: Duration) -> Self {
        Self(value)
    }
}

impl FromStr for Span {
    type Err = NotASpan;

    fn from_str(text: &str) -> Result<Self, NotASpan> {
        if !has_form(text) {
            return Err(NotASpan);
        }
        let parsed: kube::core::Duration = text.parse().map_err(|_| NotASpan)?;
        Ok(Self(parsed.into()))
    }
}

/// Whether `text` has the form that Gateway API gives durations, which is that of
/// the CEL rules too: up to four parts of up to five digits and a unit.
fn has_form(text: &str) -> bool {
    let mut rest = text;
    for part in 0..4 {
        if rest.is_empty() {
            return part > 0;
        }
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = rest.len() - unit.len();
        if !(1..=5).contains(&digits) {
            return false;
        }
        rest = match ["ms", "h", "m", "s"]
            .iter()
            .find_map(|name| unit.strip_prefix(name))
        {
            Some(after) => after,
            None => return false,
        };
    }
    rest.is_empty()
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0.as_secs();
        let (hours, minutes, seconds) = (secs / 3600, secs / 60 % 60, secs % 60);
        let millis = self.0.subsec_millis();
        for (count, unit) in [
            (hours, "h"),
            (minutes, "m"),
            (seconds, "s"),
            (millis.into(), "ms"),
        ] {
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        if secs == 0 && millis == 0 {
            f.write_str("0s")
        } else {
            Ok(())
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl schemars::JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // The form is checked by the CEL rule beside each field, whose message
        // names the bound too. The length bounds the rule's cost.
        schemars::json_schema!({ "type": "string", "maxLength": 28 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("0s", 0)]
    #[case("90s", 90_000)]
    #[case("2m", 120_000)]
    #[case("1h30m", 5_400_000)]
    #[case("1h1m1s1ms", 3_661_001)]
    fn reads_what_people_write(#[case] text: &str, #[case] millis: u64) {
        assert_eq!(text.parse(), Ok(Span(Duration::from_millis(millis))));
    }

    #[rstest]
    #[case("")]
    #[case("5")]
    #[case("1.5h")]
    #[case("-5s")]
    #[case("+5s")]
    #[case("5 s")]
    #[case("5d")]
    #[case("123456s")]
    #[case("1s1s1s1s1s")]
    #[case("１s")]
    fn refuses_what_go_and_cel_read_differently(#[case] text: &str) {
        assert_eq!(text.parse::<Span>(), Err(NotASpan));
    }

    #[test]
    fn no_length_is_too_long_for_arithmetic() {
        let signed = |length: Duration| Span(length).signed();
        assert_eq!(signed(Duration::MAX), SignedDuration::MAX);
        assert_eq!(signed(Duration::from_millis(90_500)).as_millis(), 90_500);
    }

    proptest! {
        #[test]
        fn reads_back_what_it_writes(millis in 0u64..359_999_000) {
            let span = Span(Duration::from_millis(millis));
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }
    }
}
