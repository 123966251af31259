//! `[[check]]`: a property of events over time, which a report judges in every run.
//!
//! A check says what must hold of one quantity in a window of time. [`mod@super::reference`] declares its fields.

mod bound;
mod quantity;

use std::fmt;
use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use super::document::link::Nodes;
use super::document::shown::Points;
use super::reference::{CheckFields, ConditionFields};
use super::spec::Cell;
use host::read_with;
use host::toml_reader::{Found, Read, Result, Table, Text, Value, each};
use shared::suggest::nearest;
use shared::units::{ParseError, format_duration, parse_duration};

pub use self::bound::{Bound, BoundOf, FieldUnit};
pub use self::quantity::{Quantity, QuantityOf, Unit};

/// What must hold of a quantity at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub what: Quantity,
    pub test: Test,
    /// Time over which a count grows, or a rate is taken.
    pub over: Option<Span>,
    /// Sender and receiver of the link whose queue it is about. `None`: the flow's bottleneck.
    pub link: Option<[String; 2]>,
    /// What the quantity is measured in, and what 1 of its recorded value is worth.
    pub unit: FieldUnit,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// At least one of them is there.
    Range { at_least: Option<Bound>, at_most: Option<Bound> },
    /// Whether the value is one of these words or numbers, or none.
    Is { words: Vec<String>, expected: bool },
}

/// When the condition of a check must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Must {
    /// At every moment of the window.
    #[default]
    Always,
    /// At one moment of the window.
    Reach,
    /// At no moment of the window.
    Never,
}

read_with!(Value::word => Must);

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Time(Duration),
    /// Round trips of the flow, counted by its packets.
    Rounds(u32),
}

/// One word or a list of words; numbers and truths as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

/// When a check begins to judge.
#[derive(Debug, Clone, PartialEq)]
pub enum Begin {
    /// At the start of the window.
    Start,
    /// At the first moment at which all of these hold.
    After(Vec<Condition>),
    /// At every moment at which all of these begin to hold.
    Each(Vec<Condition>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub name: String,
    /// Reason and source.
    pub why: String,
    pub condition: Condition,
    pub must: Must,
    pub begin: Begin,
    /// After the start of the run. `None`: the ends of the flow.
    pub from: Option<Duration>,
    pub to: Option<Duration>,
    pub within: Option<Span>,
    /// The window ends before the first later moment at which all of these hold.
    pub until: Vec<Condition>,
    /// Only moments at which all of these hold count.
    pub only_while: Vec<Condition>,
    /// `None`: the compared flows.
    pub flow: Option<String>,
    pub at: Points,
}

impl Span {
    fn parse(text: &str) -> Result<Span, ParseError> {
        const EXPECTED: &str = "a time or a number of rounds above 0, such as 2s or 5rounds";
        let refuse = || ParseError::new(text, EXPECTED);
        let rounds = text.trim().strip_suffix("rounds").or_else(|| text.trim().strip_suffix("round"));
        let span = match rounds {
            Some(rounds) => Span::Rounds(rounds.trim().parse().map_err(|_| refuse())?),
            None => Span::Time(parse_duration(text).map_err(|_| refuse())?),
        };
        if [Span::Rounds(0), Span::Time(Duration::ZERO)].contains(&span) { Err(refuse()) } else { Ok(span) }
    }
}

read_with!(|value: &Value<'_>| value.parsed(Span::parse) => Span);

impl Read for Words {
    fn read(value: &Value<'_>) -> Result<Self> {
        Ok(Words(each(&value.items(), |item| Text::read(item).map(|Text(text)| text))?))
    }
}

impl Read for Condition {
    fn read(value: &Value<'_>) -> Result<Self> {
        let table = value.table()?;
        let fields = ConditionFields::of_table(&table)?;
        let ConditionFields { what, at_least, at_most, is, is_not, over, link, unit } = fields;
        let condition = Condition::of((what, at_least, at_most), (is, is_not), (over, link, unit), &table)?;
        match condition.uses_before() {
            None => Ok(condition),
            Some(field) => {
                let why = "`before` is the value before the window of the check, which only its own condition has";
                Err(table.need(field)?.refuse(why).into())
            }
        }
    }
}

impl Condition {
    /// Checks what belongs together.
    fn of(
        (what, at_least, at_most): (Quantity, Option<Bound>, Option<Bound>),
        (is, is_not): (Option<Words>, Option<Words>),
        (over, link, unit): (Option<Span>, Option<Nodes>, Option<FieldUnit>),
        table: &Table<'_>,
    ) -> Result<Condition> {
        let mut found = Found::default();
        let is_state = matches!(what.of, QuantityOf::State { .. });
        if unit.is_some() && !is_state {
            found.add(table.need("unit")?.refuse_field("expected only for a field of the private state, state.FIELD"));
        }
        if over.is_some() && !what.is_count() && what.of != QuantityOf::DeliveryRate {
            found.add(table.need("over")?.refuse_field(format!("\"{}\" is no count: it does not grow", what.name)));
        }
        if link.is_some() && what.of != QuantityOf::Queue {
            found.add(table.need("link")?.refuse_field("expected only for the queue of a link, such as queue_pkts"));
        }
        let unit = unit.filter(|_| is_state).unwrap_or(FieldUnit { scale: 1.0, unit: what.unit() });
        for (field, bound) in [("at_least", &at_least), ("at_most", &at_most)] {
            if let Some(why) = bound.as_ref().and_then(|bound| bound.misfit(unit.unit)) {
                found.add(table.need(field)?.refuse(why));
            }
        }
        let fixed = what.fixed_words();
        for (field, words) in [("is", &is), ("is_not", &is_not)] {
            let wrong = words.iter().flat_map(|Words(words)| words).find(|word| !fixed.contains(&word.as_str()));
            if let Some(word) = wrong.filter(|_| !fixed.is_empty()) {
                let mistake = table.need(field)?.mistake(format!("expected one of {}", fixed.join(", ")));
                found.add(mistake.given(format!("\"{word}\"")).suggest(nearest(word, fixed.iter().copied())));
            }
        }
        let test = match (at_least.is_some() || at_most.is_some(), is, is_not) {
            (true, None, None) => Some(Test::Range { at_least, at_most }),
            (false, Some(Words(words)), None) => Some(Test::Is { words, expected: true }),
            (false, None, Some(Words(words))) => Some(Test::Is { words, expected: false }),
            (false, None, None) => {
                found.add(table.refuse("expected a condition: `at_most`, `at_least`, `is` or `is_not`"));
                None
            }
            _ => {
                found.add(table.refuse("expected one condition: `at_most` and `at_least`, `is`, or `is_not`"));
                None
            }
        };
        let link = link.map(|Nodes(ends)| ends);
        match test.filter(|_| found.is_empty()) {
            Some(test) => Ok(Condition { what, test, over, link, unit }),
            None => Err(found),
        }
    }

    /// Its bounds, by field.
    pub fn bounds(&self) -> impl Iterator<Item = (&'static str, &Bound)> {
        let bounds = match &self.test {
            Test::Range { at_least, at_most } => [("at_least", at_least.as_ref()), ("at_most", at_most.as_ref())],
            Test::Is { .. } => [("is", None), ("is_not", None)],
        };
        bounds.into_iter().filter_map(|(field, bound)| Some((field, bound?)))
    }

    /// The field with a bound that is relative to the value before the window.
    fn uses_before(&self) -> Option<&'static str> {
        self.bounds().find(|(_, bound)| bound.of == BoundOf::Before).map(|(field, _)| field)
    }

    /// Its quantity, and those that its bounds refer to.
    pub fn quantities(&self) -> impl Iterator<Item = &Quantity> {
        let others = self.bounds().filter_map(|(_, bound)| match &bound.of {
            BoundOf::Other(other) => Some(other),
            _ => None,
        });
        std::iter::once(&self.what).chain(others)
    }
}

impl Read for Check {
    fn read(value: &Value<'_>) -> Result<Self> {
        let table = value.table()?;
        let fields = CheckFields::of_table(&table)?;
        let CheckFields { name, why, must, from, to, within, after, each, until, r#while, flow, at, .. } = fields;
        let CheckFields { what, at_least, at_most, is, is_not, over, link, unit, .. } = fields;
        let mut found = Found::default();
        let condition = Condition::of((what, at_least, at_most), (is, is_not), (over, link, unit), &table);
        let condition = found.keep(condition);
        if !after.is_empty() && !each.is_empty() {
            found.add(table.need("each")?.refuse_field("expected `after` or `each`, not both"));
        }
        let begins = from.is_some() || !after.is_empty() || !each.is_empty();
        if let Some(field) = condition.as_ref().and_then(Condition::uses_before).filter(|_| !begins) {
            found.add(table.need(field)?.refuse("there is no `before` without `from`, `after` or `each`"));
        }
        let Some(condition) = condition.filter(|_| found.is_empty()) else { return Err(found) };
        let begin = match (after.is_empty(), each.is_empty()) {
            (true, true) => Begin::Start,
            (false, _) => Begin::After(after),
            (true, false) => Begin::Each(each),
        };
        let only_while = r#while;
        Ok(Check { name, why, condition, must, begin, from, to, within, until, only_while, flow, at })
    }
}

impl Check {
    /// The condition of the check, and all others.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let begin: &[Condition] = match &self.begin {
            Begin::Start => &[],
            Begin::After(conditions) | Begin::Each(conditions) => conditions,
        };
        std::iter::once(&self.condition).chain(begin).chain(&self.until).chain(&self.only_while)
    }

    /// Whether the check judges runs of this cell: the cell is at its points and runs its flow.
    pub fn is_about(&self, cell: &Cell) -> bool {
        self.at.contain(&cell.at) && !self.flow.as_ref().is_some_and(|name| cell.leaves_out(name))
    }

    /// Whether a length of time is given in rounds.
    pub fn counts_rounds(&self) -> bool {
        let spans = self.conditions().filter_map(|condition| condition.over).chain(self.within);
        spans.into_iter().any(|span| matches!(span, Span::Rounds(_)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Span::Time(time) => f.write_str(&format_duration(*time)),
            Span::Rounds(1) => f.write_str("1 round"),
            Span::Rounds(rounds) => write!(f, "{rounds} rounds"),
        }
    }
}

impl fmt::Display for Test {
    /// `at most 2bdp`, `startup or drain`, `not startup`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Range { at_least: Some(low), at_most: Some(high) } => write!(f, "{} to {}", low.text, high.text),
            Test::Range { at_least, at_most } => {
                let bounds = [("at least", at_least), ("at most", at_most)].into_iter();
                let (side, bound) = bounds.filter_map(|(side, bound)| Some((side, bound.as_ref()?))).next().unzip();
                write!(f, "{} {}", side.unwrap_or_default(), bound.map_or("", |bound| bound.text.as_str()))
            }
            Test::Is { words, expected } => {
                write!(f, "{}{}", if *expected { "" } else { "not " }, words.join(" or "))
            }
        }
    }
}

impl Condition {
    /// The quantity: `sent_pkts over 1s`, `queue_pkts of left-right`.
    pub fn subject(&self) -> String {
        let over = self.over.map_or(String::new(), |over| format!(" over {over}"));
        let link = self.link.as_ref().map_or(String::new(), |[from, to]| format!(" of {from}-{to}"));
        format!("{}{over}{link}", self.what.name)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.subject(), self.test)
    }
}

/// `a is 1 and b is 2`.
pub fn all(conditions: &[Condition]) -> String {
    conditions.iter().map(Condition::to_string).collect::<Vec<_>>().join(" and ")
}

/// What the check asks, as one sentence without its full stop.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (subject, test) = (self.condition.subject(), &self.condition.test);
        match self.must {
            Must::Always => write!(f, "{subject} must be {test}")?,
            Must::Reach => write!(f, "{subject} must become {test}")?,
            Must::Never => write!(f, "{subject} must never be {test}")?,
        }
        self.within.map_or(Ok(()), |within| write!(f, " within {within}"))?;
        match &self.begin {
            Begin::Start => {}
            Begin::After(conditions) => write!(f, " after {}", all(conditions))?,
            Begin::Each(conditions) => write!(f, " each time that {}", all(conditions))?,
        }
        match [self.from, self.to].map(|time| time.map(format_duration)) {
            [Some(from), Some(to)] => write!(f, ", from {from} to {to}")?,
            [Some(from), None] => write!(f, ", from {from} on")?,
            [None, Some(to)] => write!(f, ", before {to}")?,
            [None, None] => {}
        }
        for (word, conditions) in [("until", &self.until), ("while", &self.only_while)] {
            if !conditions.is_empty() {
                write!(f, " {word} {}", all(conditions))?;
            }
        }
        Ok(())
    }
}
