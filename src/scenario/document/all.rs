//! Every mistake that the declarations show: unknown and missing fields, and malformed values.
//!
//! Reading stops at the first mistake. This pass finds the others, so that a file needs fewer attempts.

use std::str::FromStr;
use std::time::Duration;

use super::table::{CellReader, REFERENCE, Result, ScenarioTable};
use super::value::{Read, ScenarioValue, names_in};
use crate::model::run::At;
use crate::path::rate_trace::RateText;
use crate::scenario::reference::{Kind, hint};
use crate::scenario::spec::Variable;
use crate::units::{BitsPerSec, Bytes, QueueSize, Share};
use crate::written::{MISTAKES_MAX, Mistake, Mistakes};

/// Bytes of text that are read in all, once for each value of the sweep.
const BYTES_MAX: usize = 4 << 20;

impl CellReader<'_> {
    /// The first mistake, and all others that the declarations show.
    pub(super) fn all_mistakes(&self, first: Mistake) -> Mistakes {
        let mut mistakes = Vec::new();
        let passes = (BYTES_MAX / self.text.len().max(1)).max(1);
        for at in self.read_sweep().map_or_else(|_| vec![At::new()], |sweep| one_by_one(&sweep, passes)) {
            add_from(&CellReader { at: &at, ..*self }.document(), &mut mistakes);
        }
        mistakes.retain(|it| (it.line, &it.field) != (first.line, &first.field));
        mistakes.push(first);
        described(Mistakes::sorted(self.file, mistakes, REFERENCE))
    }
}

/// The first cell, and cells with each other value of one variable; at most `cells`.
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

fn add_from(table: &ScenarioTable<'_>, mistakes: &mut Vec<Mistake>) {
    mistakes.extend(table.undeclared().take(MISTAKES_MAX).map(|it| *it));
    // A topology gives its links their nodes.
    mistakes
        .extend(table.left_out().filter(|it| !it.field.ends_with(".ends") || it.field == "link.ends").map(|it| *it));
    for (_, value) in table.entries() {
        if mistakes.len() > MISTAKES_MAX {
            return;
        }
        match value.field.map(|field| &field.kind) {
            Some(Kind::Table(_)) => match value.any_table() {
                Ok(table) => add_from(&table, mistakes),
                Err(mistake) => mistakes.push(*mistake),
            },
            Some(Kind::Tables(_)) => match value.any_tables() {
                Ok(tables) => tables.iter().for_each(|table| add_from(table, mistakes)),
                Err(mistake) => mistakes.push(*mistake),
            },
            Some(kind) => mistakes.extend(malformed(&value, kind).map(|it| *it)),
            None => {}
        }
    }
}

/// The mistake in a value, as far as its kind says how it is read. Without a readable sweep, `$name` means nothing yet.
fn malformed(value: &ScenarioValue<'_>, kind: &Kind) -> Option<Box<Mistake>> {
    fn refusal<T: Read>(value: &ScenarioValue<'_>) -> Result<()> {
        T::read(value).map(drop)
    }
    if value.reader.at.is_empty() && !names_in(value.written.get_ref()).is_empty() {
        return None;
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
