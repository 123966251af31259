//! The link's benchmark, run by `cargo xtask bench link`: what it delivers, how late it is and what that costs.
//!
//! Prints a table of medians over the runs of each row; `TCCC_BENCH_RUNS` sets their number, `TCCC_BENCH_SECONDS`
//! their length, `TCCC_BENCH_ONLY` the rows whose name holds it. Rows: UDP at 110 % of the rate through 50 ms, 50
//! packets of queue and 1 % loss; TCP through 10 ms each way with a queue of one BDP; ten links at once.

use std::thread;
use std::time::{Duration, Instant};

use crate::common::needs;
use crate::lab::link::{Lab, MTU, limited, link_cpu_time, plain, receive_during};
use tccc::emulate::tunlink::TunLink;
use tccc::model::run::LinkCounters;
use tccc::model::stats::median;
use tccc::units::{QueueSize, Share};

/// One run of one row.
#[derive(Debug, Clone, Copy)]
struct Run {
    offered_mbit: f64,
    delivered_mbit: f64,
    late_us: [f64; 4],
    cpu_percent: f64,
    loss_percent: f64,
    failed_pkts: u64,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn summary(counters: &LinkCounters, time: Duration, cpu: Duration) -> Run {
    let lateness = counters.lateness_us.unwrap_or_else(|| panic!("no packet was carried: {counters:?}"));
    Run {
        // All packets of the benchmark that matter for the rate are full ones.
        offered_mbit: (counters.received_pkts * MTU as u64) as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        delivered_mbit: counters.sent_bytes as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        late_us: [lateness.p50, lateness.p99, lateness.p999, lateness.max],
        cpu_percent: cpu.as_secs_f64() / time.as_secs_f64() * 100.0,
        loss_percent: counters.lost_pkts as f64 / counters.received_pkts as f64 * 100.0,
        failed_pkts: counters.failed_pkts,
    }
}

/// Counts only from when the pipe is full to when the sender stops.
fn measured(lab: &Lab, fill: Duration, time: Duration) -> Run {
    thread::sleep(fill); // the queue fills at the link's rate
    lab.link.restart_counters();
    let (started, cpu) = (Instant::now(), link_cpu_time());
    thread::sleep(time); // the rate is measured over this time
    let (counters, elapsed, cpu_after) = (lab.link.counters(), started.elapsed(), link_cpu_time());
    summary(&counters[0], elapsed, cpu_after - cpu)
}

fn udp_run(mbit: f64, time: Duration) -> Run {
    let delay = Duration::from_millis(50);
    // A sender that shares two cores with the link has gaps of milliseconds: at high rates only a longer queue keeps
    // the link at full load, and it is the link that is measured.
    let queue = QueueSize::Packets(if mbit > 100.0 { 500 } else { 50 });
    let there = tccc::path::Direction { loss: Share(0.01).into(), ..limited(mbit, delay, queue) };
    let lab = Lab::new(&TunLink, [there, plain(delay)]);
    let (mut sender, receiver) = lab.udp(0);
    let fill = Duration::from_millis(500);
    thread::scope(|scope| {
        let run = scope.spawn(|| measured(&lab, fill, time));
        receive_during(&receiver, || sender.flood(mbit * 1.1, fill + time + fill));
        run.join().unwrap()
    })
}

fn tcp_run(mbit: f64, time: Duration) -> Run {
    let way = || limited(mbit, Duration::from_millis(10), QueueSize::Bdp(1.0));
    let lab = Lab::new(&TunLink, [way(), way()]);
    let fill = Duration::from_secs(1);
    thread::scope(|scope| {
        let run = scope.spawn(|| measured(&lab, fill, time));
        lab.tcp(fill + time + Duration::from_millis(200));
        run.join().unwrap()
    })
}

/// Ten links with a flood each; the worst lateness of all, the rate of all.
fn ten_links_run(mbit: f64, time: Duration) -> Run {
    let runs: Vec<Run> = thread::scope(|scope| {
        let runs: Vec<_> = (0..10).map(|_| scope.spawn(|| udp_run(mbit, time))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let mut total = runs[0];
    total.offered_mbit = runs.iter().map(|run| run.offered_mbit).sum();
    total.delivered_mbit = runs.iter().map(|run| run.delivered_mbit).sum();
    total.failed_pkts = runs.iter().map(|run| run.failed_pkts).sum();
    for (n, late) in total.late_us.iter_mut().enumerate() {
        *late = runs.iter().map(|run| run.late_us[n]).fold(0.0, f64::max);
    }
    total
}

fn print_row(name: &str, runs: &[Run]) {
    let middle = |value: &dyn Fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>()).unwrap();
    let late = |n: usize| middle(&|run| run.late_us[n]);
    println!(
        "{name:<18} {:>8.2} {:>9.2} {:>7.1} {:>7.1} {:>8.1} {:>8.0} {:>6.1} {:>7.3} {:>7.0} {:>3}",
        middle(&|run| run.offered_mbit),
        middle(&|run| run.delivered_mbit),
        late(0),
        late(1),
        late(2),
        late(3),
        middle(&|run| run.cpu_percent),
        middle(&|run| run.loss_percent),
        runs.iter().map(|run| run.failed_pkts).sum::<u64>(),
        runs.len()
    );
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench link`"]
fn link_table() {
    needs!(root);
    let runs = setting("TCCC_BENCH_RUNS", 3);
    let time = Duration::from_secs(setting("TCCC_BENCH_SECONDS", 4));
    let only = std::env::var("TCCC_BENCH_ONLY").unwrap_or_default();
    println!(
        "{:<18} {:>8} {:>9} {:>7} {:>7} {:>8} {:>8} {:>6} {:>7} {:>7} {:>3}",
        "asked, Mbit/s",
        "offered",
        "delivered",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max us",
        "CPU %",
        "loss %",
        "failed",
        "n"
    );
    let row = |name: &str, run: &dyn Fn() -> Run| {
        if name.contains(&only) {
            print_row(name, &(0..runs).map(|_| run()).collect::<Vec<_>>());
        }
    };
    for mbit in [10.0, 100.0, 500.0, 1000.0] {
        row(&format!("UDP {mbit}"), &|| udp_run(mbit, time));
        row(&format!("TCP {mbit}"), &|| tcp_run(mbit, time));
    }
    row("UDP 10 links x 10", &|| ten_links_run(10.0, time));
}
