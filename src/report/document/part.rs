//! What a document consists of, whatever form it is written in.

use super::table::Table;
use crate::report::figures::figure::Figure;
use crate::report::judge::cell::Verdict;

/// One part of a document. Forms leave out what they cannot show.
pub enum Part {
    /// What the document is about.
    Title(String),
    /// What follows is about; `id` is its place on a page, where links lead to it.
    Heading {
        /// Empty where no link leads to it.
        id: &'static str,
        text: String,
    },
    /// What the document shows, in a sentence.
    Claim(String),
    Sentence(String),
    /// What all of it comes to.
    Conclusion(String),
    /// A sentence with what it is about before it.
    Remark(&'static str, String),
    /// Names and what they are.
    Facts(Vec<(String, String)>),
    /// How many cells have each verdict, and what belongs to that.
    Verdicts(Tally, Vec<List>),
    Table(Table),
    List(List),
    /// Text that stays as it is.
    Code(String),
    /// A drawing of characters; pages have figures instead.
    Plot(String),
    /// A drawing; text has plots instead.
    Figure(Figure),
}

/// Cells by verdict.
pub struct Tally {
    /// How many have each verdict: within, outside, not comparable.
    pub counts: [usize; 3],
    /// Why cells are not comparable, with their numbers; empty where all are.
    pub reasons: String,
}

impl Tally {
    /// The verdicts in the order of the counts.
    pub const VERDICTS: [Verdict; 3] = [Verdict::Within, Verdict::Outside, Verdict::NotComparable];

    pub fn sentence(&self) -> String {
        let [within, outside, not_comparable] = self.counts;
        let reasons = if self.reasons.is_empty() { String::new() } else { format!(" ({})", self.reasons) };
        format!("{within} within, {outside} outside, {not_comparable} not comparable{reasons}")
    }
}

/// What stands before the items of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Nothing: it belongs to the table above.
    None,
    Verdicts,
    /// Numbers from 1, to which tables point.
    Numbers,
    /// The same sign for all.
    Bullets,
}

pub struct List {
    /// What it answers, where a page asks.
    pub question: &'static str,
    /// What its items are called where many are folded away.
    pub what: &'static str,
    pub marks: Marks,
    /// At least one.
    pub items: Vec<Item>,
}

/// One item of a list.
#[derive(Default)]
pub struct Item {
    /// The verdict with the word for it here.
    pub verdict: Option<(Verdict, &'static str)>,
    /// Place and name of what it is about, where a link leads there.
    pub about: Option<(String, String)>,
    /// The sentence, without its full stop.
    pub text: String,
    /// What to do, where there is something.
    pub advice: String,
}

impl Item {
    /// All of it in one line, for forms without links.
    pub fn line(&self) -> String {
        let about = self.about.as_ref().map_or(String::new(), |(_, name)| format!("{name}: "));
        let advice = if self.advice.is_empty() { String::new() } else { format!("; {}", self.advice) };
        format!("{about}{}{advice}", self.text)
    }

    /// The word for its verdict, as a label.
    pub fn label(&self) -> String {
        self.verdict.map_or(String::new(), |(_, word)| format!("{word}: "))
    }
}
