//! Every mistake that the declarations show: unknown and missing fields, and malformed values.
//!
//! Reading stops at the first mistake. This pass finds the others, so that a file needs fewer attempts. It does not
//! know which values other tables override.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use super::sweep::is_of_cells;
use super::table::{CellReader, REFERENCE, Result, ScenarioTable};
use super::value::{Read, ScenarioValue, names_in};
use crate::path::rate_trace::RateText;
use crate::scenario::reference::{Kind, hint};
use crate::scenario::spec::Variable;
use host::written::{MISTAKES_MAX, Mistake, Mistakes};
use shared::model::run::At;
use shared::units::{BitsPerSec, Bytes, QueueSize, Share};

/// Limit for all passes together, bytes. Each value of the sweep needs a pass over the text.
const BYTES_MAX: usize = 4 << 20;
/// Limit of mistakes that are met, because many may have the same line and text.
const MET_MAX: usize = 20 * MISTAKES_MAX;
/// Begins the dotted name of every variable.
const SWEEP: &str = "sweep.";

impl CellReader<'_> {
    /// The first mistake, and all others that the declarations show.
    pub(super) fn all_mistakes(&self, first: Mistake) -> Mistakes {
        let sweep = self.read_sweep();
        let mut survey = Survey { found: BTreeSet::new(), met: 0, has_sweep: sweep.is_ok() };
        let passes = (BYTES_MAX / self.text.len().max(1)).max(1);
        let cells = one_by_one(&sweep.unwrap_or_default(), passes);
        survey.add_from(&CellReader { at: &cells[0], ..*self }.document());
        for at in &cells[1..] {
            let mut of_cell = Survey { found: BTreeSet::new(), met: 0, ..survey };
            of_cell.add_from(&CellReader { at, ..*self }.document());
            survey.found.extend(of_cell.found.into_iter().filter(|it| it.field.starts_with(SWEEP)));
        }
        let is_first = |it: &Mistake| {
            let differs = first.given.is_some() && it.given.is_some() && it.given != first.given;
            it.line == first.line && it.field == first.field && !differs
        };
        let others: Vec<Mistake> = survey.found.into_iter().filter(|it| !is_first(it)).collect();
        described(Mistakes::sorted(self.file, [vec![first], others].concat(), REFERENCE))
    }
}

/// The first cell, then a cell for each other value of each variable; at most `cells` in all.
fn one_by_one(sweep: &[Variable], cells: usize) -> Vec<At> {
    let first: At = sweep.iter().map(|variable| (variable.name.clone(), variable.values[0].clone())).collect();
    let with = |name: &String, value: &String| {
        let mut at = first.clone();
        at.insert(name.clone(), value.clone());
        at
    };
    let others = sweep.iter().flat_map(|of| of.values[1..].iter().map(|value| with(&of.name, value)));
    [first.clone()].into_iter().chain(others).take(cells).collect()
}

/// Gives the first mistake a hint if it has none.
pub(super) fn described(mut mistakes: Mistakes) -> Mistakes {
    let first = &mut mistakes.mistakes[0];
    first.hint.get_or_insert_with(|| hint(&first.field));
    mistakes
}

/// The mistakes found so far, each once, and no more than can be shown.
struct Survey {
    found: BTreeSet<Mistake>,
    /// Mistakes met, those with the same text included.
    met: usize,
    /// Whether every variable has a value.
    has_sweep: bool,
}

impl Survey {
    fn add_from(&mut self, table: &ScenarioTable<'_>) {
        if self.is_full() {
            return;
        }
        // A topology gives its links their nodes.
        let missing = table.missing_fields().filter(|it| !it.field.ends_with(".ends") || it.field == "link.ends");
        self.add(table.unknown_fields().chain(missing));
        for (_, value) in table.entries() {
            if self.is_full() {
                return;
            }
            match value.field.map(|field| &field.kind) {
                Some(Kind::Table(_)) => match value.any_table() {
                    Ok(table) => self.add_from(&table),
                    Err(mistake) => self.add([mistake]),
                },
                Some(Kind::Tables(_)) => match value.any_tables() {
                    Ok(tables) => tables.iter().for_each(|table| self.add_from(table)),
                    Err(mistake) => self.add([mistake]),
                },
                Some(kind) if self.knows(&value) => self.add(malformed(&value, kind)),
                _ => {}
            }
        }
    }

    /// Whether the value is known. A `$name` needs a readable sweep, and means nothing in a field of all cells.
    fn knows(&self, value: &ScenarioValue<'_>) -> bool {
        names_in(value.written.get_ref()).is_empty() || self.has_sweep && is_of_cells(&value.name)
    }

    fn is_full(&self) -> bool {
        self.found.len() > MISTAKES_MAX || self.met > MET_MAX
    }

    fn add(&mut self, mistakes: impl IntoIterator<Item = Box<Mistake>>) {
        for mistake in mistakes {
            if self.is_full() {
                return;
            }
            self.met += 1;
            self.found.insert(*mistake);
        }
    }
}

/// The mistake in a value when it is read as its kind.
fn malformed(value: &ScenarioValue<'_>, kind: &Kind) -> Option<Box<Mistake>> {
    fn refusal<T: Read>(value: &ScenarioValue<'_>) -> Result<()> {
        T::read(value).map(drop)
    }
    let read = match kind {
        Kind::Words(words) => value.word_of(words).map(drop),
        Kind::Whole(..) => refusal::<u64>(value),
        Kind::Time(_) => refusal::<Duration>(value),
        Kind::Queue => refusal::<QueueSize>(value),
        Kind::Data => refusal::<Bytes>(value),
        Kind::Share => refusal::<Share>(value),
        Kind::Rate(_) => refusal::<BitsPerSec>(value),
        Kind::RateOrTrace(_) => value.parsed(RateText::from_str).map(drop),
        Kind::Is(_) | Kind::Table(_) | Kind::Tables(_) => value.text().map(drop),
    };
    read.err()
}
