//! The report as one self-contained page: no script, nothing loaded, light and dark, fit for paper.

use super::figure::{self, Figure};
use super::table::{self, Row, Table};
use super::{Report, Verdict, beside, number, plot, selection, svg};
use crate::model::notice::Notice;

const STYLE: &str = include_str!("page.css");

/// Writes all reports on one page.
pub fn write(reports: &[Report]) -> String {
    let title = match reports {
        [report] => report.title.clone(),
        _ => format!("{} reports", reports.len()),
    };
    let sections: String =
        reports.iter().enumerate().map(|(index, report)| Section { index, report }.write()).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{}{sections}</body>\n</html>\n",
        escaped(&title),
        together(reports),
    )
}

/// What stands above several reports: their verdicts, and those of one scenario side by side.
fn together(reports: &[Report]) -> String {
    let Some(overview) = beside::overview(reports) else { return String::new() };
    let mut text = format!("<main>\n<h1>{} reports</h1>\n", reports.len());
    let links = |row: &Row, index: usize| {
        let mut cells = row.cells.iter().map(|cell| escaped(cell));
        let title = cells.next().unwrap_or_default();
        let sign = look(row.verdict).1;
        let (class, rest) = (look(row.verdict).0, cells.map(|cell| format!("<td>{cell}</td>")).collect::<String>());
        format!(
            "<tr><th scope=\"row\"><span class=\"{class}\">{sign}</span> <a href=\"#r{index}\">{title}</a></th>{rest}</tr>\n"
        )
    };
    let rows: String = overview.rows.iter().enumerate().map(|(index, row)| links(row, index)).collect();
    text.push_str(&framed(&overview, &rows));
    for table in beside::tables(reports) {
        let rows: String = table.rows.iter().map(|row| table_row(&table, row, "")).collect();
        text.push_str(&framed(&table, &rows));
    }
    text + "</main>\n"
}

/// One report on the page.
struct Section<'a> {
    index: usize,
    report: &'a Report,
}

impl Section<'_> {
    fn write(&self) -> String {
        let report = self.report;
        let laid_out = table::tables(report);
        let mut page = format!("<main id=\"r{}\">\n<h1>{}</h1>\n", self.index, escaped(&report.title));
        page.push_str(&format!("<p class=\"claim\">{}</p>\n", escaped(&report.claim)));
        page.push_str(&verdicts(report));
        page.push_str(&chosen(report));
        for table in &laid_out.tables {
            let note = format!("r{}-n", self.index);
            let rows: String = table.rows.iter().map(|row| table_row(table, row, &note)).collect();
            page.push_str(&framed(table, &rows));
        }
        page.push_str(&remarks(report));
        page.push_str(&self.notices(&laid_out.notes));
        page.push_str(&figures(report));
        page.push_str("<h2>Metrics</h2>\n<dl>\n");
        for (name, definition) in table::definitions(report) {
            page.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(&definition)));
        }
        page.push_str("</dl>\n<h2>How it was measured</h2>\n<dl>\n");
        for (name, fact) in table::header(report).into_iter().filter(|(name, _)| *name != "claim") {
            page.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&fact)));
        }
        page + "</dl>\n</main>\n"
    }

    /// Notes by number, which the tables point to, then those on the whole report.
    fn notices(&self, notes: &[Notice]) -> String {
        let text = |notice: &Notice| {
            format!("{}<span class=\"advice\">; {}</span>", sentence(&notice.cause), sentence(&notice.advice))
        };
        let general = &self.report.notices;
        if notes.is_empty() && general.is_empty() {
            return String::new();
        }
        let numbered = notes
            .iter()
            .enumerate()
            .map(|(number, notice)| format!("<li id=\"r{}-n{}\">{}</li>\n", self.index, number + 1, text(notice)));
        let numbered: String = numbered.collect();
        let others: String = general.iter().map(|notice| format!("<li>{}</li>\n", text(notice))).collect();
        let list =
            |name: &str, items: String| if items.is_empty() { items } else { format!("<{name}>\n{items}</{name}>\n") };
        format!("<h2>Notes</h2>\n{}{}", list("ol", numbered), list("ul", others))
    }
}

/// The choice of a parameter, where there is one.
fn chosen(report: &Report) -> String {
    let Some(chosen) = &report.selection else { return String::new() };
    let table = table::of_selection(chosen).map_or(String::new(), |table| {
        let rows: String = table.rows.iter().map(|row| table_row(&table, row, "")).collect();
        framed(&table, &rows)
    });
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
    let (within, judged) = (count(Verdict::Within), count(Verdict::Within) + count(Verdict::Outside));
    if judged > 0 {
        let share = number::percent(within as f64 / judged as f64);
        text.push_str(&format!("<p>{within} of {judged} cells with a target are within it ({share}).</p>\n"));
    }
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

/// A table with its caption and headings around rows.
fn framed(table: &Table, rows: &str) -> String {
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>\n<caption><span>{0}</span></caption>\n\
         <thead><tr>",
        escaped(&table.caption)
    );
    for column in table.columns.iter().filter(|column| !column.below) {
        let class = if column.number { " class=\"number\"" } else { "" };
        let unit = if column.unit.is_empty() {
            String::new()
        } else {
            format!("<br><span class=\"unit\">[{}]</span>", escaped(&column.unit))
        };
        text.push_str(&format!("<th scope=\"col\"{class}>{}{unit}</th>", escaped(&column.title)));
    }
    format!("{text}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n")
}

/// A row; the numbers of its notes lead to them where `note` says how their places begin.
fn table_row(table: &Table, row: &Row, note: &str) -> String {
    let mut text = String::from(if row.starts_group { "<tr class=\"group\">" } else { "<tr>" });
    let below = |index: usize| {
        let interval = table.columns.get(index + 1).is_some_and(|next| next.below).then(|| &row.cells[index + 1]);
        let interval = interval.filter(|text| *text != table::NOTHING);
        interval.map_or(String::new(), |text| format!("<br><small>{}</small>", escaped(text)))
    };
    for (index, (column, cell)) in table.columns.iter().zip(&row.cells).enumerate().filter(|(_, (c, _))| !c.below) {
        let cell_text = escaped(cell);
        let html = match column.title.as_str() {
            "variant" => format!("<th scope=\"row\">{cell_text}</th>"),
            "verdict" => {
                let (class, sign) = look(row.verdict);
                format!("<td><span class=\"{class}\">{sign} {cell_text}</span></td>")
            }
            "intervals" => {
                let (class, _) = look(row.verdict);
                format!("<td><span class=\"{class}\">{cell_text}</span></td>")
            }
            "notes" if !note.is_empty() => {
                let link = |number: &str| format!("<a href=\"#{note}{number}\">{number}</a>");
                let links: Vec<String> = cell_text.split_whitespace().map(link).collect();
                format!("<td class=\"notes\">{}</td>", links.join(" "))
            }
            _ if column.number => format!("<td class=\"number\">{cell_text}{}</td>", below(index)),
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

/// Every figure; many of one kind can be unfolded one by one.
fn figures(report: &Report) -> String {
    let figures: String = figure::figures(report).iter().map(drawn).collect();
    if figures.is_empty() { figures } else { format!("<h2>Figures</h2>\n{figures}") }
}

/// A drawing with its title and what it shows.
fn drawn(figure: &Figure) -> String {
    let (title, explanation) = (escaped(&figure.title), escaped(&figure.explanation));
    let entry = |(series, name): &(usize, String)| {
        let (class, mark) = svg::legend(*series);
        format!("<li><span class=\"{class}\" aria-hidden=\"true\">{mark}</span> {}</li>", escaped(name))
    };
    let legend: String = figure.legend.iter().map(entry).collect();
    let legend = if legend.is_empty() { legend } else { format!("<ul class=\"legend\">{legend}</ul>") };
    let drawing = svg::draw(&figure.charts, figure.format, &figure.title);
    let body =
        format!("{legend}<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">{drawing}</div>");
    if figure.folded {
        return format!(
            "<details>\n<summary>{title}</summary>\n<figure><p>{explanation}</p>{body}</figure>\n</details>\n"
        );
    }
    format!("<figure>\n<figcaption><b>{title}.</b> {explanation}</figcaption>\n{body}\n</figure>\n")
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
pub fn escaped(text: &str) -> String {
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
