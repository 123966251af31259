//! Elements of a document, independent of its form.

use super::table::Table;
use crate::report::figures::figure::Figure;
use crate::report::judge::cell::Verdict;

/// A writer skips elements that its format cannot show.
pub enum Element {
    Title(String),
    Heading {
        /// Anchor on a page; empty if nothing links to it.
        id: &'static str,
        text: String,
    },
    /// What the document shows, in one sentence.
    Claim(String),
    Sentence(String),
    /// Emphasised sentence.
    Conclusion(String),
    /// Subject, and a sentence about it.
    Remark(&'static str, String),
    Facts(Vec<(String, String)>),
    /// Cells by verdict, and lists about them.
    Verdicts(Tally, Vec<List>),
    Table(Table),
    List(List),
    Code(String),
    /// A drawing made of characters. Left out on pages.
    Plot(String),
    /// A drawing. Only on pages.
    Figure(Figure),
}

pub struct Tally {
    /// In the order of [`Tally::VERDICTS`].
    pub counts: [usize; 3],
    /// Why cells are not comparable, with counts.
    pub reasons: String,
}

impl Tally {
    pub const VERDICTS: [Verdict; 3] = [Verdict::Within, Verdict::Outside, Verdict::NotComparable];

    pub fn sentence(&self) -> String {
        let [within, outside, not_comparable] = self.counts;
        let reasons = if self.reasons.is_empty() { String::new() } else { format!(" ({})", self.reasons) };
        format!("{within} within, {outside} outside, {not_comparable} not comparable{reasons}")
    }
}

/// The marks before the items of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// No marks, because the list belongs to the table above.
    None,
    Verdicts,
    /// Numbers from 1, to which tables refer.
    Numbers,
    Bullets,
}

pub struct List {
    /// Heading on a page.
    pub question: &'static str,
    /// Noun for the collapsed items: `7 more outside their range`.
    pub what: &'static str,
    pub marks: Marks,
    /// Shape: at least one.
    pub items: Vec<Item>,
}

#[derive(Default)]
pub struct Item {
    /// The verdict and its word in this list.
    pub verdict: Option<(Verdict, &'static str)>,
    /// Anchor and name of its subject.
    pub about: Option<(String, String)>,
    pub text: String,
    /// What to do; may be empty.
    pub advice: String,
}

impl Item {
    /// The whole item in one line, for forms without links.
    pub fn line(&self) -> String {
        let about = self.about.as_ref().map_or(String::new(), |(_, name)| format!("{name}: "));
        let advice = if self.advice.is_empty() { String::new() } else { format!("; {}", self.advice) };
        format!("{about}{}{advice}", self.text)
    }

    /// The word for its verdict, as a prefix.
    pub fn label(&self) -> String {
        self.verdict.map_or(String::new(), |(_, word)| format!("{word}: "))
    }
}
