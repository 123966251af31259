//! Prague against the draft's equations: `bpf/cc/prague.bpf.c`.

use proptest::prelude::*;

use super::*;

const ID: &str = "prague";
const MS: u32 = 1_000;
const VIRTUAL_US: u32 = 25 * MS;
/// RTT-dependence is reduced from the start.
const AT_ONCE: &str = "transition_rounds=0";

fn avoiding(native: &Native, cwnd: u32) -> Endpoint<'_> {
    Endpoint::over(native, cwnd, 2)
}

/// The window with its fraction, packets.
fn window(flow: &Endpoint) -> f64 {
    flow.field("window") as f64 / 2_f64.powi(32)
}

fn alpha(flow: &Endpoint) -> f64 {
    flow.field("alpha") as f64 / 2_f64.powi(30)
}

/// An ACK that reports this many marks.
fn marked_ack(flow: &mut Endpoint, packets: u32, marks: u32, rtt_us: u32) {
    flow.tcp.delivered_ce += marks;
    flow.ack(packets, rtt_us);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// W += (srtt / V)^2 / W for each packet without mark, V = max(srtt, 25 ms).
    #[test]
    fn window_grows_as_the_draft_s_equation(cwnd in 4..100_000u32, rtt_us in 100..300_000u32, acked in 1..4u32, marks in 0..4u32) {
        let native = native::borrowed(ID, &[AT_ONCE]);
        let mut flow = avoiding(&native, cwnd);
        marked_ack(&mut flow, 1, 1, rtt_us); // its virtual round trip suppresses the next reduction
        let before = window(&flow);
        marked_ack(&mut flow, acked, marks.min(acked), rtt_us);
        let ratio = f64::from(rtt_us) / f64::from(rtt_us.max(VIRTUAL_US));
        let step = f64::from(acked - marks.min(acked)) * ratio * ratio / before;
        let error = window(&flow) - before - step;
        prop_assert!(error.abs() <= step * 0.01 + 1e-7, "{} for {}", window(&flow) - before, step);
        prop_assert_eq!(flow.cwnd(), (window(&flow).ceil() as u32).max(2));
    }
}

#[test]
fn rtt_dependence_ends_only_after_its_rounds() {
    let mut flow = avoiding(native::find(ID), 20);
    let grown = |flow: &mut Endpoint| {
        let before = window(flow);
        flow.round(5 * MS);
        window(flow) - before
    };
    assert!((0.9..1.1).contains(&grown(&mut flow)), "a packet each round trip at first");
    (0..500).for_each(|_| flow.round(5 * MS));
    let step = grown(&mut flow);
    assert!((0.037..0.043).contains(&step), "{step}: a twenty-fifth");
}

#[test]
fn first_mark_halves_and_a_virtual_round_trip_suppresses_the_next() {
    let mut flow = avoiding(native::tuned(ID, &[AT_ONCE]), 100);
    marked_ack(&mut flow, 1, 1, 5 * MS);
    assert!((window(&flow) - 50.0).abs() < 0.01, "{}", window(&flow));
    assert_eq!((flow.windows(), flow.phase()), ((50, 50), "avoidance"));
    let mut spent_ms = 0;
    while spent_ms < 20 {
        flow.round(5 * MS);
        flow.tcp.delivered_ce += 1;
        assert!(flow.cwnd() >= 50, "after {spent_ms} ms");
        spent_ms += 5;
    }
    let (before, alpha) = (window(&flow), alpha(&flow));
    flow.wait(10_000);
    marked_ack(&mut flow, 1, 1, 5 * MS);
    let kept = window(&flow) / before;
    assert!((kept - (1.0 - alpha / 2.0)).abs() < 0.001, "{kept} with alpha {alpha}");
}

/// alpha = (1 - g) alpha + g F.
#[test]
fn alpha_follows_the_share_of_marks() {
    let native = native::tuned(ID, &["virtual_rtt_us=0", "alpha_on_mark=512"]);
    let mut flow = avoiding(native, 64);
    marked_ack(&mut flow, 1, 1, 10 * MS);
    let mut expected = 0.5;
    for share in [0.25, 0.0, 1.0, 0.5, 0.125] {
        let packets = flow.tcp.packets_out;
        let marks = (f64::from(packets) * share).round();
        flow.wait(10_000);
        marked_ack(&mut flow, packets, marks as u32, 10 * MS);
        expected += (marks / f64::from(packets) - expected) / 16.0;
        assert!((alpha(&flow) - expected).abs() < 1e-3, "{} for {expected}", alpha(&flow));
    }
}

/// A mark and a loss in one round trip take half together.
#[test]
fn loss_halves_what_was_there_before_a_mark() {
    let mut flow = avoiding(native::tuned(ID, &[AT_ONCE, "alpha_on_mark=256"]), 100);
    marked_ack(&mut flow, 1, 1, 30 * MS);
    assert!((87.0..88.0).contains(&window(&flow)), "an eighth less: {}", window(&flow));
    flow.apply(Operation::Lose);
    assert!((50.0..51.0).contains(&window(&flow)), "{}", window(&flow));
    assert!(flow.cwnd() > 80, "the kernel's window falls with the ACKs");
    let before = flow.cwnd();
    flow.ack(10, 30 * MS);
    assert_eq!((flow.cwnd(), flow.phase()), (before - 5, "recovery"));
    flow.recover();
    assert_eq!(flow.cwnd(), flow.ssthresh());
    flow.ack(1, 30 * MS);
    assert_eq!(flow.phase(), "avoidance");
}

#[test]
fn spurious_loss_gives_the_window_back() {
    let mut flow = avoiding(native::find(ID), 100);
    flow.apply(Operation::Lose);
    flow.undo();
    assert_eq!((flow.cwnd(), window(&flow)), (100, 100.0));
}

#[test]
fn timeout_begins_slow_start_up_to_half() {
    let mut flow = avoiding(native::find(ID), 100);
    flow.time_out();
    assert_eq!(flow.windows(), (1, 50));
    flow.recover();
    for _ in 0..12 {
        flow.round(30 * MS);
    }
    assert!((50..70).contains(&flow.cwnd()), "{}", flow.cwnd());
    let before = flow.cwnd();
    flow.round(30 * MS);
    assert_eq!(flow.cwnd(), before + 1);
}

/// Below two packets pacing alone lowers the rate, to 100 kbit/s.
#[test]
fn marks_lower_the_rate_below_two_packets_a_round_trip() {
    let mut flow = avoiding(native::tuned(ID, &["virtual_rtt_us=0"]), 2);
    for _ in 0..200 {
        flow.wait(10_000);
        let packets = flow.tcp.packets_out;
        marked_ack(&mut flow, packets, packets, 10 * MS);
    }
    assert_eq!((flow.cwnd(), flow.cc.pacing_rate()), (2, 12_500));
    let least = window(&flow);
    assert!(least < 0.05, "{least}");
    for _ in 0..50 {
        flow.wait(10_000);
        flow.round(10 * MS);
    }
    assert!(window(&flow) > 2.0, "{}: it recovers", window(&flow));
}

/// k (1 / p - 1) 2 / V packets a second, whatever the RTT below 25 ms. A reduction follows the first mark after V, so there
/// are x = p r V marks in the V that has none of them, and x^2 = 2 (1 - p) (x + 1).
#[test]
fn rate_with_random_marks_is_that_of_the_law() {
    for rtt_ms in [5, 10, 20, 50] {
        for one_in in [10, 40] {
            let native = native::tuned(ID, &[AT_ONCE]);
            let mut flow = avoiding(native, 20);
            let (rtt_us, mut draw, mut sent, mut from_us) = (rtt_ms * MS, 1u64, 0u64, 0u64);
            for round in 0..60_000 / rtt_ms {
                let packets = flow.tcp.packets_out;
                for _ in 0..packets {
                    draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let is_marked = (draw >> 33) % one_in == 0;
                    flow.wait(u64::from(rtt_us / packets));
                    marked_ack(&mut flow, 1, u32::from(is_marked), rtt_us);
                    sent += 1;
                }
                if round == 20_000 / rtt_ms {
                    (sent, from_us) = (0, flow.now_us());
                }
            }
            let rate = sent as f64 * 1e6 / (flow.now_us() - from_us) as f64;
            let law = (one_in as f64 - 1.0) * 2.0 / (f64::from(rtt_us.max(VIRTUAL_US)) / 1e6);
            let unmarked = 1.0 - 1.0 / one_in as f64;
            let law = law * (unmarked + (unmarked * unmarked + 2.0 * unmarked).sqrt()) / (2.0 * unmarked);
            assert!((rate / law - 1.0).abs() < 0.2, "{rtt_ms} ms, one in {one_in}: {rate:.0} for {law:.0} packets/s");
        }
    }
}
