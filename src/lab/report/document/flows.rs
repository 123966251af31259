//! The table of all flows: goodput, share, delay and losses of each, background traffic included.

use super::ReportContent;
use super::element::Element;
use super::table::{Caption, Column, Role, Table, TableRow};
use crate::report::judge::cell::{common_point, grouped};
use crate::report::judge::flows::{FLOW_METRICS, ReportFlow};
use crate::report::judge::number::Scale;
use crate::report::judge::numbers::RunNumbers;
use crate::report::judge::report::Report;
use crate::scenario::VARIANT;
use shared::model::metrics::Metric;

/// In a cell with more flows than this, copies of one flow share a row.
const MANY: usize = 8;
/// A longer table is only on pages.
const ROWS_MAX: usize = 40;
/// The metric whose spread over the flows of a row is shown.
const SPREAD: &str = "goodput_bps";

/// Metrics whose intervals are also shown on terminals.
const RATES: [&str; 2] = [SPREAD, "share_ratio"];

/// One flow, or copies of one flow, at one point.
struct FlowRow<'a> {
    first: &'a ReportFlow,
    name: String,
    /// Shape: in the order of [`FLOW_METRICS`].
    numbers: Vec<Option<RunNumbers>>,
    /// Lowest and highest mean of [`SPREAD`] among several flows.
    spread: Option<[f64; 2]>,
}

/// The table, unless it is too long for a terminal or a README.
pub fn flows(content: &ReportContent<'_>) -> Vec<Element> {
    let Some(table) = table(content.report) else { return Vec::new() };
    match table.rows.len() {
        0..=ROWS_MAX => vec![Element::Table(table)],
        rows => {
            let where_ = "`tccc report DIR -o html` shows them, and `-o json` has every flow";
            vec![Element::Sentence(format!("The table of flows has {rows} rows: {where_}"))]
        }
    }
}

/// The table, however long.
pub fn all_flows(content: &ReportContent<'_>) -> Vec<Element> {
    table(content.report).map(Element::Table).into_iter().collect()
}

fn table(report: &Report) -> Option<Table> {
    let cells = grouped(report.flows.iter(), |flow| &flow.at);
    let rows: Vec<FlowRow<'_>> = cells.into_iter().flat_map(rows_of_cell).collect();
    let first = rows.first()?.first;
    let common = common_point(&report.cells);
    let variables: Vec<&String> = first.at.keys().filter(|name| !common.contains_key(*name)).collect();
    let word = |name: &&String| Column::of(name.as_str(), Role::Word, &rows, |row| row.first.at.get(*name).cloned());
    let mut columns: Vec<Column> = variables.iter().map(word).collect();
    columns.push(Column::of("flow", Role::Name, &rows, |row| Some(row.name.clone())));
    let is_swept = first.at.contains_key(VARIANT) || !first.at.contains_key("algorithm");
    let sender = if is_swept { "algorithm" } else { "flow's algorithm" };
    columns.push(Column::of(sender, Role::Word, &rows, |row| Some(row.first.algorithm.clone())));
    for (index, name) in FLOW_METRICS.iter().enumerate() {
        columns.extend(of_metric(&rows, index, name));
    }
    let runs = |row: &FlowRow<'_>| Some(row.numbers.iter().flatten().map(|one| one.n).max()?.to_string());
    columns.push(Column::of("n", Role::Number, &rows, runs).unit("runs"));
    let begins = |index: usize| index > 0 && rows[index - 1].first.at != rows[index].first.at;
    let begin = |index| TableRow { starts_group: begins(index), ..TableRow::default() };
    let lines = (0..rows.len()).map(begin).collect();
    let part = report.part().map_or(String::new(), |part| format!(", {part}"));
    let caption = Caption::new(format!("Flows{part}"), meaning(&rows));
    Some(Table::new("flows", caption, columns, lines))
}

fn meaning(rows: &[FlowRow<'_>]) -> String {
    let what = "every flow of a run, also beside the compared ones; means over the runs";
    match rows.iter().any(|row| row.spread.is_some()) {
        true => format!("{what}; in a row of copies also over the copies"),
        false => what.to_owned(),
    }
}

/// The columns of one metric: mean, spread over copies, and interval.
fn of_metric(rows: &[FlowRow<'_>], index: usize, name: &str) -> Vec<Column> {
    let Some(metric) = Metric::find(name) else { return Vec::new() };
    let scale = Scale::of(metric.unit, rows.iter().filter_map(|row| Some(row.numbers[index].as_ref()?.mean)));
    let number = |role: Role, title: &str, show: &dyn Fn(&RunNumbers) -> Option<String>| {
        Column::of(title, role, rows, |row| show(row.numbers[index].as_ref()?)).unit(scale.unit())
    };
    let mean = number(Role::Number, short_title(metric), &|one| Some(scale.show(one.mean)));
    let interval = number(Role::Interval, "95 % interval", &|one| one.ci95.map(|ends| scale.between(ends)));
    let spread = |row: &FlowRow<'_>| row.spread.filter(|_| name == SPREAD).map(|ends| scale.between(ends));
    let spread = Column::of("lowest to highest copy", Role::Number, rows, spread).unit(scale.unit());
    vec![mean, if RATES.contains(&name) { interval } else { interval.detail() }, spread]
}

/// The title without "of the run", because the caption says what a row is.
fn short_title(metric: &Metric) -> &str {
    metric.title.trim_end_matches(" of the run")
}

/// A row per flow; in a cell with many flows, a row per group of copies.
fn rows_of_cell(flows: Vec<&ReportFlow>) -> Vec<FlowRow<'_>> {
    if flows.len() <= MANY {
        return flows.into_iter().map(|flow| row(vec![flow])).collect();
    }
    let groups = grouped(flows.into_iter(), |flow| (stem(&flow.flow), &flow.algorithm));
    let rows = groups.into_iter().flat_map(|group| match are_copies(&group) {
        true => vec![row(group)],
        false => group.into_iter().map(|flow| row(vec![flow])).collect(),
    });
    rows.collect()
}

/// Copies are numbered from 1. Other names may end with any number.
fn are_copies(flows: &[&ReportFlow]) -> bool {
    let is_numbered = |(index, flow): (usize, &&ReportFlow)| flow.flow == format!("{}-{}", stem(&flow.flow), index + 1);
    flows.len() > 1 && flows.iter().enumerate().all(is_numbered)
}

/// The name of a copy without its number.
fn stem(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.strip_suffix('-').filter(|_| stem.len() < name.len()).unwrap_or(name)
}

/// Shape: at least one flow.
fn row(copies: Vec<&ReportFlow>) -> FlowRow<'_> {
    let first = copies[0];
    let of_metric = |name: &&str| {
        let numbers: Vec<&RunNumbers> = copies.iter().filter_map(|flow| flow.numbers(name)).collect();
        mean_of(&numbers).filter(|_| numbers.len() == copies.len())
    };
    let [name, spread] = [&first.flow, &copies[copies.len() - 1].flow];
    let name = if copies.len() > 1 { format!("{} copies, {name} to {spread}", copies.len()) } else { name.clone() };
    let means = copies.iter().filter_map(|flow| Some(flow.numbers(SPREAD)?.mean));
    let ends = means.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], mean| [low.min(mean), high.max(mean)]);
    FlowRow {
        first,
        name,
        numbers: FLOW_METRICS.iter().map(of_metric).collect(),
        spread: (copies.len() > 1 && ends[0] <= ends[1]).then_some(ends),
    }
}

/// The mean over copies in each run, with the interval over the runs. `None` unless every copy has a value of every run,
/// because values of different runs would be averaged.
fn mean_of(copies: &[&RunNumbers]) -> Option<RunNumbers> {
    let first = *copies.first()?;
    if copies.len() == 1 {
        return Some(first.clone());
    }
    let runs = first.n;
    if copies.iter().any(|one| one.n != runs) {
        return None;
    }
    let mean = |run: usize| copies.iter().map(|one| one.values[run]).sum::<f64>() / copies.len() as f64;
    RunNumbers::of(first.metric, first.unit, (0..runs).map(mean).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::model::run::At;

    fn flow(name: &str, goodputs_bps: &[f64]) -> ReportFlow {
        let goodput = RunNumbers::of(SPREAD, "bit/s", goodputs_bps.to_vec());
        let metrics = goodput.into_iter().collect();
        ReportFlow { at: At::new(), flow: name.into(), algorithm: "reno".into(), compared: true, metrics }
    }

    #[test]
    fn two_flows_have_a_row_each_and_many_copies_share_one() {
        let few = [flow("data-1", &[1e6]), flow("data-2", &[3e6])];
        let names = |flows: &[ReportFlow]| -> Vec<String> {
            rows_of_cell(flows.iter().collect()).into_iter().map(|row| row.name).collect()
        };
        assert_eq!(names(&few), ["data-1", "data-2"]);
        let mut many: Vec<ReportFlow> = (1..=64).map(|n| flow(&format!("data-{n}"), &[n as f64, 64.0])).collect();
        many.push(flow("beside", &[7.0, 7.0]));
        assert_eq!(names(&many), ["64 copies, data-1 to data-64", "beside"]);
        let others: Vec<ReportFlow> = (1..=9).map(|n| flow(&format!("rtt-{n}0"), &[1.0])).collect();
        assert_eq!(names(&others).len(), 9, "no copies");
        let rows = rows_of_cell(many.iter().collect());
        assert_eq!(rows[0].numbers[0].as_ref().unwrap().values, [32.5, 64.0]);
        assert_eq!((rows[0].spread, rows[1].spread), (Some([32.5, 64.0]), None));
    }

    #[test]
    fn stem_is_the_name_without_a_copys_number() {
        assert_eq!(["data-12", "data", "a-b-1", "v2"].map(stem), ["data", "data", "a-b", "v2"]);
    }
}
