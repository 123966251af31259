//! The jitter of Wi-Fi: its distribution, and the bursts that it makes.

use super::*;
use crate::path::jitter::Jitter;

/// A link that adds nothing but jitter.
fn wifi(mean: u64, seed: u64) -> (TestLink, Jitter) {
    let jitter = Jitter::Wifi(Duration::from_millis(mean));
    (TestLink::new(&Direction { jitter, seed, ..Direction::default() }), jitter)
}

/// When packets leave that are sent at this interval.
fn departures(link: &mut TestLink, packets: u64, interval: u64) -> Vec<[u64; 2]> {
    let sent = (0..packets).map(|number| number * interval);
    let due = sent.map(|sent| match link.admit(sent, 100) {
        PacketVerdict::Due(due) => [sent, due],
        other => panic!("{other:?}"),
    });
    due.collect()
}

/// Deferrals are 1 ms each with a mean of 1, less half a millisecond if there is one. Retries are 7.5 ms with a mean of 12.
#[test]
fn additions_follow_the_formula_of_the_draft() {
    for (mean, expected_ms) in [(1, 0.684), (7, 6.684), (46, 45.68), (91, 90.68)] {
        let (mut link, jitter) = wifi(mean, 5);
        let additions = departures(&mut link, 40_000, 1_000 * MS).into_iter().map(|[sent, due]| due - sent);
        let mut additions: Vec<f64> = additions.map(|addition| addition as f64 / MS as f64).collect();
        let average = additions.iter().sum::<f64>() / additions.len() as f64;
        assert!((average / expected_ms - 1.0).abs() < 0.02, "{mean} ms: {average}");
        let share = |test: &dyn Fn(f64) -> bool| {
            additions.iter().filter(|addition| test(**addition)).count() as f64 / additions.len() as f64
        };
        // Three retries or more are nearly certain for a packet that is retransmitted.
        let late = share(&|addition| addition > 20.0);
        assert!((late - (mean - 1) as f64 / 90.0).abs() < 0.006, "{mean} ms: {late}");
        let none = share(&|addition| addition == 0.0);
        assert!((none - 0.368 * (91 - mean) as f64 / 90.0).abs() < 0.01, "{mean} ms: {none}");
        additions.sort_by(f64::total_cmp);
        assert!(additions.last().is_some_and(|most| *most < jitter.longest().as_secs_f64() * 1e3), "{mean} ms");
    }
}

/// The same numbers are drawn for each packet, so a larger mean delays more packets, and the others by the same time.
#[test]
fn larger_mean_only_adds_retransmitted_packets() {
    let [small, large] = [3, 30].map(|mean| departures(&mut wifi(mean, 9).0, 2_000, 1_000 * MS));
    assert!(small.iter().zip(&large).all(|(small, large)| small[1] <= large[1]));
    let alike = small.iter().zip(&large).filter(|(small, large)| small == large).count();
    assert!((1_300..1_500).contains(&alike), "{alike} of 2000: 30 % more are retransmitted");
}

/// What follows a late packet waits for it.
#[test]
fn packets_leave_in_order_and_in_bursts_behind_a_late_one() {
    let due: Vec<u64> = departures(&mut wifi(7, 2).0, 5_000, MS).into_iter().map(|[_, due]| due).collect();
    assert!(due.is_sorted());
    let burst = due.chunk_by(|one, next| one == next).map(<[u64]>::len).max();
    assert!(burst.is_some_and(|burst| (80..300).contains(&burst)), "{burst:?}");
}
