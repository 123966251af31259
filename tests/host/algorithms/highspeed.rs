//! Algorithms for large windows: HighSpeed TCP against RFC 3649, Scalable TCP against its paper.

use super::*;

/// w and b(w) of each whole a(w) from 1 on, as in the program of RFC 3649, appendix B.
fn rfc_table() -> Vec<(u32, f64)> {
    let (mut table, mut last) = (vec![(38, 0.5)], 1.0);
    for window in 39..100_000 {
        let w = f64::from(window);
        let b = (0.1 - 0.5) * (w.ln() - 38f64.ln()) / (83_000f64.ln() - 38f64.ln()) + 0.5;
        let a = w * w * 2.0 * b / ((2.0 - b) * w.powf(1.2) * 12.8);
        if a > last + 1.0 {
            table.push((window, b));
            last = a;
        }
    }
    table
}

/// Growth per acknowledged window.
fn growth(id: &str, cwnd: u32) -> u32 {
    let mut connection = Endpoint::avoiding(id, cwnd);
    connection.ack(cwnd, 100_000);
    connection.cwnd() - cwnd
}

/// Reduction at a loss in congestion avoidance.
fn cut(id: &str, cwnd: u32) -> u32 {
    let mut connection = Endpoint::avoiding(id, cwnd);
    connection.ack(1, 100_000);
    connection.cwnd() - connection.reduce()
}

#[test]
fn table_is_that_of_the_rfc() {
    let table = rfc_table();
    // Lines of appendix B as printed: w, a(w), b(w).
    for (w, a, b) in
        [(38, 1, 0.50), (118, 2, 0.44), (221, 3, 0.41), (1058, 8, 0.33), (10_661, 30, 0.21), (94_717, 73, 0.09)]
    {
        let (window, exact) = table[a - 1];
        assert_eq!(window, w);
        assert!((exact - b).abs() <= 0.005, "{exact} is printed {b}");
    }
    for (entry, (window, b)) in table.iter().enumerate() {
        let a = entry as u32 + 1;
        assert_eq!(growth("bpf_highspeed", *window), a, "growth at {window}");
        let exact = f64::from(*window) * b;
        let off = (f64::from(cut("bpf_highspeed", *window)) - exact).abs();
        assert!(off <= 1.0 + f64::from(*window) / 2048.0, "cut at {window} is {off} off {exact}");
        if let Some((next, _)) = table.get(entry + 1) {
            assert_eq!(growth("bpf_highspeed", window + 1), a + 1, "growth above {window}");
            assert!(window < next);
        }
    }
}

#[test]
fn highspeed_is_reno_up_to_38_packets_and_ends_with_its_table() {
    for cwnd in 4..=38 {
        assert_eq!((growth("bpf_highspeed", cwnd), cut("bpf_highspeed", cwnd)), (1, cwnd / 2), "{cwnd}");
    }
    assert_eq!([94_718, 2_000_000].map(|cwnd| growth("bpf_highspeed", cwnd)), [73, 73]);
}

#[test]
fn highspeed_follows_the_window_down() {
    let mut connection = Endpoint::of("bpf_highspeed", 1000, 2);
    connection.ack(1000, 100_000);
    assert_eq!(connection.cwnd(), 1008);
    connection.lose();
    let cwnd = connection.cwnd();
    assert!((660..680).contains(&cwnd), "{cwnd}");
    connection.ack(cwnd, 100_000);
    assert!((cwnd + 6..=cwnd + 8).contains(&connection.cwnd()), "{}", connection.cwnd());
}

#[test]
fn highspeed_grows_in_slow_start_as_reno() {
    let mut connection = Endpoint::of("bpf_highspeed", 100, INFINITE_SSTHRESH);
    connection.ack(100, 100_000);
    assert_eq!(connection.cwnd(), 200);
    assert_eq!(connection.reduce(), 100, "b is unknown before the first ACK of avoidance");
}

#[test]
fn scalable_recovers_in_as_many_round_trips_at_any_window() {
    for cwnd in [1000, 8000, 64_000] {
        let mut connection = Endpoint::of("bpf_scalable", cwnd, 2);
        connection.lose();
        assert_eq!(connection.cwnd(), cwnd * 7 / 8);
        let mut rounds = 0;
        while connection.cwnd() < cwnd {
            let window = connection.cwnd();
            connection.ack(window, 100_000);
            rounds += 1;
        }
        // ln(1 - b) / ln(1 / (1 + a)) = 13.4: section 3 of the paper.
        assert_eq!(rounds, 14, "from 7/8 of {cwnd}");
    }
}

#[test]
fn scalable_grows_by_one_packet_per_hundred_and_as_reno_below() {
    for (cwnd, expected) in [(10, 1), (99, 1), (100, 1), (500, 5), (10_000, 100)] {
        assert_eq!(growth("bpf_scalable", cwnd), expected, "{cwnd}");
    }
    let mut connection = Endpoint::over(native::tuned("bpf_scalable", &["ack_count=50", "cut=512"]), 1000, 2);
    connection.ack(1000, 100_000);
    assert_eq!(connection.cwnd(), 1020);
    assert_eq!(connection.reduce(), 510);
}

#[test]
fn scalable_cuts_an_eighth_rounded_down() {
    for (cwnd, expected) in [(1000, 125), (1007, 125), (16, 2), (7, 0)] {
        assert_eq!(cut("bpf_scalable", cwnd), expected, "{cwnd}");
    }
}
