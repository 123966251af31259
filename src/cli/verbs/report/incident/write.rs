//! A document of headings, sentences, tables and figures, as text, Markdown or a page.

use crate::plain::{plain, plain_lines};
use crate::report::drawing::{self, Figure};

/// Width to which sentences are wrapped in a terminal.
const LINE: usize = 110;

/// One part of a document.
pub enum Part {
    /// What it is about.
    Title(String),
    /// What follows is about.
    Heading(String),
    /// Sentences.
    Sentence(String),
    /// Names and what they are.
    Facts(Vec<(&'static str, String)>),
    /// Rows of cells; the first column names them.
    Table(Table),
    /// Text that stays as it is.
    Code(String),
    /// What formats without figures leave out.
    Figure(Figure),
}

/// A table: the first column names the rows, the others are numbers.
pub struct Table {
    /// Headings.
    pub columns: Vec<String>,
    /// Shape: as many cells as columns.
    pub rows: Vec<Vec<String>>,
}

/// For a terminal.
pub fn text(parts: &[Part]) -> String {
    parts.iter().map(text_of).collect()
}

fn text_of(part: &Part) -> String {
    match part {
        Part::Title(title) => format!("{}\n", plain(title)),
        Part::Heading(heading) => format!("\n{}\n", plain(heading)),
        Part::Sentence(sentence) => wrapped(&plain(sentence)),
        Part::Facts(facts) => facts.iter().map(|(name, fact)| format!("  {name:<13}{}\n", plain(fact))).collect(),
        Part::Table(table) => grid(table),
        Part::Code(code) => plain_lines(code).lines().map(|line| format!("    {line}\n")).collect(),
        Part::Figure(_) => String::new(),
    }
}

fn wrapped(sentence: &str) -> String {
    let mut lines = vec![String::new()];
    for word in sentence.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LINE {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

fn grid(table: &Table) -> String {
    let rows: Vec<Vec<String>> = std::iter::once(&table.columns)
        .chain(&table.rows)
        .map(|row| row.iter().map(|it| plain(it)).collect())
        .collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let cell = |(at, text): (usize, &String)| match at {
        0 => format!("{text:<0$}", widths[0]),
        _ => format!("{text:>0$}", widths[at]),
    };
    let line = |row: &Vec<String>| format!("  {}\n", row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  "));
    rows.iter().map(line).collect()
}

/// For an issue.
pub fn markdown(parts: &[Part]) -> String {
    parts.iter().map(markdown_of).collect()
}

fn markdown_of(part: &Part) -> String {
    let escaped = drawing::markdown;
    match part {
        Part::Title(title) => format!("## {}\n\n", escaped(title)),
        Part::Heading(heading) => format!("\n### {}\n\n", escaped(heading)),
        Part::Sentence(sentence) => format!("{}\n\n", escaped(sentence)),
        Part::Facts(facts) => {
            facts.iter().map(|(name, fact)| format!("- {name}: {}\n", escaped(fact))).collect::<String>()
        }
        Part::Table(table) => {
            let line = |row: &Vec<String>| {
                format!("| {} |\n", row.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" | "))
            };
            let rule = std::iter::once("---").chain(table.columns.iter().skip(1).map(|_| "---:"));
            let rule = format!("| {} |\n", rule.collect::<Vec<_>>().join(" | "));
            line(&table.columns) + &rule + &table.rows.iter().map(line).collect::<String>()
        }
        // A fence that no line of the text can end.
        Part::Code(code) => plain_lines(code).lines().map(|line| format!("    {line}\n")).collect(),
        Part::Figure(_) => String::new(),
    }
}

/// One page for all documents.
pub fn html(documents: &[Vec<Part>]) -> String {
    let body = |parts: &Vec<Part>| format!("<main>\n{}</main>\n", parts.iter().map(html_of).collect::<String>());
    drawing::page("A limit was crossed", &documents.iter().map(body).collect::<String>())
}

fn html_of(part: &Part) -> String {
    let escaped = drawing::escaped;
    match part {
        Part::Title(title) => format!("<h1>{}</h1>\n", escaped(title)),
        Part::Heading(heading) => format!("<h2>{}</h2>\n", escaped(heading)),
        Part::Sentence(sentence) => format!("<p>{}</p>\n", escaped(sentence)),
        Part::Facts(facts) => {
            let fact =
                |(name, fact): &(&str, String)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(fact));
            format!("<dl>\n{}</dl>\n", facts.iter().map(fact).collect::<String>())
        }
        Part::Table(table) => html_table(table),
        Part::Code(code) => {
            format!("<pre>{}</pre>\n", plain_lines(code).lines().map(escaped).collect::<Vec<_>>().join("\n"))
        }
        Part::Figure(figure) => drawing::drawn(figure),
    }
}

fn html_table(table: &Table) -> String {
    let escaped = drawing::escaped;
    let class = |at: usize| if at > 0 { " class=\"number\"" } else { "" };
    let head = |(at, name): (usize, &String)| format!("<th scope=\"col\"{}>{}</th>", class(at), escaped(name));
    let cell = |(at, text): (usize, &String)| match at {
        0 => format!("<th scope=\"row\">{}</th>", escaped(text)),
        _ => format!("<td class=\"number\">{}</td>", escaped(text)),
    };
    let row = |row: &Vec<String>| format!("<tr>{}</tr>\n", row.iter().enumerate().map(cell).collect::<String>());
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n<thead><tr>{}</tr></thead>\n\
         <tbody>\n{}</tbody></table></div>\n",
        table.columns.iter().enumerate().map(head).collect::<String>(),
        table.rows.iter().map(row).collect::<String>()
    )
}
