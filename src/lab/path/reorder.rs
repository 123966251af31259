//! Reordering: packets that are held back, so that later ones overtake them. Plain data.

use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;

use super::named::{NamedValues, parse};
use super::range::some_delay;
use shared::units::{ParseError, Share, format_duration, serde_as_text};

/// With more, most packets would be held back, which is a longer delay rather than reordering.
const SHARE_MAX: f64 = 0.5;

/// Each packet is held back with probability `share`. Packets that leave the queue meanwhile overtake it.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("share={},by={}", share.exact(), format_duration(*by))]
pub struct Reorder {
    pub share: Share,
    /// How much longer these packets take.
    pub by: Duration,
}

impl FromStr for Reorder {
    type Err = ParseError;

    /// Reads `share=1%,by=5ms`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(text).map_err(|why| ParseError::because(text, why))
    }
}

fn read(text: &str) -> Result<Reorder, String> {
    let named = NamedValues::split(text, ["share", "by"])?;
    let share: Share = named.required("share", "share=1%", parse)?;
    if share.0 <= 0.0 || share.0 > SHARE_MAX {
        return Err(format!("share = \"{}\": expected more than 0% and at most 50%", share.exact()));
    }
    Ok(Reorder { share, by: named.required("by", "by=5ms", some_delay)? })
}

serde_as_text!(Reorder => ToString::to_string);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_is_read_printed_and_refused_by_name() {
        let reorder: Reorder = "by=5ms,share=1%".parse().unwrap();
        assert_eq!(reorder, Reorder { share: Share(0.01), by: Duration::from_millis(5) });
        assert_eq!(reorder.to_string(), "share=1%,by=5ms");
        let refused = |text: &str| text.parse::<Reorder>().unwrap_err().expected;
        assert_eq!(refused("share=1%"), "by is missing, such as by=5ms");
        assert_eq!(refused("share=1%,by=0ms"), "by = \"0ms\": expected more than 0us and at most 10s");
        assert_eq!(refused("share=60%,by=5ms"), "share = \"60%\": expected more than 0% and at most 50%");
        assert!(refused("share=2,by=5ms").starts_with("share = \"2\": expected a share"));
        assert_eq!(refused("1%"), "\"1%\": expected name=value");
    }
}
