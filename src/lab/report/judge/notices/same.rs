//! Notices about variables of the sweep that changed no run.

use std::collections::BTreeMap;

use crate::report::judge::cell::ReportCell;
use crate::scenario::{VARIANT, Variable};
use shared::model::notice::Notice;
use shared::model::run::At;

const ADVICE: &str =
    "no flow met what the variable changes, or the metrics do not show it: its values are only labels here";

/// A notice for each variable of which two values gave the same results: every metric of every run, at all points.
///
/// In virtual time, that is so for a value that no flow met, such as the threshold of a marking queue without ECN.
pub fn of_cells(sweep: &[Variable], cells: &[ReportCell]) -> Vec<Notice> {
    let notice = |variable: &Variable| {
        let results = variable.values.iter().map(|value| (value, results_of(cells, &variable.name, value)));
        let results: Vec<_> = results.filter(|(_, results)| !results.is_empty()).collect();
        let mut pairs = results.iter().enumerate().flat_map(|(at, one)| results[..at].iter().map(move |it| (it, one)));
        let ((one, _), (other, _)) = pairs.find(|((_, one), (_, other))| one == other)?;
        let cause = format!("{} \"{one}\" and \"{other}\" gave the same results in every run", variable.name);
        Some(Notice::new(cause, ADVICE))
    };
    sweep.iter().filter(|variable| variable.name != VARIANT).filter_map(notice).collect()
}

/// The values of all runs for one value of a variable, by the rest of the point and the metric.
fn results_of<'c>(cells: &'c [ReportCell], variable: &str, value: &str) -> BTreeMap<(At, &'c str), &'c [f64]> {
    let of_value = cells.iter().filter(|cell| cell.at.get(variable).is_some_and(|it| it == value));
    let results = of_value.filter_map(|cell| {
        let mut at = cell.at.clone();
        at.remove(variable);
        Some(((at, cell.metric.as_str()), cell.measured.as_ref()?.values.as_slice()))
    });
    results.collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::cell::Measurement;
    use super::*;

    #[test]
    fn variable_that_changed_no_run_is_noted_with_two_of_its_values() {
        let cell = |mark: &str, rate: &str, value: f64| ReportCell {
            at: [("mark", mark), ("rate", rate)].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            measured: Measurement::of(vec![value, 2.0], 0),
            ..ReportCell::default()
        };
        let variable = |name: &str, values: [&str; 2]| Variable {
            name: name.to_owned(),
            values: values.map(str::to_owned).to_vec(),
        };
        let sweep = [variable("mark", ["1", "2"]), variable("rate", ["5", "6"])];
        let causes = |last: f64| {
            let cells = [cell("1", "5", 1.0), cell("2", "5", 1.0), cell("1", "6", 3.0), cell("2", "6", last)];
            of_cells(&sweep, &cells).into_iter().map(|notice| notice.cause).collect::<Vec<_>>()
        };
        assert_eq!(causes(3.0), ["mark \"1\" and \"2\" gave the same results in every run"]);
        assert!(causes(4.0).is_empty(), "one point differs");
    }
}
