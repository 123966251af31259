//! A recording as a source: all of it at once, as fast as it is taken.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::arms::KnownArms;
use super::arrival::{Arrival, Fact};
use super::event::Event;
use super::filter::Filter;
use super::record::read::{BlockContent, RecordingReader, Want};
use super::source::EventSource;

/// A recording that is read once from its beginning to its end.
///
/// Layouts and arms come before the first event: they were known a moment after it.
pub struct Whole {
    reader: RecordingReader<File>,
    title: String,
    begin_ns: u64,
    filter: Filter,
    rules: BTreeSet<String>,
    arms: KnownArms,
    stage: Stage,
}

#[derive(PartialEq)]
enum Stage {
    Foresight,
    Content,
    Over,
}

impl Whole {
    /// Opens a recording to hand over the events of these connections; without rules those of every rule, and of none.
    ///
    /// Errors: those of [`RecordingReader::open`].
    pub fn open(path: &Path, filter: Filter, rules: BTreeSet<String>) -> Result<Whole> {
        let mut reader = RecordingReader::open(path)?;
        let begin_ns = reader.span()?.map_or(0, |[first, _]| first);
        let title = format!("{}, Linux {}", reader.head().host, reader.head().kernel);
        Ok(Whole { reader, title, begin_ns, filter, rules, arms: KnownArms::default(), stage: Stage::Foresight })
    }

    fn foresee(&mut self, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        let Some(content) = self.reader.next(Want::Facts)? else {
            self.stage = Stage::Content;
            return self.reader.rewind();
        };
        let BlockContent::Facts(facts) = content else { return Ok(()) };
        for fact in facts {
            let is_first = match &fact {
                Fact::Arm { socket, .. } => self.arms.arm(*socket).is_none(),
                fact => matches!(fact, Fact::Layout { .. }),
            };
            if is_first {
                self.arms.learn(&fact);
                take(Arrival::Fact(fact));
            }
        }
        Ok(())
    }

    fn is_wanted(&self, event: &Event) -> bool {
        let of_rule = || self.arms.arm(event.socket).is_some_and(|given| self.rules.contains(&given.rule));
        self.filter.passes(event) && (self.rules.is_empty() || of_rule())
    }
}

impl EventSource for Whole {
    /// Hands over one block; there is nothing to wait for.
    fn poll(&mut self, _timeout: Duration, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        if self.stage == Stage::Foresight {
            return self.foresee(take);
        }
        match self.reader.next(Want::All)? {
            Some(BlockContent::Events(events)) => {
                events.into_iter().filter(|event| self.is_wanted(event)).for_each(|event| take(Arrival::Event(event)));
            }
            Some(BlockContent::Facts(mut facts)) => {
                facts.retain(|fact| !matches!(fact, Fact::Layout { .. }));
                facts.iter().for_each(|fact| self.arms.learn(fact));
                facts.into_iter().for_each(|fact| take(Arrival::Fact(fact)));
            }
            None => self.stage = Stage::Over,
        }
        Ok(())
    }

    /// The time of its first event.
    fn now_ns(&self) -> u64 {
        self.begin_ns
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn notices(&self) -> Vec<String> {
        self.reader.damage().notices(self.reader.tail().is_none())
    }

    fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }
}
