//! Result directories as `tccc run` writes them, with values that are easy to check.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tccc::model::run::{FlowRecord, RunRecord};
use tccc::trace::event::Event;

/// A path with three losses, two measured variants, three published ones, and expected ratios.
pub const SCENARIO: &str = include_str!("../fixtures/scenarios/table-2.toml");

/// Losses, each with the packets that each variant delivers in the first repeat.
const DELIVERED: [(&str, [(&str, u64); 2]); 3] = [
    ("0", [("SACK", 24_700), ("Other", 24_690)]),
    ("0.1%", [("SACK", 17_400), ("Other", 21_500)]),
    ("1%", [("SACK", 6_000), ("Other", 10_000)]),
];
/// Packets that a repeat adds to both variants, so that the repeats are paired.
const SHIFTS: [i64; 3] = [0, 300, -240];

pub struct Directory {
    pub path: PathBuf,
    /// Its parent folder, if it was created for this directory.
    place: Option<tempfile::TempDir>,
}

impl Directory {
    pub fn at(path: &Path) -> Directory {
        Directory { path: path.to_owned(), place: None }
    }

    pub fn new(place: &Path, scenario: &str) -> Directory {
        let path = place.to_owned();
        fs::create_dir_all(path.join("runs")).unwrap();
        fs::write(path.join("scenario.toml"), scenario).unwrap();
        fs::write(path.join("plan.json"), r#"{"schema":1,"scenario":"table-2","seed":7}"#).unwrap();
        fs::write(path.join("host.json"), include_str!("../fixtures/results/host.json")).unwrap();
        Directory { path, place: None }
    }

    pub fn of(scenario: &str) -> Directory {
        let place = tempfile::tempdir().unwrap();
        let path = Directory::new(&place.path().join("results"), scenario).path;
        Directory { path, place: Some(place) }
    }

    /// A complete experiment: three losses, two variants, three repeats.
    pub fn complete() -> Directory {
        let directory = Directory::of(SCENARIO);
        for (loss, variants) in DELIVERED {
            for (variant, delivered) in variants {
                for (repeat, shift) in SHIFTS.into_iter().enumerate() {
                    let delivered = delivered.saturating_add_signed(shift);
                    directory.add(&run(loss, variant, repeat as u32, delivered));
                }
            }
        }
        directory
    }

    /// Writes a run, with events if it has a flow.
    pub fn add(&self, record: &RunRecord) {
        let folder = self.folder(&record.id);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("run.json"), serde_json::to_vec_pretty(record).unwrap()).unwrap();
        if record.flows.is_empty() {
            return;
        }
        let events = record.flows.iter().flat_map(events);
        let lines: Vec<String> = events.map(|event| serde_json::to_string(&event).unwrap()).collect();
        fs::write(folder.join("events.jsonl"), lines.join("\n") + "\n").unwrap();
    }

    /// Writes a run of each variant for each loss and repeat. A variant delivers its packets, and `more` per repeat.
    pub fn add_each(&self, losses: &[&str], repeats: u32, variants: &[(&str, u64)], more: u64) {
        for (loss, repeat) in losses.iter().flat_map(|loss| (0..repeats).map(move |repeat| (loss, repeat))) {
            for (variant, delivered) in variants {
                self.add(&run(loss, variant, repeat, delivered + more * u64::from(repeat)));
            }
        }
    }

    /// The parent folder, which contains nothing else.
    pub fn place(&self) -> &Path {
        self.place.as_ref().expect("a place of its own").path()
    }

    pub fn folder(&self, id: &str) -> PathBuf {
        self.path.join("runs").join(id)
    }
}

pub fn position<const N: usize>(at: [(&str, &str); N]) -> BTreeMap<String, String> {
    at.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

pub fn run(loss: &str, variant: &str, repeat: u32, delivered_pkts: u64) -> RunRecord {
    let mut record: RunRecord = serde_json::from_str(include_str!("../fixtures/results/run.json")).unwrap();
    record.id = format!("loss-{}-{variant}-{repeat}", loss.replace('%', "pct"));
    record.at = position([("loss", loss), ("variant", variant)]);
    record.repeat = repeat;
    record.seed += u64::from(repeat);
    let flow = &mut record.flows[0];
    flow.algorithm = if variant == "SACK" { "reno".into() } else { "other".into() };
    flow.variant = variant.into();
    flow.socket = Some(100 + u64::from(repeat));
    flow.delivered_pkts = delivered_pkts;
    flow.received_bytes = delivered_pkts * 1460;
    flow.goodput_bps = delivered_pkts as f64 * 1460.0 * 8.0 / 100.0;
    (flow.retrans_pkts, flow.lost_pkts) = (delivered_pkts / 1000, delivered_pkts / 1000);
    record
}

/// A sawtooth of windows below a cap. Fewer delivered packets make it steeper.
fn events(flow: &FlowRecord) -> Vec<Event> {
    let period = (flow.delivered_pkts / 1000).max(4);
    let other = flow.algorithm != "reno";
    let window = |step: u64| {
        let rise = (step % period) as f64 / period as f64;
        let low = if other { 0.75 } else { 0.5 };
        let cap = 50.0 * (0.4 + 0.6 * flow.delivered_pkts as f64 / 24_700.0).min(1.0);
        (cap * (low + (1.0 - low) * rise)).round().max(2.0) as u32
    };
    let event: Event = serde_json::from_str(include_str!("../fixtures/results/event.json")).unwrap();
    let at_step = |step: u64| Event {
        time_ns: 5_000_000_000 + step * 1_000_000_000,
        socket: flow.socket.unwrap_or(0),
        algorithm: flow.algorithm.clone(),
        cwnd_pkts: window(step),
        inflight_pkts: window(step),
        delivered_pkts: (flow.delivered_pkts * step / 100) as u32,
        mss_bytes: flow.mss_bytes,
        ..event.clone()
    };
    (0..100).map(at_step).collect()
}
