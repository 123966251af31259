//! Sends the events of `tccc trace` to stdout, to a recording, or to both.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::DURATIONS;
use crate::cli::output::stream::EventStream;
use host::trace::live::SOCKETS_MAX;
use host::trace::record::{Recorder, Rotation};
use host::trace::source::EventSource;
use shared::arrival::{Arrival, Fact};
use shared::units::{Bytes, time_within, within};

/// Smallest file of a rotation: a few blocks.
const ROTATE_SIZE_MIN: Bytes = Bytes(1 << 20);

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordingArgs {
    /// Record to this file; prints nothing unless -o is given
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Begin another file at this size; the previous one becomes FILE.1
    #[arg(long, value_name = "SIZE", requires = "record", value_parser = parse_rotate_size)]
    rotate_size: Option<Bytes>,
    /// Begin another file at this age
    #[arg(long, value_name = "TIME", requires = "record", value_parser = time_within(DURATIONS))]
    rotate_age: Option<Duration>,
    /// Number of older files to keep
    #[arg(long, value_name = "N", requires = "record", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=9999))]
    keep: u32,
    /// Show a recording instead of this host; --port, --address, --algorithm and --rule still apply
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["record", "interval", "duration", "ring", "cgroup", "netns"]
    )]
    pub replay: Option<PathBuf>,
}

impl RecordingArgs {
    pub fn rotation(&self) -> Rotation {
        Rotation { bytes: self.rotate_size.map(|size| size.0), age: self.rotate_age, keep: self.keep }
    }
}

pub struct Sink {
    recorder: Option<Recorder>,
    stream: Option<EventStream>,
    seen: SinkSeen,
}

#[derive(Default)]
pub struct SinkSeen {
    pub events: u64,
    pub dropped: u64,
    /// Events dropped because too many sockets were open; `None` if not counted separately.
    pub unfollowed: Option<u64>,
}

impl SinkSeen {
    fn note(&mut self, arrival: &Arrival) {
        match arrival {
            Arrival::Event(_) => self.events += 1,
            Arrival::Fact(Fact::Dropped { events, unfollowed, .. }) => {
                (self.dropped, self.unfollowed) = (*events, *unfollowed);
            }
            Arrival::Fact(_) | Arrival::Restart => {}
        }
    }

    pub fn why_dropped(&self) -> String {
        let full = "the ring buffer was full";
        let crowded = format!("more than {SOCKETS_MAX} sockets were open");
        match self.unfollowed {
            None => format!("{full}, or {crowded}"),
            Some(0) => full.to_owned(),
            Some(all) if all == self.dropped => crowded,
            Some(some) => format!("{full}, and {crowded}, which cost {some} of them"),
        }
    }
}

impl Sink {
    pub fn new(recorder: Option<Recorder>, stream: Option<EventStream>) -> Self {
        Sink { recorder, stream, seen: SinkSeen::default() }
    }

    /// Polls the source once and flushes the output.
    ///
    /// # Errors
    /// The source fails; stdout or the recording cannot be written.
    pub fn poll(&mut self, source: &mut dyn EventSource, timeout: Duration) -> Result<()> {
        let Sink { recorder, stream, seen } = self;
        let mut taken = Ok(());
        source.poll(timeout, &mut |arrival| {
            seen.note(&arrival);
            if let (Some(recorder), Ok(())) = (&mut *recorder, &taken) {
                taken = recorder.write(&arrival);
            }
            if let (Some(stream), Ok(())) = (&mut *stream, &taken) {
                taken = stream.take(&arrival).map_err(Into::into);
            }
        })?;
        taken?;
        recorder.as_mut().map_or(Ok(()), Recorder::flush_due)?;
        Ok(stream.as_mut().map_or(Ok(()), EventStream::flush)?)
    }

    pub fn finish(self) -> Result<SinkSeen> {
        self.recorder.map(Recorder::finish).transpose()?;
        self.stream.map(EventStream::finish).transpose()?;
        Ok(self.seen)
    }
}

fn parse_rotate_size(text: &str) -> Result<Bytes, String> {
    within(text.parse(), ROTATE_SIZE_MIN.., "expected 1MiB or more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_events_have_their_own_reason() {
        for (unfollowed, expected) in [
            (Some(0), "the ring buffer was full"),
            (Some(9), "more than 131072 sockets were open"),
            (Some(2), "the ring buffer was full, and more than 131072 sockets were open, which cost 2 of them"),
            (None, "the ring buffer was full, or more than 131072 sockets were open"),
        ] {
            assert_eq!(SinkSeen { events: 0, dropped: 9, unfollowed }.why_dropped(), expected);
        }
    }
}
