//! Benchmark: rate, lateness and processor time of the user-space link.
//!
//! `cargo xtask bench link` prints a table of medians over the runs of each row. `TCCC_BENCH_RUNS` sets the number of runs,
//! `TCCC_BENCH_SECONDS` their length, and `TCCC_BENCH_ONLY` selects rows by a part of their name. Rows: UDP at 110 % of the
//! rate with a delay of 50 ms, a queue of 50 packets and 1 % loss; TCP with 10 ms each way and a queue of one BDP; ten
//! links at once.

use tccc::emulate::tunlink::TunLink;
use tccc::model::run::LinkCounters;
use tccc::units::{QueueSize, Share};

use super::*;
use crate::lab::link::{LinkLab, MTU, limited, link_cpu_time, plain, receive_during};

#[derive(Debug, Clone, Copy)]
struct LinkRun {
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

fn summary(counters: &LinkCounters, time: Duration, cpu: Duration) -> LinkRun {
    let lateness = counters.lateness_us.unwrap_or_else(|| panic!("no packet was carried: {counters:?}"));
    LinkRun {
        // The packets that matter for the rate are full ones.
        offered_mbit: (counters.received_pkts * MTU as u64) as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        delivered_mbit: counters.sent_bytes as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        late_us: [lateness.p50, lateness.p99, lateness.p999, lateness.max],
        cpu_percent: cpu.as_secs_f64() / time.as_secs_f64() * 100.0,
        loss_percent: counters.lost_pkts as f64 / counters.received_pkts as f64 * 100.0,
        failed_pkts: counters.failed_pkts,
    }
}

/// Measures from when the pipe is full until the sender stops.
fn measured(lab: &LinkLab, fill: Duration, time: Duration) -> LinkRun {
    thread::sleep(fill); // the queue fills at the link's rate
    lab.link.restart_counters();
    let (started, cpu) = (Instant::now(), link_cpu_time());
    thread::sleep(time); // the rate is measured over this time
    let (counters, elapsed, cpu_after) = (lab.link.counters(), started.elapsed(), link_cpu_time());
    summary(&counters[0], elapsed, cpu_after - cpu)
}

fn udp_run(mbit: f64, time: Duration) -> LinkRun {
    let delay = Duration::from_millis(50);
    // A sender that shares two cores with the link pauses for milliseconds. At high rates, only a longer queue keeps the
    // link busy.
    let queue = QueueSize::Packets(if mbit > 100.0 { 500 } else { 50 });
    let there = tccc::path::Direction { loss: Share(0.01).into(), ..limited(mbit, delay, queue) };
    let lab = LinkLab::new(&TunLink, [there, plain(delay)]);
    let (mut sender, receiver) = lab.udp(0);
    let fill = Duration::from_millis(500);
    thread::scope(|scope| {
        let run = scope.spawn(|| measured(&lab, fill, time));
        receive_during(&receiver, || sender.flood(mbit * 1.1, fill + time + fill));
        run.join().unwrap()
    })
}

fn tcp_run(mbit: f64, time: Duration) -> LinkRun {
    let way = || limited(mbit, Duration::from_millis(10), QueueSize::Bdp(1.0));
    let lab = LinkLab::new(&TunLink, [way(), way()]);
    let fill = Duration::from_secs(1);
    thread::scope(|scope| {
        let run = scope.spawn(|| measured(&lab, fill, time));
        lab.tcp(fill + time + Duration::from_millis(200));
        run.join().unwrap()
    })
}

/// Ten links with a flood each: the sum of their rates, and the worst lateness.
fn ten_links_run(mbit: f64, time: Duration) -> LinkRun {
    let runs: Vec<LinkRun> = thread::scope(|scope| {
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

/// Widths of the columns after the name of a row.
const WIDTHS: [usize; 10] = [8, 9, 7, 7, 8, 8, 6, 7, 7, 3];

fn print_line(name: &str, cells: [String; 10]) {
    let cells: Vec<String> = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:>width$}")).collect();
    println!("{name:<18} {}", cells.join(" "));
}

fn print_row(name: &str, runs: &[LinkRun]) {
    let middle = |decimals: usize, value: &dyn Fn(&LinkRun) -> f64| {
        let middle = median(&runs.iter().map(value).collect::<Vec<_>>()).unwrap();
        format!("{middle:.decimals$}")
    };
    let late = |decimals, n: usize| middle(decimals, &|run| run.late_us[n]);
    let cells = [
        middle(2, &|run| run.offered_mbit),
        middle(2, &|run| run.delivered_mbit),
        late(1, 0),
        late(1, 1),
        late(1, 2),
        late(0, 3),
        middle(1, &|run| run.cpu_percent),
        middle(3, &|run| run.loss_percent),
        runs.iter().map(|run| run.failed_pkts).sum::<u64>().to_string(),
        runs.len().to_string(),
    ];
    print_line(name, cells);
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench link`"]
fn link_table() {
    needs!(root);
    let runs = setting("TCCC_BENCH_RUNS", 3);
    let time = Duration::from_secs(setting("TCCC_BENCH_SECONDS", 4));
    let only = std::env::var("TCCC_BENCH_ONLY").unwrap_or_default();
    let head = "offered,delivered,p50 us,p99 us,p99.9 us,max us,CPU %,loss %,failed,n";
    print_line("asked, Mbit/s", std::array::from_fn(|n| head.split(',').nth(n).unwrap().to_owned()));
    let row = |name: &str, run: &dyn Fn() -> LinkRun| {
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
