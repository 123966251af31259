//! The report as one self-contained page: no script, nothing loaded, light and dark, fit for paper.

use super::figure::{self, Figure};
use super::table::{self, Row, Table};
use super::{Report, Verdict, beside, number, selection, svg};
use crate::model::notice::Notice;

const STYLE: &str = include_str!("page.css");
/// So many cells outside their range are listed; more can be unfolded.
const LISTED: usize = 8;

/// Writes all reports on one page.
pub fn write(reports: &[Report]) -> String {
    let title = match reports {
        [report] => report.title.clone(),
        _ => format!("{} reports", reports.len()),
    };
    let sections: String =
        reports.iter().enumerate().map(|(index, report)| Section { index, report }.write()).collect();
    page(&title, &(together(reports) + &sections))
}

/// A self-contained page around a body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title),
    )
}

/// What stands above several reports: their verdicts, and those of one scenario side by side.
fn together(reports: &[Report]) -> String {
    let Some(overview) = beside::overview(reports) else { return String::new() };
    let all: Vec<&Report> = reports.iter().collect();
    let mut text = format!("<main id=\"top\">\n<h1>{} reports</h1>\n{}", reports.len(), boxed(&counts(&all)));
    let links = |row: &Row, index: usize| {
        let link = format!("<a href=\"#r{index}\">{}</a>", escaped(&row.cells[0]));
        let (class, sign) = look(row.verdict);
        let first = format!("<th scope=\"row\" class=\"words\"><span class=\"{class}\">{sign}</span> {link}</th>");
        let cell = |(column, cell): (&table::Column, &String)| {
            let class = if column.number { " class=\"number\"" } else { " class=\"words\"" };
            format!("<td{class}>{}</td>", escaped(cell))
        };
        let rest: String = overview.columns.iter().zip(&row.cells).skip(1).map(cell).collect();
        format!("<tr>{first}{rest}</tr>\n")
    };
    let rows: String = overview.rows.iter().enumerate().map(|(index, row)| links(row, index)).collect();
    text.push_str(&framed("overview", &overview, &rows));
    for (index, table) in beside::tables(reports).iter().enumerate() {
        let rows: String = table.rows.iter().map(|row| table_row(table, row, "")).collect();
        text.push_str(&framed(&format!("beside{index}"), table, &rows));
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
        let drawn: String = figure::figures(report).iter().map(drawn).collect();
        let notices = self.notices(&laid_out.notes);
        let mut page = format!("<main id=\"r{}\">\n<h1>{}</h1>\n", self.index, escaped(&report.title));
        page.push_str(&format!("<p class=\"claim\">{}</p>\n", escaped(&report.claim)));
        page.push_str(&self.links(&laid_out.tables, [!notices.is_empty(), !drawn.is_empty()]));
        page.push_str(&self.verdicts());
        page.push_str(&chosen(report));
        for table in &laid_out.tables {
            page.push_str(&self.table(table));
        }
        page.push_str(&remarks(report));
        page.push_str(&self.headed("Notes", "notes", &notices));
        page.push_str(&self.headed("Figures", "figures", &drawn));
        let definitions = table::definitions(report).into_iter().map(|(name, what)| described(name, &sentence(&what)));
        page.push_str(&self.headed("Metrics", "metrics", &format!("<dl>\n{}</dl>\n", definitions.collect::<String>())));
        let facts = table::header(report).into_iter().filter(|(name, _)| *name != "claim");
        let facts: String = facts.map(|(name, fact)| described(name, &escaped(&fact))).collect();
        page.push_str(&self.headed("How it was measured", "how", &format!("<dl>\n{facts}</dl>\n")));
        page + "</main>\n"
    }

    /// Where a part of the report is on the page.
    fn id(&self, part: &str) -> String {
        format!("r{}-{}", self.index, escaped(part))
    }

    /// A part under its heading; nothing where it is empty.
    fn headed(&self, heading: &str, part: &str, text: &str) -> String {
        if text.is_empty() { String::new() } else { format!("<h2 id=\"{}\">{heading}</h2>\n{text}", self.id(part)) }
    }

    /// Links to the parts of the report.
    fn links(&self, tables: &[Table], [notes, figures]: [bool; 2]) -> String {
        let link = |part: &str, name: &str| format!("<a href=\"#{}\">{}</a>\n", self.id(part), escaped(name));
        let mut links: String =
            tables.iter().map(|table| link(&table.metric, table.caption.split(':').next().unwrap_or(""))).collect();
        for (is_there, part, name) in
            [(notes, "notes", "Notes"), (figures, "figures", "Figures"), (true, "how", "How it was measured")]
        {
            links.push_str(&if is_there { link(part, name) } else { String::new() });
        }
        format!("<nav aria-label=\"parts of this report\">\n{links}</nav>\n")
    }

    fn table(&self, table: &Table) -> String {
        let rows: String = table.rows.iter().map(|row| table_row(table, row, &self.id("n"))).collect();
        let standings = table::standings(self.report, &table.metric);
        let standings = list("ul", standings.into_iter().map(|sentence| format!("<li>{}.</li>\n", escaped(sentence))));
        format!("{}<div class=\"findings\">{standings}</div>\n", framed(&self.id(&table.metric), table, &rows))
    }

    /// Verdicts in numbers, what is outside, and whether the source's numbers hold.
    fn verdicts(&self) -> String {
        let report = self.report;
        let mut text = counts(&[report]);
        let outside = report.cells.iter().filter(|cell| cell.verdict == Verdict::Outside).map(|cell| {
            let (metric, name) = (self.id(&cell.metric), escaped(&table::name_of(cell)));
            let (class, sign) = look(cell.verdict);
            let reason = escaped(&cell.verdict_reason);
            format!("<li><span class=\"{class}\">{sign}</span> <a href=\"#{metric}\">{name}</a>: {reason}</li>\n")
        });
        text.push_str(&unfolding("outside their range", outside.collect()));
        let published = table::published_findings(report).into_iter().map(|(holds, sentence)| {
            let (class, sign) = look(if holds { Verdict::Within } else { Verdict::Outside });
            format!("<li><span class=\"{class}\">{sign}</span> {}.</li>\n", escaped(sentence))
        });
        let published: Vec<String> = published.collect();
        if !published.is_empty() {
            text.push_str("<p><b>Do the published numbers hold on Linux?</b></p>\n");
            text.push_str(&unfolding("published numbers", published));
        }
        boxed(&text)
    }

    /// Notes by number, which the tables point to, then those on the whole report.
    fn notices(&self, notes: &[Notice]) -> String {
        let text = |notice: &Notice| {
            format!("{}<span class=\"advice\">; {}</span>", sentence(&notice.cause), sentence(&notice.advice))
        };
        let numbered = notes
            .iter()
            .enumerate()
            .map(|(number, notice)| format!("<li id=\"{}{}\">{}</li>\n", self.id("n"), number + 1, text(notice)));
        let others = self.report.notices.iter().map(|notice| format!("<li>{}</li>\n", text(notice)));
        list("ol", numbered) + &list("ul", others)
    }
}

fn boxed(text: &str) -> String {
    format!("<section class=\"verdicts\" aria-label=\"verdicts\">\n{text}</section>\n")
}

/// A list; nothing without items.
fn list(kind: &str, items: impl Iterator<Item = String>) -> String {
    let items: String = items.collect();
    if items.is_empty() { items } else { format!("<{kind}>\n{items}</{kind}>\n") }
}

/// A list of which the end can be unfolded where it is long.
fn unfolding(what: &str, mut items: Vec<String>) -> String {
    let more = items.split_off(items.len().min(LISTED));
    let more_count = more.len();
    let more = list("ul", more.into_iter());
    let more = if more.is_empty() {
        more
    } else {
        format!("<details>\n<summary>{more_count} more {what}</summary>\n{more}</details>\n")
    };
    list("ul", items.into_iter()) + &more
}

/// A name and what it stands for, which is markup.
fn described(name: &str, what: &str) -> String {
    format!("<dt>{}</dt><dd>{what}</dd>\n", escaped(name))
}

/// The choice of a parameter, where there is one.
fn chosen(report: &Report) -> String {
    let Some(chosen) = &report.selection else { return String::new() };
    let table = table::of_selection(chosen).map_or(String::new(), |table| {
        let rows: String = table.rows.iter().map(|row| table_row(&table, row, "")).collect();
        framed("", &table, &rows)
    });
    format!("{table}<p><b>{}</b>.</p>\n", sentence(&selection::sentence(chosen)))
}

/// How many cells have each verdict, and why those that are not comparable are not.
fn counts(reports: &[&Report]) -> String {
    let count = |verdict| {
        let cells = reports.iter().flat_map(|report| &report.cells);
        cells.filter(|cell| cell.verdict == verdict).count()
    };
    let mut text = String::from("<ul class=\"counts\">\n");
    for verdict in [Verdict::Within, Verdict::Outside, Verdict::NotComparable] {
        let (class, sign) = look(verdict);
        let (count, name) = (count(verdict), verdict.name());
        let class = if count == 0 { "none" } else { class };
        text.push_str(&format!("<li class=\"{class}\"><b>{count}</b> {sign} {name}</li>\n"));
    }
    let (within, judged) = (count(Verdict::Within), count(Verdict::Within) + count(Verdict::Outside));
    let share = number::percent(within as f64 / judged.max(1) as f64);
    let target = match judged {
        0 => "Nothing is published or expected of what was measured".to_owned(),
        _ => format!("{within} of {judged} measured cells with a target are within it ({share})"),
    };
    let reasons = table::not_comparable(reports);
    let reasons = if reasons.is_empty() { reasons } else { format!("; not comparable: {}", escaped(&reasons)) };
    text + &format!("</ul>\n<p>{target}{reasons}.</p>\n")
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
fn framed(id: &str, table: &Table, rows: &str) -> String {
    let caption = escaped(&table.caption);
    let id = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
    let shown = match caption.split_once(": ") {
        Some((name, what)) => format!("<b>{name}:</b> {what}"),
        None => format!("<b>{caption}</b>"),
    };
    let mut text = format!(
        "<div class=\"scroll\"{id} tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n<table>\n\
         <caption><span>{shown}</span></caption>\n<thead><tr>"
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
        let (class, sign) = look(row.verdict);
        let html = match column.title.as_str() {
            _ if column.names_rows => format!("<th scope=\"row\">{cell_text}</th>"),
            "verdict" => {
                let why = escaped(&row.reason);
                format!("<td><span class=\"{class}\" title=\"{why}\">{sign} {cell_text}</span></td>")
            }
            "intervals" => format!("<td><span class=\"{class}\">{cell_text}</span></td>"),
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

/// A drawing with its title and what it shows.
pub fn drawn(figure: &Figure) -> String {
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
    let stop = if figure.explanation.starts_with(char::is_lowercase) { ":" } else { "." };
    format!("<figure>\n<figcaption><b>{title}{stop}</b> {explanation}</figcaption>\n{body}\n</figure>\n")
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
