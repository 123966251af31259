//! Documents as one self-contained page without scripts, for light and dark screens and for print.

use super::{capital, stopped, svg};
use crate::report::document::element::{Element, Item, List, Marks, Tally};
use crate::report::document::table::{Column, Role, Table, TableRow};
use crate::report::document::{self, ReportSection, section};
use crate::report::figures::figure::Figure;
use crate::report::judge::cell::Verdict;
use crate::report::judge::number::{self, NOTHING};
use crate::report::judge::report::Report;
use shared::sanitize::plain_lines;

const SECTIONS: [ReportSection; 13] = [
    section::claim,
    section::verdicts,
    section::checks,
    section::choice,
    section::metrics,
    section::all_flows,
    section::links,
    section::sources,
    section::nodes,
    section::notes,
    section::figures,
    section::definitions,
    section::how_measured,
];
const STYLE: &str = include_str!("page.css");
/// Up to this many items of a list of verdicts are visible. More are folded.
const LISTED: usize = 8;

/// Writes all reports on one page, below their overview.
pub fn write(reports: &[Report]) -> String {
    let title = match reports {
        [report] => report.title.clone(),
        _ => format!("{} reports", reports.len()),
    };
    let together = document::together(reports).map(|elements| Page::default().main("top", &elements, ""));
    let one = |(index, report): (usize, &Report)| {
        let (id, elements) = (format!("r{index}"), document::of(report, &SECTIONS));
        let page = Page { prefix: format!("{id}-") };
        page.main(&id, &elements, &page.links(&elements))
    };
    let sections = reports.iter().enumerate().map(one);
    page(&title, &together.into_iter().chain(sections).collect::<String>())
}

pub fn written(title: &str, documents: impl Iterator<Item = Vec<Element>>) -> String {
    page(title, &documents.map(|elements| Page::default().main("", &elements, "")).collect::<String>())
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title),
    )
}

/// Writes one document of a page.
#[derive(Default)]
struct Page {
    prefix: String,
}

impl Page {
    /// `links` are shown below title and claim.
    fn main(&self, id: &str, elements: &[Element], links: &str) -> String {
        let is_head = |element: &&Element| matches!(element, Element::Title(_) | Element::Claim(_));
        let (head, rest) = elements.split_at(elements.iter().take_while(is_head).count());
        let [head, rest] =
            [head, rest].map(|part| part.iter().map(|element| self.element(element)).collect::<String>());
        format!("<main{}>\n{head}{links}{rest}</main>\n", attribute("id", id))
    }

    fn element(&self, element: &Element) -> String {
        match element {
            Element::Title(title) => format!("<h1>{}</h1>\n", escaped(title)),
            Element::Heading { id, text } => format!("<h2{}>{}</h2>\n", attribute("id", &self.id(id)), escaped(text)),
            Element::Claim(text) => format!("<p class=\"claim\">{}</p>\n", escaped(text)),
            Element::Sentence(text) => format!("<p>{}</p>\n", marked(text)),
            Element::Conclusion(text) => format!("<p><b>{}</b></p>\n", marked(&stopped(text))),
            Element::Remark(about, text) => format!("<p><b>{}:</b> {}</p>\n", capital(about), escaped(&stopped(text))),
            Element::Facts(facts) => {
                let fact =
                    |(name, fact): &(String, String)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), marked(fact));
                format!("<dl>\n{}</dl>\n", facts.iter().map(fact).collect::<String>())
            }
            Element::Verdicts(tally, lists) => {
                let lists: String = lists.iter().map(|list| self.list(list)).collect();
                format!("<section class=\"verdicts\" aria-label=\"verdicts\">\n{}{lists}</section>\n", counts(tally))
            }
            Element::Table(table) => self.table(table),
            Element::List(list) => self.list(list),
            Element::Code(code) => {
                format!("<pre>{}</pre>\n", plain_lines(code).lines().map(escaped).collect::<Vec<_>>().join("\n"))
            }
            Element::Plot(_) => String::new(),
            Element::Figure(figure) => drawn(figure),
        }
    }

    /// The anchor of a name; empty without a name.
    fn id(&self, name: &str) -> String {
        if name.is_empty() { String::new() } else { format!("{}{}", self.prefix, escaped(name)) }
    }

    /// Links to the anchors of a document.
    fn links(&self, elements: &[Element]) -> String {
        let link = |element: &Element| {
            let (id, name) = match element {
                Element::Table(table) => (table.id.as_str(), table.caption.name.as_str()),
                Element::Heading { id, text } => (*id, text.as_str()),
                _ => return None,
            };
            (!id.is_empty()).then(|| format!("<a href=\"#{}\">{}</a>\n", self.id(id), escaped(name)))
        };
        let links: String = elements.iter().filter_map(link).collect();
        format!("<nav aria-label=\"parts of this report\">\n{links}</nav>\n")
    }

    fn list(&self, list: &List) -> String {
        let item = |(index, item): (usize, &Item)| {
            let id = if list.marks == Marks::Numbers { self.id(&format!("n{}", index + 1)) } else { String::new() };
            format!("<li{}>{}</li>\n", attribute("id", &id), self.item(item))
        };
        let mut items: Vec<String> = list.items.iter().enumerate().map(item).collect();
        let kind = if list.marks == Marks::Numbers { "ol" } else { "ul" };
        let listed = if list.marks == Marks::Verdicts { LISTED } else { items.len() };
        let more = items.split_off(items.len().min(listed));
        let mut text = format!("<{kind}>\n{}</{kind}>\n", items.concat());
        if !list.question.is_empty() {
            text = format!("<p><b>{}</b></p>\n{text}", list.question);
        }
        if !more.is_empty() {
            let (count, what) = (more.len(), list.what);
            let more = more.concat();
            text += &format!("<details>\n<summary>{count} more {what}</summary>\n<ul>\n{more}</ul>\n</details>\n");
        }
        if list.marks == Marks::None { format!("<div class=\"findings\">{text}</div>\n") } else { text }
    }

    fn item(&self, item: &Item) -> String {
        let sign = item.verdict.map_or(String::new(), |(verdict, _)| {
            let (class, sign) = look(verdict);
            format!("<span class=\"{class}\">{sign}</span> ")
        });
        let about = item
            .about
            .as_ref()
            .map_or(String::new(), |(id, name)| format!("<a href=\"#{}\">{}</a>: ", self.id(id), escaped(name)));
        if item.advice.is_empty() {
            return format!("{sign}{about}{}", marked(&stopped(&item.text)));
        }
        let advice = marked(&stopped(&item.advice));
        format!("{sign}{about}{}<span class=\"advice\">; {advice}</span>", marked(&item.text))
    }

    fn table(&self, table: &Table) -> String {
        let caption = escaped(&table.caption.to_string());
        let (name, meaning) = (escaped(&table.caption.name), escaped(&table.caption.meaning));
        let shown = match (name.is_empty(), meaning.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!("<caption><span><b>{name}</b></span></caption>\n"),
            (false, false) => format!("<caption><span><b>{name}:</b> {meaning}</span></caption>\n"),
        };
        let headings: String = table.columns.iter().filter(|one| one.role != Role::Interval).map(heading).collect();
        let rows: String = (0..table.rows.len()).map(|index| self.row(table, index)).collect();
        format!(
            "<div class=\"scroll\"{} tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n{shown}<thead><tr>\
             {headings}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n",
            attribute("id", &self.id(&table.id)),
            if caption.is_empty() { "table" } else { &caption },
        )
    }

    /// Intervals are shown below the numbers before them.
    fn row(&self, table: &Table, index: usize) -> String {
        let row = &table.rows[index];
        let mut text = String::from(if row.starts_group { "<tr class=\"group\">" } else { "<tr>" });
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| column.role != Role::Interval) {
            let below = table.columns.get(at + 1).filter(|next| next.role == Role::Interval);
            let below = below.map(|next| next.cells[index].as_str()).filter(|interval| *interval != NOTHING);
            text.push_str(&self.cell(column.role, &column.cells[index], row, below));
        }
        text + "</tr>\n"
    }

    fn cell(&self, role: Role, cell: &str, row: &TableRow, below: Option<&str>) -> String {
        let cell = escaped(cell);
        let (class, sign) = look(row.verdict);
        match role {
            Role::Name if row.link.is_empty() => format!("<th scope=\"row\">{cell}</th>"),
            Role::Name => {
                let link = format!("<a href=\"#{}\">{cell}</a>", row.link);
                format!("<th scope=\"row\" class=\"words\"><span class=\"{class}\">{sign}</span> {link}</th>")
            }
            Role::Verdict if cell == NOTHING => format!("<td>{cell}</td>"),
            Role::Verdict => {
                let why = attribute("title", &escaped(&row.reason));
                format!("<td><span class=\"{class}\"{why}>{sign} {cell}</span></td>")
            }
            Role::Notes => {
                let link = |number: &str| format!("<a href=\"#{}\">{number}</a>", self.id(&format!("n{number}")));
                let links: Vec<String> = cell.split_whitespace().map(link).collect();
                format!("<td class=\"notes\">{}</td>", links.join(" "))
            }
            Role::Number | Role::Interval => {
                let below = below.map_or(String::new(), |text| format!("<br><small>{}</small>", escaped(text)));
                format!("<td class=\"number\">{cell}{below}</td>")
            }
            Role::Word if row.link.is_empty() => format!("<td>{cell}</td>"),
            Role::Word => format!("<td class=\"words\">{cell}</td>"),
        }
    }
}

fn heading(column: &Column) -> String {
    let class = if column.is_number() { " class=\"number\"" } else { "" };
    let unit = match column.unit.as_str() {
        "" => String::new(),
        unit => format!("<br><span class=\"unit\">[{}]</span>", escaped(unit)),
    };
    format!("<th scope=\"col\"{class}>{}{unit}</th>", escaped(&column.title))
}

/// An attribute, unless its escaped text is empty.
fn attribute(name: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" {name}=\"{text}\"") }
}

/// Cells by verdict, and why cells are not comparable.
fn counts(tally: &Tally) -> String {
    let mut text = String::from("<ul class=\"counts\">\n");
    for (verdict, count) in Tally::VERDICTS.into_iter().zip(tally.counts) {
        let (class, sign) = look(verdict);
        let class = if count == 0 { "none" } else { class };
        text.push_str(&format!("<li class=\"{class}\"><b>{count}</b> {sign} {}</li>\n", verdict.name()));
    }
    let [within, outside, _] = tally.counts;
    let judged = within + outside;
    let share = number::percent(within as f64 / judged.max(1) as f64);
    let target = match judged {
        0 => "No cell was judged".to_owned(),
        _ => format!("{within} of {judged} judged cells are within their range ({share})"),
    };
    let reasons = escaped(&tally.reasons);
    let reasons = if reasons.is_empty() { reasons } else { format!("; not comparable: {reasons}") };
    text + &format!("</ul>\n<p>{target}{reasons}.</p>\n")
}

/// Class and sign of a verdict, so that colour alone never shows it.
fn look(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Within => ("within", "✓"),
        Verdict::Outside => ("outside", "✗"),
        Verdict::NotComparable => ("none", "–"),
    }
}

fn drawn(figure: &Figure) -> String {
    let (title, explanation) = (escaped(&figure.title), escaped(&figure.explanation));
    let entry = |(series, name): &(usize, String)| {
        let (class, mark) = svg::legend(*series);
        format!("<li><span class=\"{class}\" aria-hidden=\"true\">{mark}</span> {}</li>", escaped(name))
    };
    let legend: String = figure.legend.iter().map(entry).collect();
    let legend = if legend.is_empty() { legend } else { format!("<ul class=\"legend\">{legend}</ul>") };
    let drawing = svg::draw(&figure.charts, figure.layout, &figure.title);
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

/// Escapes text, and marks commands between backquotes.
fn marked(text: &str) -> String {
    let pieces: Vec<String> = text.split('`').map(escaped).collect();
    if pieces.len().is_multiple_of(2) {
        return pieces.join("`");
    }
    let code = |(index, piece): (usize, String)| if index % 2 == 1 { format!("<code>{piece}</code>") } else { piece };
    pieces.into_iter().enumerate().map(code).collect()
}

/// Escapes text from files, so that it never becomes markup.
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
