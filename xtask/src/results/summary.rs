//! The document of a paper's results, with a section per scenario and a row per cell.

use serde_json::Value;

use crate::made;

/// Name of the simulator as an engine.
const SIMULATOR: &str = "ns2";
/// Headings of the engines' columns, and the engines' names in a report.
pub const ENGINES: [(&str, &str); 2] = [("real kernel", "kernel"), ("virtual time", "virtual")];
static NOTHING: Value = Value::Null;

pub fn head(paper: &str) -> String {
    format!(
        "# Results: {paper}\n\n<!-- made by `cargo xtask results {paper}`; do not edit -->\n\nMeans with half of their \
         95 % interval, in the unit that stands at the metric; `scenarios/REFERENCE.md` says what the metrics are.\n"
    )
}

pub fn section(name: &str, reports: &[Value]) -> String {
    let first = &reports[0];
    let source = &first["source"];
    let mut text = format!("## {name}: {}\n\n", told(&first["title"]));
    if let Some(paper) = source["paper"].as_str() {
        let place = source["where"].as_str().map_or(String::new(), |place| format!(", {place}"));
        text += &format!("{paper}{place}. ");
    }
    text += &format!("Claim: {}\n\n", told(&first["claim"]));
    for report in reports {
        text += &format!("- {}\n", way(report));
    }
    let metrics = metrics(reports);
    for sentence in sentences(latest(reports), &metrics) {
        text += &format!("- {sentence}\n");
    }
    match latest(reports)["selection"].as_object() {
        Some(_) => text += &selection(&latest(reports)["selection"]),
        None => metrics.iter().for_each(|metric| text += &table(metric, reports)),
    }
    text
}

pub fn report_of<'a>(reports: &'a [Value], engine: &str) -> Option<&'a Value> {
    reports.iter().find(|report| report["host"]["engine"] == engine)
}

pub fn cells(report: &Value) -> impl Iterator<Item = &Value> {
    report["cells"].as_array().into_iter().flatten()
}

/// Runs per cell of a report: `5`, or `2 to 5`.
pub fn runs(report: &Value) -> String {
    let runs = || cells(report).filter_map(|cell| cell["measured"]["n"].as_u64());
    match (runs().min(), runs().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (_, most) => most.unwrap_or_default().to_string(),
    }
}

pub fn way(report: &Value) -> String {
    let runs = runs(report);
    let digest = report["digest"].as_str().map_or(String::new(), |digest| format!(", digest `{}`", &digest[..16]));
    let again: Vec<&str> = report["reruns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let again = if again.is_empty() { String::new() } else { format!("; beside them {}", again.join("; ")) };
    format!(
        "{}: {runs} runs of each cell on {}{digest}{again}",
        told(&report["host"]["engine"]),
        told(&report["host"]["kernel"])
    )
}

/// The report with the most runs: virtual time's, if there is one.
pub fn latest(reports: &[Value]) -> &Value {
    report_of(reports, "virtual").unwrap_or(&reports[0])
}

/// A report's findings about the published numbers.
fn sentences(report: &Value, metrics: &[String]) -> Vec<String> {
    let findings = report["findings"].as_array().into_iter().flatten();
    let findings = findings.filter(|finding| metrics.iter().any(|metric| finding["metric"] == metric.as_str()));
    findings.map(|finding| told(&finding["sentence"])).collect()
}

/// Scores of the values of a chosen parameter.
fn selection(selection: &Value) -> String {
    let rows = selection["values"].as_array().into_iter().flatten().map(|one| {
        let is_best = one["value"] == selection["winner"];
        let mark = if is_best { "**" } else { "" };
        let [score, wins] = ["cumulative", "wins"].map(|name| one[name].as_f64().unwrap_or_default());
        format!("{mark}{}{mark} | {mark}{score:.3}{mark} | {:.1} %", told(&one["value"]), 100.0 * wins)
    });
    let text = format!("\n`{}`: {}\n\n", told(&selection["parameter"]), told(&selection["procedure"]));
    text + &made::table("value: | score: | chosen in so many of the resamples:", rows)
}

/// The metrics with published numbers; without any, the report's first.
pub fn metrics(reports: &[Value]) -> Vec<String> {
    let mut all: Vec<(String, bool)> = Vec::new();
    for cell in reports.iter().flat_map(cells) {
        let (name, is_published) = (told(&cell["metric"]), !cell["published"].is_null());
        match all.iter_mut().find(|(other, _)| *other == name) {
            Some(known) => known.1 |= is_published,
            None => all.push((name, is_published)),
        }
    }
    let published: Vec<String> = all.iter().filter(|(_, is)| *is).map(|(name, _)| name.clone()).collect();
    if published.is_empty() { all.into_iter().take(1).map(|(name, _)| name).collect() } else { published }
}

fn table<'a>(metric: &str, reports: &'a [Value]) -> String {
    let cells_of = |engine: &str| -> Vec<&'a Value> {
        report_of(reports, engine).into_iter().flat_map(cells).filter(|cell| cell["metric"] == metric).collect()
    };
    let (columns, simulated) = (ENGINES.map(|(_, engine)| cells_of(engine)), cells_of(SIMULATOR));
    let mut rows: Vec<&Value> = Vec::new();
    for cell in columns.iter().flatten() {
        if !rows.iter().any(|row| is_same_point(row, cell)) {
            rows.push(cell);
        }
    }
    let unit = rows.first().map_or(String::new(), |cell| told(&cell["unit"]));
    let rows = rows.iter().filter(|row| !row["measured"].is_null()).map(|row| {
        let at = |cells: &Vec<&'a Value>| -> &'a Value {
            cells.iter().find(|cell| is_same_point(cell, row)).copied().unwrap_or(&NOTHING)
        };
        let ([kernel, virtual_], simulated) = (columns.each_ref().map(at), at(&simulated));
        let again = [&simulated["measured"], &virtual_["rerun"]["measured"], &kernel["rerun"]["measured"]];
        let again = again.into_iter().find(|measured| !measured.is_null()).unwrap_or(&NOTHING);
        let [again, kernel, virtual_] = [again, &kernel["measured"], &virtual_["measured"]].map(|it| shown(it, 1.0));
        let published = row["published"].as_f64().map_or("-".to_owned(), number);
        let (point, variant) = (point(row), told(&row["variant"]));
        format!("{point} | {variant} | {published} | {again} | {kernel} | {virtual_}")
    });
    let head = format!("at | variant | published: | ns-2: | {}: | {}:", ENGINES[0].0, ENGINES[1].0);
    format!("\n`{metric}` [{unit}]\n\n{}", made::table(&head, rows))
}

/// Whether two cells have the same variant and point. A scenario may sweep the variant as `algorithm`.
pub fn is_same_point(one: &Value, other: &Value) -> bool {
    one["variant"] == other["variant"] && point(one) == point(other)
}

/// Values of the sweep, without the variant's.
pub fn point(cell: &Value) -> String {
    let at = cell["at"].as_object().into_iter().flatten();
    let others = at.filter(|(_, value)| **value != cell["variant"]);
    let values: Vec<String> = others.map(|(name, value)| format!("{name} {}", told(value))).collect();
    if values.is_empty() { "-".to_owned() } else { values.join(", ") }
}

/// A mean in units of `scale`, rounded to the second digit of half its interval.
pub fn shown(measured: &Value, scale: f64) -> String {
    let Some(mean) = measured["mean"].as_f64().map(|mean| mean / scale) else { return "-".to_owned() };
    match [0, 1].map(|end: usize| measured["ci95"][end].as_f64().map(|end| end / scale)) {
        [Some(low), Some(high)] if low == high => format!("{} ± 0", number(mean)),
        [Some(low), Some(high)] => {
            let half = (high - low) / 2.0;
            format!("{mean:.0$} ± {half:.0$}", decimals(half, 2))
        }
        _ => number(mean),
    }
}

/// Four significant digits, or a whole number.
pub fn number(value: f64) -> String {
    let text = format!("{value:.*}", decimals(value, 4));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Decimals that show this many significant digits.
pub fn decimals(value: f64, digits: i32) -> usize {
    let before = if value == 0.0 { 1 } else { value.abs().log10().floor() as i32 + 1 };
    (digits - before).clamp(0, 6) as usize
}

pub fn told(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned).replace('|', "\\|")
}
