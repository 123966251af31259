//! Chooses the value of a parameter that is best by several metrics together.
//!
//! "Cumulative performance": at each point of the sweep, each metric's mean is min-max normalised over the values, to 1 for
//! the best and 0 for the worst. A metric's score is its mean over the points, and the highest sum of scores wins.
//! Resampling shows how sure the choice is. The runs of every cell are drawn again with replacement, all metrics of a run
//! together, and each value is reported with the share of resamples that it wins. With few runs this share is too
//! confident: five runs vary more than their own resamples.

use std::collections::BTreeMap;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use super::cell::{Measurement, ReportCell, each_once, point_name};
use super::interval::drawn_index;
use crate::scenario::{Goal, Scenario, SelectionSpec};
use shared::model::run::At;
use shared::model::stats;

const PROCEDURE: &str = "cumulative performance: means min-max normalised over the values and summed";
/// Added only if the scenario names a source.
const RECONSTRUCTION: &str = "our reconstruction of a choice that a paper describes without its numbers";
/// 2000 resamples determine a share to about 1 %.
const RESAMPLES: usize = 2000;
const SEED: u64 = 1979;

/// The choice among the values of one parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterSelection {
    pub parameter: String,
    pub procedure: String,
    pub criteria: Vec<Criterion>,
    /// Shape: in the sweep's order; empty while cells are missing.
    pub values: Vec<ParameterCandidate>,
    /// The first value with the highest sum. `None` while cells are missing.
    pub winner: Option<String>,
    /// Number of resamples behind [`ParameterCandidate::wins`].
    pub resamples: usize,
    /// Cells without a finished run, and metrics without a value. If there are any, nothing is chosen.
    pub missing: Vec<String>,
}

/// One metric at one point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Criterion {
    pub metric: String,
    pub goal: Goal,
    /// The rest of the sweep, the variant included.
    pub point: At,
}

/// One value of the parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterCandidate {
    /// As the sweep writes it.
    pub value: String,
    pub measured: Vec<Measurement>,
    /// The normalised means, one per criterion.
    pub normalised: Vec<f64>,
    /// One score per metric, in the order of their first criterion.
    pub scores: Vec<f64>,
    pub cumulative: f64,
    /// Share of the resamples that this value wins. `None` if a cell has too few runs for an interval.
    pub wins: Option<f64>,
}

impl ParameterSelection {
    /// Metrics in the order of the scores.
    pub fn metrics(&self) -> Vec<&str> {
        each_once(self.criteria.iter().map(|criterion| criterion.metric.as_str()))
    }
}

/// The choice that the scenario asks for, if any.
pub fn select(scenario: &Scenario, cells: &[ReportCell]) -> Option<ParameterSelection> {
    let spec = scenario.selection.as_ref()?;
    let contest = Contest::new(spec, scenario.values_of(&spec.parameter), cells);
    let missing = contest.missing();
    let values = if missing.is_empty() { contest.candidates() } else { Vec::new() };
    let winner = first_best(&values.iter().map(|one| one.cumulative).collect::<Vec<_>>());
    Some(ParameterSelection {
        parameter: spec.parameter.clone(),
        procedure: match scenario.source {
            Some(_) => format!("{PROCEDURE}; {RECONSTRUCTION}"),
            None => PROCEDURE.to_owned(),
        },
        criteria: contest.criteria,
        winner: winner.map(|index| values[index].value.clone()),
        values,
        resamples: RESAMPLES,
        missing,
    })
}

struct Contest<'a> {
    spec: &'a SelectionSpec,
    values: &'a [String],
    criteria: Vec<Criterion>,
    /// One row per criterion, one entry per value.
    measured: Vec<Vec<Option<&'a Measurement>>>,
}

impl<'a> Contest<'a> {
    /// A metric competes at points where any value has it. Fairness of two flows needs points with two flows.
    fn new(spec: &'a SelectionSpec, values: &'a [String], cells: &'a [ReportCell]) -> Self {
        let mut contest = Contest { spec, values, criteria: Vec::new(), measured: Vec::new() };
        for (metric, goal) in &spec.goals {
            let mut points: BTreeMap<At, Vec<Option<&Measurement>>> = BTreeMap::new();
            for cell in cells.iter().filter(|cell| cell.metric == *metric && cell.measured.is_some()) {
                let mut point = cell.at.clone();
                let Some(value) = point.remove(&spec.parameter) else { continue };
                let Some(index) = values.iter().position(|known| *known == value) else { continue };
                points.entry(point).or_insert_with(|| vec![None; values.len()])[index] = cell.measured.as_ref();
            }
            for (point, measured) in points {
                contest.criteria.push(Criterion { metric: metric.clone(), goal: *goal, point });
                contest.measured.push(measured);
            }
        }
        contest
    }

    fn missing(&self) -> Vec<String> {
        let has_value = |metric: &String| self.criteria.iter().any(|criterion| criterion.metric == *metric);
        let undefined = self.spec.goals.iter().filter(|(metric, _)| !has_value(metric));
        let mut missing: Vec<String> = undefined.map(|(metric, _)| format!("{metric} has no value anywhere")).collect();
        for (criterion, measured) in self.criteria.iter().zip(&self.measured) {
            let without = self.values.iter().zip(measured).filter(|(_, measured)| measured.is_none());
            let at = point_name(&criterion.point);
            let at = if at.is_empty() { at } else { format!(", {at}") };
            let parameter = &self.spec.parameter;
            missing.extend(without.map(|(value, _)| format!("{} at {parameter} {value}{at}", criterion.metric)));
        }
        missing
    }

    /// Shape: nothing is missing.
    fn candidates(&self) -> Vec<ParameterCandidate> {
        let rows: Vec<Vec<&Measurement>> =
            self.measured.iter().map(|row| row.iter().copied().flatten().collect()).collect();
        let means: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|measured| measured.mean).collect()).collect();
        let scores = self.scores(&means);
        let wins = self.wins(&rows);
        let of = |rows: &[Vec<f64>], index: usize| rows.iter().map(|row| row[index]).collect();
        let candidate = |(index, value): (usize, &String)| ParameterCandidate {
            value: value.clone(),
            measured: rows.iter().map(|row| row[index].clone()).collect(),
            normalised: of(&scores.normalised, index),
            scores: of(&scores.by_metric, index),
            cumulative: scores.cumulative[index],
            wins: wins.as_ref().map(|wins| wins[index]),
        };
        self.values.iter().enumerate().map(candidate).collect()
    }

    fn scores(&self, means: &[Vec<f64>]) -> Scores {
        let merits = |(row, criterion): (&Vec<f64>, &Criterion)| {
            normalised(&row.iter().map(|mean| criterion.goal.merit(*mean)).collect::<Vec<_>>())
        };
        let normalised: Vec<Vec<f64>> = means.iter().zip(&self.criteria).map(merits).collect();
        let of_metric = |(metric, _): &(String, Goal)| {
            let rows = self.criteria.iter().zip(&normalised).filter(|(criterion, _)| criterion.metric == *metric);
            let rows: Vec<&Vec<f64>> = rows.map(|(_, row)| row).collect();
            let mean = |index: usize| rows.iter().map(|row| row[index]).sum::<f64>() / rows.len() as f64;
            (0..self.values.len()).map(mean).collect::<Vec<f64>>()
        };
        let by_metric: Vec<Vec<f64>> = self.spec.goals.iter().map(of_metric).collect();
        let sum = |index: usize| by_metric.iter().map(|row| row[index]).sum();
        Scores { cumulative: (0..self.values.len()).map(sum).collect(), normalised, by_metric }
    }

    /// Share of the resamples that each value wins. `None` if a cell has fewer runs than an interval needs.
    fn wins(&self, rows: &[Vec<&Measurement>]) -> Option<Vec<f64>> {
        let counts = || rows.iter().flatten().map(|measured| measured.n);
        let most = counts().max().filter(|_| counts().all(|n| n >= stats::FEWEST_FOR_INTERVAL))?;
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        let mut wins = vec![0_usize; self.values.len()];
        for _ in 0..RESAMPLES {
            let means = self.drawn_means(rows, most, &mut random);
            if let Some(best) = first_best(&self.scores(&means).cumulative) {
                wins[best] += 1;
            }
        }
        Some(wins.into_iter().map(|wins| wins as f64 / RESAMPLES as f64).collect())
    }

    /// Means of runs drawn with replacement. Each point and value has one draw, shared by its metrics.
    fn drawn_means(&self, rows: &[Vec<&Measurement>], most: usize, random: &mut Pcg64Mcg) -> Vec<Vec<f64>> {
        let mut draws: BTreeMap<(&At, usize), Vec<u32>> = BTreeMap::new();
        let mut means = Vec::new();
        for (criterion, row) in self.criteria.iter().zip(rows) {
            let mean = |(index, measured): (usize, &&Measurement)| {
                let draw = draws
                    .entry((&criterion.point, index))
                    .or_insert_with(|| (0..most).map(|_| random.next_u32()).collect());
                let drawn = |number: &u32| measured.values[drawn_index(*number, measured.n)];
                draw[..measured.n].iter().map(drawn).sum::<f64>() / measured.n as f64
            };
            means.push(row.iter().enumerate().map(mean).collect());
        }
        means
    }
}

/// Rows per criterion or metric, with one entry per value.
struct Scores {
    normalised: Vec<Vec<f64>>,
    by_metric: Vec<Vec<f64>>,
    cumulative: Vec<f64>,
}

/// Maps the smallest to 0 and the largest to 1, linearly. All 0 if all are equal.
fn normalised(merits: &[f64]) -> Vec<f64> {
    let lowest = merits.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = merits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = highest - lowest;
    merits.iter().map(|merit| if range > 0.0 { (merit - lowest) / range } else { 0.0 }).collect()
}

/// Index of the first largest value.
fn first_best(values: &[f64]) -> Option<usize> {
    (0..values.len()).reduce(|best, index| if values[index] > values[best] { index } else { best })
}

/// The choice in one sentence, or why nothing is chosen.
pub fn sentence(selection: &ParameterSelection) -> String {
    let parameter = &selection.parameter;
    let Some(winner) = &selection.winner else {
        let first = selection.missing.first().map_or("", String::as_str);
        let others = match selection.missing.len() {
            0 | 1 => String::new(),
            n => format!(", and {} more", n - 1),
        };
        return format!(
            "nothing is chosen for {parameter}: not measured: {first}{others}; `tccc run` on the same directory \
             measures what is missing"
        );
    };
    let mut ranked: Vec<&ParameterCandidate> = selection.values.iter().collect();
    ranked.sort_by(|a, b| b.cumulative.total_cmp(&a.cumulative));
    let shown = |is_winner: bool| {
        let one = ranked.iter().find(|one| (one.value == *winner) == is_winner);
        one.map_or(String::new(), |one| {
            let wins =
                one.wins.map_or(String::new(), |wins| format!(", best in {:.0} % of the resamples", 100.0 * wins));
            format!("{} with {:.2}{wins}", one.value, one.cumulative)
        })
    };
    let [best, next] = [true, false].map(shown);
    let of = selection.values.first().map_or(0, |one| one.scores.len());
    let sure = if selection.values.iter().all(|one| one.wins.is_some()) {
        format!("{} resamples of the runs", selection.resamples)
    } else {
        format!("confidence needs {} runs of each cell", stats::FEWEST_FOR_INTERVAL)
    };
    format!("chosen: {parameter} = {best}; next {next}; scores are out of {of}; {sure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "title=\"t\"\nclaim=\"c\"\nprofile=\"native\"\nduration=\"1s\"\nruns=3\nseed=1\n\
        [sweep]\nqueue=[\"10pkts\",\"20pkts\"]\nshare=[\"1\",\"2\",\"3\"]\n\
        [[link]]\nends=[\"a\",\"b\"]\nqueue=\"$queue\"\n\
        [[flow]]\nname=\"f\"\nfrom=\"a\"\nto=\"b\"\nalgorithm=\"x\"\ntunables={ t = \"$share\" }\n\
        [report]\nmetrics=[\"goodput_bps\",\"lost_pkts\",\"friendliness_ratio\"]\n\
        [selection]\nparameter=\"share\"\nmax=[\"goodput_bps\"]\nmin=[\"lost_pkts\"]\nnear_one=[\"friendliness_ratio\"]\n";

    fn cell(metric: &str, at: [(&str, &str); 2], values: &[f64]) -> ReportCell {
        ReportCell {
            at: at.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            series: "variant".into(),
            variant: "x".into(),
            metric: metric.into(),
            unit: "ratio".into(),
            measured: Measurement::of(values.to_vec(), 0),
            ..ReportCell::default()
        }
    }

    /// Three values at two points; friendliness at one point only.
    fn cells() -> Vec<ReportCell> {
        let mut cells = Vec::new();
        for (share, goodput, lost) in [("1", 10.0, 5.0), ("2", 20.0, 5.0), ("3", 15.0, 25.0)] {
            cells.push(cell("goodput_bps", [("queue", "10pkts"), ("share", share)], &[goodput; 3]));
            cells.push(cell("goodput_bps", [("queue", "20pkts"), ("share", share)], &[7.0; 3]));
            cells.push(cell("lost_pkts", [("queue", "10pkts"), ("share", share)], &[lost; 3]));
        }
        for (share, ratio) in [("1", 0.5), ("2", 4.0), ("3", 1.0)] {
            cells.push(cell("friendliness_ratio", [("queue", "20pkts"), ("share", share)], &[ratio; 3]));
        }
        cells
    }

    fn chosen(cells: &[ReportCell]) -> ParameterSelection {
        select(&Scenario::parse("t.toml", SCENARIO).unwrap(), cells).unwrap()
    }

    #[test]
    fn scores_are_as_worked_by_hand() {
        let selection = chosen(&cells());
        let scores: Vec<&[f64]> = selection.values.iter().map(|one| one.scores.as_slice()).collect();
        // Goodput 10, 20, 15 scores 0, 1, 0.5 at one point. At the other all are equal and score 0: the mean is half.
        // Lost packets 5, 5, 25 score 1, 1, 0, because less is better. Merits of the ratios 0.5, 0.25, 1: 1/3, 0, 1.
        let expected = [[0.0, 1.0, 1.0 / 3.0], [0.5, 1.0, 0.0], [0.25, 0.0, 1.0]];
        for (scores, expected) in scores.iter().zip(expected) {
            assert!(scores.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{scores:?} {expected:?}");
        }
        assert_eq!(selection.winner.as_deref(), Some("2"));
        assert_eq!(selection.values.iter().map(|one| one.wins).collect::<Vec<_>>(), [Some(0.0), Some(1.0), Some(0.0)]);
        let said = sentence(&selection);
        assert!(said.starts_with("chosen: share = 2 with 1.50, best in 100 % of the resamples; next 1"), "{said}");
    }

    #[test]
    fn only_a_choice_with_a_source_is_a_reconstruction() {
        let procedure = |text: &str| {
            let scenario = Scenario::parse("t.toml", text).unwrap();
            select(&scenario, &cells()).unwrap().procedure
        };
        assert_eq!(procedure(SCENARIO), PROCEDURE);
        let sourced = procedure(&format!("{SCENARIO}[source]\npaper=\"p\"\nwhere=\"w\"\n"));
        assert_eq!(sourced, format!("{PROCEDURE}; {RECONSTRUCTION}"));
    }

    #[test]
    fn missing_cell_leaves_nothing_chosen_and_is_named() {
        let mut cells = cells();
        cells.retain(|cell| cell.metric != "lost_pkts" || cell.at["share"] != "2");
        let selection = chosen(&cells);
        assert_eq!((selection.winner.as_deref(), selection.values.len()), (None, 0));
        assert_eq!(selection.missing, ["lost_pkts at share 2, queue 10pkts"]);
        cells.retain(|cell| cell.metric != "friendliness_ratio");
        let selection = chosen(&cells);
        assert_eq!(selection.missing[0], "friendliness_ratio has no value anywhere");
        let said = sentence(&selection);
        assert!(said.contains("nothing is chosen for share") && said.contains("1 more"), "{said}");
    }

    #[test]
    fn overlapping_runs_share_the_wins_and_two_runs_tell_nothing() {
        let mut cells = cells();
        for cell in cells.iter_mut().filter(|cell| cell.metric == "goodput_bps" && cell.at["queue"] == "10pkts") {
            let values = if cell.at["share"] == "1" { vec![1.0, 30.0, 29.0] } else { vec![30.0, 2.0, 28.0] };
            cell.measured = Measurement::of(values, 0);
        }
        let wins: Vec<f64> = chosen(&cells).values.iter().map(|one| one.wins.unwrap()).collect();
        assert!((wins.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{wins:?}");
        assert!(wins.iter().filter(|w| **w > 0.05).count() > 1, "{wins:?}");
        assert_eq!(chosen(&cells), chosen(&cells), "the same runs, the same report");
        let measured = cells[0].measured.as_mut().unwrap();
        (measured.n, measured.values) = (2, vec![1.0, 2.0]);
        assert!(chosen(&cells).values.iter().all(|one| one.wins.is_none()));
        assert!(sentence(&chosen(&cells)).contains("confidence needs 3 runs of each cell"));
    }

    #[test]
    fn normalised_runs_from_zero_to_one() {
        assert_eq!(normalised(&[2.0, 4.0, 3.0]), [0.0, 1.0, 0.5]);
        assert_eq!(normalised(&[2.0, 2.0]), [0.0, 0.0]);
        assert_eq!(normalised(&[]), Vec::<f64>::new());
    }
}
