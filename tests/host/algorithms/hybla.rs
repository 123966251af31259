//! Hybla against its equations: `bpf/cc/bpf_hybla.bpf.c`.

use super::*;

/// A connection with a known smoothed RTT, and the given window.
fn with_rtt(native: &Native, cwnd: u32, ssthresh: u32, rtt_us: u32) -> Endpoint<'_> {
    let mut connection = Endpoint::over(native, cwnd, ssthresh).after(&[Operation::Limit { by_window: false }]);
    connection.tcp.max_packets_out = 0;
    connection.ack(1, rtt_us);
    connection.apply(Operation::Limit { by_window: true });
    assert_eq!(connection.cwnd(), cwnd);
    connection
}

#[test]
fn rho_is_the_rtt_over_25_ms_and_one_at_least() {
    for (rtt_us, rho) in [(10_000, 8), (25_000, 8), (40_000, 12), (200_000, 64), (600_000, 192), (40_000_000, 4096)] {
        let connection = with_rtt(native::find("bpf_hybla"), 100, 50, rtt_us);
        assert_eq!(connection.field("rho"), rho, "in eighths, at {rtt_us} us");
    }
    let native = native::tuned("bpf_hybla", &["rtt0_ms=50"]);
    assert_eq!(with_rtt(native, 100, 50, 200_000).field("rho"), 32);
}

#[test]
fn growth_is_two_to_the_rho_less_one_in_slow_start_and_rho_squared_per_window_afterwards() {
    let check = |cwnd: u32, ssthresh: u32, packets: u32, rtt_us: u32, expected: u32| {
        let mut connection = with_rtt(native::find("bpf_hybla"), cwnd, ssthresh, rtt_us);
        connection.ack(packets, rtt_us);
        assert_eq!(connection.cwnd() - cwnd, expected, "from {cwnd}, {rtt_us} us");
    };
    // 2^rho - 1: 1 at 25 ms, 3 at 50 ms, 15 at 100 ms, 255 at 200 ms, and 1.83 at 40 ms, where rho is 1.5.
    for (rtt_us, expected) in [(25_000, 100), (50_000, 300), (100_000, 1500), (200_000, 25_500), (40_000, 182)] {
        check(200, INFINITE_SSTHRESH, 100, rtt_us, expected);
    }
    check(100, 150, 50, 200_000, 50); // up to the threshold
    for (rtt_us, expected) in [(25_000, 1), (50_000, 4), (100_000, 16), (200_000, 64)] {
        check(1000, 500, 1000, rtt_us, expected);
    }
}

#[test]
fn every_power_is_within_half_of_its_last_digit() {
    let native = native::tuned("bpf_hybla", &["window_max=16777216"]);
    for eighths in 8..=136u32 {
        let rtt_us = eighths * 25_000 / 8;
        let mut connection = with_rtt(native, 200, INFINITE_SSTHRESH, rtt_us);
        connection.ack(100, rtt_us);
        let exponent = f64::from(eighths) / 8.0;
        let power = (exponent.min(16.0 + exponent.fract())).exp2();
        let (found, exact) = (f64::from(connection.cwnd() - 200), 100.0 * (power - 1.0));
        assert!((found - exact).abs() <= 1.0 + 100.0 * power / 2048.0, "{found} for 2^{exponent}: {exact}");
    }
}

/// On paths from 400 ms on, each packet acknowledged in slow start once added 65535 to the window.
#[test]
fn window_of_a_long_path_grows_to_the_kernels_clamp_and_no_further() {
    let tuned = native::tuned("bpf_hybla", &["window_max=1000"]);
    for (native, window_max) in [(native::find("bpf_hybla"), 65_535), (tuned, 1_000)] {
        let mut connection = with_rtt(native, 100, INFINITE_SSTHRESH, 600_000);
        for _ in 0..20 {
            connection.ack(1, 600_000);
        }
        assert_eq!(connection.cwnd(), window_max);
        let mut avoidance = with_rtt(native, window_max, 2, 600_000);
        avoidance.ack(window_max, 600_000);
        assert_eq!(avoidance.cwnd(), window_max);
        let mut larger = with_rtt(native, window_max + 1, INFINITE_SSTHRESH, 600_000);
        larger.ack(1, 600_000);
        assert_eq!(larger.cwnd(), window_max + 1, "a larger window, as of another algorithm, stays");
    }
}

#[test]
fn first_window_is_rho_of_an_unused_connection_alone() {
    for (packets_out, rtt_us, clamp, expected) in [
        (0, 600_000, INFINITE_SSTHRESH, 24),
        (0, 600_000, 15, 15),
        (0, 25_000, INFINITE_SSTHRESH, 10),
        (5, 600_000, INFINITE_SSTHRESH, 10),
    ] {
        let connection = Endpoint::of("bpf_hybla", 10, INFINITE_SSTHRESH)
            .switched(|tcp| (tcp.packets_out, tcp.srtt_us, tcp.snd_cwnd_clamp) = (packets_out, 8 * rtt_us, clamp));
        assert_eq!(connection.cwnd(), expected, "{packets_out} packets out, {rtt_us} us, at most {clamp}");
    }
}
