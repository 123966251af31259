//! The filter of socket lists: `cubic`, `process:nginx`, `retrans>2%`, `srtt>50ms`.

use std::cmp::Ordering;
use std::time::Duration;

use derive_more::Display;

use super::Live;
use super::listing::{SocketColumn, SocketValue};
use super::socket::Socket;
use crate::units::{BitsPerSec, Share, parse_duration};

/// A socket must match all terms. Without a term every socket passes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SocketFilter(Vec<FilterTerm>);

#[derive(Debug, Clone, PartialEq)]
enum FilterTerm {
    /// One of these columns contains the text, ignoring case.
    Has(Vec<SocketColumn>, String),
    Is(SocketColumn, Ordering, f64),
}

/// A term that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Display)]
#[display("\"{given}\": expected {expected}")]
pub struct NotAWord {
    pub given: String,
    /// Accepted input, as a phrase.
    pub expected: String,
}

impl SocketFilter {
    /// Parses terms separated by whitespace: `text`, `column:text`, `column>value` or `column<value`.
    ///
    /// Values have a unit: `srtt>50ms`, `goodput>10mbit`, `retrans>2%`. Packets have none.
    ///
    /// # Errors
    /// An unknown column, or a value that does not fit its column.
    pub fn parse(text: &str) -> Result<SocketFilter, NotAWord> {
        text.split_whitespace().map(parse_word).collect::<Result<_, _>>().map(SocketFilter)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn pass(&self, live: &Live, socket: &Socket) -> bool {
        self.0.iter().all(|word| word.passes(live, socket))
    }
}

impl FilterTerm {
    fn passes(&self, live: &Live, socket: &Socket) -> bool {
        match self {
            FilterTerm::Has(columns, wanted) => columns.iter().any(|column| match live.cell(socket, *column) {
                SocketValue::Text(text) => text.to_lowercase().contains(wanted),
                _ => false,
            }),
            FilterTerm::Is(column, side, than) => {
                matches!(live.cell(socket, *column), SocketValue::Number(value) if value.total_cmp(than) == *side)
            }
        }
    }
}

fn parse_word(word: &str) -> Result<FilterTerm, NotAWord> {
    // An address has colons too, so the text before the first colon must be the name of a column.
    let split = word.find([':', '=', '>', '<']).filter(|_| !word.starts_with('['));
    let Some((name, rest)) = split.map(|at| word.split_at(at)) else {
        return Ok(FilterTerm::Has(searched(), word.to_lowercase()));
    };
    let (sign, value) = rest.split_at(1);
    match (column_named(name), sign) {
        (None, ":") => Ok(FilterTerm::Has(searched(), word.to_lowercase())),
        (None, _) => Err(refusal(word, column_names())),
        (Some(column), "<" | ">") if !column.is_text() => {
            let side = if sign == ">" { Ordering::Greater } else { Ordering::Less };
            let number = parse_value(column, value).map_err(|unit| refusal(word, unit.to_owned()))?;
            Ok(FilterTerm::Is(column, side, number))
        }
        (Some(column), ":" | "=") if column.is_text() => Ok(FilterTerm::Has(vec![column], value.to_lowercase())),
        (Some(column), _) if column.is_text() => Err(refusal(word, format!("`{}:text`", column.name()))),
        (Some(column), _) => Err(refusal(word, format!("`{0}>value` or `{0}<value`", column.name()))),
    }
}

/// Columns in which a term without a column is searched.
fn searched() -> Vec<SocketColumn> {
    SocketColumn::ALL.iter().copied().filter(|column| column.is_text()).collect()
}

fn refusal(word: &str, expected: String) -> NotAWord {
    NotAWord { given: word.to_owned(), expected }
}

fn column_names() -> String {
    let names: Vec<&str> = SocketColumn::ALL.iter().map(|column| column.name()).collect();
    format!("one of {}", names.join(", "))
}

/// Finds a column by its name or by an unambiguous prefix of two letters or more.
fn column_named(text: &str) -> Option<SocketColumn> {
    let exact = SocketColumn::ALL.iter().copied().find(|column| column.name() == text);
    let mut begun =
        SocketColumn::ALL.iter().copied().filter(|column| text.len() >= 2 && column.name().starts_with(text));
    match (exact, begun.next(), begun.next()) {
        (Some(column), _, _) | (None, Some(column), None) => Some(column),
        _ => None,
    }
}

/// Parses a value in a unit of its column.
///
/// # Errors
/// What was expected.
fn parse_value(column: SocketColumn, text: &str) -> Result<f64, &'static str> {
    let time = |scale: fn(Duration) -> f64| parse_duration(text).map(scale).map_err(|_| "a time such as 50ms");
    match column {
        SocketColumn::Srtt | SocketColumn::MinRtt => time(|time| time.as_micros() as f64),
        SocketColumn::Age => time(|time| time.as_nanos() as f64),
        SocketColumn::Goodput | SocketColumn::Received => {
            text.parse::<BitsPerSec>().map(|rate| rate.0 as f64).map_err(|_| "a rate such as 10mbit")
        }
        SocketColumn::Retrans => text.parse::<Share>().map(|share| share.0).map_err(|_| "a share such as 2%"),
        _ => text.parse::<u32>().map(f64::from).map_err(|_| "a number of packets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_by_column_sign_and_unit() {
        let has = |column, text: &str| FilterTerm::Has(vec![column], text.into());
        let parsed = SocketFilter::parse("process:NGINX retrans>2% srtt<50ms goodput>10mbit cwnd>7 alg=cubic").unwrap();
        let expected = [
            has(SocketColumn::Process, "nginx"),
            FilterTerm::Is(SocketColumn::Retrans, Ordering::Greater, 0.02),
            FilterTerm::Is(SocketColumn::Srtt, Ordering::Less, 50_000.0),
            FilterTerm::Is(SocketColumn::Goodput, Ordering::Greater, 10e6),
            FilterTerm::Is(SocketColumn::Cwnd, Ordering::Greater, 7.0),
            has(SocketColumn::Algorithm, "cubic"),
        ];
        assert_eq!(parsed.0, expected);
        for text in ["10.0.0.1:443", "[fd00::1]:80", "fd00::1", "nginx"] {
            let any = FilterTerm::Has(searched(), text.into());
            assert_eq!(SocketFilter::parse(text).unwrap().0, [any], "{text} is looked for everywhere");
        }
        assert!(SocketFilter::parse("  ").unwrap().is_empty());
    }

    #[test]
    fn words_that_say_nothing_are_refused_with_what_would() {
        for (text, expected) in [
            ("speed>3", "one of peer, local"),
            ("srtt>50", "a time such as 50ms"),
            ("retrans>2", "a share such as 2%"),
            ("goodput>ten", "a rate such as 10mbit"),
            ("cwnd>1.5", "a number of packets"),
            ("process>nginx", "`process:text`"),
            ("cwnd:7", "`cwnd>value`"),
            ("c>7", "one of peer"),
        ] {
            let refusal = SocketFilter::parse(text).unwrap_err().to_string();
            assert!(refusal.contains(expected) && refusal.starts_with(&format!("\"{text}\"")), "{refusal}");
        }
    }
}
