//! Every algorithm of the catalogue, registered in this kernel, carries data in each situation of a path.
//!
//! A new file in `bpf/cc` is covered without an edit here. A situation runs for all algorithms at once, each in namespaces
//! of its own.

pub mod lab;
pub mod wire;

use std::sync::atomic::Ordering::Relaxed;

use lab::{LIMIT, RegisteredSubject, WirePath, assert_sound, carry, for_every_algorithm};
use std::net::TcpListener;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;
use tccc::kernel::probe::Features;
use tccc::loader::Request;
use tccc::{catalog, loader};

use super::*;
use crate::common::verdict;
use crate::lab::link::{connect_sides, new_sides, set_addresses};
use crate::lab::socket::algorithm_of;
use crate::lab::wire::{Handle, Wire, set_header_checksum};

/// Values of `tcp_ca_state` in linux/tcp.h.
const OPEN: u8 = 0;
const CWR: u8 = 2;
const LOSS: u8 = 4;
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
const UNDONE: [&str; 4] = ["TCPFullUndo", "TCPPartialUndo", "TCPDSACKUndo", "TCPLossUndo"];
const MEGABYTE: usize = 1 << 20;
/// Transfers of a megabyte, of which one must show what depends on chance.
const TRIES: usize = 8;

/// Runs a situation for all algorithms at the same time, each with a path and a connection of its own.
fn for_every_path(
    settings: &[(&str, &str)],
    situation: impl Fn(&RegisteredSubject, &WirePath, &HeldConnection) + Sync,
) {
    for_every_algorithm(|subject| {
        let path = WirePath::build(settings);
        let connection = path.connect(subject.name());
        situation(subject, &path, &connection);
        path.close(connection);
    });
}

fn carry_soundly(connection: &HeldConnection, subject: &RegisteredSubject) {
    carry(connection, MEGABYTE, |client| {
        assert_sound(client, subject.name());
    });
}

fn survive_loss<L>(path: WirePath<L>, subject: &RegisteredSubject) {
    // A SYN that was lost is repeated without ECN, and bpf_dctcp hands such a connection to reno.
    let mut tries = (0..TRIES).map(|_| path.connect(subject.name()));
    let connection = tries.find(|it| algorithm_of(&it.client) == subject.name()).expect("a SYN arrives");
    // By chance, a transfer may have no loss, or only reductions that were undone.
    let is_reduced = (0..TRIES).any(|_| {
        carry_soundly(&connection, subject);
        let info = assert_sound(&connection.client, subject.name());
        info.tcpi_total_retrans > 0 && (info.tcpi_snd_ssthresh < INFINITE_SSTHRESH || !subject.has_threshold())
    });
    assert!(is_reduced, "no loss reduced ssthresh in {TRIES} transfers");
    path.close(connection);
}

#[test]
fn every_algorithm_survives_random_loss() {
    needs!(root, struct_ops, tun);
    for_every_algorithm(|subject| {
        let path = WirePath::build(&[]);
        path.wire.conditions.lost_permille.store(20, Relaxed);
        survive_loss(path, subject);
    });
}

#[test]
fn every_algorithm_survives_random_loss_of_netem() {
    needs!(root, struct_ops, netem);
    for_every_algorithm(|subject| {
        survive_loss(WirePath::by_netem(), subject);
    });
}

#[test]
fn every_algorithm_survives_an_outage_with_timeouts() {
    needs!(root, struct_ops, tun);
    for_every_path(&[], |subject, path, connection| {
        let mut is_over = false;
        carry(connection, 8 * MEGABYTE, |client| {
            if !is_over && assert_sound(client, subject.name()).tcpi_delivered > 50 {
                go_dark_until(path, client, 2);
                is_over = true;
            }
        });
        assert!(is_over, "the transfer ended before the outage");
    });
}

/// Drops all packets until the sender has had this many timeouts. The kernel counts a timeout before it acts on it.
fn go_dark_until(path: &WirePath, client: &TcpStream, timeouts: u64) {
    path.wire.conditions.is_dark.store(true, Relaxed);
    poll_until(LIMIT, "the timeouts", || path.count(&["TCPTimeouts"]) >= timeouts);
    poll_until(LIMIT, "the state of a timeout", || tcp_info(client).tcpi_ca_state == LOSS);
    path.wire.conditions.is_dark.store(false, Relaxed);
}

#[test]
fn every_algorithm_undoes_reductions_for_reordered_packets() {
    needs!(root, struct_ops, tun);
    for_every_path(&[], |subject, path, connection| {
        path.wire.conditions.late_every.store(50, Relaxed);
        // Most transfers have an undone reduction, depending on which packets are late.
        let is_undone = (0..TRIES).any(|_| {
            carry_soundly(connection, subject);
            path.count(&UNDONE) > 0
        });
        assert!(is_undone, "no reduction was undone in {TRIES} transfers");
    });
}

#[test]
fn every_algorithm_undoes_spurious_timeouts() {
    needs!(root, struct_ops, tun);
    for_every_path(&[], |subject, path, connection| {
        // LEDBAT++ may be in a slowdown, which an undo does not end. Copa's restored window shrinks at once, because the held
        // packets have a long RTT.
        if !subject.has_threshold() || ["ledbatpp", "copa"].contains(&subject.algorithm.id.as_str()) {
            return;
        }
        let (mut has_threshold, mut is_over) = (false, false);
        let mut watch = |client: &TcpStream| {
            let info = assert_sound(client, subject.name());
            // A real timeout ends slow start. In slow start, a window that was not restored would soon grow back.
            if !has_threshold && info.tcpi_delivered > 50 {
                go_dark_until(path, client, 1);
                has_threshold = true;
            } else if !is_over
                && info.tcpi_ca_state == OPEN
                && info.tcpi_snd_cwnd >= info.tcpi_snd_ssthresh.saturating_add(5)
            {
                delay_until_timeout(path, client);
                is_over = true;
            }
            is_over
        };
        let is_over = (0..TRIES).any(|_| {
            let mut is_over = false;
            carry(connection, 8 * MEGABYTE, |client| is_over = watch(client));
            is_over
        });
        assert!(is_over, "{TRIES} transfers ended before the delay");
    });
}

/// Holds all packets until a timeout, then delivers them. The kernel must restore the window.
fn delay_until_timeout(path: &WirePath, client: &TcpStream) {
    let [timeouts, undone] = [["TCPTimeouts"], ["TCPLossUndo"]].map(|names| path.count(&names));
    let before = tcp_info(client).tcpi_snd_cwnd;
    path.wire.conditions.is_held.store(true, Relaxed);
    poll_until(LIMIT, "a timeout", || path.count(&["TCPTimeouts"]) > timeouts);
    poll_until(LIMIT, "the timeout reduces the window", || tcp_info(client).tcpi_snd_cwnd < before);
    path.wire.conditions.is_held.store(false, Relaxed);
    poll_until(LIMIT, "the timeout is found spurious", || path.count(&["TCPLossUndo"]) > undone);
    let after = tcp_info(client).tcpi_snd_cwnd;
    assert!(after >= before, "{after} packets after the timeout, {before} before");
}

#[test]
fn every_algorithm_restarts_after_idle_time() {
    needs!(root, struct_ops, tun);
    for_every_path(&[("net.ipv4.tcp_slow_start_after_idle", "1")], |subject, path, connection| {
        carry_soundly(connection, subject);
        // Idle time of three timeouts halves the window at least twice.
        poll_until(LIMIT, "three timeouts pass", || {
            let info = tcp_info(&connection.client);
            u64::from(info.tcpi_last_data_sent) * 1000 > 3 * u64::from(info.tcpi_rto)
        });
        let idle = assert_sound(&connection.client, subject.name());
        let before = idle.tcpi_snd_cwnd;
        path.wire.conditions.is_held.store(true, Relaxed);
        let mut at_restart = None;
        carry(connection, MEGABYTE, |client| {
            let info = assert_sound(client, subject.name());
            if at_restart.is_none() && info.tcpi_bytes_sent > idle.tcpi_bytes_sent {
                // The kernel reads the window before it locks the socket and reads the rest.
                at_restart = Some(assert_sound(client, subject.name()).tcpi_snd_cwnd);
                path.wire.conditions.is_held.store(false, Relaxed);
            }
        });
        assert!(before > 20, "{before} packets are too few to see a restart");
        // An algorithm with `cong_control` decides about the window itself, and fast start keeps it.
        let decides_alone = |callback: &catalog::Callback| callback.member.starts_with("cong_control");
        if !subject.algorithm.callbacks.iter().any(decides_alone) && subject.algorithm.id != "faststart" {
            assert!(at_restart.unwrap() <= before / 2, "{at_restart:?} packets after {before}");
        }
    });
}

#[test]
fn every_algorithm_answers_congestion_marks() {
    needs!(root, struct_ops, tun);
    for_every_path(&[("net.ipv4.tcp_ecn", "1")], |subject, path, connection| {
        path.wire.conditions.marked_every.store(50, Relaxed);
        let mut states = BTreeSet::new();
        carry(connection, MEGABYTE, |client| {
            states.insert(assert_sound(client, subject.name()).tcpi_ca_state);
        });
        let info = assert_sound(&connection.client, subject.name());
        assert!(info.tcpi_delivered_ce > 0, "no mark was echoed");
        let is_cut = states.contains(&CWR) && info.tcpi_snd_ssthresh < INFINITE_SSTHRESH;
        assert!(is_cut || !subject.has_threshold(), "marks changed nothing: {states:?}");
    });
}

/// Its packets no longer say that they may be marked, as nobody would answer.
#[test]
fn dctcp_without_ecn_hands_the_socket_to_reno() {
    /// `TCPI_OPT_ECN` of linux/tcp.h.
    const TCPI_OPT_ECN: u8 = 8;
    needs!(root, struct_ops);
    let algorithm = catalog::find("bpf_dctcp").unwrap();
    let _host = HostSnapshot::take(&["ktd_dctcp"]);
    let request = Request { name: "ktd_dctcp", ..Request::of(algorithm) };
    let registered = loader::register(&request, &Features::probe().unwrap()).unwrap();
    let netns = loopback_netns();
    let connection = |listening: &str| {
        let listener = netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap();
        choose(&listener, listening).unwrap();
        let mut connection = HeldConnection::between(&netns, listener, "ktd_dctcp");
        connection.send(100_000);
        connection
    };
    for (listening, used, ecn) in [("reno", "reno", 0), ("ktd_dctcp", "ktd_dctcp", TCPI_OPT_ECN)] {
        let connection = connection(listening);
        let info = assert_sound(&connection.client, used);
        assert_eq!(info.tcpi_options & TCPI_OPT_ECN, ecn, "the listener has {listening}");
    }
    registered.unregister().unwrap();
}

#[test]
fn every_algorithm_is_released_by_closed_connections() {
    const CONNECTIONS: usize = 300;
    needs!(root, struct_ops);
    for_every_algorithm(|subject| {
        let netns = loopback_netns();
        for number in 0..CONNECTIONS {
            let listener = netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap();
            choose(&listener, subject.name()).unwrap();
            let mut connection = HeldConnection::between(&netns, listener, subject.name());
            assert_sound(&connection.client, subject.name());
            match number % 3 {
                // Closed in order, closed with unread bytes, and not used.
                0 => connection.send(20_000),
                1 => drop(std::io::Write::write(&mut connection.client, &[1; 5000]).unwrap()),
                _ => connection.server.shutdown(Shutdown::Both).unwrap(),
            }
        }
    });
}

#[test]
fn every_algorithm_takes_over_a_live_socket_and_releases_it() {
    needs!(root, struct_ops, tun);
    // With ECN, so that no algorithm hands the socket over to reno.
    for_every_path(&[("net.ipv4.tcp_ecn", "1")], |subject, path, connection| {
        path.wire.conditions.lost_permille.store(10, Relaxed);
        path.wire.conditions.late_every.store(60, Relaxed);
        let mut switches = 0;
        carry(connection, MEGABYTE, |client| {
            let name = ["reno", subject.name(), &subject.other][switches % 3];
            choose(client, name).unwrap();
            assert_sound(client, name);
            switches += 1;
        });
        assert!(switches >= 20, "{switches} switches in the whole transfer");
    });
}
