//! The run of a port or its original, and the difference between two runs.

use std::fs;
use std::path::Path;

use tccc::model::run::{RunRecord, RunStatus};
use tccc::trace::event::Event;

/// Interval at which windows are compared, packets.
const STEP_PKTS: u32 = 10;

/// The events of the flow in order, without the fields in which ports and originals always differ.
pub struct TwinRun(Vec<Event>);

impl TwinRun {
    /// The variant and events of a run; `None` if it is not finished.
    pub fn read(folder: &Path) -> Option<(String, TwinRun)> {
        let record: RunRecord = serde_json::from_str(&fs::read_to_string(folder.join("run.json")).ok()?).unwrap();
        if record.status != RunStatus::Done {
            return None;
        }
        let flow = &record.flows[0];
        let text = fs::read_to_string(folder.join("events.jsonl")).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Event>(line).unwrap());
        let mut events: Vec<Event> = events.filter(|event| Some(event.socket) == flow.socket).collect();
        let begin_ns = events.first().expect("a run has events").time_ns;
        for event in &mut events {
            event.time_ns -= begin_ns;
            event.algorithm.clear();
            event.private_state.fill(0);
        }
        Some((record.at["variant"].clone(), TwinRun(events)))
    }

    /// The window after `delivered` packets.
    fn window_at(&self, delivered: u32) -> f64 {
        let after = self.0.partition_point(|event| event.delivered_pkts <= delivered);
        f64::from(self.0[after.saturating_sub(1)].cwnd_pkts)
    }

    fn delivered(&self) -> u32 {
        self.0.last().expect("a run has events").delivered_pkts
    }
}

/// Describes the first difference; `None` if the runs are equal.
pub fn difference(original: &TwinRun, other: &TwinRun) -> Option<String> {
    let differing = original.0.iter().zip(&other.0).find(|(original, other)| original != other);
    let Some((original, other)) = differing else {
        let [was, is] = [original, other].map(|run| run.0.len());
        return (was != is).then(|| format!("{was} events, then {is}"));
    };
    let at = format!("{:.3} s", original.time_ns as f64 / 1e9);
    let threshold = |event: &Event| event.ssthresh_pkts.map_or("none".to_owned(), |packets| packets.to_string());
    Some(if original.cwnd_pkts != other.cwnd_pkts {
        format!("{at}, cwnd {} for {}", other.cwnd_pkts, original.cwnd_pkts)
    } else if original.ssthresh_pkts != other.ssthresh_pkts {
        format!("{at}, ssthresh {} for {}", threshold(other), threshold(original))
    } else {
        format!("{at}, an event of another kind or moment")
    })
}

/// RMS difference of two windows over delivered packets, relative to the first window's mean.
pub fn rms(original: &TwinRun, other: &TwinRun) -> f64 {
    let last = original.delivered().min(other.delivered());
    let points: Vec<(f64, f64)> = (STEP_PKTS..last)
        .step_by(STEP_PKTS as usize)
        .map(|delivered| (original.window_at(delivered), other.window_at(delivered)))
        .collect();
    assert!(points.len() > 100, "{} points are too few to compare", points.len());
    let mean = points.iter().map(|(window, _)| window).sum::<f64>() / points.len() as f64;
    let squares = points.iter().map(|(window, other)| (window - other).powi(2)).sum::<f64>();
    (squares / points.len() as f64).sqrt() / mean
}
