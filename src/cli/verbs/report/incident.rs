//! `tccc report FOLDER`: an incident (a crossed limit of a trial) with its evidence.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use host::policy::rule::{Allowed, GuardLimit, GuardMetric};
use host::trial::incident::{self, DOCUMENT, Incident};
use host::trial::judge::{ArmSeen, LimitJudgement, LimitState, RuleJudgement};
use host::trial::view::{LimitPoint, LookPoint};
use lab::report::ReportFormat;
use lab::report::drawing::{
    self, Axis, Caption, Chart, ChartLayout, ChartShape, Column, Element, Figure, Role, Table, TableRow,
};
use shared::failure::Failure;
use shared::units::{BitsPerSec, without_zeros};

const TITLE: &str = "A limit was crossed";
/// Number of the guard's looks in a table, counted from the last.
const LOOKS: usize = 8;
const HEIGHT: f64 = 260.0;
/// Lower end of the logarithmic axis; smaller e-values are drawn there.
const E_LEAST: f64 = 0.001;

#[derive(Serialize)]
struct IncidentInFolder {
    folder: PathBuf,
    #[serde(flatten)]
    incident: Incident,
}

/// Accepts an incident's folder or the document in it.
pub fn is_incident(path: &Path) -> bool {
    path.join(DOCUMENT).is_file() || path.file_name().is_some_and(|name| name == DOCUMENT)
}

/// # Errors
/// An incident cannot be read; the format is CSV or Parquet.
pub fn render(paths: &[PathBuf], format: ReportFormat) -> Result<String> {
    let incidents = paths.iter().map(|path| read(path)).collect::<Result<Vec<IncidentInFolder>>>()?;
    let documents = || incidents.iter().map(document);
    match format {
        ReportFormat::Json if incidents.len() == 1 => Ok(serde_json::to_string_pretty(&incidents[0])? + "\n"),
        ReportFormat::Json => Ok(serde_json::to_string_pretty(&incidents)? + "\n"),
        ReportFormat::Text => Ok(drawing::text::written(documents())),
        ReportFormat::Markdown => Ok(drawing::markdown::written(documents())),
        ReportFormat::Html => Ok(drawing::html::written(TITLE, documents())),
        ReportFormat::Csv | ReportFormat::Parquet => {
            let refusal = Failure::usage(format!("cannot report an incident as {format}"));
            Err(refusal.hint("choose `-o text`, `-o markdown`, `-o html` or `-o json`").into())
        }
    }
}

fn read(path: &Path) -> Result<IncidentInFolder> {
    let incident = incident::read(path)?;
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    Ok(IncidentInFolder { folder, incident })
}

fn document(IncidentInFolder { folder, incident }: &IncidentInFolder) -> Vec<Element> {
    let [host, kernel] = &incident.host;
    let mut facts = vec![
        ("when", incident.at.clone()),
        ("on trial", incident.title.clone()),
        ("host", format!("{host}, Linux {kernel}")),
        ("generation", format!("{}, applied {}", incident.generation, incident.since)),
    ];
    facts.extend(incident.file.iter().map(|file| ("policy file", file.display().to_string())));
    facts.push(("folder", folder.display().to_string()));
    let mut parts = vec![
        Element::Title(TITLE.to_owned()),
        Element::Sentence(format!("{}.", incident.why)),
        Element::Facts(facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()),
    ];
    let mut first = 0;
    for rule in &incident.rules {
        parts.extend(of_rule(rule, &incident.history, first));
        first += rule.limits.len();
    }
    parts.push(heading("The rules on trial"));
    parts.push(Element::Code(incident.policy.clone()));
    parts.push(heading("The time before"));
    let Some(last) = incident.recordings.last() else {
        let why = incident.why_no_recording.as_ref().map_or(String::new(), |why| format!(": {why}"));
        parts.push(Element::Sentence(format!("No recording was kept{why}.")));
        return parts;
    };
    let (files, file) = (incident.recordings.join(", "), folder.join(last));
    let file = file.display();
    let commands = format!("tccc top --replay {file}\ntccc serve --replay {file} --trials\ntccc report {file}\n");
    parts.push(Element::Sentence(format!("Every connection before the limit was crossed is recorded in {files}.")));
    parts.push(Element::Code(commands));
    parts
}

fn heading(text: impl Into<String>) -> Element {
    Element::Heading { id: "", text: text.into() }
}

/// A table of the rule's arms, then each limit. `first` is the index of its first limit in a look.
fn of_rule(rule: &RuleJudgement, history: &[LookPoint], first: usize) -> Vec<Element> {
    let arms = &rule.arms;
    let column =
        |title: &str, show: &dyn Fn(&ArmSeen) -> String| Column::of(title, Role::Number, arms, |arm| Some(show(arm)));
    let mut columns = vec![
        Column::of("arm", Role::Name, arms, |arm| Some(arm.arm.clone())),
        column("share", &|arm| format!("{} %", without_zeros(&format!("{:.2}", arm.share * 100.0)))),
        column("connections", &|arm| arm.connections.to_string()),
    ];
    let of_metric = |metric: GuardMetric| column(metric.name(), &|arm| shown(metric, arm.values.get(&metric).copied()));
    columns.extend(GuardMetric::ALL.map(of_metric));
    let mut parts = vec![
        heading(format!("Rule {}", rule.rule)),
        Element::Table(Table::new("", Caption::default(), columns, vec![TableRow::default(); arms.len()])),
    ];
    if rule.is_broken {
        let broken = "The arms do not have the shares of the split, so they cannot be compared.";
        parts.push(Element::Sentence(broken.to_owned()));
    }
    for (at, limit) in rule.limits.iter().enumerate() {
        let points: Vec<(f64, LimitPoint)> =
            history.iter().filter_map(|point| Some((point.at_s, *point.limits.get(first + at)?))).collect();
        let allowed = limit.limit.parse::<GuardLimit>().ok().map(|limit| limit.allowed);
        parts.push(heading(format!("{}: {}", limit.arm, limit.limit)));
        parts.push(Element::Sentence(sentences(limit)));
        parts.extend(allowed.and_then(|allowed| figure(limit, allowed, &points)).map(Element::Figure));
        parts.push(Element::Table(looks(limit, matches!(allowed, Some(Allowed::Relative(_))), &points)));
    }
    parts
}

fn sentences(limit: &LimitJudgement) -> String {
    let state = match limit.state {
        LimitState::Crossed => "Crossed: the arm is worse than the limit allows.",
        LimitState::Safe => "Shown to hold.",
        LimitState::Undecided => "Not decided.",
        LimitState::NotComparable => "Nothing to compare with.",
    };
    let mut said = vec![state.to_owned()];
    if let Some(ratio) = limit.ratio {
        let interval = limit.interval.map(|[low, high]| format!(", interval {low:.2} to {high:.2}"));
        let interval = interval.unwrap_or_default();
        said.push(format!("{} is {ratio:.2} times that of keep{interval}.", limit.metric));
    } else if let Some(value) = limit.value {
        said.push(format!("{} was {} in the {}.", limit.metric, shown(limit.metric, Some(value)), limit.window()));
    }
    if let (Some([worse, safe]), Some(needed)) = (limit.evidence, limit.needed) {
        let [worse, safe, needed] = [worse, safe, needed].map(evidence);
        said.push(format!("The e-value of harm is {worse}, that of safety {safe}; {needed} decides."));
    }
    said.extend(limit.why_not.iter().map(|why| format!("Why: {why}.")));
    said.join(" ")
}

fn looks(limit: &LimitJudgement, is_relative: bool, points: &[(f64, LimitPoint)]) -> Table {
    let points = &points[points.len().saturating_sub(LOOKS)..];
    let number = |title: &str, show: &dyn Fn(&LimitPoint) -> Option<String>| {
        Column::of(title, Role::Number, points, |(_, point)| show(point))
    };
    let ratio = |point: &LimitPoint| point.ratio.filter(|_| is_relative).map(|ratio| format!("{ratio:.2}"));
    let interval = |point: &LimitPoint| point.interval.map(|[low, high]| format!("{low:.2} to {high:.2}"));
    let columns = vec![
        Column::of("after", Role::Name, points, |(at_s, _)| Some(format!("{:.1} min", at_s / 60.0))),
        number(&limit.arm, &|point| Some(shown(limit.metric, point.arms[0]))),
        number("keep", &|point| Some(shown(limit.metric, point.arms[1]))),
        number("ratio", &ratio),
        number("interval", &interval),
        number("e-value of harm", &|point| point.e_worse.map(evidence)),
    ];
    Table::new("", Caption::default(), columns, vec![TableRow::default(); points.len()])
}

/// Charts of the metric in both arms, of their ratio and its limit, and of the evidence and its threshold.
fn figure(limit: &LimitJudgement, allowed: Allowed, points: &[(f64, LimitPoint)]) -> Option<Figure> {
    let (begin, end) = (points.first()?.0 / 60.0, points.last()?.0 / 60.0);
    let of = |value: &dyn Fn(&LimitPoint) -> Option<f64>| -> Vec<(f64, f64)> {
        points.iter().filter_map(|(at_s, point)| Some((at_s / 60.0, value(point)?))).collect()
    };
    let level = |value: f64| vec![(begin, value), (end, value)];
    let metric = limit.metric;
    let unit = move |value: f64| shown(metric, Some(value));
    let arms = [0, 1].map(|arm| of(&move |point: &LimitPoint| point.arms[arm]));
    let [treated, control] = arms;
    let mut charts = Vec::new();
    match allowed {
        Allowed::Absolute(value) => {
            let lines = vec![(0, treated), (1, control), (2, level(value))];
            charts.push(chart(metric.name(), lines, (false, &unit)));
        }
        Allowed::Relative(value) => {
            charts.push(chart(metric.name(), vec![(0, treated), (1, control)], (false, &unit)));
            let [low, high] = [0, 1].map(|end| of(&move |point: &LimitPoint| Some(point.interval?[end])));
            let ratio = vec![(0, of(&|point| point.ratio)), (3, low), (3, high), (2, level(value))];
            charts.push(chart("ratio to keep", ratio, (false, &|value| format!("{value:.2}"))));
            let harm = of(&|point| point.e_worse.map(|value| value.max(E_LEAST)));
            let mut lines = vec![(0, harm)];
            lines.extend(limit.needed.map(|needed| (2, level(needed))));
            charts.push(chart("e-value of harm", lines, (true, &evidence)));
        }
    }
    let legend = [(0, limit.arm.as_str()), (1, "keep"), (2, "limit"), (3, "interval")];
    let drawn = if charts.len() > 1 { 4 } else { 3 };
    Some(Figure {
        title: format!("{}: {}", limit.arm, limit.limit),
        explanation: "each look of the guard since the trial began".to_owned(),
        legend: legend[..drawn].iter().map(|(series, name)| (*series, (*name).to_owned())).collect(),
        layout: ChartLayout { abreast: 1, height: HEIGHT, stacked: false },
        charts,
        folded: false,
    })
}

/// Draws lines over minutes, on a logarithmic value axis if `log`.
fn chart(title: &str, lines: Vec<(usize, Vec<(f64, f64)>)>, (log, show): (bool, &dyn Fn(f64) -> String)) -> Chart {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let ends = |values: &mut dyn Iterator<Item = f64>| {
        values.fold([f64::INFINITY, 0.0], |[low, high], value| [low.min(value), value.max(high)])
    };
    let y = ends(&mut points().map(|point| point.1));
    let [from, to] = ends(&mut points().map(|point| point.0));
    let mut x = Axis::numbers("minutes".to_owned(), [0.0, to], false, &|value| format!("{value:.0}"));
    x.ends = [from.min(to), to.max(from + 1.0)];
    x.ticks.retain(|(value, _)| (x.ends[0]..=x.ends[1]).contains(value));
    let shapes = lines.into_iter().map(|(series, points)| ChartShape::Line { series, points }).collect();
    Chart { heading: None, x, y: Axis::numbers(title.to_owned(), y, log, show), shapes }
}

fn shown(metric: GuardMetric, value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match metric {
        GuardMetric::Retransmitted | GuardMetric::AbnormalEnds => format!("{:.2} %", value * 100.0),
        GuardMetric::Goodput => BitsPerSec(value as u64).to_string(),
        GuardMetric::Timeouts => format!("{value:.3}"),
        GuardMetric::RttInflation => format!("{value:.2}"),
    }
}

/// Two significant digits or so, over many powers of ten.
fn evidence(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{value:.0e}"),
        value if value >= 10.0 => format!("{value:.0}"),
        value if value >= 0.01 => format!("{value:.2}"),
        value if value >= 0.001 => format!("{value:.3}"),
        value => format!("{value:.0e}"),
    }
}
