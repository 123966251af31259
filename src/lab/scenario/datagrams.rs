//! What a flow of datagrams sends: a constant rate, or frames as an encoder makes them. Plain data.

use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;
use serde::{Deserialize, Serialize};

use crate::path::named::{NamedValues, parse};
use host::read_with;
use host::toml_reader::Value;
use shared::units::{BitsPerSec, Bytes, ParseError, duration_text, serde_as_text};

/// Most frames a second, and most frames from one key frame to the next.
const PER_SECOND_MAX: u32 = 1_000;
const EVERY_MAX: u32 = 1_000_000;
/// Largest frame.
const FRAME_MAX: Bytes = Bytes(10_000_000);

/// One-way delay up to which talk is natural (ITU-T G.114).
pub const DEADLINE: Duration = Duration::from_millis(150);

/// What a flow of datagrams sends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DatagramSpec {
    /// Rate including IP headers; of frames the mean.
    pub rate: BitsPerSec,
    /// Length of each IP packet, headers included; of a frame's last packet at most.
    pub packet_bytes: u32,
    /// `None`: single datagrams at equal intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FrameSpec>,
    /// A frame that is not whole this long after it was sent is late.
    #[serde(default = "deadline", with = "duration_text", skip_serializing_if = "is_deadline")]
    pub deadline: Duration,
}

fn deadline() -> Duration {
    DEADLINE
}

fn is_deadline(deadline: &Duration) -> bool {
    *deadline == DEADLINE
}

/// Frames at equal intervals, as of audio or video. All datagrams of a frame leave at once.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("{}", self.text())]
pub struct FrameSpec {
    pub per_second: u32,
    /// Payload of a frame.
    pub size: Bytes,
    /// Payload of a key frame, and the number of frames from one to the next. The first frame is a key frame.
    pub key: Option<(Bytes, u32)>,
}

impl FrameSpec {
    fn text(&self) -> String {
        let key = self.key.map_or(String::new(), |(size, every)| format!(",key={size},every={every}"));
        format!("per_second={},size={}{key}", self.per_second, self.size)
    }

    /// Payload of a key frame and of the others, and the number of frames from one key frame to the next.
    pub fn shape(&self) -> ([Bytes; 2], u32) {
        match self.key {
            Some((key, every)) => ([key, self.size], every),
            None => ([self.size; 2], 1),
        }
    }
}

impl FromStr for FrameSpec {
    type Err = ParseError;

    /// Reads `per_second=30,size=10kB,key=50kB,every=60`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(text).map_err(|why| ParseError::because(text, why))
    }
}

fn read(text: &str) -> Result<FrameSpec, String> {
    if !text.contains('=') {
        return Err("expected frames such as per_second=30,size=10kB".to_owned());
    }
    let named = NamedValues::split(text, ["per_second", "size", "key", "every"])?;
    let per_second = named.required("per_second", "per_second=30", |text| whole(text, [1, PER_SECOND_MAX]))?;
    let size = named.required("size", "size=10kB", frame_size)?;
    let key = named.optional("key", frame_size)?;
    let every = named.optional("every", |text| whole(text, [2, EVERY_MAX]))?;
    match (key, every) {
        (Some(_), None) => Err("every is missing beside key, such as every=60".to_owned()),
        (None, Some(_)) => Err("key is missing beside every, such as key=50kB".to_owned()),
        (key, every) => Ok(FrameSpec { per_second, size, key: key.zip(every) }),
    }
}

fn whole(text: &str, [least, most]: [u32; 2]) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("\"{text}\": expected a whole number from {least} to {most}"))
}

fn frame_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = parse(text)?;
    let is_size = (1..=FRAME_MAX.0).contains(&size.0);
    is_size.then_some(size).ok_or_else(|| format!("\"{text}\": outside 1B..{FRAME_MAX}"))
}

serde_as_text!(FrameSpec => ToString::to_string);
read_with!(|value: &Value<'_>| value.parsed(FromStr::from_str) => FrameSpec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_printed_and_refused_by_name() {
        let frames: FrameSpec = "size=10kB, per_second=30, key=50kB, every=60".parse().unwrap();
        assert_eq!(frames.to_string(), "per_second=30,size=10000B,key=50000B,every=60");
        assert_eq!(frames.shape(), ([Bytes(50_000), Bytes(10_000)], 60));
        assert_eq!(frames.to_string().parse(), Ok(frames));
        let audio: FrameSpec = "per_second=50,size=160B".parse().unwrap();
        assert_eq!(audio.shape(), ([Bytes(160); 2], 1));
        let refused = |text: &str| text.parse::<FrameSpec>().unwrap_err().expected;
        assert_eq!(refused("size=1kB"), "per_second is missing, such as per_second=30");
        assert_eq!(refused("per_second=30"), "size is missing, such as size=10kB");
        for per_second in ["0", "1001", "2.5", "-1"] {
            let what = format!("per_second = \"{per_second}\": expected a whole number from 1 to 1000");
            assert_eq!(refused(&format!("per_second={per_second},size=1kB")), what);
        }
        assert_eq!(refused("per_second=30,size=0B"), "size = \"0B\": outside 1B..10000000B");
        assert_eq!(refused("per_second=30,size=1kB,key=2kB"), "every is missing beside key, such as every=60");
        assert_eq!(refused("per_second=30,size=1kB,every=9"), "key is missing beside every, such as key=50kB");
        assert!(refused("per_second=30,size=1kB,key=2kB,every=1").starts_with("every = \"1\": expected"));
        assert_eq!(refused("30"), "expected frames such as per_second=30,size=10kB");
    }
}
