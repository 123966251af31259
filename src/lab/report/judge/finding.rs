//! Results in sentences: whether published ratios hold on Linux, and how each variant compares with the baseline.
//!
//! A published ratio holds if the measured one lies within the scenario's tolerance of it. Expectations play no part: a cell
//! can agree with the algorithm's own model while the source's claim fails. A variant differs from the baseline if the
//! interval of its ratio excludes 1.
//!
//! If runs ended too early, a ratio is only a bound, and sentences claim only what the bound proves. A time that was cut off
//! may be above the baseline's, and is never called below it.

use serde::Serialize;

use super::bound::Bound;
use super::cell::{ReportCell, common_point, grouped, point_name, title_of};
use super::number::{self, Scale};
use crate::scenario::{DEFAULT_TOLERANCE, Scenario};
use shared::model::run::At;

/// Most points named in a sentence; more are counted.
const NAMED: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// Whether the published numbers hold.
    Published,
    /// How the variant compares with the baseline.
    Baseline,
}

/// One metric of one variant over the points of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub about: About,
    pub metric: String,
    pub variant: String,
    /// Whether the published numbers hold at every measured point; `None` for [`About::Baseline`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// Without a full stop.
    pub sentence: String,
}

impl Finding {
    fn of(cell: &ReportCell, about: About, holds: Option<bool>, sentence: String) -> Finding {
        Finding { about, metric: cell.metric.clone(), variant: cell.variant.clone(), holds, sentence }
    }
}

/// All findings: by metric, then variant, in the order of the cells.
///
/// `judged` is false if the runs have another profile than the source's numbers.
pub fn findings(scenario: &Scenario, cells: &[ReportCell], judged: bool) -> Vec<Finding> {
    let baseline = scenario.report.baseline.as_deref();
    let tolerance = scenario.report.tolerance.unwrap_or(DEFAULT_TOLERANCE).0;
    let common = common_point(cells);
    let groups = grouped(cells.iter(), |cell| (&cell.metric, &cell.variant));
    let of_group = |group: Vec<&ReportCell>| {
        let published = published(&group, baseline, tolerance, &common).filter(|_| judged);
        [published, baseline.and_then(|baseline| beside(&group, baseline, &common))]
    };
    groups.into_iter().flat_map(of_group).flatten().collect()
}

/// A cell's point, without what is the same in every cell.
fn point_beyond(common: &At, cell: &ReportCell) -> String {
    let mut point = cell.point();
    point.retain(|name, _| !common.contains_key(name));
    point_name(&point)
}

struct PublishedPoint {
    point: String,
    published: f64,
    measured: f64,
    ci95: Option<[f64; 2]>,
    bound: Bound,
    scale: Scale,
}

impl PublishedPoint {
    /// Ratios, or values in a scenario without a baseline.
    fn of(cell: &ReportCell, baseline: Option<&str>, common: &At) -> Option<PublishedPoint> {
        let one = if baseline.is_some() { cell.ratio() } else { cell.value() };
        let (published, measured) = (one.published?, one.measured?);
        let scale = if baseline.is_some() { Scale::Ratio } else { Scale::of(&cell.unit, [published, measured]) };
        let point = point_beyond(common, cell);
        Some(PublishedPoint { point, published, measured, ci95: one.ci95, bound: one.bound, scale })
    }

    fn holds(&self, tolerance: f64) -> bool {
        (self.measured - self.published).abs() <= tolerance * self.published.abs()
    }

    /// Whether the runs were long enough to decide.
    fn is_decided(&self, tolerance: f64) -> bool {
        let may_hold = || self.bound.may_meet(self.measured, self.published);
        self.bound != Bound::Unknown && (self.holds(tolerance) || !may_hold())
    }

    /// How a ratio misses the published one: `a smaller effect`. Values and bounds are only more or less.
    fn miss(&self) -> &'static str {
        let effect = |ratio: f64| ratio.ln().abs();
        let is_value = self.scale != Scale::Ratio || self.bound != Bound::Exact;
        match self.ci95 {
            _ if is_value && self.measured < self.published => "less",
            _ if is_value => "more",
            Some([low, high]) if low <= 1.0 && 1.0 <= high => "no significant difference",
            _ if (self.measured - 1.0) * (self.published - 1.0) < 0.0 => "the opposite effect",
            _ if effect(self.measured) < effect(self.published) => "a smaller effect",
            _ => "a larger effect",
        }
    }

    /// `at loss 1%: measured 1.20 (1.18 to 1.23), published 1.43, a smaller effect`.
    fn missed(&self) -> String {
        let scale = self.scale;
        let at = if self.point.is_empty() { String::new() } else { format!("at {}: ", self.point) };
        let measured = self.bound.signed(&scale.with_unit(self.measured));
        let ends = self.ci95.map_or(String::new(), |ends| format!(" ({})", scale.between(ends)));
        format!("{at}measured {measured}{ends}, published {}, {}", scale.with_unit(self.published), self.miss())
    }
}

/// Whether the published numbers of one metric of one variant hold.
///
/// None: nothing to compare, undecided, or the baseline itself, whose ratio is 1.
fn published(group: &[&ReportCell], baseline: Option<&str>, tolerance: f64, common: &At) -> Option<Finding> {
    let first = *group.first()?;
    let all = group.iter().filter_map(|cell| PublishedPoint::of(cell, baseline, common));
    let all: Vec<PublishedPoint> = all.filter(|one| one.is_decided(tolerance)).collect();
    let (held, missed): (Vec<&PublishedPoint>, Vec<&PublishedPoint>) = all.iter().partition(|one| one.holds(tolerance));
    let (what, over) = match baseline {
        Some(baseline) => ("ratio", format!(" over {baseline}")),
        None => ("value", String::new()),
    };
    let within = number::percent(tolerance);
    let at = match &held.iter().map(|one| one.point.as_str()).collect::<Vec<_>>()[..] {
        [] | [""] => String::new(),
        points if points.len() <= NAMED => format!(" at {}", listed(points)),
        points => format!(" at {} points", points.len()),
    };
    let holds = match (held.len(), missed.len()) {
        (0, 0) => return None,
        (_, 0) => format!("holds within {within}{at}"),
        (0, _) => format!("does not hold within {within}"),
        _ => format!("holds within {within}{at} and not elsewhere"),
    };
    let mut sentence = format!("{}, {}{over}: the published {what} {holds}", title_of(&first.metric), first.variant);
    for one in missed.iter().take(NAMED) {
        sentence.push_str(&format!("; {}", one.missed()));
    }
    if missed.len() > NAMED {
        sentence.push_str(&format!(" (and {} more)", missed.len() - NAMED));
    }
    Some(Finding::of(first, About::Published, Some(missed.is_empty()), sentence))
}

/// Where one metric of one variant is above the baseline, below it, or neither.
///
/// None: no ratio has an interval.
fn beside(group: &[&ReportCell], baseline: &str, common: &At) -> Option<Finding> {
    let first = *group.first()?;
    // A metric of the path is the same for all flows of a run.
    let own = group.iter().filter(|cell| !cell.is_of_path());
    let all: Vec<BaselinePoint> = own.filter_map(|cell| BaselinePoint::of(cell, common)).collect();
    let sentence = |side: BaselineSide| {
        let points: Vec<&BaselinePoint> = all.iter().filter(|one| one.side == side).collect();
        (!points.is_empty()).then(|| side.sentence(baseline, &points, all.len()))
    };
    let sentences: Vec<String> = BaselineSide::ALL.into_iter().filter_map(sentence).collect();
    let sentence = format!("{} {}", first.variant, sentences.join("; "));
    (!all.is_empty()).then(|| Finding::of(first, About::Baseline, None, sentence))
}

struct BaselinePoint {
    point: String,
    ratio: f64,
    bound: Bound,
    side: BaselineSide,
}

/// The side of 1 on which a ratio is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BaselineSide {
    Above,
    Below,
    /// The interval contains 1.
    Level,
    /// Longer runs could lead to either side.
    Open,
}

impl BaselinePoint {
    /// `None` if the ratio has no interval.
    fn of(cell: &ReportCell, common: &At) -> Option<BaselinePoint> {
        let of = cell.ratio_to_baseline.as_ref()?;
        let (ratio, [low, high], bound) = (of.measured?, of.ci95?, of.bound());
        let side = match bound {
            Bound::Exact | Bound::Lower if low > 1.0 => BaselineSide::Above,
            Bound::Exact | Bound::Upper if high < 1.0 => BaselineSide::Below,
            Bound::Exact => BaselineSide::Level,
            _ => BaselineSide::Open,
        };
        Some(BaselinePoint { point: point_beyond(common, cell), ratio, bound, side })
    }

    /// `loss 1% (1.42)`; only the point if nothing is known of the ratio.
    fn named(&self) -> String {
        if self.bound == Bound::Unknown {
            return self.point.clone();
        }
        format!("{} ({})", self.point, self.bound.signed(&shown(self.ratio))).trim().to_owned()
    }
}

impl BaselineSide {
    const ALL: [BaselineSide; 4] = [BaselineSide::Above, BaselineSide::Below, BaselineSide::Level, BaselineSide::Open];

    /// `is above SACK at loss 1% (1.42)`. Many points are counted, with the range of their ratios.
    fn sentence(self, baseline: &str, points: &[&BaselinePoint], all: usize) -> String {
        let (verb, why) = match self {
            BaselineSide::Above => ("is above", ""),
            BaselineSide::Below => ("is below", ""),
            BaselineSide::Level => ("does not differ significantly from", ""),
            BaselineSide::Open => ("may be above or below", ": runs ended too early"),
        };
        if points.len() > NAMED {
            return format!("{verb} {baseline} at {} of {all} points{}{why}", points.len(), self.range(points));
        }
        let here = listed(&points.iter().map(|one| one.named()).collect::<Vec<_>>());
        let at = match (here.is_empty(), points[0].point.is_empty()) {
            (true, _) => "",
            (false, true) => " ",
            (false, false) => " at ",
        };
        format!("{verb} {baseline}{at}{here}{why}")
    }

    /// ` (1.10 to 1.42)`, or the one bound that holds for all points.
    fn range(self, points: &[&BaselinePoint]) -> String {
        let ratios = || points.iter().map(|one| one.ratio);
        let ends = [ratios().fold(f64::INFINITY, f64::min), ratios().fold(f64::NEG_INFINITY, f64::max)];
        let [low, high] = ends.map(shown);
        match self {
            BaselineSide::Open => String::new(),
            _ if points.iter().all(|one| one.bound == Bound::Exact) => format!(" ({low} to {high})"),
            BaselineSide::Below => format!(" ({})", Bound::Upper.signed(&high)),
            _ => format!(" ({})", Bound::Lower.signed(&low)),
        }
    }
}

/// A ratio, or its difference from 1 if the ratio would read as 1.
fn shown(ratio: f64) -> String {
    let (text, difference) = (number::significant(ratio), format!("{:+.2} %", 100.0 * (ratio - 1.0)));
    if text == "1.00" && !difference.ends_with("0.00 %") { difference } else { text }
}

/// `a, b and c`.
fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Measurement, Ratio};
    use super::*;

    /// A cell at a loss whose ratio has an interval.
    fn cell(loss: &str, published: f64, measured: f64, ci95: [f64; 2]) -> ReportCell {
        ReportCell {
            at: [("loss".to_owned(), loss.to_owned()), ("variant".to_owned(), "new".to_owned())].into(),
            series: "variant".into(),
            variant: "new".into(),
            metric: "delivered_pkts".into(),
            unit: "pkts".into(),
            published: Some(1000.0 * published),
            measured: Measurement::of(vec![1000.0 * measured; 3], 0),
            ratio_to_baseline: Some(Ratio {
                published: Some(published),
                measured: Some(measured),
                ci95: Some(ci95),
                pairs: 3,
                ..Ratio::default()
            }),
            ..ReportCell::default()
        }
    }

    fn judged(cells: &[ReportCell], baseline: Option<&str>) -> Option<Finding> {
        published(&cells.iter().collect::<Vec<_>>(), baseline, 0.1, &At::new())
    }

    fn said(cells: &[ReportCell]) -> Option<String> {
        beside(&cells.iter().collect::<Vec<_>>(), "old", &At::new()).map(|finding| finding.sentence)
    }

    #[test]
    fn published_ratio_that_does_not_hold_is_said_with_what_is_there_instead() {
        let cells = [
            cell("0", 1.0, 1.02, [0.99, 1.05]),
            cell("1%", 1.43, 1.2, [1.18, 1.23]),
            cell("2%", 1.4, 1.05, [0.9, 1.2]),
            cell("5%", 1.4, 0.7, [0.6, 0.8]),
            cell("9%", 1.4, 2.0, [1.9, 2.1]),
        ];
        let finding = judged(&cells, Some("old")).unwrap();
        assert_eq!(
            finding.sentence,
            "delivered, new over old: the published ratio holds within 10 % at loss 0 and not elsewhere; at loss 1%: \
             measured 1.20 (1.18 to 1.23), published 1.43, a smaller effect; at loss 2%: measured 1.05 (0.900 to 1.20), \
             published 1.40, no significant difference; at loss 5%: measured 0.700 (0.600 to 0.800), published 1.40, the \
             opposite effect (and 1 more)"
        );
        assert_eq!(finding.holds, Some(false));
        let one = judged(&cells[..1], Some("old")).unwrap();
        assert_eq!((one.holds, one.sentence.ends_with("holds within 10 % at loss 0")), (Some(true), true));
        let value = judged(&cells[1..2], None).unwrap().sentence;
        assert!(
            value.ends_with("at loss 1%: measured 1 200 pkts (1 200 to 1 200), published 1 430 pkts, less"),
            "{value}"
        );
    }

    #[test]
    fn standing_beside_the_baseline_names_few_points_and_counts_many() {
        let above = |loss: &str| cell(loss, 1.0, 1.2, [1.1, 1.3]);
        let cells = [above("1%"), cell("2%", 1.0, 0.9996, [0.9992, 0.9999]), cell("3%", 1.0, 1.1, [0.9, 1.3])];
        let each = "new is above old at loss 1% (1.20); is below old at loss 2% (-0.04 %); does not differ significantly \
                    from old at loss 3% (1.10)";
        assert_eq!(said(&cells).unwrap(), each);
        let many = ["1%", "2%", "3%", "4%"].map(above);
        let sentence = said(&[&many[..], &cells[2..]].concat()).unwrap();
        assert!(sentence.starts_with("new is above old at 4 of 5 points (1.20 to 1.20); does not"), "{sentence}");
        let mut without = above("1%");
        without.at.remove("loss");
        assert_eq!(said(&[without.clone()]).unwrap(), "new is above old (1.20)");
        without.ratio_to_baseline.as_mut().unwrap().ci95 = None;
        assert_eq!(said(&[without]), None);
    }

    /// The same cell with cut-off runs of the variant and of the baseline.
    fn cut([cut_off, baseline_cut_off]: [usize; 2], mut cell: ReportCell) -> ReportCell {
        let ratio = cell.ratio_to_baseline.as_mut().unwrap();
        (ratio.cut_off, ratio.baseline_cut_off) = (cut_off, baseline_cut_off);
        cell
    }

    /// Once a variant that never converged was called below the baseline, because its runs were shorter.
    #[test]
    fn cut_off_runs_put_a_variant_only_on_the_side_they_prove() {
        let (below, above, level) = ((0.61, [0.5, 0.7]), (1.42, [1.3, 1.5]), (1.0, [1.0, 1.0]));
        for (cut_off, (ratio, ci95), sentence) in [
            ([0, 0], below, "is below old at loss 1% (0.610)"),
            ([0, 2], below, "is below old at loss 1% (≤ 0.610)"),
            ([2, 0], below, "may be above or below old at loss 1% (≥ 0.610): runs ended too early"),
            ([2, 0], above, "is above old at loss 1% (≥ 1.42)"),
            ([0, 2], above, "may be above or below old at loss 1% (≤ 1.42): runs ended too early"),
            ([1, 3], below, "may be above or below old at loss 1%: runs ended too early"),
            ([1, 3], above, "may be above or below old at loss 1%: runs ended too early"),
            ([3, 3], level, "may be above or below old at loss 1%: runs ended too early"),
        ] {
            assert_eq!(said(&[cut(cut_off, cell("1%", 1.0, ratio, ci95))]).unwrap(), format!("new {sentence}"));
        }
        let mut without = cut([3, 3], cell("1%", 1.0, 1.0, [1.0, 1.0]));
        without.at.remove("loss");
        assert_eq!(said(&[without]).unwrap(), "new may be above or below old: runs ended too early");
    }

    #[test]
    fn many_points_with_cut_off_runs_have_the_bound_that_holds_for_all() {
        let mut cells = ["1%", "2%", "3%", "4%"].map(|loss| cell(loss, 1.0, 1.2, [1.1, 1.3]));
        cells[2] = cut([1, 0], cell("3%", 1.0, 1.5, [1.4, 1.6]));
        assert_eq!(said(&cells).unwrap(), "new is above old at 4 of 4 points (≥ 1.20)");
        let open = cells.map(|cell| cut([0, 1], cell));
        assert_eq!(said(&open).unwrap(), "new may be above or below old at 4 of 4 points: runs ended too early");
    }

    #[test]
    fn published_ratio_is_not_judged_by_a_bound_that_leaves_it_open() {
        let judged = |cut_off, measured: f64| {
            let cell = cut(cut_off, cell("1%", 1.0, measured, [0.9 * measured, 1.1 * measured]));
            judged(&[cell], Some("old")).map(|finding| finding.sentence)
        };
        for (cut_off, measured) in [([1, 0], 0.61), ([0, 1], 1.42), ([1, 1], 1.0)] {
            assert_eq!(judged(cut_off, measured), None);
        }
        let missed = judged([1, 0], 1.42).unwrap();
        assert!(missed.ends_with("measured ≥ 1.42 (1.28 to 1.56), published 1.00, more"), "{missed}");
        assert!(judged([0, 0], 0.61).unwrap().contains("does not hold"));
    }
}
