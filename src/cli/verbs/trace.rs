//! `tccc trace`: the live stream of samples, losses and state changes per socket, or what was recorded of one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT};

use super::selection::Selection;
use super::{capabilities, signals};
use crate::cli::output::naming::{self, Naming};
use crate::cli::output::stream::{Stream, StreamFormat};
use crate::cli::output::{note, warn};
use crate::kernel::clock;
use crate::trace::gather::Scope;
use crate::trace::live::{RING_BYTES_MAX, RING_BYTES_MIN};
use crate::trace::record::{Head, Recorder};
use crate::trace::rules::OfRules;
use crate::trace::source::EventSource;
use crate::trace::watch::{Watch, WatchSettings};
use crate::trace::whole::WholeRecording;
use crate::units::{Bytes, format_duration, parse_duration, within};

mod sink;

use sink::{Sink, SinkSeen};

/// Longest sampling interval: a day.
const INTERVAL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest stream: a year; without `--duration` there is no limit.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// Events are shown at least this often.
const POLL: Duration = Duration::from_millis(100);
/// Exit code of a process ended by its second Ctrl-C.
const INTERRUPTED: i32 = 128 + SIGINT;

/// Stream what every TCP connection does: samples, losses, state changes
///
/// Connections are sampled once per interval while packets arrive, which costs nothing per packet; openings, closings,
/// losses and changes of the congestion state are shown as they happen. Ends with Ctrl-C or after `--duration`, with a summary on stderr.
/// A recording also holds every socket that sends nothing, and the names of processes, cgroups and private state.
///
/// Example: `tccc trace --port 5201 --interval 10ms --duration 30s -o jsonl`;
/// `tccc trace --record night.tccc --rotate-size 100MB`; `tccc trace --replay night.tccc -o parquet > night.parquet`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("trace", " A replay needs none."))]
pub struct Args {
    /// Time between samples of one connection; 0s samples every packet
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_interval)]
    interval: Duration,
    /// How long to trace; until Ctrl-C when absent
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    duration: Option<Duration>,
    /// Buffer between kernel and reader, rounded up to a power of two
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_ring)]
    ring: u32,
    /// How each event is printed; a table when absent
    #[arg(short, long, value_enum)]
    output: Option<StreamFormat>,
    #[command(flatten)]
    recording: sink::Options,
    #[command(flatten)]
    selection: Selection,
}

impl Args {
    /// Streams or records until the time is over, a signal comes or the reader goes away; or shows a recording.
    ///
    /// Errors: a wrong option; a need of the tracer is missing; stdout or a file cannot be written or read.
    /// Side effects: writes the files of a recording.
    pub fn run(&self) -> Result<()> {
        match &self.recording.replay {
            Some(file) => self.replay(file),
            None => self.watch(),
        }
    }

    fn watch(&self) -> Result<()> {
        let stop = stop_flag()?;
        let filter = self.selection.filter()?;
        let file = self.recording.record.as_deref();
        let head = Head::of_this_host(self.interval, self.selection.phrase())?;
        let begin_ns = clock::monotonic_ns()?;
        let settings =
            WatchSettings { filter, interval: self.interval, ring_bytes: self.ring, layouts: naming::layouts() };
        let scope = if file.is_some() { Scope::All } else { Scope::Arms };
        let mut source = OfRules::new(Watch::start_gathering(settings, scope)?, self.selection.rules());
        // After the tracer: a refusal leaves stdout and the file as they were.
        let recorder = file.map(|file| Recorder::create(file, head, self.recording.rotation())).transpose()?;
        let format = self.output.or(file.is_none().then_some(StreamFormat::Table));
        let stream = format.map(|format| Stream::begin(format, begin_ns, Naming::default())).transpose()?;
        let known = source.notices();
        self.warn_before(&known);
        let begin = Instant::now();
        let seen = self.follow(&mut source, Sink::new(recorder, stream), &stop)?;
        source.notices().iter().filter(|notice| !known.contains(notice)).for_each(|notice| warn(notice, None));
        self.warn_of_dropped(&seen);
        let length = format_duration(Duration::from_millis(begin.elapsed().as_millis() as u64));
        let place = file.map_or_else(String::new, |file| format!(" recorded to \"{}\"", file.display()));
        let cost = source.whole().tracer().clock_cost().map_or_else(String::new, |cost| {
            let share_percent = cost.nanoseconds as f64 / begin.elapsed().as_nanos() as f64 * 100.0;
            format!("; looking at the sockets took {share_percent:.3} % of a processor")
        });
        note(&format!("{} events in {length}{place}, {} dropped{cost}", seen.events, seen.dropped));
        Ok(())
    }

    fn replay(&self, file: &Path) -> Result<()> {
        let mut source = WholeRecording::open(file, self.selection.filter()?, self.selection.rules())?;
        let format = self.output.unwrap_or(StreamFormat::Table);
        let stream = Stream::begin(format, source.now_ns(), Naming::of_recording())?;
        let seen = self.follow(&mut source, Sink::new(None, Some(stream)), &AtomicBool::new(false))?;
        source.notices().iter().for_each(|notice| warn(notice, None));
        self.warn_of_dropped(&seen);
        note(&format!("{} events of {}", seen.events, source.title()));
        Ok(())
    }

    /// Hands over what the source has until it is over, the time is, or a signal comes.
    fn follow(&self, source: &mut dyn EventSource, mut sink: Sink, stop: &AtomicBool) -> Result<SinkSeen> {
        let begin = Instant::now();
        while !stop.load(Ordering::Relaxed) && !source.is_over() && !self.remaining(begin).is_zero() {
            // Less than a millisecond rounds to no wait at all.
            sink.poll(source, self.remaining(begin).max(Duration::from_millis(1)))?;
        }
        sink.poll(source, Duration::ZERO)?;
        sink.finish()
    }

    /// Until something has to be looked at again; nothing when the time is over.
    fn remaining(&self, begin: Instant) -> Duration {
        self.duration.map_or(POLL, |length| length.saturating_sub(begin.elapsed()).min(POLL))
    }

    fn warn_before(&self, notices: &[String]) {
        for unknown in self.selection.unregistered() {
            warn(&unknown, Some("`tccc status` lists those that are; it is shown once it is loaded and chosen"));
        }
        self.selection.warn_of_unknown_rules();
        notices.iter().for_each(|notice| warn(notice, None));
    }

    fn warn_of_dropped(&self, seen: &SinkSeen) {
        let SinkSeen { events, dropped, unfollowed } = *seen;
        if dropped == 0 {
            return;
        }
        let all = events + dropped;
        let share = dropped as f64 / all as f64 * 100.0;
        let ring = Bytes(u64::from(self.ring.saturating_mul(2).min(RING_BYTES_MAX)));
        let why = seen.why_dropped();
        let hint = "steps in the cwnd plot may be missing";
        let hint = match &self.recording.replay {
            None if unfollowed != Some(dropped) => format!("raise --ring {}; {hint}", ring.binary()),
            _ => hint.to_owned(),
        };
        warn(&format!("{dropped} of {all} events were dropped ({share:.1} %): {why}"), Some(&hint));
    }
}

/// Set by a signal to end; after it Ctrl-C and `kill` end the process at once, for a reader that takes nothing.
///
/// The end of a session does not: the kernel and the shell both send SIGHUP then.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals::that_end() {
        if signal != SIGHUP {
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))
                .context("watch for Ctrl-C")?;
        }
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watch for Ctrl-C")?;
    }
    Ok(stop)
}

pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    let is_allowed = interval.is_zero() || (Duration::from_micros(1)..=INTERVAL_MAX).contains(&interval);
    is_allowed.then_some(interval).ok_or_else(|| "expected 0s for every packet, or 1us to 24h".to_owned())
}

pub fn parse_length(text: &str) -> Result<Duration, String> {
    within(parse_duration(text), Duration::from_millis(1)..=DURATION_MAX, "expected 1ms to 8760h")
}

pub(super) fn parse_ring(text: &str) -> Result<u32, String> {
    let [least, most] = [RING_BYTES_MIN, RING_BYTES_MAX].map(|bytes| Bytes(bytes.into()));
    let size = within(text.parse(), least..=most, "expected 4KiB to 1GiB")?;
    Ok((size.0 as u32).next_power_of_two())
}
