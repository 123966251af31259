//! The properties that every algorithm has, whatever happens to the connection.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult, TestError, TestRunner};

use super::connection::SimulatedConnection;
use super::native::{CongestionControl, INFINITE_SSTHRESH, Native, NativeSocket};
use super::operations::{self, Operation, Start};
use super::path;
use super::sender::SimulatedSender;
use shared::catalog::Algorithm;

/// Nanoseconds between two operations.
const STEP_NS: u64 = 7_000_000;
/// The most packets that one acknowledged packet may add. Hybla adds 2^4 - 1 in slow start at 100 ms.
const GROWTH_AN_ACK: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// After every callback, the window is from 1 to the clamp, the threshold is at least 2, and the phase is declared.
    Sound,
    /// [`Property::Sound`] holds for all values of the tunables in their ranges.
    Tuned,
    /// `init` sets every field: the previous content of the memory changes nothing. `release` deletes the storage.
    Init,
    /// A reduction leaves a threshold of at least 2 packets and at most the window, unless the algorithm sets the window.
    Reduction,
    /// Every packet arrives in the end over paths with losses, marks, reordering, pauses and timeouts.
    Delivery,
    /// Windows of a million packets neither wrap nor jump.
    Large,
}

impl Property {
    pub const ALL: [Property; 6] =
        [Property::Sound, Property::Tuned, Property::Init, Property::Reduction, Property::Delivery, Property::Large];

    /// The name in the output of `tccc check`.
    pub fn name(self) -> &'static str {
        match self {
            Property::Sound => "windows",
            Property::Tuned => "tunables in range",
            Property::Init => "init",
            Property::Reduction => "reduction",
            Property::Delivery => "delivery",
            Property::Large => "large windows",
        }
    }

    /// Checks the property with as many random cases as the runner is configured for.
    ///
    /// Side effects: [`Property::Tuned`] changes the tunables.
    ///
    /// # Errors
    /// A case in which the property does not hold, made as small as possible.
    pub fn check(self, native: &mut Native, algorithm: &Algorithm, mut runner: TestRunner) -> Result<(), String> {
        let subject = AlgorithmUnderTest { native, algorithm };
        match self {
            Property::Sound => subject.check_sound(&mut runner),
            Property::Tuned => subject.check_tuned(&mut runner),
            Property::Init => subject.check_init(&mut runner),
            Property::Reduction => subject.check_reduction(&mut runner),
            Property::Delivery => subject.check_delivery(&mut runner),
            Property::Large => subject.check_large(&mut runner),
        }
    }
}

struct AlgorithmUnderTest<'a> {
    native: &'a mut Native,
    algorithm: &'a Algorithm,
}

/// Window and threshold after every operation.
pub fn history<C: CongestionControl>(
    cc: C,
    start: Start,
    operations: &[Operation],
    mut watch: impl FnMut(&C),
) -> Vec<(u32, u32)> {
    let mut kernel = operations::connect(cc, start);
    let mut now_ns = 0;
    let step = |&operation: &Operation| {
        now_ns += STEP_NS;
        operations::apply(&mut kernel, operation, now_ns);
        watch(&kernel.cc);
        (kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh)
    };
    operations.iter().map(step).collect()
}

impl AlgorithmUnderTest<'_> {
    fn check_sound(&self, runner: &mut TestRunner) -> Result<(), String> {
        run(runner, (operations::start(), operations::operations()), |(start, list)| {
            self.check_history(start, &list);
            Ok(())
        })
    }

    fn check_history(&self, start: Start, list: &[Operation]) {
        history(self.native.socket(0), start, list, |socket| {
            let private = socket.private();
            let is_declared = self.algorithm.layout.phase_name(&private).is_some();
            assert!(is_declared, "the first byte of the state is {}, which is no phase of PHASES", private[0]);
        });
    }

    fn check_tuned(mut self, runner: &mut TestRunner) -> Result<(), String> {
        if self.algorithm.tunables.is_empty() {
            return Ok(());
        }
        let shares = proptest::collection::vec(0.0..=1.0, self.algorithm.tunables.len());
        let subject = std::cell::RefCell::new(&mut self);
        run(runner, (operations::start(), operations::operations(), shares), |(start, list, shares)| {
            let mut subject = subject.borrow_mut();
            let algorithm = subject.algorithm;
            for (tunable, share) in algorithm.tunables.iter().zip(&shares) {
                let value = tunable.low + ((tunable.high - tunable.low) as f64 * share) as i128;
                subject.native.set(&tunable.name, &tunable.encode(value));
            }
            subject.check_history(start, &list);
            Ok(())
        })
    }

    fn check_init(&self, runner: &mut TestRunner) -> Result<(), String> {
        run(runner, (operations::start(), operations::operations(), 1..=255u8), |(start, list, poison)| {
            let life = |poison| {
                let mut states = Vec::new();
                let windows =
                    history(self.native.socket(poison), start, &list, |socket| states.push(self.shown(socket)));
                (windows, states)
            };
            match life(0) == life(poison) {
                true => self.check_release(start, &list),
                false => fault(format!("memory that held {poison:#04x} before init changes the connection")),
            }
        })
    }

    /// A socket that comes back to the algorithm must not find the storage of its earlier life.
    fn check_release(&self, start: Start, list: &[Operation]) -> TestCaseResult {
        let mut kernel = operations::connect(self.native.socket(0), start);
        for (step, &operation) in (1..).zip(list) {
            operations::apply(&mut kernel, operation, step * STEP_NS);
        }
        kernel.cc.release(&mut kernel.tcp);
        match kernel.cc.has_storage() {
            false => Ok(()),
            true => fault("release leaves the private storage: call NAME_delete there".into()),
        }
    }

    fn shown(&self, socket: &NativeSocket) -> String {
        let private = socket.private();
        self.algorithm.layout.decode(&private).iter().map(|(name, value)| format!("{name}={value} ")).collect()
    }

    fn check_reduction(&self, runner: &mut TestRunner) -> Result<(), String> {
        run(runner, (operations::window(), any::<bool>()), |(cwnd, in_slow_start)| {
            let ssthresh = if in_slow_start { INFINITE_SSTHRESH } else { cwnd.max(2) };
            let start = Start { cwnd, ssthresh, clamp: INFINITE_SSTHRESH };
            let mut kernel = operations::connect(self.native.socket(0), start);
            kernel.tcp.prior_cwnd = cwnd;
            let kept = kernel.cc.ssthresh(&mut kernel.tcp);
            // With cong_control, the kernel does not move the window to the threshold.
            let most = if self.native.controls_rate() { INFINITE_SSTHRESH } else { cwnd.max(2) };
            match (2..=most).contains(&kept) {
                true => Ok(()),
                false => fault(format!("a window of {cwnd} packets leaves a threshold of {kept}")),
            }
        })
    }

    fn check_delivery(&self, runner: &mut TestRunner) -> Result<(), String> {
        for path in path::all() {
            let name = path.name;
            run_once(runner, || self.deliver(path)).map_err(|why| format!("on the path \"{name}\": {why}"))?;
        }
        run(runner, (any::<u64>(), 0..120u32, 0..20u32, 0..20u32), |(seed, lost, marked, late)| {
            self.deliver(path::random(seed, [lost, marked, late]));
            Ok(())
        })
    }

    fn deliver(&self, path: path::SimulatedPath) {
        let wanted = path.rounds;
        let mut rounds = 0;
        SimulatedSender::new(self.native.socket(0), path).run(|_, _| rounds += 1);
        assert_eq!(rounds, wanted, "it stops sending");
    }

    /// Long fast paths: 10^6 packets are 100 Gbit/s over 115 ms. A number that wraps there makes the window jump.
    fn check_large(&self, runner: &mut TestRunner) -> Result<(), String> {
        for cwnd in [65_536, 300_000, 1_000_000] {
            for (ssthresh, rtt_us) in [(cwnd, 20_000), (cwnd, 300_000), (INFINITE_SSTHRESH, 100_000)] {
                let what = format!("from {cwnd} packets, ssthresh {ssthresh}, {rtt_us} us");
                run_once(runner, || self.grow_and_lose(cwnd, ssthresh, rtt_us))
                    .map_err(|why| format!("{what}: {why}"))?;
            }
        }
        Ok(())
    }

    fn grow_and_lose(&self, cwnd: u32, ssthresh: u32, rtt_us: u32) {
        const ROUNDS: u32 = 6;
        const PACKETS_AN_ACK: u32 = 1_000;
        let (mut connection, mut largest) = (SimulatedConnection::over(self.native, cwnd, ssthresh), 0);
        for round in 0..ROUNDS {
            for _ in 0..connection.cwnd() / PACKETS_AN_ACK {
                let before = connection.cwnd();
                connection.wait(u64::from(rtt_us) * u64::from(PACKETS_AN_ACK) / u64::from(before));
                connection.ack(PACKETS_AN_ACK, rtt_us);
                let (now, most) = (connection.cwnd(), before + GROWTH_AN_ACK * PACKETS_AN_ACK);
                assert!((before / 2..=most).contains(&now), "round {round}: one ACK takes {before} to {now}");
            }
            let (before, old) = (connection.cwnd(), connection.ssthresh());
            connection.lose();
            let kept = connection.ssthresh();
            // Westwood's threshold is the measured capacity of the path, which may exceed a window that shrank.
            // The first loss of a window may leave the threshold as it was.
            largest = largest.max(before);
            let is_sound = kept == old || kept >= before / 4 && kept <= largest;
            assert!(is_sound, "round {round}: a loss keeps {kept} of {before}");
        }
    }
}

/// Fails a case. `prop_assert!` would add a line number of this file.
fn fault(why: String) -> TestCaseResult {
    Err(TestCaseError::fail(why))
}

/// Runs random cases. A panic fails the case.
///
/// # Errors
/// The reason and the smallest case that fails.
fn run<S: Strategy>(
    runner: &mut TestRunner,
    strategy: S,
    case: impl Fn(S::Value) -> TestCaseResult,
) -> Result<(), String> {
    runner.run(&strategy, case).map_err(|error| match error {
        TestError::Fail(why, input) => format!("{why}; the smallest input: {input:?}"),
        TestError::Abort(why) => format!("given up: {why}"),
    })
}

/// Runs one fixed case.
fn run_once(runner: &TestRunner, case: impl FnOnce()) -> Result<(), String> {
    let mut once = TestRunner::new(ProptestConfig { cases: 1, ..runner.config().clone() });
    let case = std::cell::Cell::new(Some(case));
    let only = once.run(&Just(()), |()| {
        if let Some(case) = case.take() {
            case();
        }
        Ok(())
    });
    only.map_err(|error| match error {
        TestError::Fail(why, ()) | TestError::Abort(why) => why.to_string(),
    })
}
