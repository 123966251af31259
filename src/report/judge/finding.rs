//! What the numbers say, in sentences: whether a published ratio holds on Linux, and how each variant stands beside the
//! baseline.
//!
//! A published ratio holds where the measured one lies within the scenario's tolerance of it, as for a verdict; an
//! expectation plays no part here, so that a cell can meet what the algorithm as written should give and the source's
//! claim still fail. A variant differs from the baseline where the interval of its ratio does not hold 1.
//!
//! Where runs ended before what a metric waits for, its ratio is a bound, and only what the bound proves is said: a
//! time that was cut off may be above the baseline's and is never said to be below it.

use serde::Serialize;

use super::bound::Bound;
use super::cell::{Cell, common_point, grouped, point_name, title_of};
use super::number::{self, Scale};
use crate::model::run::At;
use crate::scenario::{DEFAULT_TOLERANCE, Scenario};

/// So many points of the sweep are named in a sentence; more are counted.
const NAMED: usize = 3;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// Whether the published numbers hold.
    Published,
    /// How the variant stands beside the baseline.
    Baseline,
}

/// One metric of one variant over the points of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub about: About,
    pub metric: String,
    pub variant: String,
    /// Whether it holds wherever it was measured; none where nothing was to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// The whole sentence, without its full stop.
    pub sentence: String,
}

/// All findings: by metric, then variant, in the order of the cells.
///
/// `judged` is false where the runs were made under another profile than the source's numbers are for.
pub fn findings(scenario: &Scenario, cells: &[Cell], judged: bool) -> Vec<Finding> {
    let baseline = scenario.report.baseline.as_deref();
    let tolerance = scenario.report.tolerance.unwrap_or(DEFAULT_TOLERANCE).0;
    let mut findings = Vec::new();
    let common = common_point(cells);
    for group in grouped(cells.iter(), |cell| (&cell.metric, &cell.variant)) {
        findings.extend(if judged { published(&group, baseline, tolerance, &common) } else { None });
        findings.extend(baseline.and_then(|baseline| beside(&group, baseline, &common)));
    }
    findings
}

/// Where a cell is, but for what is the same in every cell.
fn point_beyond(common: &At, cell: &Cell) -> String {
    let mut point = cell.point();
    point.retain(|name, _| !common.contains_key(name));
    point_name(&point)
}

/// Published and measured at one point.
struct Compared {
    point: String,
    published: f64,
    measured: f64,
    ci95: Option<[f64; 2]>,
    /// What cut-off runs leave of the measured one.
    bound: Bound,
    /// How both are shown: ratios of the baseline's, or values.
    scale: Scale,
}

impl Compared {
    /// The ratio where both sides have one; the value only in a scenario without a baseline.
    fn of(cell: &Cell, baseline: Option<&str>, common: &At) -> Option<Compared> {
        let one = if baseline.is_some() { cell.ratio() } else { cell.value() };
        let (published, measured) = (one.published?, one.measured?);
        let scale = if baseline.is_some() { Scale::Ratio } else { Scale::of(&cell.unit, [published, measured]) };
        let point = point_beyond(common, cell);
        Some(Compared { point, published, measured, ci95: one.ci95, bound: one.bound, scale })
    }

    fn holds(&self, tolerance: f64) -> bool {
        (self.measured - self.published).abs() <= tolerance * self.published.abs()
    }

    /// Whether the runs went on long enough to tell.
    fn is_told(&self, tolerance: f64) -> bool {
        let may_hold = || self.bound.may_meet(self.measured, self.published);
        self.bound != Bound::Nothing && (self.holds(tolerance) || !may_hold())
    }

    /// How a ratio misses what is published of it: `a smaller effect`. A value or a bound is only more or less.
    fn miss(&self) -> &'static str {
        let effect = |ratio: f64| ratio.ln().abs();
        let is_value = self.scale != Scale::Ratio || self.bound != Bound::Exact;
        match self.ci95 {
            _ if is_value && self.measured < self.published => "less",
            _ if is_value => "more",
            Some([low, high]) if low <= 1.0 && 1.0 <= high => "no difference can be told",
            _ if (self.measured - 1.0) * (self.published - 1.0) < 0.0 => "the other way round",
            _ if effect(self.measured) < effect(self.published) => "a smaller effect",
            _ => "a larger effect",
        }
    }

    /// `at loss 1%: measured 1.20 (1.18 to 1.23), published 1.43, a smaller effect`.
    fn missed(&self) -> String {
        let Compared { scale, .. } = *self;
        let at = if self.point.is_empty() { String::new() } else { format!("at {}: ", self.point) };
        let ends = self.ci95.map(|[low, high]| format!(" ({} to {})", scale.show(low), scale.show(high)));
        format!(
            "{at}measured {}{}, published {}, {}",
            self.bound.signed(&scale.with_unit(self.measured)),
            ends.unwrap_or_default(),
            scale.with_unit(self.published),
            self.miss()
        )
    }
}

/// Whether the published numbers of one metric and variant hold.
///
/// None: nothing to compare, or runs that ended before leave it open; the baseline itself, whose ratio is 1.
fn published(group: &[&Cell], baseline: Option<&str>, tolerance: f64, common: &At) -> Option<Finding> {
    let first = *group.first()?;
    let all = group.iter().filter_map(|cell| Compared::of(cell, baseline, common));
    let all: Vec<Compared> = all.filter(|one| one.is_told(tolerance)).collect();
    let (held, missed): (Vec<&Compared>, Vec<&Compared>) = all.iter().partition(|one| one.holds(tolerance));
    let (what, over) = match baseline {
        Some(baseline) => ("ratio", format!(" over {baseline}")),
        None => ("value", String::new()),
    };
    let within = number::percent(tolerance);
    let at = |all: &[&Compared]| named(&all.iter().map(|one| one.point.as_str()).collect::<Vec<_>>());
    let holds = match (held.len(), missed.len()) {
        (0, 0) => return None,
        (_, 0) => format!("holds within {within}{}", at(&held)),
        (0, _) => format!("does not hold within {within}"),
        _ => format!("holds within {within}{} and not elsewhere", at(&held)),
    };
    let mut misses: Vec<String> = missed.iter().take(NAMED).map(|one| one.missed()).collect();
    misses.extend((missed.len() > NAMED).then(|| format!("and so at {} more", missed.len() - NAMED)));
    let misses = if misses.is_empty() { String::new() } else { format!("; {}", misses.join("; ")) };
    Some(Finding {
        about: About::Published,
        metric: first.metric.clone(),
        variant: first.variant.clone(),
        holds: Some(missed.is_empty()),
        sentence: format!("{}, {}{over}: the published {what} {holds}{misses}", title_of(&first.metric), first.variant),
    })
}

/// Where one metric of one variant is above the baseline's, below it, or neither.
///
/// None: no ratio has an interval.
fn beside(group: &[&Cell], baseline: &str, common: &At) -> Option<Finding> {
    let first = *group.first()?;
    // All flows of a run have one path, and its number is the same beside whichever of them.
    let own = group.iter().filter(|cell| !cell.is_of_path());
    let all: Vec<Beside> = own.filter_map(|cell| Beside::of(cell, common)).collect();
    let said = |standing: Standing| {
        let points: Vec<&Beside> = all.iter().filter(|one| one.standing == standing).collect();
        (!points.is_empty()).then(|| standing.said(baseline, &points, all.len()))
    };
    let said: Vec<String> = Standing::ALL.into_iter().filter_map(said).collect();
    (!all.is_empty()).then(|| Finding {
        about: About::Baseline,
        metric: first.metric.clone(),
        variant: first.variant.clone(),
        holds: None,
        sentence: format!("{} {}", first.variant, said.join("; ")),
    })
}

/// How a variant stands beside the baseline at one point.
struct Beside {
    point: String,
    ratio: f64,
    bound: Bound,
    standing: Standing,
}

/// What can be said of a ratio and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Above,
    Below,
    /// The interval holds 1.
    Level,
    /// Runs that ended before could have led to either side.
    Open,
}

impl Beside {
    /// None: the ratio has no interval.
    fn of(cell: &Cell, common: &At) -> Option<Beside> {
        let of = cell.ratio_to_baseline.as_ref()?;
        let (ratio, [low, high], bound) = (of.measured?, of.ci95?, of.bound());
        let standing = match bound {
            Bound::Exact | Bound::Lower if low > 1.0 => Standing::Above,
            Bound::Exact | Bound::Upper if high < 1.0 => Standing::Below,
            Bound::Exact => Standing::Level,
            _ => Standing::Open,
        };
        Some(Beside { point: point_beyond(common, cell), ratio, bound, standing })
    }

    /// `loss 1% (1.42)`; only the point where nothing is known of the ratio.
    fn named(&self) -> String {
        if self.bound == Bound::Nothing {
            return self.point.clone();
        }
        format!("{} ({})", self.point, self.bound.signed(&shown(self.ratio))).trim().to_owned()
    }
}

impl Standing {
    const ALL: [Standing; 4] = [Standing::Above, Standing::Below, Standing::Level, Standing::Open];

    /// `is above SACK at loss 1% (1.42)`; many points are counted, with the range of their ratios.
    fn said(self, baseline: &str, points: &[&Beside], all: usize) -> String {
        let (word, why) = match self {
            Standing::Above => ("is above", ""),
            Standing::Below => ("is below", ""),
            Standing::Level => ("cannot be told apart from", ""),
            Standing::Open => ("cannot be told above or below", ": runs ended before"),
        };
        if points.len() > NAMED {
            return format!("{word} {baseline} at {} of {all} points{}{why}", points.len(), self.range(points));
        }
        let here = listed(&points.iter().map(|one| one.named()).collect::<Vec<_>>());
        let at = match (here.is_empty(), points[0].point.is_empty()) {
            (true, _) => "",
            (false, true) => " ",
            (false, false) => " at ",
        };
        format!("{word} {baseline}{at}{here}{why}")
    }

    /// ` (1.10 to 1.42)`; of bounds the one that holds for all.
    fn range(self, points: &[&Beside]) -> String {
        let ratios = || points.iter().map(|one| one.ratio);
        let ends = [ratios().fold(f64::INFINITY, f64::min), ratios().fold(f64::NEG_INFINITY, f64::max)];
        let [low, high] = ends.map(shown);
        match self {
            Standing::Open => String::new(),
            _ if points.iter().all(|one| one.bound == Bound::Exact) => format!(" ({low} to {high})"),
            Standing::Below => format!(" ({})", Bound::Upper.signed(&high)),
            _ => format!(" ({})", Bound::Lower.signed(&low)),
        }
    }
}

/// A ratio; as a difference where it would read as 1.
fn shown(ratio: f64) -> String {
    let (text, difference) = (number::significant(ratio), format!("{:+.2} %", 100.0 * (ratio - 1.0)));
    if text == "1.00" && !difference.ends_with("0.00 %") { difference } else { text }
}

/// Points after a verb: ` at loss 1%`; nothing where there is no sweep.
fn named(points: &[&str]) -> String {
    match points {
        [] | [""] => String::new(),
        points if points.len() <= NAMED => format!(" at {}", listed(points)),
        points => format!(" at {} points", points.len()),
    }
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
    use super::super::cell::{Measured, Ratio};
    use super::*;

    /// A cell at a loss whose ratio has an interval.
    fn cell(loss: &str, published: f64, measured: f64, ci95: [f64; 2]) -> Cell {
        Cell {
            at: [("loss".to_owned(), loss.to_owned()), ("variant".to_owned(), "new".to_owned())].into(),
            series: "variant".into(),
            variant: "new".into(),
            metric: "delivered_pkts".into(),
            unit: "pkts".into(),
            published: Some(1000.0 * published),
            measured: Measured::of(vec![1000.0 * measured; 3], 0),
            ratio_to_baseline: Some(Ratio {
                published: Some(published),
                measured: Some(measured),
                ci95: Some(ci95),
                pairs: 3,
                ..Ratio::default()
            }),
            ..Cell::default()
        }
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
        let group: Vec<&Cell> = cells.iter().collect();
        let finding = published(&group, Some("old"), 0.1, &At::new()).unwrap();
        assert_eq!(
            finding.sentence,
            "delivered, new over old: the published ratio holds within 10 % at loss 0 and not elsewhere; at loss 1%: \
             measured 1.20 (1.18 to 1.23), published 1.43, a smaller effect; at loss 2%: measured 1.05 (0.900 to 1.20), \
             published 1.40, no difference can be told; at loss 5%: measured 0.700 (0.600 to 0.800), published 1.40, the \
             other way round; and so at 1 more"
        );
        assert_eq!(finding.holds, Some(false));
        let one = published(&group[..1], Some("old"), 0.1, &At::new()).unwrap();
        assert_eq!((one.holds, one.sentence.ends_with("holds within 10 % at loss 0")), (Some(true), true));
        let value = published(&group[1..2], None, 0.1, &At::new()).unwrap();
        assert!(
            value.sentence.ends_with("at loss 1%: measured 1 200 pkts (1 200 to 1 200), published 1 430 pkts, less")
        );
    }

    #[test]
    fn standing_beside_the_baseline_names_few_points_and_counts_many() {
        let above = |loss: &str| cell(loss, 1.0, 1.2, [1.1, 1.3]);
        let cells = [above("1%"), cell("2%", 1.0, 0.9996, [0.9992, 0.9999]), cell("3%", 1.0, 1.1, [0.9, 1.3])];
        let group: Vec<&Cell> = cells.iter().collect();
        assert_eq!(
            beside(&group, "old", &At::new()).unwrap().sentence,
            "new is above old at loss 1% (1.20); is below old at loss 2% (-0.04 %); cannot be told apart from old at loss 3% (1.10)"
        );
        let many: Vec<Cell> = ["1%", "2%", "3%", "4%"].map(above).into();
        let group: Vec<&Cell> = many.iter().chain(&cells[2..]).collect();
        let sentence = beside(&group, "old", &At::new()).unwrap().sentence;
        assert!(sentence.starts_with("new is above old at 4 of 5 points (1.20 to 1.20); cannot"), "{sentence}");
        let mut without = above("1%");
        without.at.remove("loss");
        assert_eq!(beside(&[&without], "old", &At::new()).unwrap().sentence, "new is above old (1.20)");
        without.ratio_to_baseline.as_mut().unwrap().ci95 = None;
        assert_eq!(beside(&[&without], "old", &At::new()), None);
    }

    /// The same with runs of the variant or of the baseline that ended before.
    fn cut([cut_off, baseline_cut_off]: [usize; 2], mut cell: Cell) -> Cell {
        let ratio = cell.ratio_to_baseline.as_mut().unwrap();
        (ratio.cut_off, ratio.baseline_cut_off) = (cut_off, baseline_cut_off);
        cell
    }

    /// A variant that never converged was said to be below the baseline, because its runs were the shorter ones.
    #[test]
    fn cut_off_runs_put_a_variant_only_on_the_side_they_prove() {
        let below = |cut_off| cut(cut_off, cell("1%", 1.0, 0.61, [0.5, 0.7]));
        let above = |cut_off| cut(cut_off, cell("1%", 1.0, 1.42, [1.3, 1.5]));
        let level = |cut_off| cut(cut_off, cell("1%", 1.0, 1.0, [1.0, 1.0]));
        let said = |cell: Cell| beside(&[&cell], "old", &At::new()).unwrap().sentence;
        assert_eq!(said(below([0, 0])), "new is below old at loss 1% (0.610)");
        assert_eq!(said(below([0, 2])), "new is below old at loss 1% (≤ 0.610)");
        let open = "new cannot be told above or below old at loss 1%";
        assert_eq!(said(below([2, 0])), format!("{open} (≥ 0.610): runs ended before"));
        assert_eq!(said(above([2, 0])), "new is above old at loss 1% (≥ 1.42)");
        assert_eq!(said(above([0, 2])), format!("{open} (≤ 1.42): runs ended before"));
        for cell in [below([1, 3]), above([1, 3]), level([3, 3])] {
            assert_eq!(said(cell), format!("{open}: runs ended before"));
        }
        let mut without = level([3, 3]);
        without.at.remove("loss");
        assert_eq!(said(without), "new cannot be told above or below old: runs ended before");
    }

    #[test]
    fn many_points_with_cut_off_runs_have_the_bound_that_holds_for_all() {
        let mut cells: Vec<Cell> = ["1%", "2%", "3%", "4%"].map(|loss| cell(loss, 1.0, 1.2, [1.1, 1.3])).into();
        cells[2] = cut([1, 0], cell("3%", 1.0, 1.5, [1.4, 1.6]));
        let said = |cells: &[Cell]| beside(&cells.iter().collect::<Vec<_>>(), "old", &At::new()).unwrap().sentence;
        assert_eq!(said(&cells), "new is above old at 4 of 4 points (≥ 1.20)");
        let open: Vec<Cell> = cells.into_iter().map(|cell| cut([0, 1], cell)).collect();
        assert_eq!(said(&open), "new cannot be told above or below old at 4 of 4 points: runs ended before");
    }

    #[test]
    fn published_ratio_is_not_judged_by_a_bound_that_leaves_it_open() {
        let judged = |cut_off, measured: f64| {
            let cell = cut(cut_off, cell("1%", 1.0, measured, [0.9 * measured, 1.1 * measured]));
            published(&[&cell], Some("old"), 0.1, &At::new()).map(|finding| finding.sentence)
        };
        assert_eq!(judged([1, 0], 0.61), None);
        assert_eq!(judged([0, 1], 1.42), None);
        assert_eq!(judged([1, 1], 1.0), None);
        let missed = judged([1, 0], 1.42).unwrap();
        assert!(missed.ends_with("measured ≥ 1.42 (1.28 to 1.56), published 1.00, more"), "{missed}");
        assert!(judged([0, 0], 0.61).unwrap().contains("does not hold"));
    }
}
