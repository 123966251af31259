//! `tccc trace`: the live stream of samples, losses and state changes per socket.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::columns::{Row, Table, csv_names, csv_values, line_limit, note_hidden};
use super::naming::{NamedEvent, Naming};
use super::selection::Selection;
use super::{note, warn};
use crate::kernel::clock;
use crate::trace::event::Event;
use crate::trace::live::{RING_BYTES_MAX, RING_BYTES_MIN, Tracer};
use crate::units::{Bytes, format_duration, parse_duration};

/// Version of a JSON line.
const SCHEMA: u32 = 1;
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
/// Connections are sampled as packets arrive, at most once per interval; openings, closings, losses and changes of
/// the congestion state are shown as they happen. Ends with Ctrl-C or after `--duration`, with a summary on stderr.
///
/// Example: `tccc trace --port 5201 --interval 10ms --duration 30s -o jsonl`
///
/// Needs CAP_BPF and CAP_PERFMON.
#[derive(Debug, clap::Args)]
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
    /// How each event is printed
    #[arg(short, long, value_enum, default_value_t = StreamFormat::Table)]
    output: StreamFormat,
    #[command(flatten)]
    selection: Selection,
}

/// How a stream prints its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StreamFormat {
    /// Columns for people
    Table,
    /// One JSON object per line, with a schema number
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
}

impl Args {
    /// Streams until the time is over, a signal comes or the reader goes away.
    ///
    /// Errors: a wrong option; a need of the tracer is missing; stdout cannot be written.
    pub fn run(&self) -> Result<()> {
        let filter = self.selection.filter()?;
        let stop = stop_flag()?;
        let begin_ns = clock::monotonic_ns()?;
        let tracer = Tracer::start(&filter, self.interval, self.ring)?;
        // After the tracer: a refusal leaves stdout as it was.
        let mut stream = Stream::begin(self.output, begin_ns)?;
        for unknown in self.selection.unregistered() {
            warn(&unknown, Some("`tccc status` lists those that are; it is shown once it is loaded and chosen"));
        }
        for missing in tracer.missing() {
            warn(&format!("this kernel lacks the tracepoint {}: {}", missing.tracepoint, missing.loses), None);
        }
        let begin = Instant::now();
        let deadline = self.duration.map(|duration| begin + duration);
        let remaining = || deadline.map_or(POLL, |end| end.saturating_duration_since(Instant::now()).min(POLL));
        while !stop.load(Ordering::Relaxed) && !remaining().is_zero() {
            // Less than a millisecond rounds to no wait at all.
            stream.show_arrived(&tracer, remaining().max(Duration::from_millis(1)))?;
        }
        stream.show_arrived(&tracer, Duration::ZERO)?;
        self.sum_up(&stream, tracer.dropped(), begin.elapsed());
        Ok(())
    }

    fn sum_up(&self, stream: &Stream, dropped: u64, length: Duration) {
        let all = stream.shown + dropped;
        if dropped > 0 {
            let share = dropped as f64 / all as f64 * 100.0;
            let ring = Bytes(u64::from(self.ring.saturating_mul(2).min(RING_BYTES_MAX)));
            warn(
                &format!("{dropped} of {all} events were dropped ({share:.1} %): the ring buffer was full"),
                Some(&format!("raise --ring {}; steps in the cwnd plot may be missing", ring.binary())),
            );
        }
        note(&format!("{} events in {}, {dropped} dropped", stream.shown, format_duration(length)));
    }
}

/// What goes to stdout: a header, then events as they arrive.
struct Stream {
    printer: Printer,
    naming: Naming,
    begin_ns: u64,
    shown: u64,
}

enum Printer {
    Table(Table, BufWriter<StdoutLock<'static>>),
    Lines(BufWriter<StdoutLock<'static>>),
    Csv(Box<csv::Writer<StdoutLock<'static>>>),
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    #[serde(flatten)]
    named: NamedEvent<'a>,
}

impl Stream {
    fn begin(format: StreamFormat, begin_ns: u64) -> Result<Self> {
        let stdout = io::stdout().lock();
        let printer = match format {
            StreamFormat::Table => Printer::Table(Table::of_stream(line_limit()), BufWriter::new(stdout)),
            StreamFormat::Jsonl => Printer::Lines(BufWriter::new(stdout)),
            StreamFormat::Csv => Printer::Csv(Box::new(csv::Writer::from_writer(stdout))),
        };
        let mut stream = Stream { printer, naming: Naming::default(), begin_ns, shown: 0 };
        match &mut stream.printer {
            Printer::Table(table, out) => {
                note_hidden(table);
                table.write_header(out)?;
            }
            Printer::Csv(out) => out.write_record(csv_names()).map_err(io_error)?,
            Printer::Lines(_) => {}
        }
        Ok(stream)
    }

    fn show_arrived(&mut self, tracer: &Tracer, timeout: Duration) -> Result<()> {
        let mut written = Ok(());
        tracer.poll(timeout, &mut |event| {
            if written.is_ok() {
                written = self.show(&event);
            }
        })?;
        written?;
        Ok(self.flush()?)
    }

    fn show(&mut self, event: &Event) -> io::Result<()> {
        self.shown += 1;
        let named = self.naming.name(event);
        let time_s = event.time_ns.saturating_sub(self.begin_ns) as f64 / 1e9;
        let row = Row { event, named: &named, time_s };
        match &mut self.printer {
            Printer::Table(table, out) => table.write_row(out, &row),
            Printer::Csv(out) => out.write_record(csv_values(&row)).map_err(io_error),
            Printer::Lines(out) => {
                serde_json::to_writer(&mut *out, &Line { schema: SCHEMA, named: NamedEvent::of(event, &named) })?;
                out.write_all(b"\n")
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.printer {
            Printer::Table(_, out) | Printer::Lines(out) => out.flush(),
            Printer::Csv(out) => out.flush(),
        }
    }
}

/// The error beneath, so that a closed pipe is seen as one.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Set by Ctrl-C; a second one ends the process at once, for a reader that takes nothing.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("watch for Ctrl-C")?;
    }
    Ok(stop)
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    let is_allowed = interval.is_zero() || (Duration::from_micros(1)..=INTERVAL_MAX).contains(&interval);
    is_allowed.then_some(interval).ok_or_else(|| "expected 0s for every packet, or 1us to 24h".to_owned())
}

/// Reads how long a verb shall work.
pub fn parse_length(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text).map_err(|error| error.to_string())?;
    let is_allowed = (Duration::from_millis(1)..=DURATION_MAX).contains(&length);
    is_allowed.then_some(length).ok_or_else(|| "expected 1ms to 8760h".to_owned())
}

fn parse_ring(text: &str) -> Result<u32, String> {
    let size: Bytes = text.parse().map_err(|error: crate::units::ParseError| error.to_string())?;
    let allowed = u64::from(RING_BYTES_MIN)..=u64::from(RING_BYTES_MAX);
    allowed
        .contains(&size.0)
        .then(|| (size.0 as u32).next_power_of_two())
        .ok_or_else(|| "expected 4KiB to 1GiB".to_owned())
}
