//! What the numbers say, in sentences: whether a published ratio holds on Linux, and how each variant stands beside the
//! baseline.
//!
//! A published ratio holds where the measured one lies within the scenario's tolerance of it, as for a verdict; an
//! expectation plays no part here, so that a cell can meet what the algorithm as written should give and the source's
//! claim still fail. A variant differs from the baseline where the interval of its ratio does not hold 1.

use serde::Serialize;

use super::number::{self, Scale};
use super::{Cell, plot};
use crate::experiment::scenario::{DEFAULT_TOLERANCE, Scenario};
use crate::model::metrics::Metric;

/// So many places of the sweep are named in a sentence; more are counted.
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

/// One metric of one variant over the places of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub about: About,
    /// Name of the metric.
    pub metric: String,
    /// The variant.
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
    for group in groups(cells) {
        findings.extend(if judged { published(&group, baseline, tolerance) } else { None });
        findings.extend(baseline.and_then(|baseline| beside(&group, baseline)));
    }
    findings
}

/// Cells of one metric and variant each.
fn groups(cells: &[Cell]) -> Vec<Vec<&Cell>> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        let same = |group: &&mut Vec<&Cell>| (&group[0].metric, &group[0].variant) == (&cell.metric, &cell.variant);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups
}

/// Published and measured at one place.
struct Compared {
    place: String,
    published: f64,
    measured: f64,
    ci95: Option<[f64; 2]>,
    /// How both are shown: ratios of the baseline's, or values.
    scale: Scale,
}

impl Compared {
    /// The ratio where both sides have one; the value only in a scenario without a baseline.
    fn of(cell: &Cell, baseline: Option<&str>) -> Option<Compared> {
        let place = plot::place_name(&cell.place());
        if baseline.is_some() {
            let ratio = cell.ratio_to_baseline.as_ref()?;
            let (published, measured) = (ratio.published?, ratio.measured?);
            return Some(Compared { place, published, measured, ci95: ratio.ci95, scale: Scale::Ratio });
        }
        let (published, measured) = (cell.published?, cell.measured.as_ref()?);
        let scale = Scale::of(&cell.unit, [published, measured.mean]);
        Some(Compared { place, published, measured: measured.mean, ci95: measured.ci95, scale })
    }

    fn holds(&self, tolerance: f64) -> bool {
        (self.measured - self.published).abs() <= tolerance * self.published.abs()
    }

    /// How a ratio misses what is published of it: `a smaller effect`.
    fn miss(&self) -> &'static str {
        let effect = |ratio: f64| ratio.ln().abs();
        match self.ci95 {
            _ if self.scale != Scale::Ratio && self.measured < self.published => "less",
            _ if self.scale != Scale::Ratio => "more",
            Some([low, high]) if low <= 1.0 && 1.0 <= high => "no difference can be told",
            _ if (self.measured - 1.0) * (self.published - 1.0) < 0.0 => "the other way round",
            _ if effect(self.measured) < effect(self.published) => "a smaller effect",
            _ => "a larger effect",
        }
    }

    /// `at loss 1%: measured 1.20 (1.18 to 1.23), published 1.43, a smaller effect`.
    fn missed(&self) -> String {
        let Compared { scale, .. } = *self;
        let at = if self.place.is_empty() { String::new() } else { format!("at {}: ", self.place) };
        let ends = self.ci95.map(|[low, high]| format!(" ({} to {})", scale.show(low), scale.show(high)));
        format!(
            "{at}measured {}{}, published {}, {}",
            scale.with_unit(self.measured),
            ends.unwrap_or_default(),
            scale.with_unit(self.published),
            self.miss()
        )
    }
}

fn title_of(cell: &Cell) -> &str {
    Metric::find(&cell.metric).map_or(cell.metric.as_str(), |metric| metric.title)
}

/// Whether the published numbers of one metric and variant hold.
///
/// None: nothing to compare; the baseline itself, whose ratio is 1.
fn published(group: &[&Cell], baseline: Option<&str>, tolerance: f64) -> Option<Finding> {
    let first = *group.first()?;
    let all: Vec<Compared> = group.iter().filter_map(|cell| Compared::of(cell, baseline)).collect();
    let (held, missed): (Vec<&Compared>, Vec<&Compared>) = all.iter().partition(|one| one.holds(tolerance));
    let (what, over) = match baseline {
        Some(baseline) => ("ratio", format!(" over {baseline}")),
        None => ("value", String::new()),
    };
    let within = number::percent(tolerance);
    let places = |all: &[&Compared]| named(&all.iter().map(|one| one.place.as_str()).collect::<Vec<_>>());
    let holds = match (held.len(), missed.len()) {
        (0, 0) => return None,
        (_, 0) => format!("holds within {within}{}", places(&held)),
        (0, _) => format!("does not hold within {within}"),
        _ => format!("holds within {within}{} and not elsewhere", places(&held)),
    };
    let mut misses: Vec<String> = missed.iter().take(NAMED).map(|one| one.missed()).collect();
    misses.extend((missed.len() > NAMED).then(|| format!("and so at {} more", missed.len() - NAMED)));
    let misses = if misses.is_empty() { String::new() } else { format!("; {}", misses.join("; ")) };
    Some(Finding {
        about: About::Published,
        metric: first.metric.clone(),
        variant: first.variant.clone(),
        holds: Some(missed.is_empty()),
        sentence: format!("{}, {}{over}: the published {what} {holds}{misses}", title_of(first), first.variant),
    })
}

/// Where one metric of one variant is above the baseline's, below it, or neither.
///
/// None: no ratio has an interval.
fn beside(group: &[&Cell], baseline: &str) -> Option<Finding> {
    let first = *group.first()?;
    let mut parts: [Vec<(String, f64)>; 3] = Default::default();
    for cell in group {
        let ratio = cell.ratio_to_baseline.as_ref();
        let Some((ratio, [low, high])) = ratio.and_then(|ratio| Some((ratio.measured?, ratio.ci95?))) else { continue };
        let part = if low > 1.0 { 0 } else { usize::from(high >= 1.0) + 1 };
        parts[part].push((plot::place_name(&cell.place()), ratio));
    }
    let count = parts.iter().map(Vec::len).sum::<usize>();
    let words = ["is above", "is below", "cannot be told apart from"];
    let said = words.iter().zip(&parts).filter(|(_, places)| !places.is_empty());
    let said: Vec<String> = said.map(|(word, places)| standing(word, baseline, places, count)).collect();
    (count > 0).then(|| Finding {
        about: About::Baseline,
        metric: first.metric.clone(),
        variant: first.variant.clone(),
        holds: None,
        sentence: format!("{} {}", first.variant, said.join("; ")),
    })
}

/// `is above SACK at loss 1% (1.42)`; many places are counted, with the range of their ratios.
fn standing(word: &str, baseline: &str, places: &[(String, f64)], all: usize) -> String {
    let ratios = || places.iter().map(|(_, ratio)| *ratio);
    if places.len() <= NAMED {
        let one = |(place, ratio): &(String, f64)| format!("{place} ({})", shown(*ratio)).trim().to_owned();
        let at = if places[0].0.is_empty() { " " } else { " at " };
        return format!("{word} {baseline}{at}{}", listed(&places.iter().map(one).collect::<Vec<_>>()));
    }
    let [low, high] = [ratios().fold(f64::INFINITY, f64::min), ratios().fold(f64::NEG_INFINITY, f64::max)];
    let ends = format!("{} to {}", shown(low), shown(high));
    format!("{word} {baseline} at {} of {all} places ({ends})", places.len())
}

/// A ratio; as a difference where it would read as 1.
fn shown(ratio: f64) -> String {
    let (text, difference) = (number::significant(ratio), format!("{:+.2} %", 100.0 * (ratio - 1.0)));
    if text == "1.00" && !difference.ends_with("0.00 %") { difference } else { text }
}

/// Places after a verb: ` at loss 1%`; nothing where there is no sweep.
fn named(places: &[&str]) -> String {
    match places {
        [] | [""] => String::new(),
        places if places.len() <= NAMED => format!(" at {}", listed(places)),
        places => format!(" at {} places", places.len()),
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
    use super::super::{Measured, Ratio, Verdict};
    use super::*;

    /// A cell at a loss whose ratio has an interval.
    fn cell(loss: &str, published: f64, measured: f64, ci95: [f64; 2]) -> Cell {
        Cell {
            at: [("loss".to_owned(), loss.to_owned()), ("variant".to_owned(), "new".to_owned())].into(),
            variant: "new".into(),
            metric: "delivered_pkts".into(),
            unit: "pkts".into(),
            published: Some(1000.0 * published),
            published_place: None,
            expected: None,
            rerun: None,
            measured: Measured::of(vec![1000.0 * measured; 3], 0),
            ratio_to_baseline: Some(Ratio {
                published: Some(published),
                expected: None,
                measured: Some(measured),
                ci95: Some(ci95),
                pairs: 3,
            }),
            verdict: Verdict::NotComparable,
            verdict_reason: String::new(),
            notices: Vec::new(),
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
        let finding = published(&group, Some("old"), 0.1).unwrap();
        assert_eq!(
            finding.sentence,
            "delivered, new over old: the published ratio holds within 10 % at loss 0 and not elsewhere; at loss 1%: \
             measured 1.20 (1.18 to 1.23), published 1.43, a smaller effect; at loss 2%: measured 1.05 (0.900 to 1.20), \
             published 1.40, no difference can be told; at loss 5%: measured 0.700 (0.600 to 0.800), published 1.40, the \
             other way round; and so at 1 more"
        );
        assert_eq!(finding.holds, Some(false));
        let one = published(&group[..1], Some("old"), 0.1).unwrap();
        assert_eq!((one.holds, one.sentence.ends_with("holds within 10 % at loss 0")), (Some(true), true));
        let value = published(&group[1..2], None, 0.1).unwrap();
        assert!(
            value.sentence.ends_with("at loss 1%: measured 1 200 pkts (1 200 to 1 200), published 1 430 pkts, less")
        );
    }

    #[test]
    fn standing_beside_the_baseline_names_few_places_and_counts_many() {
        let above = |loss: &str| cell(loss, 1.0, 1.2, [1.1, 1.3]);
        let cells = [above("1%"), cell("2%", 1.0, 0.9996, [0.9992, 0.9999]), cell("3%", 1.0, 1.1, [0.9, 1.3])];
        let group: Vec<&Cell> = cells.iter().collect();
        assert_eq!(
            beside(&group, "old").unwrap().sentence,
            "new is above old at loss 1% (1.20); is below old at loss 2% (-0.04 %); cannot be told apart from old at loss 3% (1.10)"
        );
        let many: Vec<Cell> = ["1%", "2%", "3%", "4%"].map(above).into();
        let group: Vec<&Cell> = many.iter().chain(&cells[2..]).collect();
        let sentence = beside(&group, "old").unwrap().sentence;
        assert!(sentence.starts_with("new is above old at 4 of 5 places (1.20 to 1.20); cannot"), "{sentence}");
        let mut without = above("1%");
        without.at.remove("loss");
        assert_eq!(beside(&[&without], "old").unwrap().sentence, "new is above old (1.20)");
        without.ratio_to_baseline.as_mut().unwrap().ci95 = None;
        assert_eq!(beside(&[&without], "old"), None);
    }
}
