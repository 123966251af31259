//! `tccc trace`: the stream of samples, losses and state changes of every socket, live or from a recording.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::selection::SocketSelection;
use super::signals::stop_flag;
use crate::cli::output::naming::{self, Naming};
use crate::cli::output::stream::{EventStream, StreamFormat};
use crate::cli::output::{note, warn};
use host::trace::gather::Scope;
use host::trace::live::{RING_BYTES_MAX, RING_BYTES_MIN};
use host::trace::record::{Head, Recorder};
use host::trace::rules::RuleFilter;
use host::trace::source::EventSource;
use host::trace::watch::{Watch, WatchSettings};
use host::trace::whole::WholeRecording;
use shared::kernel::clock;
use shared::units::{Bytes, format_duration, parse_duration, time_within, within};

mod sink;

use sink::{Sink, SinkSeen};

/// Longest sampling interval.
const INTERVAL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Range of `--duration`, up to a year.
pub(super) const DURATIONS: [&str; 2] = ["1ms", "8760h"];
/// Longest time that events wait before they are printed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Stream what every TCP connection does: samples, losses, state changes
///
/// Samples each connection once per interval while packets arrive, at no cost per packet. Shows when a connection opens or
/// closes, loses packets or changes its congestion state. Ends with Ctrl-C or after `--duration`, with a summary on stderr.
///
/// A recording also contains idle sockets, and the names of processes, cgroups and private fields.
///
/// Changes nothing: its BPF programs disappear with the process.
///
/// Example: `tccc trace --port 5201 --interval 10ms --duration 30s -o jsonl`;
/// `tccc trace --record night.tccc --rotate-size 100MB`; `tccc trace --replay night.tccc -o parquet > night.parquet`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Time between samples of one connection; 0s samples every packet
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_interval)]
    interval: Duration,
    /// How long to trace; by default until Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = time_within(DURATIONS))]
    duration: Option<Duration>,
    /// Ring buffer between kernel and reader, rounded up to a power of two
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_ring)]
    ring: u32,
    /// How to print each event; by default as a table
    #[arg(short, long, value_enum)]
    output: Option<StreamFormat>,
    #[command(flatten)]
    recording: sink::RecordingArgs,
    #[command(flatten)]
    selection: SocketSelection,
}

impl Args {
    /// Side effects: the files of a recording.
    ///
    /// # Errors
    /// A wrong option; the tracer lacks a requirement; stdout or a file cannot be written or read.
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
        let mut source = RuleFilter::new(Watch::start_gathering(settings, scope)?, self.selection.rules());
        // Only once the tracer runs, so that its errors leave stdout and the file untouched.
        let recorder = file.map(|file| Recorder::create(file, head, self.recording.rotation())).transpose()?;
        let format = self.output.or(file.is_none().then_some(StreamFormat::Table));
        let stream = format.map(|format| EventStream::begin(format, begin_ns, Naming::default())).transpose()?;
        self.selection
            .warn_of_unregistered("`tccc status` lists those that are; it is shown once it is loaded and chosen");
        self.selection.warn_of_unknown_rules();
        let known = source.notices();
        known.iter().for_each(|notice| warn(notice, None));
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
        let stream = EventStream::begin(format, source.now_ns(), Naming::of_recording())?;
        let seen = self.follow(&mut source, Sink::new(None, Some(stream)), &AtomicBool::new(false))?;
        source.notices().iter().for_each(|notice| warn(notice, None));
        self.warn_of_dropped(&seen);
        note(&format!("{} events of {}", seen.events, source.title()));
        Ok(())
    }

    /// Takes events until the source or the time ends, or a signal comes.
    fn follow(&self, source: &mut dyn EventSource, mut sink: Sink, stop: &AtomicBool) -> Result<SinkSeen> {
        let begin = Instant::now();
        while !stop.load(Ordering::Relaxed) && !source.is_over() && !self.remaining(begin).is_zero() {
            // Less than a millisecond would round to no wait at all.
            sink.poll(source, self.remaining(begin).max(Duration::from_millis(1)))?;
        }
        sink.poll(source, Duration::ZERO)?;
        sink.finish()
    }

    /// Time until the next poll; zero after `--duration`.
    fn remaining(&self, begin: Instant) -> Duration {
        self.duration.map_or(POLL_INTERVAL, |length| length.saturating_sub(begin.elapsed()).min(POLL_INTERVAL))
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

pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    let is_allowed = interval.is_zero() || (Duration::from_micros(1)..=INTERVAL_MAX).contains(&interval);
    is_allowed.then_some(interval).ok_or_else(|| "expected 0s for every packet, or 1us to 24h".to_owned())
}

pub(super) fn parse_ring(text: &str) -> Result<u32, String> {
    let [least, most] = [RING_BYTES_MIN, RING_BYTES_MAX].map(|bytes| Bytes(bytes.into()));
    let size = within(text.parse(), least..=most, "expected 4KiB to 1GiB")?;
    Ok((size.0 as u32).next_power_of_two())
}
