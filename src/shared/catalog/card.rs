//! The header comment of an algorithm's file, split by heading.

use serde::{Deserialize, Serialize};

pub const PATENTS: &str = "Patents";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The first sentence.
    pub summary: String,
    /// Heading and text, without the text's common indentation.
    ///
    /// Shape: in the order of the file.
    pub sections: Vec<(String, String)>,
}

impl Card {
    pub fn section(&self, heading: &str) -> Option<&str> {
        self.sections.iter().find(|(name, _)| name == heading).map(|(_, text)| text.as_str())
    }

    /// Parses a header. A heading is one capitalised word alone on an unindented line.
    pub fn parse(text: &str) -> Self {
        let mut card = Card::default();
        let mut body: Vec<&str> = Vec::new();
        for line in text.lines().map(str::trim_end) {
            if is_heading(line) {
                card.close(&mut body);
                card.sections.push((line.to_owned(), String::new()));
            } else {
                body.push(line);
            }
        }
        card.close(&mut body);
        card
    }

    /// Moves the lines gathered so far to the heading above them.
    fn close(&mut self, body: &mut Vec<&str>) {
        let indent = |line: &&str| line.len() - line.trim_start_matches(' ').len();
        let common = body.iter().filter(|line| !line.is_empty()).map(indent).min().unwrap_or(0);
        let lines: Vec<&str> = body.drain(..).map(|line| line.get(common..).unwrap_or("")).collect();
        let text = lines.join("\n").trim_matches('\n').to_owned();
        match self.sections.last_mut() {
            Some((_, section)) => *section = text,
            None => self.summary = text,
        }
    }
}

fn is_heading(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_uppercase()) && line.chars().all(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_taken_apart_by_headings() {
        let card = Card::parse("Reno: add one.\n\nSource\n  RFC 5681\n    section 3\n\nIdea\n  Probe.\n");
        assert_eq!(card.summary, "Reno: add one.");
        assert_eq!(card.section("Source"), Some("RFC 5681\n  section 3"));
        assert_eq!(card.section("Idea"), Some("Probe."));
        assert_eq!(card.section("Life"), None);
        assert_eq!(Card::parse(""), Card::default());
    }
}
