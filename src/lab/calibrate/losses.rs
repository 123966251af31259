//! How many probes a path should lose. Pure.

use anyhow::{Result, anyhow};
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::path::loss::LossModel;

/// Chance, on each side, that one attempt rejects a link whose loss is correct.
const LOSS_FALSE_ALARM: f64 = 0.0005;
/// Half the width of the range for correlated losses, in standard deviations. Their count spreads more widely than a
/// binomial one.
const DEVIATIONS: f64 = 4.0;
/// Groups of a flood's arrivals whose rates are compared. The first does not count, because arrivals follow the sender
/// until the queue is full.
pub const FLOOD_GROUPS: usize = 8;
/// Widens a range for rounding, but not enough to include another number of packets.
const HALF_A_PACKET: f64 = 0.5;

/// Loss ratio of the first packets over links with these models, in the order of the path; and its allowed range.
///
/// # Errors
/// An invalid model, which reading a scenario refuses.
pub fn expected_ratio(models: &[&LossModel], packets: u64) -> Result<(f64, [f64; 2])> {
    let mut passing = packets as f64;
    let (mut variance, mut run) = (0.0, 0.0_f64);
    for model in models {
        let expected = model.expected(passing.round() as u64);
        passing -= expected.mean.clamp(0.0, passing);
        variance += expected.variance;
        run = run.max(model.gilbert().map_or(0.0, |model| 1.0 / model.to_good.0));
    }
    let asked = if packets == 0 { 0.0 } else { 1.0 - passing / packets as f64 };
    if models.iter().all(|model| model.independent().is_some()) {
        return Ok((asked, loss_range(asked, packets)?));
    }
    let spread = (DEVIATIONS * variance.sqrt() + run + HALF_A_PACKET) / packets.max(1) as f64;
    Ok((asked, [(asked - spread).max(0.0), (asked + spread).min(1.0)]))
}

/// Share of a flood's packets that is lost while their rate is measured, without the first group.
pub fn share_of_flood(model: &LossModel, packets: u64) -> f64 {
    if !matches!(model, LossModel::Positions(_)) {
        return model.long_run().0;
    }
    let first = packets / FLOOD_GROUPS as u64;
    (model.expected(packets).mean - model.expected(first).mean) / (packets - first).max(1) as f64
}

/// Exact binomial quantiles of the loss ratio of `packets` packets.
fn loss_range(loss: f64, packets: u64) -> Result<[f64; 2]> {
    if loss == 0.0 || packets == 0 {
        return Ok([0.0, 0.0]);
    }
    let lost = Binomial::new(loss, packets).map_err(|error| anyhow!("{error}"))?;
    let ratio = |quantile: f64| lost.inverse_cdf(quantile) as f64 / packets as f64;
    Ok([ratio(LOSS_FALSE_ALARM), ratio(1.0 - LOSS_FALSE_ALARM)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::loss::LossText;

    fn model(text: &str) -> LossModel {
        match text.parse() {
            Ok(LossText::Model(model)) => model,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn expected(models: &[&str], packets: u64) -> (f64, [f64; 2]) {
        let models: Vec<LossModel> = models.iter().map(|text| model(text)).collect();
        expected_ratio(&models.iter().collect::<Vec<_>>(), packets).unwrap()
    }

    #[test]
    fn loss_range_is_exact_and_nothing_lost_means_nothing() {
        assert_eq!(loss_range(0.0, 1000).unwrap(), [0.0, 0.0]);
        let [low, high] = loss_range(0.01, 10_000).unwrap();
        // 100 losses are expected with a standard deviation of 9.95; the 0.05 % quantiles are 3.3 deviations away.
        assert!((0.0066..0.0071).contains(&low) && (0.0131..0.0137).contains(&high), "{low} {high}");
    }

    #[test]
    fn losses_of_links_in_a_row_add_up_and_runs_of_losses_widen_the_range() {
        let (both, _) = expected(&["10%", "20%"], 10_000);
        assert!((both - 0.28).abs() < 1e-9, "{both}");
        let [low, high] = expected(&["positions:1,5,7000"], 5_000).1.map(|ratio| ratio * 5_000.0);
        assert!(
            (1.4..1.6).contains(&low) && (2.4..2.6).contains(&high),
            "two packets and no other number: {low} {high}"
        );
        let [(_, single), (asked, runs)] = [expected(&["1%"], 10_000), expected(&["bursts:loss=1%,mean=20"], 10_000)];
        assert!((asked - 0.01).abs() < 0.001, "{asked}");
        assert!(runs[1] > 2.0 * single[1] - 0.01 && runs[0] < single[0], "{runs:?}");
    }

    /// Four positions in the first fifty once counted as a loss of 8 % forever.
    #[test]
    fn positions_that_are_over_cost_a_flood_nothing() {
        for (text, packets, share) in [
            ("positions:10,11,12,50", 1600, 0.0),
            ("positions:1,2,3", 80, 0.0),
            ("positions:5,50,60,400", 80, 2.0 / 70.0),
            ("2%", 80, 0.02),
        ] {
            assert_eq!(share_of_flood(&model(text), packets), share, "{text}");
        }
    }
}
