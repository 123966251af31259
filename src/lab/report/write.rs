//! Writes reports in each format.

pub mod csv;
mod glyphs;
pub mod html;
pub mod json;
pub mod markdown;
pub mod paper;
mod pdf;
pub mod per_run;
mod sheet;
mod svg;
pub mod text;

use super::document::element::Element;

/// Joins documents with a blank line between them.
fn joined(documents: impl Iterator<Item = Vec<Element>>, write: fn(&Element) -> String) -> String {
    documents.map(|elements| elements.iter().map(write).collect::<String>()).collect::<Vec<_>>().join("\n")
}

/// Ends a sentence with a full stop, unless it has one.
fn stopped(sentence: &str) -> String {
    if sentence.ends_with('.') { sentence.to_owned() } else { format!("{sentence}.") }
}

/// Capitalises a word.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}
