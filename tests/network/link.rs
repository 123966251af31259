//! The user-space link and netem between namespaces of the test's own, and `tccc link`.

use std::net::UdpSocket;

use statrs::distribution::{Binomial, DiscreteCDF};
use tccc::emulate::LinkNotice;
use tccc::kernel::clock::monotonic_ns;
use tccc::kernel::netlink::{add_address, delete_interface, has_interface};
use tccc::kernel::netns::Netns;

use super::*;
use crate::lab::link::{ends_of, link_cpu_time, new_sides};
use crate::lab::socket::path_of;

const SHORT: Duration = Duration::from_millis(5);
const PROMPT: Duration = Duration::from_secs(5);

fn lossy(loss: f64, seed: u64) -> Direction {
    Direction { loss: Share(loss).into(), seed, ..plain(SHORT) }
}

#[test]
fn equal_seeds_lose_the_same_packets_and_other_seeds_lose_others() {
    needs!(root);
    let run = |seed| survivors(&LinkLab::new(&TunLink, [lossy(0.05, seed), plain(SHORT)]), 3_000);
    let first = run(11);
    assert_eq!(run(11), first);
    assert_ne!(run(12), first);
    assert!((2_700..2_999).contains(&first.len()), "{} of 3000 arrived", first.len());
}

#[test]
fn reseeded_link_restarts_its_pattern() {
    needs!(root);
    let fresh = survivors(&LinkLab::new(&TunLink, [lossy(0.05, 11), plain(SHORT)]), 2_000);
    let lab = LinkLab::new(&TunLink, [lossy(0.05, 5), plain(SHORT)]);
    survivors(&lab, 777);
    lab.link.reseed([11, 12]);
    lab.link.restart_counters();
    assert_eq!(survivors(&lab, 2_000), fresh);
    let [there, _] = lab.link.counters();
    assert_eq!((there.received_pkts, there.sent_pkts), (2_000, fresh.len() as u64));
}

#[test]
fn losses_lie_in_the_binomial_interval_and_add_up() {
    needs!(root);
    const PACKETS: u64 = 20_000;
    let lab = LinkLab::new(&TunLink, [lossy(0.01, 3), plain(SHORT)]);
    let arrived = survivors(&lab, PACKETS).len() as u64;
    let [there, back] = lab.link.counters();
    assert_eq!((there.received_pkts, there.failed_pkts, there.overflow_pkts), (PACKETS, 0, 0), "{there:?}");
    assert_eq!((there.lost_pkts, there.sent_pkts), (PACKETS - arrived, arrived));
    assert_eq!(back.received_pkts, 0, "no packet was sent in the other direction");
    let losses = Binomial::new(0.01, PACKETS).unwrap();
    let interval = losses.inverse_cdf(0.0005)..=losses.inverse_cdf(0.9995);
    assert!(interval.contains(&there.lost_pkts), "{} lost, allowed {interval:?}", there.lost_pkts);
}

#[test]
fn queue_holds_exactly_its_packets_behind_the_one_being_sent() {
    needs!(root);
    // A full packet takes 120 ms, so the burst ends long before the second packet is sent.
    let slow = limited(0.1, SHORT, QueueSize::Packets(4));
    let lab = LinkLab::new(&TunLink, [slow, plain(SHORT)]);
    let (mut sender, receiver) = lab.udp(0);
    let begin = monotonic_ns().unwrap();
    let arrivals = receive_during(&receiver, || (0..40).for_each(|_| sender.send(MTU)));
    let numbers: Vec<u64> = arrivals.iter().map(|arrival| arrival.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    let [there, _] = lab.link.counters();
    assert_eq!((there.overflow_pkts, there.max_queue_pkts, there.lost_pkts), (35, Some(4), 0));
    let full = there.moments.unwrap().overflows_ns;
    assert!((1..=35).contains(&full.len()) && full[0] >= begin && full.is_sorted(), "{begin}: {full:?}");
}

#[test]
fn flood_is_carried_at_the_rate() {
    needs!(root);
    let lab = LinkLab::new(&TunLink, [limited(20.0, SHORT, QueueSize::Packets(100)), plain(SHORT)]);
    let (mut sender, receiver) = lab.udp(0);
    let arrivals = receive_during(&receiver, || sender.flood(30.0, Duration::from_secs(2)));
    let (first, last) = (arrivals.first().unwrap(), arrivals.last().unwrap());
    let mbit = (arrivals.len() - 1) as f64 * MTU as f64 * 8.0 / ((last.at - first.at) as f64 / 1e9) / 1e6;
    assert!((19.8..=20.2).contains(&mbit), "{mbit} Mbit/s for 20");
}

/// Compares the median, because a busy machine delays single packets, as the link's own lateness reports.
#[test]
fn sparse_packets_take_exactly_the_delay() {
    needs!(root);
    let delay = Duration::from_millis(20);
    let lab = LinkLab::new(&TunLink, [plain(delay), plain(delay)]);
    for from in [0, 1] {
        let (mut sender, receiver) = lab.udp(from);
        let mut delays: Vec<CapturedPacket> = Vec::new();
        for _ in 0..20 {
            sender.send(100);
            delays.push(receiver.one().expect("nothing is lost"));
        }
        delays.sort_by_key(|arrival| arrival.delay);
        assert!(delays[0].delay >= delay.as_nanos() as u64, "{:?} is too early", delays[0]);
        let over = delays[10].delay - delay.as_nanos() as u64;
        assert!(over < 500_000, "median {over} ns over the delay");
    }
}

#[test]
fn full_size_tcp_passes_without_offloads() {
    needs!(root);
    let lab = LinkLab::new(&TunLink, [limited(50.0, SHORT, QueueSize::Packets(100)), plain(SHORT)]);
    let received = lab.tcp(Duration::from_secs(1));
    assert!(received > 2_000_000, "{received} bytes arrived");
    let [there, _] = lab.link.counters();
    assert_eq!(there.failed_pkts, 0, "no packet was larger than the MTU: {there:?}");
    assert!(there.sent_bytes / there.sent_pkts <= MTU as u64);
}

#[test]
fn link_that_is_full_waits_without_spinning() {
    needs!(root);
    /// More packets than a link can hold.
    const PACKETS: u64 = 280_000;
    let lab = LinkLab::with_mtu(&TunLink, [plain(Duration::from_secs(10)), plain(SHORT)], 68);
    let (mut sender, _receiver) = lab.udp(0);
    (0..PACKETS).for_each(|_| sender.send(44));
    let received = || lab.link.counters()[0].received_pkts;
    poll_until(PROMPT, "the link is full", || received() > 262_000);
    let (before, full_at) = (link_cpu_time(), received());
    std::thread::sleep(Duration::from_millis(500)); // the time over which the processor time is measured
    let spent = link_cpu_time() - before;
    assert!(full_at < PACKETS, "the link is not full");
    assert!(spent < Duration::from_millis(100), "{spent:?} of processor time in 500 ms");
}

#[test]
fn dropped_link_leaves_nothing() {
    needs!(root);
    let _host = HostSnapshot::take(&["lnk"]);
    let lab = LinkLab::new(&TunLink, [plain(SHORT), plain(SHORT)]);
    assert!(has_interface(&lab.sides[0], "lnk0").unwrap());
    let LinkLab { link, sides } = lab;
    drop(link);
    for (side, name) in sides.iter().zip(["lnk0", "lnk1"]) {
        assert!(!has_interface(side, name).unwrap());
    }
}

#[test]
fn link_without_its_interface_reports_that_and_keeps_its_counters() {
    needs!(root);
    let lab = LinkLab::new(&TunLink, [plain(SHORT), plain(SHORT)]);
    let arrived = survivors(&lab, 10).len() as u64;
    let was_silent = lab.link.notices().iter().all(|notice| !matches!(notice, LinkNotice::Stopped(_)));
    delete_interface(&lab.sides[1], "lnk1").unwrap();
    poll_until(PROMPT, "a notice about the interface", || {
        lab.link.notices().iter().any(|notice| notice.to_string().contains("\"lnk1\" of its second end was deleted"))
    });
    assert!(was_silent);
    assert_eq!(lab.link.counters()[0].sent_pkts, arrived);
}

#[test]
fn configuration_out_of_range_names_field_and_range() {
    let ends = || ends_of(&[Netns::current().unwrap(), Netns::current().unwrap()], "lnk");
    type ConfigEdit = fn(&mut LinkConfig);
    let cases: [(ConfigEdit, &str); 6] = [
        (|config| config.mtu = 67, "mtu = 67 is outside 68..9000 (bytes)"),
        (
            |config| config.directions[0] = limited(20_000.0, SHORT, QueueSize::Packets(1)),
            "first to second end: rate = \"20gbit\": outside 1kbit..10gbit",
        ),
        (
            |config| config.directions[1].delay = Duration::from_secs(11),
            "second to first end: delay = \"11s\": outside 0us..10s",
        ),
        (
            |config| config.directions[0].queue = QueueSize::Bdp(1.0),
            "first to second end: queue = \"1bdp\": needs a rate: without one there is no BDP",
        ),
        (
            |config| config.directions[0].queue = QueueSize::Packets(100_001),
            "first to second end: queue = \"100001pkts\": expected at most 100000 pkts or 150000000 B",
        ),
        (|config| config.directions[0].loss = Share(1.5).into(), "first to second end: loss = \"1.5\": outside 0..1"),
    ];
    for (change, expected) in cases {
        let mut config = LinkConfig { directions: [plain(SHORT), plain(SHORT)], mtu: 1500 };
        change(&mut config);
        let refusal = TunLink.connect(&config, ends()).err().expect(expected);
        assert_eq!(format!("{refusal:#}"), expected);
    }
}

fn wait_for_interfaces(sides: &[Netns; 2], name: &str, present: bool) {
    poll_until(PROMPT, &format!("\"{name}\" in both namespaces: {present}"), || {
        sides.iter().all(|side| has_interface(side, name).unwrap() == present)
    });
}

#[test]
fn link_command_refuses_wrong_input_with_name_and_range() {
    needs!(root);
    let sides = new_sides();
    let [near, far] = [path_of(&sides[0]), path_of(&sides[1])];
    let both = format!("--between {near} {far}");
    let near_lo = format!("--between {near}:lo {far} --delay 1ms");
    let long_name = format!("--between {near}:sixteen-letters- {far} --delay 1ms");
    let cases: Vec<(String, &str)> = vec![
        ("--delay 1ms".into(), "--between"),
        (format!("--between {near} --delay 1ms"), "2 values required"),
        (format!("--between lnk-nowhere {far} --delay 1ms"), "no network namespace \"lnk-nowhere\""),
        (
            format!("--between /dev/null {far} --delay 1ms"),
            "--between \"/dev/null\": \"/dev/null\" is not a network namespace",
        ),
        (long_name, "1 to 15 characters"),
        (near_lo, "already exists"),
        (format!("--between {near} {near} --delay 1ms"), "both ends are \"tccc0\" in one namespace"),
        (both.clone(), "--delay"),
        (format!("{both} --delay 5"), "a time with us, ms, s, m, h or d"),
        (format!("{both} --delay 20s"), "delay = \"20s\": outside 0us..10s"),
        (format!("{both} --delay 1ms --rate 10"), "a rate with bit, kbit, mbit or gbit"),
        (format!("{both} --delay 1ms --rate 100bit"), "rate = \"100bit\": outside 1kbit..10gbit"),
        (format!("{both} --delay 1ms --queue 2xbdp"), "a number with pkts, B, kB, MB or bdp"),
        (format!("{both} --delay 1ms --queue 1bdp"), "needs a rate"),
        (format!("{both} --delay 1ms --loss 150%"), "expected a share such as 1%"),
        (format!("{both} --delay 1ms --loss gilbert:p=1%,q=2%"), "\"q\": expected one of p, r, 1-h, 1-k"),
        (format!("{both} --delay 1ms --trace /none"), "cannot read \"/none\": no such file or directory"),
        (format!("{both} --delay 1ms --change 2s"), "nothing changes: expected rate="),
        (format!("{both} --delay 1ms --loss trace:/none"), "cannot read \"/none\": no such file or directory"),
        (format!("{both} --delay 1ms --mtu 20"), "mtu = 20 is outside 68..9000"),
        (format!("{both} --delay 1ms --duration 0s"), "1ms to 8760h"),
        (format!("--between 4194999 {far} --delay 1ms"), "no network namespace of process 4194999"),
    ];
    for (arguments, expected) in cases {
        run(2, &format!("link {arguments}")).stderr_has(expected);
        assert!(sides.iter().all(|side| !has_interface(side, "tccc0").unwrap()), "{arguments} left an interface");
    }
}

#[test]
fn link_command_prints_its_counters_as_json_and_leaves_nothing() {
    needs!(root);
    let sides = new_sides();
    let mut command = tccc();
    command.args(["link", "--between", &path_of(&sides[0]), &format!("{}:lnkb", path_of(&sides[1]))]);
    command.args(["--rate", "10mbit", "--delay", "2ms", "--reverse-loss", "100%", "-o", "json"]);
    let child = begin(&mut command);
    poll_until(PROMPT, "both interfaces", || {
        has_interface(&sides[0], "tccc0").unwrap() && has_interface(&sides[1], "lnkb").unwrap()
    });
    add_address(&sides[0], "tccc0", [10, 79, 1, 1].into(), 24).unwrap();
    add_address(&sides[1], "lnkb", [10, 79, 1, 2].into(), 24).unwrap();
    let socket = |side: &Netns, address: &str| side.run(|| Ok(UdpSocket::bind(address)?)).unwrap();
    let (near, far) = (socket(&sides[0], "10.79.1.1:7000"), socket(&sides[1], "10.79.1.2:7000"));
    far.set_read_timeout(Some(PROMPT)).unwrap();
    // The interface may still be coming up, until the first packet is sent.
    poll_until(PROMPT, "a way to the other side", || near.send_to(b"there", "10.79.1.2:7000").is_ok());
    assert_eq!(far.recv(&mut [0; 8]).unwrap(), 5);
    far.send_to(b"back", "10.79.1.1:7000").unwrap();
    signal(child.id(), Signal::SIGTERM);
    let summary = end(0, child).json();
    assert_eq!((&summary["schema"], &summary["driver"]), (&1.into(), &"tunlink".into()));
    let [there, back] = [&summary["directions"][0], &summary["directions"][1]];
    assert_eq!((&there["sent_pkts"], &there["sent_bytes"]), (&1.into(), &33.into()));
    assert_eq!((&back["received_pkts"], &back["lost_pkts"]), (&1.into(), &1.into()));
    assert!(there["lateness_us"]["p99"].as_f64().unwrap() > 0.0);
    assert!(!has_interface(&sides[0], "tccc0").unwrap() && !has_interface(&sides[1], "lnkb").unwrap());
}

#[test]
fn killed_link_leaves_nothing() {
    needs!(root);
    let _host = HostSnapshot::take(&["lnk", "tccc0"]);
    let sides = new_sides();
    let mut command = tccc();
    command.args(["link", "--delay", "1ms", "--between", &path_of(&sides[0]), &path_of(&sides[1])]);
    let child = begin_quietly(&mut command);
    wait_for_interfaces(&sides, "tccc0", true);
    drop(child);
    wait_for_interfaces(&sides, "tccc0", false);
}

#[test]
fn link_command_ends_after_its_duration_and_dry_run_creates_nothing() {
    needs!(root);
    let sides = new_sides();
    let run = |option: &[&str]| {
        let mut command = tccc();
        command.args(["link", "--delay", "1ms", "--between", &path_of(&sides[0]), &path_of(&sides[1])]);
        check(0, command.args(option)).stdout()
    };
    assert_eq!(run(&["--duration", "100ms"]).matches("received  0 pkts").count(), 2);
    assert_eq!(run(&["--dry-run"]).matches("would create interface").count(), 2);
    assert!(!has_interface(&sides[0], "tccc0").unwrap());
}

#[test]
fn netem_link_loses_queues_and_delays_as_configured() {
    needs!(root, netem);
    let delay = Duration::from_millis(20);
    let lab = LinkLab::new(&Netem, [lossy(0.01, 3), plain(delay)]);
    let arrived = survivors(&lab, 20_000).len() as u64;
    let [there, _] = lab.link.counters();
    assert_eq!((there.received_pkts, there.lost_pkts, there.failed_pkts), (20_000, 20_000 - arrived, 0), "{there:?}");
    let losses = Binomial::new(0.01, 20_000).unwrap();
    assert!((losses.inverse_cdf(0.0005)..=losses.inverse_cdf(0.9995)).contains(&there.lost_pkts), "{there:?}");
    let (mut sender, receiver) = lab.udp(1);
    sender.send(100);
    assert!(receiver.one().unwrap().delay >= delay.as_nanos() as u64);
    let slow = LinkLab::new(&Netem, [limited(0.1, SHORT, QueueSize::Packets(4)), plain(SHORT)]);
    let (mut sender, receiver) = slow.udp(0);
    let arrivals = receive_during(&receiver, || (0..40).for_each(|_| sender.send(MTU)));
    assert_eq!(arrivals.iter().map(|arrival| arrival.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(slow.link.counters()[0].overflow_pkts, 35);
}

#[test]
fn netem_link_that_takes_a_seed_repeats_its_losses() {
    needs!(root, netem);
    let run = |seed| {
        let lab = LinkLab::new(&Netem, [lossy(0.05, seed), plain(SHORT)]);
        (survivors(&lab, 3_000), lab.link.notices())
    };
    let ((first, notices), (second, _)) = (run(11), run(11));
    assert!((2_700..2_999).contains(&first.len()), "{} of 3000 arrived", first.len());
    let says_unseeded = notices.iter().any(|notice| notice.to_string().contains("takes no seed"));
    assert_eq!(first == second, !says_unseeded, "{notices:?}");
}

/// Without netem, the error names it and the alternative, and no interface is left.
#[test]
fn netem_link_is_built_or_names_what_the_kernel_lacks() {
    needs!(root);
    let sides = new_sides();
    let config = LinkConfig { directions: [plain(SHORT), plain(SHORT)], mtu: 1500 };
    let has_netem = crate::common::need::netem().is_ok();
    match Netem.connect(&config, ends_of(&sides, "lnk")) {
        Ok(_) => assert!(has_netem),
        Err(error) => {
            assert!(!has_netem, "{error:#}");
            let failure = error.downcast_ref::<Failure>().expect("a failure with an exit code");
            assert_eq!(failure.kind, FailureKind::Unmet);
            let what = "cannot emulate a delay of 5ms: this kernel has no netem qdisc";
            assert!(failure.what.starts_with(what), "{failure}");
            assert!(failure.hint.as_ref().unwrap().contains("tunlink"));
        }
    }
    wait_for_interfaces(&sides, "lnk0", false);
    wait_for_interfaces(&sides, "lnk1", false);
}
