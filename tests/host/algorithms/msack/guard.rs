//! The guard of msack, an addition to the paper: which losses it cuts for, and which it forgives.

use super::*;

/// With default tunables.
fn guarded() -> Endpoint<'static> {
    steady(native::find("msack"))
}

/// The verdicts on successive ACKs at the average RTT, each with `losses`.
fn row(connection: &mut Endpoint, acks: usize, losses: u32) -> Vec<String> {
    let mut verdicts = Vec::new();
    for _ in 0..acks {
        tell(connection, NEAR, losses);
        verdicts.push(connection.verdict());
    }
    verdicts
}

/// Linear growth fills the queue slowly: the average follows, and the paper takes a loss at the overflow for random.
#[test]
fn guard_cuts_at_the_overflow_of_a_slowly_filled_queue_at_any_window() {
    for capacity in [20, 50, 80, 400, 10_000] {
        let at_overflow = |native: &Native| {
            let mut connection = Endpoint::over(native, capacity, 20);
            for queued in 0..=capacity {
                let rtt_us = (u64::from(NEAR) * u64::from(capacity + queued) / u64::from(capacity)) as u32;
                let tcp = &mut connection.tcp;
                tcp.snd_cwnd = capacity + queued;
                (tcp.snd_una, tcp.snd_nxt) = (tcp.snd_nxt, tcp.snd_nxt + tcp.snd_cwnd);
                connection.wait(1_000);
                connection.hear(Some(rtt_us));
            }
            connection.mark_lost(1);
            (connection.verdict(), connection.ssthresh())
        };
        let is_hidden = capacity >= 50;
        let by_paper = if is_hidden { ("random".into(), 2 * capacity) } else { ("postponed".into(), 2 * capacity) };
        assert_eq!(at_overflow(*PAPER), by_paper, "{capacity} packets");
        let expected = if is_hidden { ("guard".into(), capacity) } else { by_paper };
        assert_eq!(at_overflow(native::find("msack")), expected, "{capacity} packets");
    }
}

#[test]
fn guard_cuts_from_three_queued_packets_on() {
    for (cwnd, forgiven_us, cut_us) in [(40, 10_810, 10_811), (400, 10_075, 10_076), (35, 10_937, 10_938)] {
        for (rtt_us, expected) in [(9_000, "random"), (NEAR, "random"), (forgiven_us, "random"), (cut_us, "guard")] {
            let mut connection = Endpoint::over(native::find("msack"), cwnd, 20);
            connection.hear(Some(NEAR));
            connection.hear(Some(rtt_us));
            connection.mark_lost(1);
            assert_eq!(connection.verdict(), expected, "{rtt_us} us at {cwnd} packets");
            let kept = if expected == "guard" { cwnd / 2 } else { cwnd };
            assert_eq!(connection.ssthresh(), kept, "{rtt_us} us at {cwnd} packets");
        }
    }
}

#[test]
fn guard_inside_recovery_cuts_the_window_of_its_beginning() {
    let mut connection = guarded();
    tell(&mut connection, NEAR, 1);
    tell(&mut connection, 10_900, 1);
    assert_eq!((connection.verdict().as_str(), connection.ssthresh()), ("guard", 20));
    assert_eq!((counters(&connection), connection.phase()), ([1, 0, 1, 0], "recovery"));
}

#[test]
fn guard_leaves_what_is_above_the_tolerance_to_the_parent() {
    let mut connection = guarded();
    tell(&mut connection, FAR, 1);
    assert_eq!((connection.verdict().as_str(), connection.ssthresh()), ("postponed", 40));
}

/// The guard once counted ACKs instead of losses.
#[test]
fn guard_counts_losses_and_not_acks() {
    for (acks, losses) in [(8, 1), (4, 2), (2, 4), (1, 8)] {
        let mut connection = guarded();
        assert_eq!(row(&mut connection, acks, losses), vec!["random"; acks], "{losses} losses an ACK");
        assert_eq!((connection.ssthresh(), connection.field("budget")), (40, 0));
        assert_eq!(row(&mut connection, 1, 1), ["guard"], "{losses} losses an ACK");
        assert_eq!((connection.ssthresh(), connection.phase()), (20, "recovery"));
        assert_eq!(connection.field("budget"), 8_000, "a cut fills the budget");
    }
    assert_eq!(row(&mut guarded(), 1, 9), ["guard"], "more at once than the budget holds");
}

#[test]
fn guard_forgives_over_recoveries_what_delivered_packets_earned() {
    // 1 % of packets, at most eight.
    for (delivered, earned) in [(99, 0), (100, 1), (u32::MAX, 8)] {
        let mut connection = guarded();
        row(&mut connection, 8, 1);
        connection.end_recovery();
        connection.tcp.delivered = connection.tcp.delivered.wrapping_add(delivered);
        let expected = [&["random"; 8][..earned], &["guard"]].concat();
        assert_eq!(row(&mut connection, earned + 1, 1), expected, "{delivered} packets");
    }
}

#[test]
fn guard_s_budget_outlasts_a_postponed_cut_and_is_full_after_a_timeout() {
    let mut postponed = guarded();
    row(&mut postponed, 7, 1);
    tell(&mut postponed, FAR, 1);
    assert_eq!(postponed.verdict(), "postponed");
    assert_eq!(row(&mut postponed, 2, 1), ["random", "guard"]);
    let mut timeout = guarded();
    row(&mut timeout, 8, 1);
    timeout.time_out();
    timeout.end_recovery();
    assert_eq!(row(&mut timeout, 8, 1), ["random"; 8]);
}

#[test]
fn guard_has_tunables() {
    assert_eq!(row(&mut msack(), 100, 1), vec!["random"; 100], "the paper has none");
    const THREE: [&str; 3] = ["guard=1", "guard_losses=3", "guard_share=0"];
    let mut connection = steady(native::tuned("msack", &THREE));
    connection.tcp.delivered += 1_000_000;
    assert_eq!(row(&mut connection, 4, 1), ["random", "random", "random", "guard"]);
    for (queue, rtt_us, expected) in [(1, 10_256, "random"), (1, 10_257, "guard"), (65_535, 11_000, "random")] {
        let queue_setting = format!("guard_queue={queue}");
        let mut connection = steady(native::tuned("msack", &[&THREE[..], &[&queue_setting]].concat()));
        connection.hear(Some(rtt_us));
        connection.mark_lost(1);
        assert_eq!(connection.verdict(), expected, "{rtt_us} us, {queue} packets");
    }
}
