//! `tccc trace --replay FILE`: a recording as a table, JSON lines, CSV or Parquet.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use anyhow::Result;

use super::Args;
use crate::cli::output::arms::KnownArms;
use crate::cli::output::naming::Naming;
use crate::cli::output::note;
use crate::cli::output::stream::{Stream, StreamFormat};
use crate::cli::output::warn;
use crate::trace::arrival::Fact;
use crate::trace::event::Event;
use crate::trace::record::read::{Content, Reader, Want};

/// Prints the whole recording.
///
/// Errors: it cannot be read, or is no recording; stdout cannot be written.
pub fn run(args: &Args, file: &Path) -> Result<()> {
    let filter = args.selection.filter()?;
    let mut reader = Reader::open(file)?;
    let span = reader.span()?;
    let mut naming = Naming::of_recording();
    let (mut arms, rules) = (KnownArms::default(), args.selection.rules());
    let mut dropped = 0;
    // Facts first: layouts and arms are known a moment after the first event.
    while let Some(content) = reader.next(Want::Facts)? {
        let Content::Facts(facts) = content else { continue };
        facts.into_iter().for_each(|fact| match fact {
            Fact::Layout { algorithm, layout } => naming.learn(algorithm, layout),
            Fact::Dropped { events, .. } => dropped = events,
            other => arms.foresee(&other),
        });
    }
    reader.rewind()?;
    let begin_ns = span.map_or(0, |[first, _]| first);
    let mut stream = Stream::begin(args.output.unwrap_or(StreamFormat::Table), begin_ns, naming)?;
    stream.arms = arms;
    while let Some(content) = reader.next(Want::All)? {
        match content {
            Content::Facts(facts) => facts.iter().for_each(|fact| stream.arms.learn(fact)),
            Content::Events(events) => {
                let mut chosen = events.iter().filter(|event| filter.passes(event));
                chosen.try_for_each(|event| show_of(&mut stream, event, &rules))?;
            }
        }
    }
    let shown = stream.finish()?;
    let damage = reader.damage();
    if reader.tail().is_none() {
        warn(&format!("the recording was cut: {} bytes after its last whole block", damage.rest_bytes), None);
    }
    if damage.blocks > 0 {
        warn(&format!("{} damaged blocks with {} events were left out", damage.blocks, damage.events), None);
    }
    if damage.unknown > 0 {
        warn(&format!("{} entries of a later tccc were left out", damage.unknown), None);
    }
    args.warn_of_dropped(shown, dropped);
    note(&format!("{shown} events of {}, Linux {}", reader.head().host, reader.head().kernel));
    Ok(())
}

/// Shows an event unless its connection is in none of the rules that are asked for.
fn show_of(stream: &mut Stream, event: &Event, rules: &BTreeSet<String>) -> io::Result<()> {
    let given = stream.arms.arm(event.socket);
    let is_ours = rules.is_empty() || given.is_some_and(|given| rules.contains(&given.rule));
    if is_ours { stream.show(event) } else { Ok(()) }
}
