//! The sums of the guard's kernel program, compared with `TCP_INFO` of each socket.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use tccc::kernel::bpf;
use tccc::model::guard::{FOLDS, Sums};
use tccc::policy::hash;
use tccc::policy::pins::PolicyPins;
use tccc::policy::rule::GuardMetric;
use tccc::trial::arms::{ArmCounter, GuardCell};

use super::*;
use crate::trial::link::ManyPeers;

/// Numbers of the arms in labels: the treated arm, and the arm that keeps.
const SLOTS: [u32; 2] = [1, 2];

fn arms() -> ArmCounter {
    let labels = bpf::open_pin(&PolicyPins::of_host().unwrap().labels()).unwrap();
    ArmCounter::start(&labels, 1, &SLOTS).unwrap()
}

/// Counts of one cell as the guard reads them, or as they must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CellCounts {
    connections: u64,
    bytes_acked: u64,
    busy_ticks: u64,
    sent: u64,
    retrans: u64,
    timeouts: u64,
    looks: u64,
    ended: u64,
    abnormal: u64,
}

impl CellCounts {
    fn add(&mut self, one: &CellCounts) {
        self.connections += one.connections;
        self.bytes_acked += one.bytes_acked;
        self.busy_ticks += one.busy_ticks;
        self.sent += one.sent;
        self.retrans += one.retrans;
        self.timeouts += one.timeouts;
        self.looks += one.looks;
    }
}

/// The counts of a cell, and its sum of logarithms of RTT inflation.
fn counts_of(cell: &GuardCell) -> (CellCounts, f64) {
    let sums = |metric| {
        let Sums { numerator, denominator } = cell.sums(metric, 1.0);
        [numerator, denominator]
    };
    let [[retrans, sent], [timeouts, _], [inflation, looks], [bits, busy], [abnormal, ended]] =
        GuardMetric::ALL.map(sums);
    let counts = CellCounts {
        connections: cell.connections,
        bytes_acked: bits as u64 / 8,
        busy_ticks: busy as u64,
        sent: sent as u64,
        retrans: retrans as u64,
        timeouts: timeouts as u64,
        looks: looks as u64,
        ended: ended as u64,
        abnormal: abnormal as u64,
    };
    (counts, inflation)
}

fn counts_of_socket(socket: &TcpStream) -> (CellCounts, f64) {
    let info = tcp_info(socket);
    // Time limited by the network only, not by the receiver's window or the sender's buffer.
    let busy_us = info.tcpi_busy_time - info.tcpi_rwnd_limited - info.tcpi_sndbuf_limited;
    let counts = CellCounts {
        connections: 1,
        bytes_acked: info.tcpi_bytes_acked,
        busy_ticks: busy_us * ticks_per_s() / 1_000_000,
        sent: info.tcpi_data_segs_out.into(),
        retrans: info.tcpi_total_retrans.into(),
        timeouts: info.tcpi_total_rto.into(),
        looks: 1,
        ..CellCounts::default()
    };
    (counts, (f64::from(info.tcpi_rtt) / f64::from(info.tcpi_min_rtt)).ln().max(0.0))
}

fn is_quiet(socket: &TcpStream) -> bool {
    let info = tcp_info(socket);
    info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0
}

fn ticks_per_s() -> u64 {
    let tick = nix::time::clock_getres(nix::time::ClockId::CLOCK_MONOTONIC_COARSE).unwrap();
    1_000_000_000 / tick.tv_nsec() as u64
}

fn place_of(socket: &TcpStream) -> (u32, usize) {
    let slot = if algorithm_of(socket) == BEFORE { SLOTS[0] } else { SLOTS[1] };
    (slot, hash::fold(socket.peer_addr().unwrap().ip()))
}

type Cells = BTreeMap<(u32, usize), (CellCounts, f64)>;

fn cells_of(arms: &ArmCounter) -> Cells {
    let read = arms.read().unwrap();
    let cells = read
        .iter()
        .flat_map(|(slot, folds)| folds.iter().enumerate().map(|(fold, cell)| ((*slot, fold), counts_of(cell))));
    cells.collect()
}

#[test]
fn sums_of_a_sweep_are_those_of_the_sockets() {
    const CONNECTIONS: usize = 320;
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2, tun);
    let link = ManyPeers::lossy(&lab.netns, 32);
    lab.apply(0, &format!("split = {{ {BEFORE} = 40, keep = 60 }}"), "");
    let arms = arms();
    // Each client sends a different number of bytes.
    let sizes: Vec<usize> = (0..CONNECTIONS).map(|number| 1 + number * 997 % 90_000).collect();
    let open = link.transfer(&lab.netns, 16, &sizes, |ends| ends);
    let clients: Vec<&TcpStream> = open.iter().map(|[client, _]| client).collect();
    poll_until(SOON, "everything is acknowledged", || clients.iter().all(|client| is_quiet(client)));
    let mut expected: Cells =
        SLOTS.iter().flat_map(|&slot| (0..FOLDS).map(move |fold| ((slot, fold), <_>::default()))).collect();
    for client in &clients {
        let (counts, inflation) = counts_of_socket(client);
        let (sum, sum_inflation) = expected.get_mut(&place_of(client)).unwrap();
        sum.add(&counts);
        *sum_inflation += inflation;
    }
    let seen = cells_of(&arms);
    for (place, (expected, inflation)) in &expected {
        let (counts, seen_inflation) = &seen[place];
        assert_eq!(counts, expected, "{place:?}");
        // Each logarithm is rounded down to 1/65536 of a doubling, twice a look.
        let most = 2.0 / 65_536.0 * std::f64::consts::LN_2 * counts.looks as f64 + 1e-9;
        assert!((seen_inflation - inflation).abs() <= most, "{place:?}: {seen_inflation} {inflation}");
    }
    let total = |of: fn(&CellCounts) -> u64| expected.values().map(|(counts, _)| of(counts)).sum::<u64>();
    assert_eq!(total(|it| it.connections), CONNECTIONS as u64);
    assert!(total(|it| it.retrans) > 100, "the link loses packets: {}", total(|it| it.retrans));
    let is_used = |slot: &u32| expected.iter().any(|((it, _), (counts, _))| it == slot && counts.connections > 0);
    assert!(SLOTS.iter().all(is_used));
    assert_eq!(cells_of(&arms), seen, "a second sweep adds nothing");
    ends_are_counted(open, &arms, expected);
    run(0, "policy remove");
}

/// A third closes in order, a third is reset by the peer, a third stays open.
fn ends_are_counted(open: Vec<[TcpStream; 2]>, arms: &ArmCounter, mut expected: Cells) {
    let mut kept = Vec::new();
    for (number, [client, server]) in open.into_iter().enumerate() {
        let (counts, _) = expected.get_mut(&place_of(&client)).unwrap();
        counts.ended += u64::from(number % 3 != 2);
        counts.abnormal += u64::from(number % 3 == 1);
        match number % 3 {
            0 => drop((client, server)),
            1 => {
                setsockopt(&server, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
                drop(server);
                kept.push(client); // the client must end by the reset, not by its own close
            }
            _ => kept.extend([client, server]),
        }
    }
    let ended = |cells: &Cells| -> Vec<(u64, u64, u64)> {
        cells.values().map(|(it, _)| (it.connections, it.ended, it.abnormal)).collect()
    };
    poll_until(SOON, "every end is counted, and none twice", || ended(&cells_of(arms)) == ended(&expected));
}

/// Numbers of generations came round again, so connections of an aborted trial entered the sums of the next one.
#[test]
fn connections_of_an_aborted_trial_do_not_count_in_the_next() {
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let split = format!("split = {{ {TRIED} = 50, keep = 50 }}\nguard = \"timeouts<10\"\ndeadline = \"1h\"");
    let mut seen = Vec::new();
    let mut open: Vec<[TcpStream; 2]> = Vec::new();
    // Without an earlier policy, the labels stay because tccc set the algorithm of open connections.
    for is_before in [false, true] {
        if is_before {
            lab.apply_before();
        }
        for _ in 0..2 {
            lab.apply(0, &split, "");
            until_guard_has_looked();
            let number = status()["policy"]["generation"].as_u64().unwrap() as u32;
            assert!(!seen.contains(&number), "{number} again after {seen:?}");
            seen.push(number);
            let labels = bpf::open_pin(&PolicyPins::of_host().unwrap().labels()).unwrap();
            let counter = ArmCounter::start(&labels, number, &[1, 2, 3, 4]).unwrap();
            open.iter().for_each(|[client, _]| (&*client).write_all(&[7; 1000]).unwrap());
            assert!(cells_of(&counter).values().all(|(counts, _)| *counts == CellCounts::default()), "{number}");
            open.extend((0..10).map(|_| lab.connect()));
            assert_eq!(cells_of(&counter).values().map(|(counts, _)| counts.connections).sum::<u64>(), 20);
            run(0, "policy abort");
        }
    }
    run(0, "policy remove");
}

/// Connections that a live policy kept once had no label, so the arms had wrong shares.
#[test]
fn open_connections_of_a_live_policy_are_counted_in_both_arms() {
    const CONNECTIONS: usize = 150;
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let open: Vec<[TcpStream; 2]> = (0..CONNECTIONS).map(|_| lab.connect()).collect();
    let shares = [(1, 30), (2, 60)];
    for (number, percent) in shares {
        lab.apply(0, &format!("split = {{ {BEFORE} = {percent}, keep = {} }}", 100 - percent), "--live");
        let treated = open.iter().flatten().filter(|end| algorithm_of(end) == BEFORE).count() as u64;
        let labels = bpf::open_pin(&PolicyPins::of_host().unwrap().labels()).unwrap();
        let arms = ArmCounter::start(&labels, number, &SLOTS).unwrap();
        let mut cells = cells_of(&arms);
        cells.retain(|_, (counts, _)| counts.connections > 0);
        let of =
            |slot: u32| cells.iter().filter(|((it, _), _)| *it == slot).map(|(_, (it, _))| it.connections).sum::<u64>();
        // The lab itself has one connection.
        let total = 2 * CONNECTIONS as u64 + 2;
        assert!(of(SLOTS[0]).abs_diff(treated) <= 2, "{percent} %: {} of {treated}", of(SLOTS[0]));
        assert_eq!(of(SLOTS[0]) + of(SLOTS[1]), total, "{percent} %");
    }
    run(0, "policy remove --live");
    assert!(open.iter().flatten().all(|end| algorithm_of(end) != BEFORE), "all have their earlier algorithm");
    run(0, "policy remove");
}

/// Connections were counted where the split chooses peers, so a few busy peers looked like a broken split.
#[test]
fn units_of_a_split_count_once_and_open_connections_are_active_while_they_send() {
    const PEERS: usize = 250;
    const CONNECTIONS: usize = 1_000;
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    let split = format!("split = {{ {BEFORE} = 50, keep = 50 }}");
    let sum = |arms: &ArmCounter| {
        let cells: Vec<GuardCell> = arms.read().unwrap().into_values().flatten().collect();
        let sum = |of: fn(&GuardCell) -> u64| cells.iter().map(of).sum::<u64>();
        (sum(|cell| cell.connections), sum(|cell| cell.units), sum(|cell| cell.active))
    };
    lab.apply(0, &format!("remote_port = [7000]\n{split}\nby = \"peer\""), "");
    let arms = arms();
    short_connections(&lab.netns, CONNECTIONS, 1);
    poll_until(SOON, "every connection has ended", || sum(&arms).0 == CONNECTIONS as u64);
    let (_, units, active) = sum(&arms);
    // Two of the peers share a bit of the kernel program's map with a probability below 1 %.
    assert!(units.abs_diff(PEERS as u64) <= 1, "{units} of {PEERS} peers");
    assert_eq!(active, 0, "they were counted once, at their ends");
    lab.apply(0, &format!("remote_port = [7001]\n{split}"), "");
    let labels = bpf::open_pin(&PolicyPins::of_host().unwrap().labels()).unwrap();
    let arms = ArmCounter::start(&labels, 2, &SLOTS).unwrap();
    let open: Vec<[TcpStream; 2]> = (0..20).map(|_| connect_at(&lab.netns, 7001)).collect();
    assert_eq!(sum(&arms), (20, 20, 0));
    open.iter().take(5).for_each(|[client, _]| (&*client).write_all(&[7]).unwrap());
    assert_eq!(sum(&arms), (20, 20, 5));
    assert_eq!(sum(&arms), (20, 20, 5), "a sweep without traffic finds none active");
    run(0, "policy remove");
}

fn connect_at(netns: &Netns, port: u16) -> [TcpStream; 2] {
    let ends = netns.run(|| {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let client = TcpStream::connect(("127.0.0.1", port))?;
        Ok([client, listener.accept()?.0])
    });
    ends.unwrap()
}

/// A sweep and the end of a connection once counted the same bytes.
#[test]
fn connection_that_ends_during_a_sweep_is_counted_once() {
    const CONNECTIONS: usize = 20_000;
    const BYTES: usize = 1_000;
    /// SYN and FIN of the client and FIN of the server count as acknowledged bytes.
    const OTHER_BYTES: usize = 3;
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(0, &format!("remote_port = [7000]\nsplit = {{ {BEFORE} = 50, keep = 50 }}"), "");
    let arms = arms();
    let is_over = AtomicBool::new(false);
    let mut sweeps = 0;
    std::thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            short_connections(&lab.netns, CONNECTIONS, BYTES);
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            arms.read().unwrap();
            sweeps += 1;
        }
        traffic.join().unwrap();
    });
    let sum = |of: fn(&CellCounts) -> u64| cells_of(&arms).values().map(|(counts, _)| of(counts)).sum::<u64>();
    poll_until(SOON, "every connection has ended", || sum(|it| it.ended) >= CONNECTIONS as u64);
    let seen = [sum(|it| it.connections), sum(|it| it.ended), sum(|it| it.bytes_acked), sum(|it| it.abnormal)];
    let bytes = CONNECTIONS * (BYTES + OTHER_BYTES - 1);
    assert_eq!(seen, [CONNECTIONS, CONNECTIONS, bytes, 0].map(|it| it as u64), "after {sweeps} sweeps");
    assert!(sweeps > 20, "{sweeps} sweeps are too few to meet the end of a connection");
    run(0, "policy remove");
}

/// A variable for the number of connections. CI has time for fewer than the requirement has.
const CONNECTIONS: &str = "TCCC_SUMS_CONNECTIONS";
const CONNECTIONS_IN_CI: usize = 1_000;

/// Bytes were lost if a connection ended while a sweep had claimed it, and others were counted twice.
#[test]
fn sums_of_sweeps_under_load_miss_no_byte_and_count_none_twice() {
    const ROUNDS: usize = 100;
    const WORKERS: usize = 4;
    let count: usize = std::env::var(CONNECTIONS).map_or(CONNECTIONS_IN_CI, |text| text.parse().unwrap());
    let lab = &enter!(TrialLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(0, &format!("remote_port = [7000]\nsplit = {{ {BEFORE} = 50, keep = 50 }}"), "");
    let arms = arms();
    let mut sweeps = Vec::new();
    // Processes, because one may have too few descriptors.
    let start = |worker: usize| {
        let mut work = test_alone(module_path!(), "worker");
        work.arg("--nocapture").env("LDK_WORK", format!("{worker} {} {ROUNDS}", count / WORKERS));
        lab.netns.run(|| Ok(begin(&mut work))).unwrap()
    };
    let mut workers: Vec<_> = (0..WORKERS).map(start).collect();
    while workers.iter_mut().any(|worker| worker.try_wait().unwrap().is_none()) {
        let began = std::time::Instant::now();
        arms.read().unwrap();
        sweeps.push(began.elapsed());
    }
    let [mut bytes, mut connections] = [0; 2];
    for worker in workers {
        let said = end(0, worker).stdout();
        let done = said.lines().find_map(|line| line.strip_prefix("done ")).expect("the worker's sums");
        let done: Vec<usize> = done.split(' ').map(|number| number.parse().unwrap()).collect();
        bytes += done[0];
        connections += done[1];
    }
    let sum = |of: fn(&CellCounts) -> u64| cells_of(&arms).values().map(|(counts, _)| of(counts)).sum::<u64>();
    poll_until(SOON, "every connection has ended", || sum(|it| it.ended) >= connections as u64);
    let seen = [sum(|it| it.connections), sum(|it| it.ended), sum(|it| it.bytes_acked), sum(|it| it.abnormal)];
    // The SYN and the FIN of the client count as acknowledged bytes.
    let expected = [connections, connections, bytes + 2 * connections, 0].map(|it| it as u64);
    assert_eq!(seen, expected, "after {} sweeps", sweeps.len());
    sweeps.sort();
    println!("{count} connections, {} sweeps under load, median {:?}", sweeps.len(), sweeps[sweeps.len() / 2]);
    assert!(sweeps.len() > 20, "{} sweeps are too few to meet the end of a connection", sweeps.len());
    run(0, "policy remove");
}

#[test]
#[ignore = "started by the test above"]
fn worker() {
    let work = std::env::var("LDK_WORK").unwrap();
    let work: Vec<usize> = work.split(' ').map(|number| number.parse().unwrap()).collect();
    let [bytes, opened] = rounds(work[0], work[1], work[2]).unwrap();
    println!("\ndone {bytes} {opened}");
}

/// In each round every client sends, and one in ten closes and connects again. Returns the bytes sent, and the connections.
fn rounds(worker: usize, count: usize, rounds: usize) -> anyhow::Result<[usize; 2]> {
    let port = 7000;
    let listener = TcpListener::bind((Ipv4Addr::new(127, 2, 0, 1 + worker as u8), port))?;
    let connect = || -> anyhow::Result<[TcpStream; 2]> {
        Ok([TcpStream::connect(listener.local_addr()?)?, listener.accept()?.0])
    };
    let (mut bytes, mut opened) = (0, count);
    let mut open = (0..count).map(|_| connect()).collect::<anyhow::Result<Vec<_>>>()?;
    for round in 0..rounds {
        for (number, pair) in open.iter_mut().enumerate() {
            let part = vec![7; 1 + (number + round) % 1_000];
            pair[0].write_all(&part)?;
            pair[1].read_exact(&mut vec![0; part.len()])?;
            bytes += part.len();
            if (number + round) % 10 == 0 {
                let [client, mut server] = std::mem::replace(pair, connect()?);
                opened += 1;
                drop(client);
                server.read_to_end(&mut Vec::new())?;
            }
        }
    }
    for [client, mut server] in open {
        drop(client);
        server.read_to_end(&mut Vec::new())?;
    }
    Ok([bytes, opened])
}

/// For each connection, the client sends and closes, then the server closes.
fn short_connections(netns: &Netns, connections: usize, bytes: usize) {
    let address = |number: usize| Ipv4Addr::new(127, 1, 0, 1 + (number % 250) as u8);
    let listener = netns.run(|| Ok(TcpListener::bind("0.0.0.0:7000")?)).unwrap();
    netns
        .run(|| {
            for number in 0..connections {
                let mut client = TcpStream::connect(SocketAddrV4::new(address(number), 7000))?;
                let mut server = listener.accept()?.0;
                client.write_all(&vec![7; bytes])?;
                drop(client);
                server.read_to_end(&mut Vec::new())?;
            }
            Ok(())
        })
        .unwrap();
}
