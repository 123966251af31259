//! The frames sent to a page: one per tick and view, encoded once for all pages that watch it.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use crate::trace::source::EventSource;
use shared::model::live::histogram::BOUNDS_US;
use shared::model::live::{Counts, Live};

/// Encodes one server-sent event: its name, and its data as JSON on one line.
pub(super) fn encode(name: &str, data: &impl Serialize) -> Bytes {
    let mut text = format!("event: {name}\ndata: ").into_bytes();
    serde_json::to_writer(&mut text, data).expect("frames have text keys, and writing to memory does not fail");
    text.extend_from_slice(b"\n\n");
    Bytes::from(text)
}

/// Decodes the data of a frame.
#[cfg(test)]
pub(super) fn data(frame: &Bytes) -> Value {
    let text = std::str::from_utf8(frame).unwrap();
    serde_json::from_str(text.split_once("data: ").unwrap().1).unwrap()
}

/// Nanoseconds to milliseconds, rounded down to microseconds.
pub(super) fn millis(nanoseconds: u64) -> f64 {
    (nanoseconds / 1000) as f64 / 1e3
}

/// The part common to all frames.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    title: String,
    now_ms: f64,
    /// Time between two frames. A page that receives nothing for much longer has lost the connection.
    refresh_ms: f64,
    open: usize,
    #[serde(flatten)]
    counts: Counts,
    notices: Vec<String>,
    /// `begin_ms`, `end_ms` and `speed` of a recording.
    playback: Option<Value>,
}

impl Status {
    pub(super) fn of(live: &Live, source: &mut dyn EventSource, refresh: Duration) -> Status {
        let playback = source.playback().map(|playback| {
            let (begin, end) = playback.span_ns();
            json!({"begin_ms": millis(begin), "end_ms": millis(end), "speed": playback.speed()})
        });
        Status {
            title: source.title(),
            now_ms: millis(source.now_ns()),
            refresh_ms: refresh.as_secs_f64() * 1e3,
            open: live.open_sockets(),
            counts: live.counts(),
            notices: source.notices(),
            playback,
        }
    }
}

/// Encodes the view of the algorithms.
pub(super) fn algorithms(live: &Live, status: &Status) -> Bytes {
    let algorithms = live.summaries().into_iter().map(|it| {
        json!({
            "algorithm": it.algorithm,
            "sockets": it.sockets,
            "ca_states": it.ca_states,
            "goodput_bps": it.goodput_bps.round(),
            "received_bps": it.received_bps.round(),
            "retrans_ratio": it.retrans_ratio,
            "rtt_counts": it.rtt.counts.as_slice(),
            "rtt_p50_us": it.rtt.percentile_us(0.5),
            "rtt_p95_us": it.rtt.percentile_us(0.95),
            "ns_per_call": it.ns_per_call,
            "callback_ns": it.callback_ns,
        })
    });
    let algorithms: Vec<Value> = algorithms.collect();
    // One more bin counts the values above the bounds.
    encode("algorithms", &json!({"status": status, "bounds_us": BOUNDS_US.as_slice(), "algorithms": algorithms}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_two_lines_and_a_blank_one_whatever_it_holds() {
        let frame = encode("x", &["two\nlines"]);
        assert_eq!(frame, "event: x\ndata: [\"two\\nlines\"]\n\n");
        assert_eq!(millis(1_234_567_891), 1234.567);
    }
}
