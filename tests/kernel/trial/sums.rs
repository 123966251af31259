//! What the guard's kernel program sums up, against what the kernel says of each socket.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lab::socket::RawTcpInfo;
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use tccc::kernel::bpf;
use tccc::kernel::netns::Netns;
use tccc::model::guard::{FOLDS, Sums};
use tccc::policy::hash;
use tccc::policy::pins::PolicyPins;
use tccc::policy::rule::GuardMetric;
use tccc::trial::arms::{ArmCounter, GuardCell};

use crate::common::{host_has, inhabit, poll_until};
use crate::lab::sandbox::run;
use crate::lab::trial::{BEFORE, SOON, algorithm_of, in_lab};
use crate::trial::link::Link;

/// Numbers of the arms in labels: the rule's first, and those that keep.
const SLOTS: [u32; 2] = [1, 2];

/// The sums of the only rule's arms.
fn arms() -> ArmCounter {
    let labels = bpf::open_pin(&PolicyPins::of_host().unwrap().labels()).unwrap();
    ArmCounter::start(&labels, 1, &SLOTS).unwrap()
}

/// Counts of one cell, or what they must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
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

impl Counts {
    fn of(cell: &GuardCell) -> (Counts, f64) {
        let sums = |metric| {
            let Sums { numerator, denominator } = cell.sums(metric, 1.0);
            [numerator, denominator]
        };
        let [[retrans, sent], [timeouts, _], [inflation, looks], [bits, busy], [abnormal, ended]] =
            GuardMetric::ALL.map(sums);
        let counts = Counts {
            connections: cell.connections(),
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
}

/// What the kernel says of a socket, `TCP_INFO`.
struct Info {
    counts: Counts,
    /// Logarithm of smoothed over lowest RTT.
    inflation: f64,
    is_quiet: bool,
}

fn info(socket: &TcpStream) -> Info {
    let raw = RawTcpInfo::of(socket);
    let (word, wide) = (|at| u64::from(raw.word(at)), |at| raw.wide(at));
    let (srtt_us, min_rtt_us) = (word(68) as f64, word(148) as f64);
    // Busy for the network's sake alone: without what the receiver and the own buffer held up.
    let busy_us = wide(168) - wide(176) - wide(184);
    Info {
        counts: Counts {
            connections: 1,
            bytes_acked: wide(120),
            busy_ticks: busy_us * ticks_per_s() / 1_000_000,
            sent: word(156),
            retrans: word(100),
            timeouts: raw.half(240).into(),
            looks: 1,
            ..Counts::default()
        },
        inflation: (srtt_us / min_rtt_us).ln().max(0.0),
        is_quiet: word(24) == 0 && word(144) == 0,
    }
}

fn ticks_per_s() -> u64 {
    let tick = nix::time::clock_getres(nix::time::ClockId::CLOCK_MONOTONIC_COARSE).unwrap();
    1_000_000_000 / tick.tv_nsec() as u64
}

/// The place of a socket in the sums: arm and fold.
fn place_of(socket: &TcpStream) -> (u32, usize) {
    let slot = if algorithm_of(socket) == BEFORE { SLOTS[0] } else { SLOTS[1] };
    (slot, hash::fold(socket.peer_addr().unwrap().ip()))
}

type Cells = BTreeMap<(u32, usize), (Counts, f64)>;

fn cells_of(arms: &ArmCounter) -> Cells {
    let read = arms.read().unwrap();
    let cells = read
        .iter()
        .flat_map(|(slot, folds)| folds.iter().enumerate().map(|(fold, cell)| ((*slot, fold), Counts::of(cell))));
    cells.collect()
}

#[test]
fn sums_of_a_sweep_are_those_of_the_sockets() {
    const CONNECTIONS: usize = 320;
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2, tun), |lab| {
        let link = Link::lossy(&lab.netns, 32);
        lab.apply(0, &format!("split = {{ {BEFORE} = 40, keep = 60 }}"), "");
        let arms = arms();
        // Each sends a number of bytes of its own.
        let sizes: Vec<usize> = (0..CONNECTIONS).map(|number| 1 + number * 997 % 90_000).collect();
        let open = link.transfer(&lab.netns, 16, &sizes, |ends| ends);
        let clients: Vec<&TcpStream> = open.iter().map(|[client, _]| client).collect();
        poll_until(SOON, "everything is acknowledged", || clients.iter().all(|client| info(client).is_quiet));
        let mut expected: Cells =
            SLOTS.iter().flat_map(|&slot| (0..FOLDS).map(move |fold| ((slot, fold), <_>::default()))).collect();
        for client in &clients {
            let Info { counts, inflation, .. } = info(client);
            let (sum, sum_inflation) = expected.get_mut(&place_of(client)).unwrap();
            add(sum, &counts);
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
        let total = |of: fn(&Counts) -> u64| expected.values().map(|(counts, _)| of(counts)).sum::<u64>();
        assert_eq!(total(|it| it.connections), CONNECTIONS as u64);
        assert!(total(|it| it.retrans) > 100, "the link loses packets: {}", total(|it| it.retrans));
        assert!(
            SLOTS.iter().all(|slot| expected.iter().any(|((it, _), (counts, _))| it == slot && counts.connections > 0))
        );
        assert_eq!(cells_of(&arms), seen, "a second sweep finds nothing new");
        ends_are_counted(open, &arms, expected);
        run(0, "policy remove");
    });
}

/// A third ends in order, a third is reset by the peer, a third stays.
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
                kept.push(client); // whoever was reset learns it from the packet, not from closing
            }
            _ => kept.extend([client, server]),
        }
    }
    let ended = |cells: &Cells| -> Vec<(u64, u64, u64)> {
        cells.values().map(|(it, _)| (it.connections, it.ended, it.abnormal)).collect()
    };
    poll_until(SOON, "every end is counted, and none twice", || ended(&cells_of(arms)) == ended(&expected));
}

fn add(sum: &mut Counts, one: &Counts) {
    sum.connections += one.connections;
    sum.bytes_acked += one.bytes_acked;
    sum.busy_ticks += one.busy_ticks;
    sum.sent += one.sent;
    sum.retrans += one.retrans;
    sum.timeouts += one.timeouts;
    sum.looks += one.looks;
}

/// Open connections that a live policy left as they were had no label: the arms did not have their shares.
#[test]
fn open_connections_of_a_live_policy_are_counted_in_both_arms() {
    const CONNECTIONS: usize = 150;
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let _inhabitant = inhabit(&lab.netns);
        let open: Vec<[TcpStream; 2]> = (0..CONNECTIONS).map(|_| lab.connect()).collect();
        let shares = [(1, 30), (2, 60)];
        for (number, percent) in shares {
            lab.apply(0, &format!("split = {{ {BEFORE} = {percent}, keep = {} }}", 100 - percent), "--live");
            let treated = open.iter().flatten().filter(|end| algorithm_of(end) == BEFORE).count() as u64;
            let labels = bpf::open_pin(&PolicyPins::of_host().unwrap().labels()).unwrap();
            let arms = ArmCounter::start(&labels, number, &SLOTS).unwrap();
            let mut cells = cells_of(&arms);
            cells.retain(|_, (counts, _)| counts.connections > 0);
            let of = |slot: u32| {
                cells.iter().filter(|((it, _), _)| *it == slot).map(|(_, (it, _))| it.connections).sum::<u64>()
            };
            // The connection that every test has is one of them.
            let total = 2 * CONNECTIONS as u64 + 2;
            assert!(of(SLOTS[0]).abs_diff(treated) <= 2, "{percent} %: {} of {treated}", of(SLOTS[0]));
            assert_eq!(of(SLOTS[0]) + of(SLOTS[1]), total, "{percent} %");
        }
        run(0, "policy remove --live");
        assert!(open.iter().flatten().all(|end| algorithm_of(end) != BEFORE), "all have what they had");
    });
}

/// A sweep and the end of a connection once both added what the other had.
#[test]
fn nothing_is_counted_twice_where_sweeps_and_ends_meet() {
    const CONNECTIONS: usize = 20_000;
    const BYTES: usize = 1_000;
    /// SYN and FIN of the client and the FIN of the server count as bytes that were acknowledged.
    const OTHER_BYTES: usize = 3;
    in_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
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
        let sum = |of: fn(&Counts) -> u64| cells_of(&arms).values().map(|(counts, _)| of(counts)).sum::<u64>();
        poll_until(SOON, "every connection has ended", || sum(|it| it.ended) >= CONNECTIONS as u64);
        let seen = [sum(|it| it.connections), sum(|it| it.ended), sum(|it| it.bytes_acked), sum(|it| it.abnormal)];
        let bytes = CONNECTIONS * (BYTES + OTHER_BYTES - 1);
        assert_eq!(seen, [CONNECTIONS, CONNECTIONS, bytes, 0].map(|it| it as u64), "after {sweeps} sweeps");
        assert!(sweeps > 100, "{sweeps} sweeps are too few to meet the end of a connection");
        run(0, "policy remove");
    });
}

/// The client sends and closes, then the server does.
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
