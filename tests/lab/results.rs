//! Result directories as `tccc run` writes them, through the same record types, with values that are easy to check.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tccc::model::run::{
    Calibration, Engine, FlowRecord, HostRecord, Lateness, LinkCounters, LinkRecord, RESULT_SCHEMA, RunRecord,
    RunStatus,
};
use tccc::trace::event::{CaState, Event, EventKind, PRIVATE_BYTES};

/// A path with three losses, two variants measured, three published, ratios expected.
pub const SCENARIO: &str = include_str!("../fixtures/scenarios/table-2.toml");

/// Losses of the scenario and, per loss, the packets each variant delivers in the first repeat.
const DELIVERED: [(&str, [(&str, u64); 2]); 3] = [
    ("0", [("SACK", 24_700), ("Other", 24_690)]),
    ("0.1%", [("SACK", 17_400), ("Other", 21_500)]),
    ("1%", [("SACK", 6_000), ("Other", 10_000)]),
];
/// What the repeats add to both variants alike, so that they pair.
const SHIFTS: [i64; 3] = [0, 300, -240];

/// A result directory under construction.
pub struct Directory {
    pub path: PathBuf,
    /// Where it is, if that is its own.
    place: Option<tempfile::TempDir>,
}

impl Directory {
    /// One that is there.
    pub fn at(path: &Path) -> Directory {
        Directory { path: path.to_owned(), place: None }
    }

    /// Everything but runs.
    pub fn new(place: &Path, scenario: &str) -> Directory {
        let path = place.to_owned();
        fs::create_dir_all(path.join("runs")).unwrap();
        fs::write(path.join("scenario.toml"), scenario).unwrap();
        fs::write(path.join("plan.json"), r#"{"schema":1,"scenario":"table-2","seed":7}"#).unwrap();
        fs::write(path.join("host.json"), serde_json::to_vec(&host()).unwrap()).unwrap();
        Directory { path, place: None }
    }

    /// The same in a place of its own.
    pub fn of(scenario: &str) -> Directory {
        let place = tempfile::tempdir().unwrap();
        let path = Directory::new(&place.path().join("results"), scenario).path;
        Directory { path, place: Some(place) }
    }

    /// The whole experiment: three losses, two variants, three repeats.
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

    /// Writes one run with its events, if it has a flow.
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

    /// Writes a run of each variant at each loss and repeat; a variant delivers as many packets, and `more` a repeat.
    pub fn add_each(&self, losses: &[&str], repeats: u32, variants: &[(&str, u64)], more: u64) {
        for (loss, repeat) in losses.iter().flat_map(|loss| (0..repeats).map(move |repeat| (loss, repeat))) {
            for (variant, delivered) in variants {
                self.add(&run(loss, variant, repeat, delivered + more * u64::from(repeat)));
            }
        }
    }

    /// The folder beside which nothing else is.
    pub fn place(&self) -> &Path {
        self.place.as_ref().expect("a place of its own").path()
    }

    pub fn folder(&self, id: &str) -> PathBuf {
        self.path.join("runs").join(id)
    }
}

/// The place of a run in a sweep.
pub fn position<const N: usize>(at: [(&str, &str); N]) -> BTreeMap<String, String> {
    at.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// One run with one flow.
pub fn run(loss: &str, variant: &str, repeat: u32, delivered_pkts: u64) -> RunRecord {
    let socket = 100 + u64::from(repeat);
    let lost_pkts = delivered_pkts / 1000;
    RunRecord {
        schema: RESULT_SCHEMA,
        id: format!("loss-{}-{variant}-{repeat}", loss.replace('%', "pct")),
        at: position([("loss", loss), ("variant", variant)]),
        repeat,
        seed: 7000 + u64::from(repeat),
        engine: Engine::Kernel,
        status: RunStatus::Done,
        why: None,
        late_attempts: 0,
        started: "2026-11-21T08:00:00Z".into(),
        duration_s: 100.0,
        flows: vec![FlowRecord {
            name: "data".into(),
            algorithm: if variant == "SACK" { "reno".into() } else { "other".into() },
            variant: variant.into(),
            compared: true,
            socket: Some(socket),
            delivered_pkts,
            received_bytes: delivered_pkts * 1460,
            goodput_bps: delivered_pkts as f64 * 1460.0 * 8.0 / 100.0,
            retrans_pkts: lost_pkts,
            lost_pkts,
            mss_bytes: 1460,
            begin_s: Some(0.25),
            active_s: 100.0,
            completions: Vec::new(),
            tcp_sack: true,
            datagrams: false,
        }],
        links: vec![LinkRecord { name: "s-r".into(), driver: "tunlink".into(), counters: [counters(), counters()] }],
        jobs: 2,
        events_dropped: 0,
        others_share: None,
        host: None,
    }
}

fn counters() -> LinkCounters {
    LinkCounters {
        received_pkts: 1000,
        sent_pkts: 999,
        sent_bytes: 1_498_500,
        lost_pkts: 1,
        max_queue_pkts: Some(12),
        lateness_us: Some(Lateness { p50: 3.0, p99: 21.0, p999: 60.0, max: 140.0 }),
        ..LinkCounters::default()
    }
}

fn host() -> HostRecord {
    let calibration = |quantity: &str, unit: &str, asked: f64, measured: f64| Calibration {
        quantity: quantity.into(),
        unit: unit.into(),
        asked,
        measured,
        allowed: [asked * 0.99, asked * 1.01],
        within: true,
        attempts: 1,
        ..Calibration::default()
    };
    HostRecord {
        schema: RESULT_SCHEMA,
        engine: Engine::Kernel,
        machines: Vec::new(),
        kernel: "6.18.0".into(),
        cpus: 2,
        link: "tunlink".into(),
        network: "netns".into(),
        offloads: "off".into(),
        profile: "paper".into(),
        sysctls: BTreeMap::new(),
        tools: BTreeMap::from([("iperf3".to_owned(), "3.18".to_owned()), ("tccc".to_owned(), "0.1.0".to_owned())]),
        algorithms: BTreeMap::from([("other".to_owned(), "9f86d081".to_owned())]),
        calibration: vec![
            calibration("s-r rate", "bit/s", 1e8, 99_820_000.0),
            calibration("s-r rtt", "us", 100_000.0, 100_120.0),
        ],
    }
}

/// A sawtooth between three quarters of the cap and the cap; steeper where the loss is higher.
fn events(flow: &FlowRecord) -> Vec<Event> {
    let period = (flow.delivered_pkts / 1000).max(4);
    let other = flow.algorithm != "reno";
    let window = |step: u64| {
        let rise = (step % period) as f64 / period as f64;
        let low = if other { 0.75 } else { 0.5 };
        let cap = 50.0 * (0.4 + 0.6 * flow.delivered_pkts as f64 / 24_700.0).min(1.0);
        (cap * (low + (1.0 - low) * rise)).round().max(2.0) as u32
    };
    (0..100).map(|step| event(flow, step, window(step))).collect()
}

fn event(flow: &FlowRecord, step: u64, cwnd_pkts: u32) -> Event {
    Event {
        kind: EventKind::Sample,
        time_ns: 5_000_000_000 + step * 1_000_000_000,
        socket: flow.socket.unwrap_or(0),
        cgroup: 1,
        netns: 4_026_532_000,
        uid: 0,
        local: "10.0.0.1:40000".parse().unwrap(),
        remote: "10.0.0.2:5201".parse().unwrap(),
        algorithm: flow.algorithm.clone(),
        cwnd_pkts,
        ssthresh_pkts: Some(50),
        srtt_us: Some(100_200),
        min_rtt_us: Some(100_000),
        rtt_us: Some(100_300),
        rto_us: 300_000,
        inflight_pkts: cwnd_pkts,
        delivered_pkts: (flow.delivered_pkts * step / 100) as u32,
        delivered_ce_pkts: 0,
        lost_pkts: 0,
        retrans_pkts: 0,
        bytes_acked: 0,
        bytes_received: 0,
        mss_bytes: flow.mss_bytes,
        pacing_rate_bps: None,
        ca_state: CaState::Open,
        prior_ca_state: CaState::Open,
        tcp_state: 1,
        app_limited: false,
        private_state: [0; PRIVATE_BYTES],
    }
}
