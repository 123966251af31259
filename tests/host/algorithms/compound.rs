//! Compound's two windows against the paper's equations in floating point: `bpf/cc/compound.bpf.c`.

use proptest::prelude::*;

use crate::algorithms::bottleneck::Flow;
use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{self, CongestionControl, Socket, state};
use crate::algorithms::operations::{self, Operation};
use crate::algorithms::rounds::{connection, lose, round};

const ID: &str = "compound";
const BASE_US: u32 = 40_000;

fn known(kernel: &Kernel<Socket>, name: &str) -> u64 {
    native::field(&kernel.cc, ID, name)
}

/// Growth of the delay window in packets, in a round of this window and without a queue.
fn growth(win: u32) -> f64 {
    let mut kernel = connection(native::find(ID), win);
    round(&mut kernel, &[BASE_US; 3]);
    known(&kernel, "dwnd") as f64 + known(&kernel, "dwnd_frac") as f64 / 1024.0
}

fn square_root(value: u64) -> u32 {
    // SAFETY: the signature of compound.bpf.c.
    let function: extern "C" fn(u64) -> u32 = unsafe { native::find(ID).function("square_root") };
    function(value)
}

fn check_square_root(value: u64) {
    let root = u128::from(square_root(value));
    let value = u128::from(value);
    assert!(root.pow(2) <= value && value < (root + 1).pow(2), "the square root of {value} is not {root}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn square_root_is_the_floor(value: u64, shift in 0..64u32) {
        check_square_root(value >> shift);
    }

    /// Eq. (5): win^(3/4) / 8 - 1, within 1/1024 of rounding and an eighth of 1/128.
    #[test]
    fn growth_is_the_paper_s_power(win in 2..1_000_000_000u32, shift in 0..28u32) {
        let win = (win >> shift).max(2);
        let exact = (f64::from(win).powf(0.75) / 8.0 - 1.0).max(0.0);
        let error = exact - growth(win);
        prop_assert!((-1e-6..0.002).contains(&error), "{win}: {} for {exact}", growth(win));
    }
}

#[test]
fn square_root_is_exact_at_the_edges() {
    for root in [0, 1, 2, 3, 255, 256, 65_535, 65_536, u64::from(u32::MAX)] {
        for value in [(root * root).saturating_sub(1), root * root, root * root + 1] {
            check_square_root(value);
        }
    }
    check_square_root(u64::MAX);
}

#[test]
fn growth_has_the_header_s_numbers() {
    for (win, expected) in [(15, 0.0), (16, 0.0), (64, 1.83), (100, 2.95), (1000, 21.23)] {
        assert!((growth(win) - expected).abs() < 0.01, "{} for {expected} at {win}", growth(win));
    }
}

/// Both windows together on an empty path: 1 + (win^(3/4) / 8 - 1) packets a round.
#[test]
fn empty_path_follows_the_recurrence() {
    let mut flow = Flow::new(native::find(ID), 64, 2, [BASE_US.into(), 1]);
    flow.run_for(u64::from(BASE_US) + 1);
    let mut reference = f64::from(flow.cwnd());
    for round in 0..40 {
        flow.run_for(BASE_US.into());
        reference += (reference.powf(0.75) / 8.0).max(1.0);
        let error = f64::from(flow.cwnd()) / reference - 1.0;
        assert!(error.abs() < 0.04, "{} for {reference} in round {round}", flow.cwnd());
    }
    assert_eq!(flow.phase(ID), "compound");
    let reno = u64::from(flow.cwnd()) - flow.field(ID, "dwnd");
    assert!((64 + 38..=64 + 43).contains(&reno), "Reno's part is {reno}");
}

/// A connection with a delay window: 40 rounds of an empty path.
fn grown() -> Kernel<Socket<'static>> {
    let mut kernel = connection(native::find(ID), 1000);
    for _ in 0..10 {
        round(&mut kernel, &[BASE_US; 3]);
    }
    assert!(known(&kernel, "dwnd") > 200);
    kernel
}

#[test]
fn delay_window_gives_way_to_thirty_queued_packets() {
    for (queue, is_shrunk) in [(29, false), (31, true), (100, true)] {
        let mut kernel = grown();
        let (win, dwnd) = (kernel.tcp.snd_cwnd, known(&kernel, "dwnd"));
        let rtt_us = (f64::from(BASE_US) * f64::from(win) / f64::from(win - queue)) as u32;
        round(&mut kernel, &[rtt_us; 3]);
        let diff = known(&kernel, "diff");
        assert!(diff.abs_diff(queue.into()) <= 1, "{diff} for {queue}");
        if is_shrunk {
            assert_eq!((known(&kernel, "dwnd"), u64::from(kernel.tcp.snd_cwnd)), (dwnd - diff, u64::from(win) - diff));
        } else {
            assert!(known(&kernel, "dwnd") > dwnd);
        }
    }
}

#[test]
fn delay_window_ends_at_nothing() {
    let mut kernel = grown();
    let reno = u64::from(kernel.tcp.snd_cwnd) - known(&kernel, "dwnd");
    for _ in 0..20 {
        round(&mut kernel, &[2 * BASE_US; 3]);
    }
    assert_eq!(known(&kernel, "dwnd"), 0);
    assert!(u64::from(kernel.tcp.snd_cwnd) >= reno, "Reno's part is never given back");
}

/// The queue that a lonely flow leaves stays near gamma until Reno's part alone makes a longer one.
#[test]
fn queue_of_a_lonely_flow_stays_near_gamma() {
    let mut flow = Flow::new(native::find(ID), 100, 2, [BASE_US.into(), 100]);
    flow.run_until(|flow| flow.field(ID, "diff") >= 30);
    let mut longest = 0;
    for _ in 0..100 {
        flow.run_for(45_000);
        longest = longest.max(flow.cwnd());
    }
    assert!((430..=470).contains(&longest), "the path holds 400 packets, the window was {longest}");
    assert!(flow.field(ID, "dwnd") > 0);
}

#[test]
fn loss_halves_both_windows_and_undo_restores_both() {
    let mut kernel = grown();
    let (win, dwnd) = (u64::from(kernel.tcp.snd_cwnd), known(&kernel, "dwnd"));
    kernel.enter_recovery();
    let (ssthresh, left) = (u64::from(kernel.tcp.snd_ssthresh), known(&kernel, "dwnd"));
    assert_eq!(ssthresh, win - win / 2);
    assert_eq!(ssthresh - left, (win - dwnd) / 2);
    kernel.undo();
    assert_eq!((u64::from(kernel.tcp.snd_cwnd), known(&kernel, "dwnd")), (win, dwnd));
}

/// The kernel halves a window that the application does not fill, and tells nobody.
#[test]
fn window_that_the_kernel_took_is_the_delay_window_s() {
    let mut kernel = grown();
    let (win, dwnd) = (u64::from(kernel.tcp.snd_cwnd), known(&kernel, "dwnd"));
    let reno = win - dwnd;
    kernel.tcp.max_packets_out = 0;
    (kernel.tcp.snd_cwnd, kernel.tcp.is_cwnd_limited) = (win as u32 - 50, 0);
    kernel.cc.cong_avoid(&mut kernel.tcp, 1);
    assert_eq!(known(&kernel, "dwnd"), dwnd - 50);
    kernel.tcp.snd_cwnd -= 50;
    kernel.enter_recovery();
    let ssthresh = u64::from(kernel.tcp.snd_ssthresh);
    assert_eq!((ssthresh, known(&kernel, "prior_dwnd")), ((win - 99) / 2, dwnd - 100));
    assert_eq!(ssthresh - known(&kernel, "dwnd"), reno / 2);
    kernel.undo();
    assert_eq!((u64::from(kernel.tcp.snd_cwnd), known(&kernel, "dwnd")), (win - 100, dwnd - 100));
    kernel.tcp.snd_cwnd = 100;
    kernel.cc.cong_avoid(&mut kernel.tcp, 1);
    assert_eq!((known(&kernel, "dwnd"), known(&kernel, "win")), (0, 100));
}

#[test]
fn timeout_and_idle_time_leave_reno_alone() {
    let mut kernel = grown();
    operations::apply(&mut kernel, Operation::TimeOut, 0);
    assert_eq!(known(&kernel, "dwnd"), 0);
    let mut kernel = grown();
    kernel.restart_after_idle(2, 10);
    assert_eq!(known(&kernel, "dwnd"), 0);
}

#[test]
fn disturbed_rounds_change_nothing() {
    let mut kernel = grown();
    kernel.set_state(state::DISORDER);
    let dwnd = known(&kernel, "dwnd");
    round(&mut kernel, &[BASE_US; 3]);
    assert_eq!(known(&kernel, "dwnd"), dwnd);
    let mut kernel = grown();
    let dwnd = known(&kernel, "dwnd");
    round(&mut kernel, &[BASE_US; 2]);
    assert_eq!(known(&kernel, "dwnd"), dwnd, "two samples decide nothing");
}

#[test]
fn losses_one_after_another_keep_reno_s_half() {
    let mut kernel = grown();
    for _ in 0..12 {
        lose(&mut kernel);
        assert!(known(&kernel, "dwnd") < u64::from(kernel.tcp.snd_cwnd));
    }
    assert_eq!(kernel.tcp.snd_cwnd, 2);
}
