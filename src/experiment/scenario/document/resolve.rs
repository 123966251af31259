//! From the file's text to a cell: defaults filled in, variants applied, and what only makes sense together checked.

use super::*;
use crate::experiment::plan::{PLANNED_RUNS_MAX, RUNS_MAX};
use crate::model::metrics::{METRICS, Metric};
use crate::path::MTU_RANGE;

/// Longest run: what iperf3 can time.
const DURATION_MAX: Duration = Duration::from_secs(86_400);

impl Reader<'_> {
    /// One combination, with everything resolved and checked.
    pub(super) fn cell(&self, document: &Document, at: At) -> Result<Cell, ScenarioError> {
        self.check_numbers(document)?;
        let links = document.link.iter().enumerate().map(|(index, link)| self.link(document, index, link));
        let links: Vec<LinkSpec> = links.collect::<Result<_, _>>()?;
        let flows = self.flows(document, &links, &at)?;
        Ok(Cell { at, duration: document.duration, mtu: document.mtu, links, flows })
    }

    fn check_numbers(&self, document: &Document) -> Result<(), ScenarioError> {
        if !(1..=RUNS_MAX).contains(&document.runs) {
            let what = format!("{} is outside 1..{RUNS_MAX}", document.runs);
            return Err(self.refuse(&[Step::Key("runs")], what));
        }
        if document.duration > DURATION_MAX {
            let what = format!("expected at most {}s: iperf3 can time no longer run", DURATION_MAX.as_secs());
            return Err(self.refuse_value(&[Step::Key("duration")], what));
        }
        if document.duration.subsec_nanos() != 0 || document.duration.is_zero() {
            let what = "expected whole seconds, at least 1s: iperf3 counts in them";
            return Err(self.refuse_value(&[Step::Key("duration")], what));
        }
        let [low, high] = MTU_RANGE;
        if !(low..=high).contains(&document.mtu) {
            let what = format!("{} is outside {low}..{high} (bytes)", document.mtu);
            return Err(self.refuse(&[Step::Key("mtu")], what));
        }
        if document.sample.is_zero() {
            return Err(self.refuse_value(&[Step::Key("sample")], "expected more than 0, such as 100ms"));
        }
        if document.sample >= document.duration {
            return Err(self.refuse_value(&[Step::Key("sample")], "expected less than the duration, such as 100ms"));
        }
        if document.link.is_empty() {
            return Err(self.refuse(&[Step::Key("link")], "expected a [[link]], a [dumbbell] or a [parking_lot]"));
        }
        Ok(())
    }

    /// Runs of all cells together.
    pub(super) fn check_amount(&self, sweep: &[Variable]) -> Result<(), ScenarioError> {
        let cells = sweep.iter().fold(1_usize, |cells, variable| cells.saturating_mul(variable.values.len()));
        if cells > PLANNED_RUNS_MAX {
            let what =
                format!("{cells} cells, one for each combination of its values: expected at most {PLANNED_RUNS_MAX}");
            return Err(self.refuse(&[Step::Key("sweep")], what));
        }
        let runs = self.table.get_ref().get("runs").and_then(|runs| runs.get_ref().as_integer()?.as_str().parse().ok());
        let runs: usize = runs.unwrap_or(1); // what is no number is refused later
        if cells.saturating_mul(runs) <= PLANNED_RUNS_MAX {
            return Ok(());
        }
        let what = format!("{runs} runs of each of {cells} cells are more than {PLANNED_RUNS_MAX} together");
        let most = (PLANNED_RUNS_MAX / cells).min(RUNS_MAX as usize);
        let hint = format!("at most {most} runs of so many cells");
        Err(ScenarioError { hint: Some(hint), ..self.refuse(&[Step::Key("runs")], what) })
    }

    /// No two values of a variable may mean the same: two cells would measure one thing.
    pub(super) fn check_distinct(&self, sweep: &[Variable], cells: &[Cell]) -> Result<(), ScenarioError> {
        let mut stride = cells.len();
        for variable in sweep {
            let values = variable.values.len();
            let block = stride;
            stride /= values;
            if variable.name == VARIANT {
                continue; // the same under two names is a way to see the scatter
            }
            let equal = |one: usize, other: usize| {
                (0..cells.len()).filter(|index| index % block / stride == one).all(|index| {
                    let beside = &cells[index + (other - one) * stride];
                    cells[index].links == beside.links
                        && cells[index].flows == beside.flows
                        && cells[index].duration == beside.duration
                        && cells[index].mtu == beside.mtu
                })
            };
            let pair = (0..values).flat_map(|other| (0..other).map(move |one| (one, other))).find(|p| equal(p.0, p.1));
            if let Some((one, other)) = pair {
                self.check_used(&variable.name, &cells[0].at)?;
                let what = format!("\"{}\" and \"{}\" mean the same", variable.values[one], variable.values[other]);
                return Err(self.refuse(&[Step::Key("sweep"), Step::Key(&variable.name)], what));
            }
        }
        Ok(())
    }

    /// A variable that no field takes.
    fn check_used(&self, name: &str, at: &At) -> Result<(), ScenarioError> {
        let mut others = at.clone();
        others.remove(name);
        if self.at(&others).is_err() {
            return Ok(());
        }
        let hint = format!("write \"${name}\" in the field that takes its values");
        let refusal = self.refuse(&[Step::Key("sweep"), Step::Key(name)], format!("no field has \"${name}\""));
        Err(ScenarioError { hint: Some(hint), ..refusal })
    }

    pub(super) fn check_metric(&self, path: &[Step<'_>], name: &str) -> Result<(), ScenarioError> {
        if Metric::find(name).is_some() {
            return Ok(());
        }
        let names = || METRICS.iter().map(|metric| metric.name);
        let known: Vec<&str> = names().collect();
        let hint = nearest(name, names()).or(names().find(|known| known.starts_with(name) && !name.is_empty()));
        Err(ScenarioError {
            hint: hint.map(|name| format!("did you mean \"{name}\"?")),
            ..self.refuse(path, format!("\"{name}\": expected one of {}", known.join(", ")))
        })
    }

    /// A name that has to be one of those measured.
    fn check_measured(&self, path: &[Step<'_>], name: &str, measured: &[String]) -> Result<(), ScenarioError> {
        if measured.iter().any(|known| known == name) {
            return Ok(());
        }
        let hint = nearest(name, measured.iter().map(String::as_str)).map(|name| format!("did you mean \"{name}\"?"));
        let what = format!("\"{name}\": expected one that is measured: {}", measured.join(", "));
        Err(ScenarioError { hint, ..self.refuse(path, what) })
    }

    fn check_names(&self, document: &Document, measured: &[String]) -> Result<(), ScenarioError> {
        let report = |key| [Step::Key("report"), Step::Key(key)];
        let metrics = &document.report.metrics;
        for (index, name) in metrics.iter().enumerate() {
            let path = [Step::Key("report"), Step::Key("metrics"), Step::Item(index)];
            self.check_metric(&path, name)?;
            if metrics[..index].contains(name) {
                return Err(self.refuse(&path, format!("\"{name}\" is listed twice")));
            }
        }
        if metrics.is_empty() && value_at(self.table.get_ref(), &report("metrics")).is_some() {
            return Err(
                self.refuse(&report("metrics"), "expected at least one metric; without the field all are shown")
            );
        }
        if let Some(baseline) = &document.report.baseline {
            self.check_measured(&report("baseline"), baseline, measured)?;
        }
        for (index, published) in document.published.iter().enumerate() {
            self.check_metric(&[Step::Key("published"), Step::Item(index), Step::Key("metric")], &published.metric)?;
            let negative = published.values.iter().find(|(_, numbers)| numbers.iter().any(|number| *number < 0.0));
            if let Some((name, _)) = negative {
                let path = [Step::Key("published"), Step::Item(index), Step::Key("values"), Step::Key(name)];
                return Err(self.refuse(&path, "expected numbers from 0, or nan where the source has none"));
            }
        }
        for (index, expected) in document.expected.iter().enumerate() {
            self.check_metric(&[Step::Key("expected"), Step::Item(index), Step::Key("metric")], &expected.metric)?;
            for name in expected.values.keys() {
                let path = [Step::Key("expected"), Step::Item(index), Step::Key("values"), Step::Key(name)];
                self.check_measured(&path, name, measured)?;
            }
        }
        Ok(())
    }

    /// Names must be known, and published and expected lists as long as the values they go along.
    pub(super) fn check_report(
        &self,
        document: &Document,
        sweep: &[Variable],
        measured: &[String],
    ) -> Result<(), ScenarioError> {
        self.check_names(document, measured)?;
        self.check_selection(document, sweep)?;
        self.check_shown(document, sweep)?;
        let published = document.published.iter().map(|p| (&p.over, [&p.values, &p.values]));
        let expected = document.expected.iter().map(|e| (&e.over, [&e.values, &e.plus_minus]));
        for (index, (over, lists)) in published.enumerate() {
            self.check_lists([Step::Key("published"), Step::Item(index)], over, lists, sweep)?;
        }
        for (index, (over, lists)) in expected.enumerate() {
            self.check_lists([Step::Key("expected"), Step::Item(index)], over, lists, sweep)?;
        }
        for (index, expected) in document.expected.iter().enumerate() {
            if expected.values.keys().ne(expected.plus_minus.keys()) {
                let path = [Step::Key("expected"), Step::Item(index), Step::Key("plus_minus")];
                return Err(self.refuse(&path, "expected the same names as `values`"));
            }
        }
        Ok(())
    }

    fn check_lists(
        &self,
        [table, item]: [Step<'_>; 2],
        over: &str,
        lists: [&BTreeMap<String, Vec<f64>>; 2],
        sweep: &[Variable],
    ) -> Result<(), ScenarioError> {
        let Some(variable) = sweep.iter().find(|variable| variable.name == over) else {
            let names: Vec<&str> = sweep.iter().map(|variable| variable.name.as_str()).collect();
            let what = format!("\"{over}\": expected a variable of [sweep]: {}", names.join(", "));
            return Err(self.refuse(&[table, item, Step::Key("over")], what));
        };
        for (key, list) in ["values", "plus_minus"].into_iter().zip(lists) {
            let odd = list.iter().find(|(_, numbers)| numbers.len() != variable.values.len());
            if let Some((name, numbers)) = odd {
                let what = format!("{} numbers for {} values of `{over}`", numbers.len(), variable.values.len());
                return Err(self.refuse(&[table, item, Step::Key(key), Step::Key(name)], what));
            }
        }
        Ok(())
    }
}
