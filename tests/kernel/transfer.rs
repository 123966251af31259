//! Kernel ring: every algorithm of the catalogue, as registered in this kernel, carries data through what a path can do.
//!
//! A new file in `bpf/cc` is covered without an edit here. Each situation runs for all algorithms at once, each in
//! namespaces of its own.

pub mod lab;
pub mod wire;

use std::collections::BTreeSet;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::Relaxed;

use crate::common::{needs, poll_until};
use crate::lab::trace::{Connection, loopback_netns, tcp_info};
use lab::{LIMIT, Path, Subject, assert_sound, carry, for_every_algorithm, switch};

/// Congestion states of the kernel.
const OPEN: u8 = 0;
const CWR: u8 = 2;
const LOSS: u8 = 4;
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// Reductions that the kernel took back.
const UNDONE: [&str; 4] = ["TCPFullUndo", "TCPPartialUndo", "TCPDSACKUndo", "TCPLossUndo"];
const MEGABYTE: usize = 1 << 20;
/// Transfers of a megabyte in one of which what depends on chance must happen.
const TRIES: usize = 8;

fn carry_soundly(connection: &Connection, subject: &Subject) {
    carry(connection, MEGABYTE, |client| {
        assert_sound(client, subject.name());
    });
}

/// A transfer over a path that loses packets.
fn survive_loss<L>(path: Path<L>, subject: &Subject) {
    let connection = path.connect(subject.name());
    // Chance may leave a transfer without a loss, or with reductions that were all taken back.
    let is_reduced = (0..TRIES).any(|_| {
        carry_soundly(&connection, subject);
        let info = assert_sound(&connection.client, subject.name());
        info.retrans_pkts > 0 && info.ssthresh_pkts < INFINITE_SSTHRESH
    });
    assert!(is_reduced, "no loss reduced ssthresh in {TRIES} transfers");
    path.close(connection);
}

#[test]
fn every_algorithm_survives_random_loss() {
    needs!(root, struct_ops, tun);
    for_every_algorithm(|subject| {
        let path = Path::build(&[]);
        path.wire.conditions.lost_permille.store(20, Relaxed);
        survive_loss(path, subject);
    });
}

#[test]
fn every_algorithm_survives_random_loss_of_netem() {
    needs!(root, struct_ops, netem);
    for_every_algorithm(|subject| {
        survive_loss(Path::by_netem(), subject);
    });
}

#[test]
fn every_algorithm_survives_an_outage_with_timeouts() {
    needs!(root, struct_ops, tun);
    for_every_algorithm(|subject| {
        let path = Path::build(&[]);
        let connection = path.connect(subject.name());
        let mut is_over = false;
        carry(&connection, 8 * MEGABYTE, |client| {
            if !is_over && assert_sound(client, subject.name()).delivered_pkts > 50 {
                go_dark_until(&path, client, 2);
                is_over = true;
            }
        });
        assert!(is_over, "the transfer ended before the outage");
        path.close(connection);
    });
}

/// Loses all that is sent until the sender has had this many timeouts; the kernel counts one before it acts on it.
fn go_dark_until(path: &Path, client: &TcpStream, timeouts: u64) {
    path.wire.conditions.is_dark.store(true, Relaxed);
    poll_until(LIMIT, "the timeouts", || path.count(&["TCPTimeouts"]) >= timeouts);
    poll_until(LIMIT, "the state of a timeout", || tcp_info(client).ca_state == LOSS);
    path.wire.conditions.is_dark.store(false, Relaxed);
}

#[test]
fn every_algorithm_takes_back_reductions_for_reordered_packets() {
    needs!(root, struct_ops, tun);
    for_every_algorithm(|subject| {
        let path = Path::build(&[]);
        path.wire.conditions.late_every.store(50, Relaxed);
        let connection = path.connect(subject.name());
        // Whether a reduction is undone depends on which packets are late: most transfers have one, not all.
        let is_undone = (0..TRIES).any(|_| {
            carry_soundly(&connection, subject);
            path.count(&UNDONE) > 0
        });
        assert!(is_undone, "no reduction was undone in {TRIES} transfers");
        path.close(connection);
    });
}

#[test]
fn every_algorithm_takes_back_spurious_timeouts() {
    needs!(root, struct_ops, tun);
    for_every_algorithm(|subject| {
        let path = Path::build(&[]);
        let connection = path.connect(subject.name());
        let (mut has_threshold, mut is_over) = (false, false);
        let mut watch = |client: &TcpStream| {
            let info = assert_sound(client, subject.name());
            // A real timeout ends slow start, in which a window that was not restored would soon be as large as before.
            if !has_threshold && info.delivered_pkts > 50 {
                go_dark_until(&path, client, 1);
                has_threshold = true;
            } else if !is_over && info.ca_state == OPEN && info.cwnd_pkts >= info.ssthresh_pkts.saturating_add(5) {
                delay_until_timeout(&path, client);
                is_over = true;
            }
            is_over
        };
        let is_over = (0..TRIES).any(|_| {
            let mut is_over = false;
            carry(&connection, 8 * MEGABYTE, |client| is_over = watch(client));
            is_over
        });
        assert!(is_over, "{TRIES} transfers ended before the delay");
        path.close(connection);
    });
}

/// Holds every packet until a timeout, then lets all arrive: once the kernel knows, the window is as before.
fn delay_until_timeout(path: &Path, client: &TcpStream) {
    let [timeouts, undone] = [["TCPTimeouts"], ["TCPLossUndo"]].map(|names| path.count(&names));
    let before = tcp_info(client).cwnd_pkts;
    path.wire.conditions.is_held.store(true, Relaxed);
    poll_until(LIMIT, "a timeout", || path.count(&["TCPTimeouts"]) > timeouts);
    poll_until(LIMIT, "the timeout reduces the window", || tcp_info(client).cwnd_pkts < before);
    path.wire.conditions.is_held.store(false, Relaxed);
    poll_until(LIMIT, "the timeout is found spurious", || path.count(&["TCPLossUndo"]) > undone);
    let after = tcp_info(client).cwnd_pkts;
    assert!(after >= before, "{after} packets after the timeout, {before} before");
}

#[test]
fn every_algorithm_restarts_after_idle_time() {
    needs!(root, struct_ops, tun);
    for_every_algorithm(|subject| {
        let path = Path::build(&[("net.ipv4.tcp_slow_start_after_idle", "1")]);
        let connection = path.connect(subject.name());
        carry_soundly(&connection, subject);
        // Three timeouts of silence are two halvings at least.
        poll_until(LIMIT, "three timeouts pass", || {
            let info = tcp_info(&connection.client);
            u64::from(info.since_sent_ms) * 1000 > 3 * u64::from(info.rto_us)
        });
        let idle = assert_sound(&connection.client, subject.name());
        let before = idle.cwnd_pkts;
        path.wire.conditions.is_held.store(true, Relaxed);
        let mut at_restart = None;
        carry(&connection, MEGABYTE, |client| {
            let info = assert_sound(client, subject.name());
            if at_restart.is_none() && info.bytes_sent > idle.bytes_sent {
                // The kernel reads the window before it takes the lock under which it reads the rest.
                at_restart = Some(assert_sound(client, subject.name()).cwnd_pkts);
                path.wire.conditions.is_held.store(false, Relaxed);
            }
        });
        assert!(before > 20, "{before} packets are too few to see a restart");
        if !decides_alone(subject) && !keeps_its_window(subject) {
            assert!(at_restart.unwrap() <= before / 2, "{at_restart:?} packets after {before}");
        }
        path.close(connection);
    });
}

/// The kernel leaves the window after idle time to an algorithm with `cong_control`.
fn decides_alone(subject: &Subject) -> bool {
    subject.algorithm.callbacks.iter().any(|callback| callback.member.starts_with("cong_control"))
}

/// Not to restart is what it is for.
fn keeps_its_window(subject: &Subject) -> bool {
    subject.algorithm.id == "faststart"
}

#[test]
fn every_algorithm_answers_congestion_marks() {
    needs!(root, struct_ops, tun);
    for_every_algorithm(|subject| {
        let path = Path::build(&[("net.ipv4.tcp_ecn", "1")]);
        path.wire.conditions.marked_every.store(50, Relaxed);
        let connection = path.connect(subject.name());
        let mut states = BTreeSet::new();
        carry(&connection, MEGABYTE, |client| {
            states.insert(assert_sound(client, subject.name()).ca_state);
        });
        let info = assert_sound(&connection.client, subject.name());
        assert!(info.delivered_ce_pkts > 0, "no mark was echoed");
        assert!(states.contains(&CWR) && info.ssthresh_pkts < INFINITE_SSTHRESH, "marks changed nothing: {states:?}");
        path.close(connection);
    });
}

#[test]
fn every_algorithm_is_released_by_connections_that_come_and_go() {
    const CONNECTIONS: usize = 300;
    needs!(root, struct_ops);
    for_every_algorithm(|subject| {
        let netns = loopback_netns();
        for number in 0..CONNECTIONS {
            let mut connection = Connection::open(&netns, subject.name());
            assert_sound(&connection.client, subject.name());
            match number % 3 {
                // Closed in order, closed with bytes that nobody read, and not used at all.
                0 => connection.send(20_000),
                1 => drop(std::io::Write::write(&mut connection.client, &[1; 5000]).unwrap()),
                _ => connection.server.shutdown(Shutdown::Both).unwrap(),
            }
        }
    });
}

#[test]
fn every_algorithm_takes_over_a_live_socket_and_gives_it_back() {
    needs!(root, struct_ops, tun);
    for_every_algorithm(|subject| {
        let path = Path::build(&[]);
        path.wire.conditions.lost_permille.store(10, Relaxed);
        path.wire.conditions.late_every.store(60, Relaxed);
        let connection = path.connect(subject.name());
        let mut switches = 0;
        carry(&connection, MEGABYTE, |client| {
            let name = ["reno", subject.name(), &subject.other][switches % 3];
            switch(client, name);
            assert_sound(client, name);
            switches += 1;
        });
        assert!(switches >= 20, "{switches} switches in the whole transfer");
        path.close(connection);
    });
}
