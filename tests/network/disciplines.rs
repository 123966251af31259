//! Queue disciplines of this kernel on links by netem.
//!
//! On a kernel without netem, these tests run in the guest of virtual time. They run on another kernel by `cargo xtask
//! vm-matrix --kernel 6.1 --only network::disciplines`.

use std::io::IoSliceMut;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;

use nix::sys::socket::sockopt::{IpRecvTos, Ipv4Tos, RcvBufForce};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use tccc::emulate::LinkNotice;
use tccc::kernel::netlink::has_interface;
use tccc::model::run::LinkCounters;

use super::*;
use crate::lab::link::{UDP_HEADERS, ends_of, new_sides, set_addresses};
use crate::lab::overload::{ARRIVALS, DELAY, DROPS, INTERVAL, QUEUE_PKTS, RATE_MBIT};

/// The lowest bits of the IP header's second byte: ECN-capable, and marked.
const ECT0: i32 = 2;
const CE: u8 = 3;

fn queued(discipline: &str) -> Direction {
    let discipline = Some(discipline.parse().unwrap());
    Direction { discipline, ..limited(RATE_MBIT, DELAY, QueueSize::Packets(QUEUE_PKTS)) }
}

/// What came out of a link.
#[derive(Debug, Default, PartialEq)]
struct Arrived {
    packets: u64,
    marked: u64,
}

/// Sends the arrivals of `lab::overload` over a new link.
fn overload(direction: Direction, tos: i32) -> (Arrived, LinkCounters) {
    let sides = new_sides();
    let config = LinkConfig { directions: [direction, plain(DELAY)], mtu: MTU as u32 };
    let link = Netem.connect(&config, ends_of(&sides, "lnk")).unwrap();
    set_addresses(&sides, "lnk", 79);
    let bound =
        |side: usize| sides[side].run(|| Ok(UdpSocket::bind((Ipv4Addr::new(10, 79, 0, 1 + side as u8), 0))?)).unwrap();
    let (sender, receiver) = (bound(0), bound(1));
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    setsockopt(&sender, Ipv4Tos, &tos).unwrap();
    let arrived = thread::scope(|scope| {
        let arrived = scope.spawn(move || receive(&receiver));
        let begin = Instant::now();
        for number in 1..=ARRIVALS {
            sender.send(&[0; MTU - UDP_HEADERS]).unwrap();
            thread::sleep((INTERVAL * number as u32).saturating_sub(begin.elapsed())); // the pace of the sender
        }
        arrived.join().unwrap()
    });
    let counters = link.counters()[0].clone();
    assert_eq!(link.notices().iter().filter(|notice| matches!(notice, LinkNotice::Stopped(_))).count(), 0);
    drop(link);
    assert!(!has_interface(&sides[0], "lnk0").unwrap() && !has_interface(&sides[1], "lnk1").unwrap());
    (arrived, counters)
}

/// Receives until nothing comes for a second.
fn receive(socket: &UdpSocket) -> Arrived {
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    setsockopt(socket, RcvBufForce, &(64 << 20)).unwrap();
    setsockopt(socket, IpRecvTos, &true).unwrap();
    let mut arrived = Arrived::default();
    let mut packet = [0; MTU];
    loop {
        let (mut control, mut slices) = (nix::cmsg_space!(u8), [IoSliceMut::new(&mut packet)]);
        let read = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty());
        let Ok(read) = read else { return arrived };
        let is_marked = |it: ControlMessageOwned| matches!(it, ControlMessageOwned::Ipv4Tos(tos) if tos & 3 == CE);
        arrived.packets += 1;
        arrived.marked += u64::from(read.cmsgs().unwrap().any(is_marked));
    }
}

#[test]
fn every_discipline_of_this_kernel_drops_or_marks_and_counts_it() {
    needs!(root, netem);
    for (discipline, marks) in [
        ("pfifo", false),
        ("codel", false),
        ("codel ecn", true),
        ("codel ce_threshold 1ms", true),
        ("fq_codel", true),
        ("pie", false),
        ("pie ecn", true),
        ("fq_pie ecn", true),
        ("red min 30kB max 90kB probability 10% ecn", true),
        ("cake besteffort", true),
        ("cake", true),
        ("fq flow_limit 50", false),
        ("fq ce_threshold 1ms", true),
    ] {
        assert_counted(discipline, marks);
    }
}

/// No kernel that Debian packages has it, so this test usually runs in a guest.
#[test]
fn dualpi2_marks_and_counts_it() {
    needs!(root, dualpi2);
    assert_counted("dualpi2", true);
}

/// What arrives, what the discipline says that it dropped and marked, and the headers agree.
fn assert_counted(discipline: &str, marks: bool) {
    let (arrived, counters) = overload(queued(discipline), ECT0);
    println!(
        "disciplines: {discipline}: {arrived:?}, {} dropped, {} marked",
        counters.overflow_pkts, counters.marked_pkts
    );
    let LinkCounters { overflow_pkts, marked_pkts, .. } = counters;
    assert_eq!((counters.received_pkts, counters.failed_pkts, counters.lost_pkts), (ARRIVALS, 0, 0), "{discipline}");
    assert_eq!(ARRIVALS - overflow_pkts, arrived.packets, "{discipline}: {counters:?}");
    assert_eq!(counters.sent_pkts, arrived.packets, "{discipline}: {counters:?}");
    assert_eq!(counters.sent_bytes, arrived.packets * MTU as u64, "{discipline}");
    // red marks before it finds that the queue is full.
    let marked_and_dropped = if discipline.starts_with("red") { overflow_pkts } else { 0 };
    let reported = arrived.marked..=arrived.marked + marked_and_dropped;
    assert!(reported.contains(&marked_pkts), "{discipline}: {arrived:?}, {counters:?}");
    assert!(overflow_pkts + marked_pkts > 50, "{discipline}: {counters:?}");
    assert_eq!(marked_pkts > 0, marks, "{discipline}: {counters:?}");
}

/// The same arrivals as in virtual time, whose test has the same numbers.
#[test]
fn disciplines_drop_by_netem_what_they_drop_in_virtual_time() {
    needs!(root, netem);
    for (discipline, [least, most]) in DROPS {
        let (arrived, counters) = overload(queued(discipline), 0);
        println!("overload: {discipline}: {} dropped, {least} to {most} allowed", counters.overflow_pkts);
        assert_eq!(arrived, Arrived { packets: ARRIVALS - counters.overflow_pkts, marked: 0 }, "{discipline}");
        assert!((least..=most).contains(&counters.overflow_pkts), "{discipline}: {}", counters.overflow_pkts);
    }
}

/// Losses and copies come before the discipline, delays after it.
#[test]
fn losses_copies_and_delays_are_around_the_discipline() {
    needs!(root, netem);
    let mixed = Direction {
        loss: Share(0.05).into(),
        duplicate: Share(0.1),
        jitter: Duration::from_millis(3).into(),
        reorder: Some("share=1%,by=20ms".parse().unwrap()),
        ..queued("codel")
    };
    let (arrived, counters) = overload(mixed, 0);
    println!("mixed: {arrived:?}, {counters:?}");
    assert_eq!((counters.received_pkts, counters.failed_pkts), (ARRIVALS, 0), "{counters:?}");
    assert!((200..400).contains(&counters.lost_pkts), "{counters:?}");
    assert!((450..700).contains(&counters.duplicated_pkts), "{counters:?}");
    let offered = ARRIVALS - counters.lost_pkts + counters.duplicated_pkts;
    assert_eq!(offered - counters.overflow_pkts, arrived.packets, "{counters:?}");
    assert_eq!(counters.sent_pkts, arrived.packets, "{counters:?}");
    let lab = LinkLab::new(&Netem, [queued("fq_codel"), plain(DELAY)]);
    let (mut sender, receiver) = lab.udp(0);
    sender.send(MTU);
    let delay = Duration::from_nanos(receiver.one().unwrap().delay);
    assert!(delay >= DELAY + Duration::from_micros(1_150), "{delay:?}: one packet takes about 1.2 ms at 10 Mbit/s");
}
