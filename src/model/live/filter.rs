//! Words that a reader types to see some sockets only: `cubic`, `process:nginx`, `retrans>2%`, `srtt>50ms`.

use std::time::Duration;

use derive_more::Display;

use super::Live;
use super::listing::{SocketColumn, SocketValue};
use super::socket::Socket;
use crate::units::{BitsPerSec, Share, parse_duration};

/// Words that a socket must all have; none: every socket passes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Words(Vec<Word>);

#[derive(Debug, Clone, PartialEq)]
enum Word {
    /// Is in one of these columns, in any case of letters.
    Has(Vec<SocketColumn>, String),
    Above(SocketColumn, f64),
    Below(SocketColumn, f64),
}

/// A word that says nothing about a socket.
#[derive(Debug, Clone, PartialEq, Eq, Display)]
#[display("\"{given}\": expected {expected}")]
pub struct NotAWord {
    pub given: String,
    /// What would have been accepted, as a phrase.
    pub expected: String,
}

impl Words {
    /// Reads words separated by blanks: `text`, `column:text`, `column>value` or `column<value`.
    ///
    /// Values have their unit: `srtt>50ms`, `goodput>10mbit`, `retrans>2%`; packets have none.
    ///
    /// Errors: an unknown column, or a value that is no quantity of its column.
    pub fn parse(text: &str) -> Result<Words, NotAWord> {
        text.split_whitespace().map(parse_word).collect::<Result<_, _>>().map(Words)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a socket has all of them.
    pub fn pass(&self, live: &Live, socket: &Socket) -> bool {
        self.0.iter().all(|word| word.passes(live, socket))
    }
}

impl Word {
    fn passes(&self, live: &Live, socket: &Socket) -> bool {
        match self {
            Word::Has(columns, wanted) => columns.iter().any(|column| match live.cell(socket, *column) {
                SocketValue::Text(text) => text.to_lowercase().contains(wanted),
                _ => false,
            }),
            Word::Above(column, than) => {
                matches!(live.cell(socket, *column), SocketValue::Number(value) if value > *than)
            }
            Word::Below(column, than) => {
                matches!(live.cell(socket, *column), SocketValue::Number(value) if value < *than)
            }
        }
    }
}

fn parse_word(word: &str) -> Result<Word, NotAWord> {
    // An address has colons too; only a column's name makes the first of them ours.
    let split = word.find([':', '=', '>', '<']).filter(|_| !word.starts_with('['));
    let Some((name, rest)) = split.map(|at| word.split_at(at)) else {
        return Ok(Word::Has(searched(), word.to_lowercase()));
    };
    let (sign, value) = rest.split_at(1);
    match (column_named(name), sign) {
        (None, ":") => Ok(Word::Has(searched(), word.to_lowercase())),
        (None, _) => Err(refusal(word, column_names())),
        (Some(column), "<" | ">") if !column.is_text() => {
            let number = parse_value(column, value).ok_or_else(|| refusal(word, unit_of(column).to_owned()))?;
            Ok(if sign == ">" { Word::Above(column, number) } else { Word::Below(column, number) })
        }
        (Some(column), ":" | "=") if column.is_text() => Ok(Word::Has(vec![column], value.to_lowercase())),
        (Some(column), _) if column.is_text() => Err(refusal(word, format!("`{}:text`", column.name()))),
        (Some(column), _) => Err(refusal(word, format!("`{0}>value` or `{0}<value`", column.name()))),
    }
}

/// Where a word without a column is looked for.
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

/// A column by its name, or by the beginning of one only.
fn column_named(text: &str) -> Option<SocketColumn> {
    let exact = SocketColumn::ALL.iter().copied().find(|column| column.name() == text);
    let mut begun =
        SocketColumn::ALL.iter().copied().filter(|column| text.len() >= 2 && column.name().starts_with(text));
    match (exact, begun.next(), begun.next()) {
        (Some(column), _, _) | (None, Some(column), None) => Some(column),
        _ => None,
    }
}

fn unit_of(column: SocketColumn) -> &'static str {
    match column {
        SocketColumn::Srtt | SocketColumn::MinRtt | SocketColumn::Age => "a time such as 50ms",
        SocketColumn::Goodput | SocketColumn::Received => "a rate such as 10mbit",
        SocketColumn::Retrans => "a share such as 2%",
        _ => "a number of packets",
    }
}

fn parse_value(column: SocketColumn, text: &str) -> Option<f64> {
    let time = |scale: fn(Duration) -> f64| parse_duration(text).ok().map(scale);
    match column {
        SocketColumn::Srtt | SocketColumn::MinRtt => time(|time| time.as_micros() as f64),
        SocketColumn::Age => time(|time| time.as_nanos() as f64),
        SocketColumn::Goodput | SocketColumn::Received => text.parse::<BitsPerSec>().ok().map(|rate| rate.0 as f64),
        SocketColumn::Retrans => text.parse::<Share>().ok().map(|share| share.0),
        _ => text.parse::<u32>().ok().map(f64::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_by_column_sign_and_unit() {
        let has = |column, text: &str| Word::Has(vec![column], text.into());
        let parsed = Words::parse("process:NGINX retrans>2% srtt<50ms goodput>10mbit cwnd>7 alg=cubic").unwrap();
        let expected = [
            has(SocketColumn::Process, "nginx"),
            Word::Above(SocketColumn::Retrans, 0.02),
            Word::Below(SocketColumn::Srtt, 50_000.0),
            Word::Above(SocketColumn::Goodput, 10e6),
            Word::Above(SocketColumn::Cwnd, 7.0),
            has(SocketColumn::Algorithm, "cubic"),
        ];
        assert_eq!(parsed.0, expected);
        for text in ["10.0.0.1:443", "[fd00::1]:80", "fd00::1", "nginx"] {
            let any = Word::Has(searched(), text.into());
            assert_eq!(Words::parse(text).unwrap().0, [any], "{text} is looked for everywhere");
        }
        assert!(Words::parse("  ").unwrap().is_empty());
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
            let refusal = Words::parse(text).unwrap_err().to_string();
            assert!(refusal.contains(expected) && refusal.starts_with(&format!("\"{text}\"")), "{refusal}");
        }
    }
}
