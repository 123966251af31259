//! Both ends of Modified Swift Start in the kernel: the first window on Khalil's two links, the option on the wire, peers
//! without the option, and peers that lie.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use libbpf_rs::query::ProgInfoIter;

use super::*;
use crate::lab::pair::{OC1, PacketState, PairOption, PairPath, PairTransfer, T1, Tamper, registered, registered_in};

const RTT: Duration = Duration::from_millis(100);
/// Enough to fill the second round trip of either link.
const BYTES: usize = 1_000_000;
/// Time limit of a transfer, in seconds. A window that a liar made too small or too large takes longer.
const LONGEST_S: f64 = 10.0;
/// Payload of a marked segment with timestamps: 1500 - 20 - 20 - 12 - 8.
const MARKED_BYTES: usize = 1440;

/// Locked for writing by the test that needs a peer without the program, and for reading by tests that attach the program
/// to the root cgroup.
static EVERY_PEER: RwLock<()> = RwLock::new(());

/// `est_max`.
const LARGEST_WINDOW: f64 = 8192.0;
/// The paper's value.
const INITIAL_WINDOW: u64 = 4;
/// Connections of which one must measure the link in time. User space is late on a busy machine.
const TRIES: usize = 8;

/// Delays the test whose peer must not have the program, and takes a snapshot of the host.
fn with_every_peer() -> (HostSnapshot, RwLockReadGuard<'static, ()>) {
    let guard = EVERY_PEER.read().unwrap_or_else(PoisonError::into_inner);
    (HostSnapshot::take(&["mswk", "pair"]), guard)
}

fn estimates(seen: &PairTransfer) -> Vec<PacketState> {
    let mut estimates: Vec<PacketState> = Vec::new();
    for state in seen.states("mswift").into_iter().filter(|state| state.est > 0) {
        if estimates.last().is_none_or(|last| (last.dt_us, last.rtt_pair_us) != (state.dt_us, state.rtt_pair_us)) {
            estimates.push(state);
        }
    }
    estimates
}

/// The first of several transfers that meets a condition. A receiver that is delayed reads both packets of a pair at once
/// and has no interval to return.
fn first_that(shows: impl Fn(&PairTransfer) -> bool, transfer: impl Fn() -> PairTransfer) -> PairTransfer {
    (0..TRIES).map(|_| transfer()).find(|seen| shows(seen)).expect("one of several transfers meets the condition")
}

fn is_answered(seen: &PairTransfer) -> bool {
    !seen.replies().is_empty()
}

/// Asserts that each window is RTT / dt of the option, within 2 % or rounded to whole packets. Returns the intervals dt.
fn check_first_windows(seen: &PairTransfer, rate: u64) -> Vec<u64> {
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
    let _fixture = with_every_peer();
    let mswift = registered("mswift", "mswk_rtt", &["initial_window=4"]);
    for (rate, bytes, rtts_ms) in [(T1, BYTES / 8, [60, 100, 300]), (OC1, BYTES, [75, 100, 300])] {
        for rtt_ms in rtts_ms {
            let lab = PairPath::new(rate, Duration::from_millis(rtt_ms));
            let mut intervals: Vec<(u64, f64)> = Vec::new();
            // The user-space link spaces pairs only as well as the machine allows, so the interval on the wire counts.
            let is_measured = (0..TRIES).any(|_| {
                let has_both = |seen: &PairTransfer| estimates(seen).len() == 2;
                let seen = first_that(has_both, || lab.transfer(mswift.name(), bytes));
                intervals.extend(check_first_windows(&seen, rate).into_iter().zip(seen.intervals_us()));
                intervals.iter().any(|&(dt_us, on_wire)| (dt_us as f64 - on_wire).abs() < 1.0 + 0.02 * on_wire)
            });
            println!("{rate} bit/s, {rtt_ms} ms: intervals in options and on the wire, us: {intervals:.1?}");
            assert!(is_measured, "no interval within 2 % of the wire's: {intervals:.1?}");
        }
    }
}

#[test]
fn second_round_trip_is_paced() {
    needs!(root, struct_ops, tun, cgroup2);
    let _fixture = with_every_peer();
    let mswift = registered("mswift", "mswk_pace", &[]);
    let seen = PairPath::new(OC1, RTT).transfer(mswift.name(), BYTES);
    let paced = seen.events.iter().filter(|event| event.algorithm == mswift.name());
    let rates = paced.filter_map(|event| event.pacing_rate_bps.map(|rate| (event.time_ns, rate)));
    let window = estimates(&seen).pop().expect("an estimate");
    let expected = f64::from(window.cwnd) * 1448.0 * 8e6 / window.rtt_pair_us as f64;
    let rate = rates.filter(|(time_ns, _)| *time_ns == window.time_ns).map(|(_, rate)| rate as f64).next().unwrap();
    assert!((rate / expected - 1.0).abs() < 0.02, "paced at {rate} bit/s, one window per RTT is {expected}");
}

/// The probe once had a pacing rate of 1 byte/s, so the first paced packet blocked the socket for 1448 s. TCP does not
/// pace the first ten packets, and the probe ends with the tenth arrival, so nine messages are answered before.
#[test]
fn socket_that_starts_pacing_while_probing_does_not_stall() {
    needs!(root, struct_ops, tun, cgroup2);
    const ANSWERED: usize = 9;
    let _fixture = with_every_peer();
    let mswift = registered("mswift", "mswk_begin", &[]);
    let limit = Duration::from_secs_f64(LONGEST_S);
    let seconds = PairPath::new(OC1, RTT).time_when_pacing_begins(mswift.name(), ANSWERED, BYTES / 8, limit);
    println!("{seconds:.3} s for {} bytes", BYTES / 8);
    assert!(seconds < LONGEST_S, "{seconds} s");
}

/// Seconds from the first state to the first state with a phase.
fn seconds_until(states: &[PacketState], phase: &str) -> f64 {
    let found =
        states.iter().find(|state| state.phase == phase).unwrap_or_else(|| panic!("no phase {phase}: {states:?}"));
    (found.time_ns - states[0].time_ns) as f64 / 1e9
}

/// Asserts that every transfer falls back to slow start, and one of several within two round trips.
///
/// An event shows the socket before its packet is processed: first the SYN-ACK, then the ACK of the first data.
fn check_fallback(what: &str, transfer: impl Fn() -> PairTransfer) {
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
fn peer_without_the_option_gets_slow_start_within_two_round_trips() {
    needs!(root, struct_ops, tun, cgroup2);
    let _fixture = with_every_peer();
    let plain = registered("mswift", "mswk_slow", &[]);
    let swift = registered("mswift", "mswk_swift", &["fallback=1"]);
    for algorithm in [plain.name(), swift.name()] {
        check_fallback(algorithm, || {
            first_that(is_answered, || PairPath::tampered(RTT, strip).transfer(algorithm, BYTES))
        });
    }
}

#[test]
fn peer_without_the_program_gets_marks_and_returns_nothing() {
    needs!(root, struct_ops, tun, cgroup2);
    let _alone = EVERY_PEER.write().unwrap_or_else(PoisonError::into_inner);
    let _host = HostSnapshot::take(&["mswk", "pair"]);
    // Attached to the root cgroup, the program of another process would answer for the peer.
    let is_attached = || ProgInfoIter::default().any(|program| program.name == "pair_delta");
    poll_until(SOON, "no other process has the program attached", || !is_attached());
    let cgroup = TestCgroup::create("/mswk_sender");
    let mswift = registered_in(&cgroup, "mswift", "mswk_alone");
    check_fallback("no program", || {
        let seen = PairPath::new(OC1, RTT).transfer_from(Some(&cgroup), mswift.name(), BYTES);
        assert_eq!((seen.marks().len(), seen.replies()), (4, Vec::new()));
        seen
    });
}

#[test]
fn peer_that_sends_nonsense_harms_nothing() {
    needs!(root, struct_ops, tun, cgroup2);
    let _fixture = with_every_peer();
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
        check_fallback(what, || {
            first_that(is_answered, || PairPath::tampered(RTT, tamper).transfer(mswift.name(), BYTES))
        });
    }
    // A plausible lie gets a bounded window, which is paced over a round trip.
    let ten_us: Tamper = |option| option[4..].copy_from_slice(&10u32.to_be_bytes());
    let seen = first_that(is_answered, || PairPath::tampered(RTT, ten_us).transfer(mswift.name(), BYTES));
    let estimates: Vec<u64> = estimates(&seen).iter().map(|state| state.est).collect();
    assert!(!estimates.is_empty() && estimates.iter().all(|&est| est == 8192), "{estimates:?}");
    assert!(seen.seconds < LONGEST_S);
}

/// Least number of malformed blocks, unless `TCCC_HOSTILE_BLOCKS` is set.
const HOSTILE_BLOCKS: u64 = 2_000;
const BLOCKS: &str = "TCCC_HOSTILE_BLOCKS";

/// The kernel's taint flags. A warning or an oops sets another bit.
fn taint() -> String {
    std::fs::read_to_string("/proc/sys/kernel/tainted").unwrap()
}

/// Options that end too early or too late, lengths beyond the header, marks that nobody sent: every byte arrives, no
/// interval is accepted, and the next connection works as usual.
#[test]
fn malformed_blocks_of_options_are_refused() {
    needs!(root, struct_ops, tun, cgroup2);
    let least = std::env::var(BLOCKS).map_or(HOSTILE_BLOCKS, |text| text.parse().expect("a number"));
    let _fixture = with_every_peer();
    let taint_before = taint();
    let mswift = registered("mswift", "mswk_blocks", &[]);
    let blocks = Arc::new(AtomicU64::new(0));
    let mut seed = 0;
    while blocks.load(Ordering::Relaxed) < least {
        let seen = PairPath::hostile(RTT / 10, seed, &blocks).transfer(mswift.name(), BYTES);
        let states = seen.states("mswift");
        assert!(!states.is_empty() && states.iter().all(|state| state.est == 0), "seed {seed}: an estimate was made");
        assert!(seen.seconds < LONGEST_S, "seed {seed}: {} s", seen.seconds);
        seed += 1;
    }
    println!("{} blocks in {seed} transfers", blocks.load(Ordering::Relaxed));
    assert_eq!(taint(), taint_before, "the kernel warned");
    let honest = first_that(is_answered, || PairPath::new(OC1, RTT).transfer(mswift.name(), BYTES));
    assert_eq!(honest.marks().len(), 4, "pairs are still marked");
}
