//! What a page is sent: one frame per tick and view, encoded once for everybody who watches it.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::model::live::histogram::BOUNDS_US;
use crate::model::live::{Counts, Live};
use crate::trace::source::EventSource;

/// One event of the stream: its name, and its data as JSON on one line.
pub(super) fn encode(name: &str, data: &impl Serialize) -> Bytes {
    let mut text = format!("event: {name}\ndata: ").into_bytes();
    serde_json::to_writer(&mut text, data).expect("what we hand over has keys of text, and memory takes everything");
    text.extend_from_slice(b"\n\n");
    Bytes::from(text)
}

/// What a frame tells.
#[cfg(test)]
pub(super) fn data(frame: &Bytes) -> serde_json::Value {
    let text = std::str::from_utf8(frame).unwrap();
    serde_json::from_str(text.split_once("data: ").unwrap().1).unwrap()
}

/// Milliseconds of nanoseconds, for the clock of a page.
pub(super) fn millis(nanoseconds: u64) -> f64 {
    (nanoseconds / 1000) as f64 / 1e3
}

/// What stands at the top of every view.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    title: String,
    pub now_ms: f64,
    /// Time between two frames: who hears nothing for much longer has lost the connection.
    refresh_ms: f64,
    open: usize,
    #[serde(flatten)]
    counts: Counts,
    notices: Vec<String>,
    /// Place and speed of a recording.
    playback: Option<Playing>,
}

#[derive(Debug, Serialize)]
struct Playing {
    begin_ms: f64,
    end_ms: f64,
    speed: f64,
}

impl Status {
    pub(super) fn of(live: &Live, source: &mut dyn EventSource, refresh: Duration) -> Status {
        let playback = source.playback().map(|playback| {
            let (begin, end) = playback.span_ns();
            Playing { begin_ms: millis(begin), end_ms: millis(end), speed: playback.speed() }
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

#[derive(Debug, Serialize)]
pub(super) struct Algorithms<'a> {
    status: &'a Status,
    /// Upper bounds of the bins of `rtt_counts`; one more bin takes what is above.
    bounds_us: &'static [u32],
    algorithms: Vec<Summary<'a>>,
}

#[derive(Debug, Serialize)]
struct Summary<'a> {
    algorithm: &'a str,
    sockets: usize,
    ca_states: [usize; 5],
    goodput_bps: f64,
    received_bps: f64,
    retrans_ratio: Option<f64>,
    rtt_counts: Vec<u64>,
    rtt_p50_us: Option<u32>,
    rtt_p95_us: Option<u32>,
    ns_per_call: Option<f64>,
    callback_ns: Vec<(&'a str, f64)>,
}

impl<'a> Algorithms<'a> {
    pub(super) fn of(live: &'a Live, status: &'a Status) -> Self {
        let algorithms = live.summaries().into_iter().map(|it| Summary {
            algorithm: it.algorithm,
            sockets: it.sockets,
            ca_states: it.ca_states,
            goodput_bps: it.goodput_bps.round(),
            received_bps: it.received_bps.round(),
            retrans_ratio: it.retrans_ratio,
            rtt_counts: it.rtt.counts.to_vec(),
            rtt_p50_us: it.rtt.percentile_us(0.5),
            rtt_p95_us: it.rtt.percentile_us(0.95),
            ns_per_call: it.ns_per_call,
            callback_ns: it.callback_ns,
        });
        Algorithms { status, bounds_us: &BOUNDS_US, algorithms: algorithms.collect() }
    }
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
