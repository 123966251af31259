//! A recording as a source that is read once, as fast as possible.

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

/// Layouts and arms come before the first event, although they were recorded a moment after it.
pub struct WholeRecording {
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

impl WholeRecording {
    /// Opens a recording to read the events of some connections. Without rules, all connections pass.
    ///
    /// # Errors
    /// Those of [`RecordingReader::open`].
    pub fn open(path: &Path, filter: Filter, rules: BTreeSet<String>) -> Result<WholeRecording> {
        let mut reader = RecordingReader::open(path)?;
        let begin_ns = reader.span()?.map_or(0, |[first, _]| first);
        let title = format!("{}, Linux {}", reader.head().host, reader.head().kernel);
        Ok(WholeRecording {
            reader,
            title,
            begin_ns,
            filter,
            rules,
            arms: KnownArms::default(),
            stage: Stage::Foresight,
        })
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

impl EventSource for WholeRecording {
    /// Reads one block; never waits.
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

    /// The time of the first event.
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
