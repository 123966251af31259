//! `tccc trace --record FILE`: what is seen goes to a recording, and to stdout too when `-o` is given.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Args, POLL, parse_length};
use crate::cli::output::naming::{self, Naming};
use crate::cli::output::note;
use crate::cli::output::stream::Stream;
use crate::cli::output::warn;
use crate::kernel::clock;
use crate::trace::arrival::{Arrival, Fact};
use crate::trace::record::{Head, Recorder, Rotation};
use crate::trace::rules::OfRules;
use crate::trace::source::Source;
use crate::trace::watch::{Settings, Watch};
use crate::units::{Bytes, format_duration};

/// Smallest file of a rotation: some blocks.
const ROTATE_BYTES_MIN: u64 = 1 << 20;

/// Whether, where and how a recording is kept.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Recording")]
pub struct Options {
    /// Keep what is seen in this file; prints nothing unless -o is given
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Begin another file at this size; FILE.1 is the one before
    #[arg(long, value_name = "SIZE", requires = "record", value_parser = parse_rotate_size)]
    rotate_size: Option<Bytes>,
    /// Begin another file at this age
    #[arg(long, value_name = "TIME", requires = "record", value_parser = parse_length)]
    rotate_age: Option<Duration>,
    /// Older files that are kept
    #[arg(long, value_name = "N", requires = "record", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=9999))]
    keep: u32,
    /// Show a recording instead of this host; port, address, algorithm and rule still choose
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["record", "interval", "duration", "ring", "cgroup", "netns"]
    )]
    pub replay: Option<PathBuf>,
}

impl Options {
    /// Where to keep what is seen.
    pub fn file(&self) -> Option<&PathBuf> {
        self.record.as_ref()
    }

    fn rotation(&self) -> Rotation {
        Rotation { bytes: self.rotate_size.map(|size| size.0), age: self.rotate_age, keep: self.keep }
    }
}

/// Records until the time is over or a signal comes.
///
/// Errors: a wrong option; a need of the tracer is missing; the file or stdout cannot be written.
/// Side effects: writes the files of the recording.
pub fn run(args: &Args, file: &Path, stop: &AtomicBool) -> Result<()> {
    let filter = args.selection.filter()?;
    let head = Head::of_this_host(args.interval, args.selection.phrase())?;
    let settings = Settings { filter, interval: args.interval, ring_bytes: args.ring, layouts: naming::layouts() };
    let mut watch = OfRules::new(Watch::start(settings)?, args.selection.rules());
    let mut recorder = Recorder::create(file, head, args.recording.rotation())?;
    let begin_ns = clock::monotonic_ns()?;
    let mut stream = args.output.map(|format| Stream::begin(format, begin_ns, Naming::default())).transpose()?;
    let known = watch.notices();
    args.warn_before(&known);
    let begin = Instant::now();
    let mut dropped = 0;
    while !stop.load(Ordering::Relaxed) && !args.remaining(begin).is_zero() {
        let mut kept = Ok(());
        watch.poll(args.remaining(begin).min(POLL), &mut |arrival| {
            if let Arrival::Fact(Fact::Dropped { events, .. }) = &arrival {
                dropped = *events;
            }
            if kept.is_ok() {
                kept = keep(&mut recorder, stream.as_mut(), &arrival);
            }
        })?;
        kept?;
        recorder.flush_due()?;
        stream.as_mut().map_or(Ok(()), Stream::flush)?;
    }
    let events = recorder.events();
    recorder.finish()?;
    stream.map(Stream::finish).transpose()?;
    watch.notices().iter().filter(|notice| !known.contains(notice)).for_each(|notice| warn(notice, None));
    args.warn_of_dropped(events, dropped);
    let length = format_duration(begin.elapsed());
    note(&format!("{events} events in {length} recorded to \"{}\", {dropped} dropped", file.display()));
    Ok(())
}

fn keep(recorder: &mut Recorder, stream: Option<&mut Stream>, arrival: &Arrival) -> Result<()> {
    recorder.write(arrival)?;
    stream.map_or(Ok(()), |stream| Ok(stream.take(arrival)?))
}

fn parse_rotate_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error: crate::units::ParseError| error.to_string())?;
    (size.0 >= ROTATE_BYTES_MIN).then_some(size).ok_or_else(|| "expected 1MiB or more".to_owned())
}
