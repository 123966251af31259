//! The report as one self-contained page: no script, nothing loaded, light and dark, fit for paper.

use anyhow::Result;

use super::table::{self, Row, Table};
use super::{Report, Verdict, plot, selection, svg};
use crate::model::notice::Notice;

const STYLE: &str = include_str!("page.css");

/// Writes all reports on one page.
///
/// Errors: a plot cannot be drawn.
pub fn write(reports: &[Report]) -> Result<String> {
    let title = reports.iter().map(|report| report.title.as_str()).collect::<Vec<_>>().join("; ");
    let sections = reports.iter().map(section).collect::<Result<Vec<_>>>()?;
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}{}\n@media screen and (prefers-color-scheme: dark) {{\n{}\n}}\n</style>\n</head>\n<body>\n\
         {}</body>\n</html>\n",
        escaped(&title),
        svg::light_rules(),
        svg::dark_rules(),
        sections.concat(),
    ))
}

fn section(report: &Report) -> Result<String> {
    let laid_out = table::tables(report);
    let mut page = format!("<main>\n<h1>{}</h1>\n", escaped(&report.title));
    page.push_str(&format!("<p class=\"claim\">{}</p>\n", escaped(&report.claim)));
    page.push_str(&verdicts(report));
    page.push_str(&chosen(report));
    for table in &laid_out.tables {
        page.push_str(&grid(table));
    }
    page.push_str(&remarks(report));
    page.push_str(&notices(&laid_out.notes, &report.notices));
    for metric in table::metric_names(report) {
        page.push_str(&metric_figure(report, metric)?);
    }
    page.push_str(&windows(report)?);
    page.push_str("<h2>How it was measured</h2>\n<dl>\n");
    for (name, fact) in table::header(report).into_iter().filter(|(name, _)| *name != "claim") {
        page.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&fact)));
    }
    page.push_str("</dl>\n</main>\n");
    Ok(page)
}

/// The choice of a parameter, where there is one.
fn chosen(report: &Report) -> String {
    let Some(chosen) = &report.selection else { return String::new() };
    let table = table::of_selection(chosen).map_or(String::new(), |table| grid(&table));
    format!("{table}<p><b>{}</b>.</p>\n", sentence(&selection::sentence(chosen)))
}

fn verdicts(report: &Report) -> String {
    let count = |verdict| report.cells.iter().filter(|cell| cell.verdict == verdict).count();
    let mut text = String::from("<section class=\"verdicts\" aria-label=\"verdicts\">\n<ul class=\"counts\">\n");
    for verdict in [Verdict::Within, Verdict::Outside, Verdict::NotComparable] {
        let (class, sign) = look(verdict);
        let (count, name) = (count(verdict), verdict.name());
        text.push_str(&format!("<li class=\"{class}\"><b>{count}</b> {sign} {name}</li>\n"));
    }
    text.push_str("</ul>\n");
    let outside: Vec<_> = report.cells.iter().filter(|cell| cell.verdict == Verdict::Outside).collect();
    if !outside.is_empty() {
        text.push_str("<ul>\n");
        for cell in outside {
            let place = escaped(&plot::place_name(&cell.at));
            let reason = escaped(&cell.verdict_reason);
            text.push_str(&format!("<li>{} at {place}: {reason}</li>\n", escaped(&cell.metric)));
        }
        text.push_str("</ul>\n");
    }
    text + "</section>\n"
}

/// Class and sign of a verdict: never told by colour alone.
fn look(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Within => ("within", "✓"),
        Verdict::Outside => ("outside", "✗"),
        Verdict::NotComparable => ("none", "–"),
    }
}

fn grid(table: &Table) -> String {
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>\n<caption>{0}</caption>\n\
         <thead><tr>",
        escaped(&table.caption)
    );
    for column in &table.columns {
        let class = if column.number { " class=\"number\"" } else { "" };
        let unit = if column.unit.is_empty() {
            String::new()
        } else {
            format!("<br><span class=\"unit\">[{}]</span>", escaped(&column.unit))
        };
        text.push_str(&format!("<th scope=\"col\"{class}>{}{unit}</th>", escaped(&column.title)));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        text.push_str(&table_row(table, row));
    }
    text + "</tbody>\n</table>\n</div>\n"
}

fn table_row(table: &Table, row: &Row) -> String {
    let mut text = String::from(if row.starts_group { "<tr class=\"group\">" } else { "<tr>" });
    for (column, cell) in table.columns.iter().zip(&row.cells) {
        let cell_text = escaped(cell);
        let html = match column.title.as_str() {
            "variant" => format!("<th scope=\"row\">{cell_text}</th>"),
            "verdict" => {
                let (class, sign) = look(row.verdict);
                format!("<td><span class=\"{class}\">{sign} {cell_text}</span></td>")
            }
            "notes" => format!("<td class=\"notes\">{cell_text}</td>"),
            _ if column.number => format!("<td class=\"number\">{cell_text}</td>"),
            _ => format!("<td>{cell_text}</td>"),
        };
        text.push_str(&html);
    }
    text + "</tr>\n"
}

fn remarks(report: &Report) -> String {
    let places = table::published_places(report).join("; ");
    let mut text = String::new();
    if !places.is_empty() {
        text.push_str(&format!("<p><b>Published:</b> {}.</p>\n", escaped(&places)));
    }
    for basis in table::bases(report) {
        text.push_str(&format!("<p><b>Expected:</b> {}</p>\n", escaped(&basis)));
    }
    text
}

fn notices(notes: &[Notice], general: &[Notice]) -> String {
    let item = |notice: &Notice| {
        format!("<li>{}<span class=\"advice\">; {}</span></li>\n", sentence(&notice.cause), sentence(&notice.advice))
    };
    let mut text = String::new();
    if !notes.is_empty() || !general.is_empty() {
        text.push_str("<h2>Notes</h2>\n");
    }
    if !notes.is_empty() {
        text.push_str(&format!("<ol>\n{}</ol>\n", notes.iter().map(item).collect::<String>()));
    }
    if !general.is_empty() {
        text.push_str(&format!("<ul>\n{}</ul>\n", general.iter().map(item).collect::<String>()));
    }
    text
}

fn metric_figure(report: &Report, metric: &str) -> Result<String> {
    let cells = || report.cells.iter().filter(|cell| cell.metric == metric);
    let caption = table::caption(metric);
    let mut legend = String::new();
    for (index, variant) in svg::variants(report).into_iter().enumerate() {
        if cells().any(|cell| cell.variant == variant) {
            let (class, mark) = svg::legend(index);
            let name = escaped(variant);
            legend.push_str(&format!("<li><span class=\"{class}\" aria-hidden=\"true\">{mark}</span> {name}</li>"));
        }
    }
    let crosses = if cells().any(|cell| cell.published.is_some()) { "; crosses are the published values" } else { "" };
    let what = format!("Mean of the runs with its 95 % interval{crosses}.");
    let drawing = svg::metric(report, metric)?;
    Ok(figure(&caption, &format!("{what}<ul class=\"legend\">{legend}</ul>"), &drawing))
}

fn windows(report: &Report) -> Result<String> {
    if report.plots.is_empty() {
        return Ok(String::new());
    }
    let mut text = String::from("<h2>Congestion window over time</h2>\n");
    for plot in &report.plots {
        let place = plot.place_name();
        let title = if place.is_empty() { "cwnd over time".to_owned() } else { format!("cwnd over time, {place}") };
        let run = |line: &plot::Line| {
            let of = if line.runs > 1 { format!("the median of {} runs", line.runs) } else { "the only run".into() };
            format!("{}: {} ({of})", escaped(&line.variant), escaped(&line.run))
        };
        let runs = plot.lines.iter().map(run).collect::<Vec<_>>().join("; ");
        text.push_str(&figure(&title, &format!("Representative runs: {runs}."), &svg::windows(report, plot)?));
    }
    Ok(text)
}

/// A drawing with its title and an explanation that is HTML already.
fn figure(title: &str, explanation: &str, drawing: &str) -> String {
    let title = escaped(title);
    format!(
        "<figure>\n<figcaption><b>{title}.</b> {explanation}</figcaption>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"img\" aria-label=\"{title}\">{drawing}</div>\n</figure>\n"
    )
}

/// A notice's text: what stands between backquotes is a command.
fn sentence(text: &str) -> String {
    let pieces: Vec<String> = text.split('`').map(escaped).collect();
    if pieces.len().is_multiple_of(2) {
        return pieces.join("`");
    }
    let marked = |(index, piece): (usize, String)| if index % 2 == 1 { format!("<code>{piece}</code>") } else { piece };
    pieces.into_iter().enumerate().map(marked).collect()
}

/// Text from a file that must not become markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
