//! Random additions to the delay of a link. Plain data.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::named::NamedValues;
use super::range::{DELAY_MAX, wrong_delay};
use shared::units::{ParseError, Share, format_duration, parse_duration, serde_as_text};

const WIFI: &str = "wifi";
/// Means of the formula: without a packet that is retransmitted over the air, and with only such packets.
const WIFI_MEANS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(91)];
/// Longest additions of bpf/link/jitter.h: 18 deferrals of 1 ms, and 51 retries of 7.5 ms.
const LONGEST_DEFERRAL: Duration = Duration::from_millis(18);
const LONGEST_RETRIES: Duration = Duration::from_micros(51 * 7_500);

/// A random addition to the delay of each packet. Packets stay in order, so a long one holds the packets behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Uniform from 0 to this.
    UpTo(Duration),
    /// That of a Wi-Fi with busy neighbours, with this target of its mean.
    ///
    /// Source: C. Huitema et al., draft-huitema-ccwg-c4-test-04, "Handling of High Jitter Environments".
    Wifi(Duration),
}

impl Default for Jitter {
    fn default() -> Self {
        Jitter::UpTo(Duration::ZERO)
    }
}

impl From<Duration> for Jitter {
    fn from(most: Duration) -> Self {
        Jitter::UpTo(most)
    }
}

impl Jitter {
    pub fn is_none(self) -> bool {
        self == Jitter::default()
    }

    pub fn longest(self) -> Duration {
        match self {
            Jitter::UpTo(most) => most,
            Jitter::Wifi(mean) if mean == WIFI_MEANS[0] => LONGEST_DEFERRAL,
            Jitter::Wifi(_) => LONGEST_DEFERRAL + LONGEST_RETRIES,
        }
    }

    /// The mean if no packet waits for the one before it.
    pub fn mean(self) -> Duration {
        match self {
            Jitter::UpTo(most) => most / 2,
            Jitter::Wifi(mean) => mean,
        }
    }

    /// The share of packets that a Wi-Fi retransmits over the air.
    pub(super) fn wifi_retries(self) -> Option<Share> {
        let Jitter::Wifi(mean) = self else { return None };
        let [least, most] = WIFI_MEANS;
        Some(Share((mean - least).as_secs_f64() / (most - least).as_secs_f64()))
    }

    pub(super) fn out_of_range(self) -> Option<ParseError> {
        match self {
            Jitter::UpTo(most) => wrong_delay(most),
            Jitter::Wifi(_) => None, // checked where it is read
        }
    }
}

impl FromStr for Jitter {
    type Err = ParseError;

    /// Reads `2ms` or `wifi:mean=7ms`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let Some((kind, values)) = text.split_once(':') else {
            let most = format_duration(DELAY_MAX);
            let expected = format!("expected a time up to {most}, such as 2ms, or {WIFI}:mean=7ms");
            return parse_duration(text).map(Jitter::UpTo).map_err(|_| ParseError::because(text, expected));
        };
        let mean = if kind == WIFI { wifi_mean(values) } else { Err(format!("expected 2ms or {WIFI}:mean=7ms")) };
        mean.map(Jitter::Wifi).map_err(|why| ParseError::because(text, why))
    }
}

fn wifi_mean(values: &str) -> Result<Duration, String> {
    let [least, most] = WIFI_MEANS;
    let mean = |text: &str| {
        let mean = parse_duration(text).map_err(|wrong| wrong.to_string())?;
        let why = || format!("\"{text}\": outside {}..{}", format_duration(least), format_duration(most));
        (least..=most).contains(&mean).then_some(mean).ok_or_else(why)
    };
    NamedValues::split(values, ["mean"])?.required("mean", "mean=7ms", mean)
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Jitter::UpTo(most) => f.write_str(&format_duration(*most)),
            Jitter::Wifi(mean) => write!(f, "{WIFI}:mean={}", format_duration(*mean)),
        }
    }
}

serde_as_text!(Jitter => ToString::to_string);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_and_printed() {
        for text in ["0us", "2ms", "10s", "wifi:mean=1ms", "wifi:mean=7.5ms", "wifi:mean=91ms"] {
            let jitter: Jitter = text.parse().unwrap();
            assert_eq!(jitter.to_string(), text);
            assert_eq!(serde_json::from_str::<Jitter>(&serde_json::to_string(&jitter).unwrap()).unwrap(), jitter);
        }
        let share = |text: &str| text.parse::<Jitter>().unwrap().wifi_retries().map(|share| share.0);
        assert_eq!(
            [share("wifi:mean=1ms"), share("wifi:mean=46ms"), share("wifi:mean=91ms")],
            [0.0, 0.5, 1.0].map(Some)
        );
        assert_eq!(share("2ms"), None);
    }

    #[test]
    fn mistakes_name_the_value_and_what_is_allowed() {
        let check = |text: &str, expected: &str| {
            let refused = text.parse::<Jitter>().unwrap_err();
            assert_eq!(refused.to_string(), format!("\"{text}\": {expected}"));
        };
        let either = "expected a time up to 10s, such as 2ms, or wifi:mean=7ms";
        for text in ["", "2", "wifi", "-1ms", "wifi=7ms"] {
            check(text, either);
        }
        check("wlan:mean=7ms", "expected 2ms or wifi:mean=7ms");
        check("wifi:", "\"\": expected name=value");
        check("wifi:7ms", "\"7ms\": expected name=value");
        check("wifi:max=7ms", "\"max\": expected one of mean");
        check("wifi:mean=7ms,mean=8ms", "mean occurs twice");
        check("wifi:mean=0ms", "mean = \"0ms\": outside 1ms..91ms");
        check("wifi:mean=92ms", "mean = \"92ms\": outside 1ms..91ms");
    }
}
