//! Modified Swift Start in the kernel, both ends: the first window on Khalil's two links, the option on the wire, a peer
//! that lacks the option, and peers that lie.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use crate::common::{HostSnapshot, needs, poll_until};
use crate::lab::group::Group;
use crate::lab::pair::{Lab, OC1, PairOption, Seen, State, T1, Tamper, registered, registered_in};
use libbpf_rs::query::ProgInfoIter;

const RTT: Duration = Duration::from_millis(100);
/// Enough for the second round trip of either link to be full.
const BYTES: usize = 1_000_000;
/// A transfer whose window a liar has made too small or too large takes longer than this.
const LONGEST_S: f64 = 10.0;
/// Payload beside timestamps and the option: 1500 - 20 - 20 - 12 - 8.
const MARKED_BYTES: usize = 1440;

/// Written by the test that needs a peer without the program, read by those that attach it to the root cgroup, of all peers.
static EVERY_PEER: RwLock<()> = RwLock::new(());

/// `est_max`.
const LARGEST_WINDOW: f64 = 8192.0;
/// The paper's.
const INITIAL_WINDOW: u64 = 4;
/// Connections among which one must find the link on time: user space cannot keep time on a busy machine.
const TRIES: usize = 8;

/// Holds off the test whose peer must not have the program.
fn with_every_peer() -> RwLockReadGuard<'static, ()> {
    EVERY_PEER.read().unwrap_or_else(PoisonError::into_inner)
}

/// The state in which each estimate was seen first.
fn estimates(seen: &Seen) -> Vec<State> {
    let mut estimates: Vec<State> = Vec::new();
    for state in seen.states("mswift").into_iter().filter(|state| state.est > 0) {
        if estimates.last().is_none_or(|last| (last.dt_us, last.rtt_pair_us) != (state.dt_us, state.rtt_pair_us)) {
            estimates.push(state);
        }
    }
    estimates
}

/// The first transfer of a few that shows what it must. A receiver that the machine holds up reads both packets of a pair
/// at once, and has no interval to return.
fn first_that(shows: impl Fn(&Seen) -> bool, transfer: impl Fn() -> Seen) -> Seen {
    (0..TRIES).map(|_| transfer()).find(|seen| shows(seen)).expect("one transfer of a few has its intervals returned")
}

fn is_answered(seen: &Seen) -> bool {
    !seen.replies().is_empty()
}

/// The window is RTT / dt of what the option carried, to 2 % or to the nearest whole packet.
fn check_first_windows(seen: &Seen, rate: u64) -> Vec<u64> {
    let marks = seen.marks();
    let mark = |is_second, pair| PairOption::Mark { is_second, pair, payload: MARKED_BYTES };
    assert_eq!(marks, [mark(false, 1), mark(true, 1), mark(false, 2), mark(true, 2)], "two pairs of full segments");
    let (estimates, replies) = (estimates(seen), seen.replies());
    for state in estimates.iter().filter(|state| state.est > INITIAL_WINDOW + 2) {
        assert!(replies.contains(&(state.dt_us as u32)), "{} us came in an option: {replies:?}", state.dt_us);
        let exact = (state.rtt_pair_us as f64 / state.dt_us as f64).min(LARGEST_WINDOW);
        let beside = (f64::from(state.cwnd) - exact).abs();
        assert!(beside <= (0.02 * exact).max(0.5), "{} packets for {exact} at {rate} bit/s", state.cwnd);
        assert_eq!((state.phase.as_str(), u64::from(state.cwnd)), ("paced", state.est));
    }
    let after = seen.states("mswift").into_iter().find(|state| state.phase == "done").expect("slow start goes on");
    assert!(after.cwnd >= estimates[1].cwnd);
    estimates.iter().map(|state| state.dt_us).collect()
}

#[test]
fn first_window_is_rtt_over_dt_on_t1_and_oc1() {
    needs!(root, struct_ops, tun, cgroup2);
    let _attached = with_every_peer();
    let before = HostSnapshot::take(&["mswk", "pair"]);
    let mswift = registered("mswift", "mswk_rtt", &["initial_window=4"]);
    for (rate, bytes, rtts_ms) in [(T1, BYTES / 8, [60, 100, 300]), (OC1, BYTES, [75, 100, 300])] {
        for rtt_ms in rtts_ms {
            let lab = Lab::new(rate, Duration::from_millis(rtt_ms));
            let mut intervals: Vec<(u64, f64)> = Vec::new();
            // The link in user space gives a pair its interval as well as the machine allows: what counts is the wire's.
            let is_measured = (0..TRIES).any(|_| {
                let has_both = |seen: &Seen| estimates(seen).len() == 2;
                let seen = first_that(has_both, || lab.transfer(mswift.name(), bytes));
                intervals.extend(check_first_windows(&seen, rate).into_iter().zip(seen.intervals_us()));
                intervals.iter().any(|&(dt_us, on_wire)| (dt_us as f64 - on_wire).abs() < 1.0 + 0.02 * on_wire)
            });
            println!("{rate} bit/s, {rtt_ms} ms: intervals in options and on the wire, us: {intervals:.1?}");
            assert!(is_measured, "no interval within 2 % of the wire's: {intervals:.1?}");
        }
    }
    drop(mswift);
    before.assert_unchanged();
}

#[test]
fn second_round_trip_is_paced() {
    needs!(root, struct_ops, tun, cgroup2);
    let _attached = with_every_peer();
    let mswift = registered("mswift", "mswk_pace", &[]);
    let seen = Lab::new(OC1, RTT).transfer(mswift.name(), BYTES);
    let paced = seen.events.iter().filter(|event| event.algorithm == mswift.name());
    let rates = paced.filter_map(|event| event.pacing_rate_bps.map(|rate| (event.time_ns, rate)));
    let window = estimates(&seen).pop().expect("an estimate");
    let expected = f64::from(window.cwnd) * 1448.0 * 8e6 / window.rtt_pair_us as f64;
    let rate = rates.filter(|(time_ns, _)| *time_ns == window.time_ns).map(|(_, rate)| rate as f64).next().unwrap();
    assert!((rate / expected - 1.0).abs() < 0.02, "paced at {rate} bit/s, one window per RTT is {expected}");
}

/// The pacing rate of the probe was 1 byte/s: the first packet paced held the socket for 1448 s. TCP paces none of the
/// first ten packets, and the probe ends with the tenth that arrives, so nine messages are answered before.
#[test]
fn socket_that_begins_to_pace_while_probing_does_not_stall() {
    needs!(root, struct_ops, tun, cgroup2);
    const ANSWERED: usize = 9;
    let _attached = with_every_peer();
    let before = HostSnapshot::take(&["mswk", "pair"]);
    let mswift = registered("mswift", "mswk_begin", &[]);
    let limit = Duration::from_secs_f64(LONGEST_S);
    let seconds = Lab::new(OC1, RTT).time_when_pacing_begins(mswift.name(), ANSWERED, BYTES / 8, limit);
    println!("{seconds:.3} s for {} bytes", BYTES / 8);
    assert!(seconds < LONGEST_S, "{seconds} s");
    drop(mswift);
    before.assert_unchanged();
}

/// Seconds from the first packet back to the first that shows the phase.
fn seconds_until(states: &[State], phase: &str) -> f64 {
    let found =
        states.iter().find(|state| state.phase == phase).unwrap_or_else(|| panic!("no phase {phase}: {states:?}"));
    (found.time_ns - states[0].time_ns) as f64 / 1e9
}

/// Every transfer goes on by slow start, and one of a few does so within two round trips.
///
/// An event shows the socket before its packet is worked on: the handshake's answer, then the first data's ACK.
fn check_fallback(what: &str, transfer: impl Fn() -> Seen) {
    const IN_TIME_S: f64 = 2.0 * RTT.as_secs_f64() + 0.02;
    let mut found_s = Vec::new();
    let is_in_time = (0..TRIES).any(|_| {
        let seen = transfer();
        let states = seen.states("mswift");
        assert!(states.iter().all(|state| state.est == 0 && state.phase != "paced"), "{what}: an estimate was made");
        assert!(seen.seconds < LONGEST_S, "{what}: {} s", seen.seconds);
        found_s.push(seconds_until(&states, "fallback"));
        found_s.last().is_some_and(|&s| s <= IN_TIME_S)
    });
    assert!(is_in_time, "{what}: falls back after {found_s:?} s");
}

fn strip(option: &mut [u8; 8]) {
    option.fill(1); // no operation
}

#[test]
fn peer_without_the_option_is_left_to_slow_start_within_two_round_trips() {
    needs!(root, struct_ops, tun, cgroup2);
    let _attached = with_every_peer();
    let before = HostSnapshot::take(&["mswk", "pair"]);
    let plain = registered("mswift", "mswk_slow", &[]);
    let swift = registered("mswift", "mswk_swift", &["fallback=1"]);
    for algorithm in [plain.name(), swift.name()] {
        check_fallback(algorithm, || first_that(is_answered, || Lab::tampered(RTT, strip).transfer(algorithm, BYTES)));
    }
    drop((plain, swift));
    before.assert_unchanged();
}

/// The program is attached by nobody: another process's, in the root cgroup, would answer for a peer that has none.
fn is_attached_by_nobody() -> bool {
    let mut programs = ProgInfoIter::default().filter(|program| program.name == "pair_delta");
    programs.next().is_none()
}

#[test]
fn peer_without_the_program_gets_marks_and_returns_nothing() {
    needs!(root, struct_ops, tun, cgroup2);
    let _alone = EVERY_PEER.write().unwrap_or_else(PoisonError::into_inner);
    let before = HostSnapshot::take(&["mswk", "pair"]);
    poll_until(Duration::from_secs(60), "no other test has the program attached", is_attached_by_nobody);
    let cgroup = Group::create("/mswk_sender");
    let mswift = registered_in(&cgroup, "mswift", "mswk_alone");
    check_fallback("no program", || {
        let seen = Lab::new(OC1, RTT).transfer_from(Some(&cgroup), mswift.name(), BYTES);
        assert_eq!((seen.marks().len(), seen.replies()), (4, Vec::new()));
        seen
    });
    drop((mswift, cgroup));
    before.assert_unchanged();
}

#[test]
fn peer_that_sends_nonsense_harms_nothing() {
    needs!(root, struct_ops, tun, cgroup2);
    let _attached = with_every_peer();
    let before = HostSnapshot::take(&["mswk", "pair"]);
    let mswift = registered("mswift", "mswk_lies", &[]);
    let refused: [(&str, Tamper); 8] = [
        ("no interval", |option| option[4..].fill(0)),
        ("one microsecond", |option| option[4..].copy_from_slice(&1u32.to_be_bytes())),
        ("longer than the RTT", |option| option[4..].copy_from_slice(&900_000u32.to_be_bytes())),
        ("an hour", |option| option[4..].fill(0xff)),
        ("another ExID", |option| option[3] = 0x54),
        ("a mark's length", |option| *option = [254, 6, 0x53, 0x53, 1, 1, 1, 1]),
        ("a length of no form", |option| *option = [254, 7, 0x53, 0x53, 0, 0, 99, 1]),
        ("nothing but the ExID", |option| *option = [254, 4, 0x53, 0x53, 1, 1, 1, 1]),
    ];
    for (what, tamper) in refused {
        check_fallback(what, || first_that(is_answered, || Lab::tampered(RTT, tamper).transfer(mswift.name(), BYTES)));
    }
    // What cannot be told from the truth is bounded, and paced over a round trip.
    let ten_us: Tamper = |option| option[4..].copy_from_slice(&10u32.to_be_bytes());
    let seen = first_that(is_answered, || Lab::tampered(RTT, ten_us).transfer(mswift.name(), BYTES));
    let estimates: Vec<u64> = estimates(&seen).iter().map(|state| state.est).collect();
    assert!(!estimates.is_empty() && estimates.iter().all(|&est| est == 8192), "{estimates:?}");
    assert!(seen.seconds < LONGEST_S);
    drop(mswift);
    before.assert_unchanged();
}

/// Blocks that are sent to both ends in CI, at least.
const HOSTILE_BLOCKS: u64 = 2_000;
/// Variable for another number.
const BLOCKS: &str = "TCCC_HOSTILE_BLOCKS";

/// Whether the kernel warned or died since it started: any bit that is set later shows it.
fn taint() -> String {
    std::fs::read_to_string("/proc/sys/kernel/tainted").unwrap()
}

/// Options that end too early or too late, of any kind, lengths that lead out of the header, marks that nobody sent: every
/// byte arrives, no interval is taken, and the next connection is as any other.
#[test]
fn malformed_blocks_of_options_are_refused() {
    needs!(root, struct_ops, tun, cgroup2);
    let least = std::env::var(BLOCKS).map_or(HOSTILE_BLOCKS, |text| text.parse().expect("a number"));
    let _attached = with_every_peer();
    let (before, taint_before) = (HostSnapshot::take(&["mswk", "pair"]), taint());
    let mswift = registered("mswift", "mswk_blocks", &[]);
    let blocks = Arc::new(AtomicU64::new(0));
    let mut seed = 0;
    while blocks.load(Ordering::Relaxed) < least {
        let seen = Lab::hostile(RTT / 10, seed, &blocks).transfer(mswift.name(), BYTES);
        let states = seen.states("mswift");
        assert!(!states.is_empty() && states.iter().all(|state| state.est == 0), "seed {seed}: an estimate was made");
        assert!(seen.seconds < LONGEST_S, "seed {seed}: {} s", seen.seconds);
        seed += 1;
    }
    println!("{} blocks in {seed} transfers", blocks.load(Ordering::Relaxed));
    assert_eq!(taint(), taint_before, "the kernel warned");
    let honest = first_that(is_answered, || Lab::new(OC1, RTT).transfer(mswift.name(), BYTES));
    assert_eq!(honest.marks().len(), 4, "pairs are marked as ever");
    drop(mswift);
    before.assert_unchanged();
}
