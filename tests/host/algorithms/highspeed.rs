//! What twins cannot see of HighSpeed TCP and Scalable TCP: the table of RFC 3649, and tunables.

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
    assert_eq!(growth("bpf_highspeed", 2_000_000), 73, "beyond the table");
}

#[test]
fn scalable_steps_are_tunables() {
    let mut connection = Endpoint::over(native::tuned("bpf_scalable", &["ack_count=50", "cut=512"]), 1000, 2);
    connection.ack(1000, 100_000);
    assert_eq!(connection.cwnd(), 1020);
    assert_eq!(connection.reduce(), 510);
}
