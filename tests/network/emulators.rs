//! The user-space link compared with the kernel's netem, over the same links and the same scenario.
//!
//! Their random numbers differ, so the same seed loses other packets, but the distributions agree. Each link is compared
//! with its settings, and both with each other. On a kernel without netem, tests that need no BPF run in the guest of
//! virtual time. All tests run on another kernel in a virtual machine:
//! `cargo xtask vm-matrix --kernel 6.1 --only emulators --acceleration virtual --limit 60m`.

use std::thread;

use super::*;

const DRIVERS: [&dyn LinkDriver; 2] = [&TunLink, &Netem];
const DELAY: Duration = Duration::from_millis(15);
/// Half the width of an interval in standard deviations. By chance, one value in ten thousand is outside.
const WIDTH: f64 = 4.0;

/// Asserts that the measurement of each link is in the interval.
fn compare(what: &str, gave: [f64; 2], [low, high]: [f64; 2]) {
    println!("emulators: {what:32} tunlink {:10.4}  netem {:10.4}  allowed {low:.4} .. {high:.4}", gave[0], gave[1]);
    for (driver, gave) in DRIVERS.iter().zip(gave) {
        assert!((low..=high).contains(&gave), "{what} by {}: {gave}, allowed {low} to {high}", driver.name());
    }
}

/// The interval of a measured share of packets.
fn chance(share: f64, packets: u64) -> [f64; 2] {
    let deviation = (share * (1.0 - share) / packets as f64).sqrt();
    [share - WIDTH * deviation, share + WIDTH * deviation]
}

/// Sends packets at intervals over a new link; returns those that arrive, and the link.
fn paced(
    driver: &dyn LinkDriver,
    direction: &Direction,
    packets: u64,
    spacing: Duration,
) -> (Vec<CapturedPacket>, LinkLab) {
    let lab = LinkLab::new(driver, [direction.clone(), plain(DELAY)]);
    let (mut sender, receiver) = lab.udp(0);
    let arrivals = receive_during(&receiver, || {
        for _ in 0..packets {
            sender.send(200);
            thread::sleep(spacing); // the pace of the sender
        }
    });
    (arrivals, lab)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn both_links_delay_lose_queue_and_pace_as_configured() {
    needs!(root, netem);
    let jittered = Direction { jitter: Duration::from_millis(6).into(), ..plain(DELAY) };
    let delays = DRIVERS.map(|driver| {
        let (arrivals, _) = paced(driver, &jittered, 400, 2 * MILLI);
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.number), "{}: jitter reorders", driver.name());
        arrivals.iter().map(|arrival| arrival.delay as f64 / 1e6).collect::<Vec<f64>>()
    });
    let least = |delays: &Vec<f64>| delays.iter().copied().fold(f64::INFINITY, f64::min);
    compare("shortest delay, ms", delays.each_ref().map(least), [14.9, 17.0]);
    compare("median delay, ms", delays.map(median), [17.0, 20.0]);

    let lossy = Direction { loss: Share(0.03).into(), ..plain(DELAY) };
    let lost = DRIVERS.map(|driver| 1.0 - paced(driver, &lossy, 4_000, Duration::ZERO).0.len() as f64 / 4_000.0);
    compare("lost, share", lost, chance(0.03, 4_000));

    let narrow = limited(4.0, DELAY, QueueSize::Packets(20));
    let kept = DRIVERS.map(|driver| {
        let lab = LinkLab::new(driver, [narrow.clone(), plain(DELAY)]);
        let (mut sender, receiver) = lab.udp(0);
        receive_during(&receiver, || (0..60).for_each(|_| sender.send(MTU))).len() as f64
    });
    // 20 in the queue and one being sent. A slow sender lets a few more through.
    compare("packets kept of a burst of 60", kept, [21.0, 26.0]);
    let rates = DRIVERS.map(|driver| {
        let lab = LinkLab::new(driver, [narrow.clone(), plain(DELAY)]);
        let (mut sender, receiver) = lab.udp(0);
        // Bursts at twice the rate keep the queue full. Kernels before 6.11 do not split batches for such a link.
        let arrivals = receive_during(&receiver, || {
            for _ in 0..150 {
                (0..8).for_each(|_| sender.send(MTU));
                thread::sleep(12 * MILLI); // the pace of the sender
            }
        });
        let gaps: Vec<f64> = arrivals[25..].windows(2).map(|pair| (pair[1].at - pair[0].at) as f64).collect();
        8.0 * MTU as f64 * 1e3 * gaps.len() as f64 / gaps.iter().sum::<f64>()
    });
    compare("rate under overload, Mbit/s", rates, [3.9, 4.1]);
}

#[test]
fn both_links_reorder_and_duplicate_the_configured_share() {
    needs!(root, netem);
    const PACKETS: u64 = 1_500;
    let changed = Direction {
        reorder: Some("share=5%,by=30ms".parse().unwrap()),
        duplicate: Share(0.04),
        ..plain(Duration::from_millis(5))
    };
    let [mut held, mut copied, mut extra] = [[0.0; 2]; 3];
    for (index, driver) in DRIVERS.iter().enumerate() {
        let (arrivals, lab) = paced(*driver, &changed, PACKETS, MILLI);
        let delay_of = |arrival: &CapturedPacket| arrival.delay as f64 / 1e6;
        let (late, prompt): (Vec<f64>, Vec<f64>) = arrivals.iter().map(delay_of).partition(|delay| *delay > 20.0);
        held[index] = late.len() as f64 / arrivals.len() as f64;
        extra[index] = median(late) - median(prompt);
        let mut numbers: Vec<u64> = arrivals.iter().map(|arrival| arrival.number).collect();
        assert!(!numbers.is_sorted(), "{}: no packet was reordered", driver.name());
        numbers.sort_unstable();
        let twice = numbers.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        copied[index] = twice as f64 / PACKETS as f64;
        let counters = &lab.link.counters()[0];
        assert_eq!((counters.duplicated_pkts, counters.received_pkts), (twice, PACKETS), "{}", driver.name());
    }
    compare("held back, share", held, chance(0.05, PACKETS));
    compare("held back by, ms", extra, [28.0, 33.0]);
    compare("copied, share", copied, chance(0.04, PACKETS));
}

/// Metrics, each with the largest relative difference of the means. It counts only if the intervals do not overlap:
/// repeats that agree by chance give intervals that are too narrow.
const METRICS: [(&str, f64); 3] = [("goodput_bps", 0.1), ("srtt_p50_us", 0.1), ("loss_ratio", 0.35)];

const SCENARIO: &str = include_str!("../fixtures/scenarios/two-emulators.toml");

#[derive(Debug, Clone, Copy)]
struct MeasuredCell {
    mean: f64,
    interval: [f64; 2],
}

impl MeasuredCell {
    fn agrees_with(&self, other: &MeasuredCell, allowance: f64) -> bool {
        let meets = self.interval[0] <= other.interval[1] && other.interval[0] <= self.interval[1];
        meets || (self.mean - other.mean).abs() <= allowance * self.mean.max(other.mean)
    }
}

#[test]
fn same_scenario_over_both_links_has_the_same_goodput_round_trip_and_loss() {
    needs!(root, btf, cgroup2, iperf3, netem);
    let _host = HostSnapshot::take(&["tccc_ss"]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("emulators.toml");
    fs::write(&file, SCENARIO).unwrap();
    let [tunlink, netem] = ["tunlink", "netem"].map(|link| measured(&file, &place.path().join(link), link));
    assert_eq!((tunlink.len(), netem.len()), (12, 12));
    let mut apart = Vec::new();
    for ((cell, ours), (_, theirs)) in tunlink.iter().zip(&netem) {
        println!("emulators: {cell:24} tunlink {}  netem {}", shown(ours), shown(theirs));
        let (_, allowance) = METRICS.iter().find(|(metric, _)| cell.starts_with(metric)).unwrap();
        if !ours.agrees_with(theirs, *allowance) {
            apart.push(cell);
        }
    }
    assert!(apart.is_empty(), "the emulators differ at {apart:?}");
}

fn shown(measured: &MeasuredCell) -> String {
    let [low, high] = measured.interval;
    format!("{:12.4} ({low:12.4} .. {high:12.4})", measured.mean)
}

/// Runs the scenario over one emulator; returns the results by metric and cell, sorted.
fn measured(file: &Path, out: &Path, link: &str) -> Vec<(String, MeasuredCell)> {
    check(0, run_command(file, out).args(["--link", link]));
    let report = check(0, tccc().arg("report").arg(out).args(["-o", "json"])).json();
    let reports = if report["cells"].is_array() { vec![report] } else { report.as_array().unwrap().clone() };
    let cells = reports.iter().flat_map(|report| report["cells"].as_array().unwrap());
    let is_wanted = |cell: &&Value| METRICS.iter().any(|(metric, _)| cell["metric"] == *metric);
    let mut measured: Vec<(String, MeasuredCell)> = cells.filter(is_wanted).map(of_cell).collect();
    measured.sort_by(|a, b| a.0.cmp(&b.0));
    measured
}

fn of_cell(cell: &Value) -> (String, MeasuredCell) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number in {cell}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (at, measured) = (&cell["at"], &cell["measured"]);
    let name = format!("{} {} {}", text(&cell["metric"]), text(&at["algorithm"]), text(&at["loss"]));
    let interval = [0, 1].map(|end| number(&measured["ci95"][end]));
    (name, MeasuredCell { mean: number(&measured["mean"]), interval })
}
