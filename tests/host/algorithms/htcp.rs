//! H-TCP's equations, whose fractions the kernel rounds away, against the draft: `bpf/cc/bpf_htcp.bpf.c`.

use super::*;

/// f(D) in the draft, packets.
fn growth(seconds: f64) -> f64 {
    let beyond = (seconds - 1.0).max(0.0);
    1.0 + 10.0 * beyond + (beyond / 2.0).powi(2)
}

/// alpha, packets, at a time after the start.
fn alpha(native: &Native, ms: u64, rtt_us: u32) -> f64 {
    let mut connection = Endpoint::over(native, 10, 5);
    connection.wait(ms * 1000);
    connection.ack(10, rtt_us);
    connection.field("alpha") as f64 / 1024.0
}

#[test]
fn growth_follows_the_time_since_the_last_loss() {
    let native = native::tuned("bpf_htcp", &[]);
    // Computed by hand: 1, 11.25, 22 and 126 packets after 1, 2, 3 and 11 s; alpha = 2 (1 - 0.5) f.
    for (ms, expected) in [(10, 1.0), (1000, 1.0), (2000, 11.25), (3000, 22.0), (11_000, 126.0)] {
        assert_eq!(growth(ms as f64 / 1000.0), if ms < 1000 { 1.0 } else { expected });
        let found = alpha(native, ms, 100_000);
        assert!((found - expected).abs() <= 0.02, "{found} packets after {ms} ms, not {expected}");
    }
    let found = alpha(native, 123_456, 100_000);
    assert!((found / growth(123.456) - 1.0).abs() < 1e-3, "{found}");
}

#[test]
fn growth_is_scaled_by_the_rtt_within_limits() {
    let (on, off) = (native::tuned("bpf_htcp", &[]), native::tuned("bpf_htcp", &["use_rtt_scaling=0"]));
    for (rtt_us, factor) in [(50_000, 0.5), (100_000, 1.0), (150_000, 1.5), (200_000, 2.0), (900_000, 2.0), (1000, 0.1)]
    {
        let found = alpha(on, 3000, rtt_us);
        assert!((found - 22.0 * factor).abs() <= 0.05, "{found} packets at {rtt_us} us");
        assert!((alpha(off, 3000, rtt_us) - 22.0).abs() <= 0.05);
    }
    assert_eq!(alpha(on, 500, 20_000), 1.0, "never below Reno");
}

#[test]
fn window_grows_by_alpha_per_window() {
    let mut connection = Endpoint::of("bpf_htcp", 100, 50);
    connection.wait(3_000_000);
    connection.ack(100, 100_000); // grows by the first alpha, then updates it
    assert_eq!(connection.cwnd(), 101);
    connection.ack(101, 100_000);
    assert!((122..=123).contains(&connection.cwnd()), "{}", connection.cwnd());
}

/// beta after a second loss, if RTTs between 50 ms and the maximum precede both losses.
fn kept_at_second_loss(native: &Native, max_rtt_us: u32) -> f64 {
    let mut connection = Endpoint::over(native, 400, 200);
    for _ in 0..2 {
        for _ in 0..12 {
            connection.round(50_000);
        }
        let mut rtt_us = 50_000;
        while rtt_us < max_rtt_us {
            rtt_us = (rtt_us + 19_000).min(max_rtt_us);
            connection.ack(1, rtt_us);
        }
        connection.tcp.snd_cwnd = 400;
        connection.lose();
    }
    connection.field("beta") as f64 / 1024.0
}

#[test]
fn cut_is_the_lowest_rtt_over_the_highest_within_limits() {
    let native = native::tuned("bpf_htcp", &["use_bandwidth_switch=0"]);
    for (max_rtt_us, expected) in [(50_000, 0.8), (55_000, 0.8), (75_000, 0.667), (90_000, 0.556), (300_000, 0.5)] {
        let found = kept_at_second_loss(native, max_rtt_us);
        // RTTmax decays by 5 % of its distance at the first loss, and is sampled again before the second.
        assert!((found - expected).abs() <= 0.002, "{found} at {max_rtt_us} us, not {expected}");
    }
}

#[test]
fn outlier_does_not_raise_the_highest_rtt() {
    let mut connection = Endpoint::of("bpf_htcp", 50, 25);
    connection.round(50_000);
    for (rtt_us, highest) in [(70_001, 50_000), (70_000, 70_000)] {
        connection.ack(1, rtt_us);
        assert_eq!(connection.field("max_rtt_us"), highest);
    }
}

#[test]
fn bandwidth_that_changed_by_more_than_a_fifth_halves() {
    let native = native::tuned("bpf_htcp", &[]);
    let kept = |second_rtt_us: u32| {
        let mut connection = Endpoint::over(native, 200, 100);
        for (cycle, rtt_us) in [50_000, 50_000, 50_000, second_rtt_us].into_iter().enumerate() {
            connection.tcp.snd_cwnd = 200;
            for _ in 0..40 {
                connection.round(rtt_us);
                connection.tcp.snd_cwnd = 200;
            }
            if cycle < 3 {
                connection.lose();
            }
        }
        connection.apply(Operation::Lose);
        connection.field("beta")
    };
    assert_eq!(kept(50_000), 819, "the same bandwidth: 0.8");
    assert_eq!(kept(69_000), 512, "a bandwidth 28 % lower");
}

#[test]
fn undo_goes_back_to_the_loss_before() {
    let mut connection = Endpoint::of("bpf_htcp", 100, 50);
    connection.wait(5_000_000);
    connection.round(50_000);
    let before = connection.fields(["loss_us", "max_rtt_us"]);
    connection.apply(Operation::Lose);
    assert_eq!(connection.field("loss_us"), connection.now_us());
    connection.wait(1_000_000);
    connection.apply(Operation::Undo);
    assert_eq!(connection.fields(["loss_us", "max_rtt_us"]), before);
    connection.apply(Operation::Finish);
    assert_eq!(connection.field("loss_us"), before[0]);
}

#[test]
fn time_runs_from_the_end_of_the_recovery() {
    let mut connection = Endpoint::of("bpf_htcp", 100, 50);
    connection.apply(Operation::Lose);
    connection.wait(2_000_000);
    connection.apply(Operation::Finish);
    assert_eq!(connection.field("loss_us"), connection.now_us());
    assert_eq!(connection.field("alpha"), 1024);
}
