//! What holds for every algorithm, whatever happens to the connection.

use proptest::prelude::*;
use tccc::catalog::{self, StateLayout};

use crate::checked::Checked;
use crate::connection::Connection;
use crate::native::{self, CongestionControl, INFINITE_SSTHRESH, Native, Socket, state};
use crate::operations::{self, Operation, Start};
use crate::path;
use crate::reno::Reno;
use crate::sender::{Round, Sender};

/// Nanoseconds between two operations.
const STEP_NS: u64 = 7_000_000;

/// The window and threshold after every operation; each callback is checked on the way.
fn history<C: CongestionControl>(
    cc: C,
    start: Start,
    operations: &[Operation],
    mut watch: impl FnMut(&C),
) -> Vec<(u32, u32)> {
    let mut kernel = operations::connect(Checked(cc), start);
    let mut now_ns = 0;
    let step = |&operation: &Operation| {
        now_ns += STEP_NS;
        operations::apply(&mut kernel, operation, now_ns);
        watch(&kernel.cc.0);
        (kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh)
    };
    operations.iter().map(step).collect()
}

fn layout(native: &Native) -> &'static StateLayout {
    &catalog::find(&native.id).unwrap().layout
}

/// Everything that the private state says by name.
fn shown(native: &Native, socket: &Socket) -> String {
    let private = socket.private();
    layout(native).decode(&private).iter().map(|(name, value)| format!("{name}={value} ")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_stay_sound_and_the_phase_is_declared(start in operations::start(), list in operations::operations()) {
        for native in native::every() {
            history(native.socket(0), start, &list, |socket| {
                let private = socket.private();
                assert!(layout(native).phase_name(&private).is_some(), "{} has no phase {}", native.id, private[0]);
            });
        }
    }

    #[test]
    fn init_clears_whatever_the_memory_held(
        start in operations::start(), list in operations::operations(), poison in 1..=255u8,
    ) {
        for native in native::every() {
            let run = |poison| {
                let mut states = Vec::new();
                let windows = history(native.socket(poison), start, &list, |socket| {
                    states.push(shown(native, socket));
                });
                (windows, states)
            };
            prop_assert_eq!(run(0), run(poison), "{}", &native.id);
        }
    }

    #[test]
    fn a_reduction_never_raises_the_threshold_above_the_window(cwnd in 1..=INFINITE_SSTHRESH, in_slow_start: bool) {
        for native in native::every() {
            let ssthresh = if in_slow_start { INFINITE_SSTHRESH } else { cwnd.max(2) };
            let mut kernel = operations::connect(native.socket(0), Start { cwnd, ssthresh, clamp: INFINITE_SSTHRESH });
            kernel.enter_recovery();
            prop_assert!(kernel.tcp.snd_ssthresh >= 2, "{}", &native.id);
            prop_assert!(kernel.tcp.snd_ssthresh <= cwnd.max(2), "{}", &native.id);
            prop_assert_eq!(kernel.tcp.ca_state, state::RECOVERY);
        }
    }

    #[test]
    fn bpf_reno_is_reno_whatever_happens(start in operations::start(), list in operations::operations()) {
        let native = native::find("bpf_reno").socket(0);
        prop_assert_eq!(history(native, start, &list, |_| {}), history(Reno, start, &list, |_| {}));
    }

    #[test]
    fn bpf_reno_is_reno_on_random_paths(seed: u64, lost in 0..60u32, marked in 0..20u32, late in 0..20u32) {
        fn rounds<C: CongestionControl>(cc: C, path: path::Path) -> Vec<Round> {
            let mut rounds = Vec::new();
            Sender::new(cc, path).run(|round, _| rounds.push(round.clone()));
            rounds
        }
        let odds = [lost, marked, late];
        let native = native::find("bpf_reno").socket(0);
        prop_assert_eq!(rounds(native, path::random(seed, odds)), rounds(Reno, path::random(seed, odds)));
    }

    #[test]
    fn every_algorithm_delivers_over_random_paths(seed: u64, lost in 0..120u32, marked in 0..20u32, late in 0..20u32) {
        for native in native::every() {
            let mut sender = Sender::new(Checked(native.socket(0)), path::random(seed, [lost, marked, late]));
            let mut rounds = 0;
            sender.run(|_, _| rounds += 1);
            prop_assert_eq!(rounds, 40);
        }
    }

    #[test]
    fn any_tunables_in_range_keep_the_window_sound(
        start in operations::start(), list in operations::operations(), shares in proptest::collection::vec(0.0..=1.0, 16),
    ) {
        for (native, algorithm) in tuned(&shares) {
            history(native.socket(0), start, &list, |_| {});
            prop_assert_eq!(&native.id, &algorithm.id);
        }
    }
}

/// Windows of long fast paths: 10^6 packets are 100 Gbit/s over 115 ms. What wraps there jumps, in one ACK or at a loss.
#[test]
fn windows_of_a_million_packets_neither_wrap_nor_jump() {
    const ROUNDS: u32 = 6;
    const PACKETS_AN_ACK: u32 = 1_000;
    for (native, cwnd) in
        native::every().iter().flat_map(|native| [65_536, 300_000, 1_000_000].map(|cwnd| (native, cwnd)))
    {
        for (ssthresh, rtt_us) in [(cwnd, 20_000), (cwnd, 300_000), (INFINITE_SSTHRESH, 100_000)] {
            let what = format!("{} from {cwnd} packets, ssthresh {ssthresh}, {rtt_us} us", native.id);
            let (mut connection, mut largest) = (Connection::over(native, cwnd, ssthresh), 0);
            for round in 0..ROUNDS {
                for _ in 0..connection.cwnd() / PACKETS_AN_ACK {
                    let before = connection.cwnd();
                    connection.wait(u64::from(rtt_us) * u64::from(PACKETS_AN_ACK) / u64::from(before));
                    connection.ack(PACKETS_AN_ACK, rtt_us);
                    let now = connection.cwnd();
                    assert!(now <= before + GROWTH_AN_ACK * PACKETS_AN_ACK, "{what}, round {round}: {before} to {now}");
                    assert!(now >= before / 2, "{what}, round {round}: {before} to {now}");
                }
                let (before, old) = (connection.cwnd(), connection.ssthresh());
                connection.lose();
                let kept = connection.ssthresh();
                // Westwood keeps what the path was measured to hold, which may be more than a window that shrank; the
                // first loss of a window may leave the threshold as it was.
                largest = largest.max(before);
                let is_sound = kept == old || kept >= before / 4 && kept <= largest;
                assert!(is_sound, "{what}, round {round}: {kept} kept of {before}");
            }
        }
    }
}
/// Most packets that one acknowledged packet adds: Hybla's 2^4 - 1 in slow start at 100 ms.
const GROWTH_AN_ACK: u32 = 16;

/// As snd_cwnd_cnt in the kernel; its Hybla has a credit of its own, which stays.
#[test]
fn credit_of_growth_ends_at_a_reduction() {
    for id in ["bpf_highspeed", "bpf_htcp", "bpf_illinois", "tcpfit", "bpf_hybla"] {
        for reduction in [Operation::Lose, Operation::Mark, Operation::TimeOut] {
            let mut connection = Connection::of(id, 1000, 2);
            connection.ack(1, 100_000);
            let credit = connection.field("credit");
            assert!(credit > 0, "{id}");
            connection.apply(reduction);
            let left = if id == "bpf_hybla" { credit } else { 0 };
            assert_eq!(connection.field("credit"), left, "{id} {reduction:?}");
        }
    }
}

/// Every algorithm that has tunables, in a copy of its own with each tunable somewhere in its range.
fn tuned(shares: &[f64]) -> Vec<(std::sync::MutexGuard<'static, Native>, &'static catalog::Algorithm)> {
    use std::sync::{Mutex, OnceLock};
    static COPIES: OnceLock<Vec<Mutex<Native>>> = OnceLock::new();
    let copies = COPIES.get_or_init(|| native::every().iter().map(|n| Mutex::new(Native::own(&n.id))).collect());
    let mut list = Vec::new();
    for copy in copies {
        // A case that failed leaves the lock poisoned; its copy is set anew.
        let mut native = copy.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let algorithm = catalog::find(&native.id).unwrap();
        for (tunable, share) in algorithm.tunables.iter().zip(shares.iter().cycle()) {
            let value = tunable.low + ((tunable.high - tunable.low) as f64 * share) as i128;
            native.set(&tunable.name, &tunable.encode(value));
        }
        list.push((native, algorithm));
    }
    list
}
