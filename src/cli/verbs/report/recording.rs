//! `tccc report FILE`: a recording of `tccc trace --record`, one line per connection.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use host::trace::record::read::{BlockContent, Damage, RecordingReader, Want};
use host::trace::record::{Head, MAGIC};
use lab::report::ReportFormat;
use lab::report::drawing::{Caption, Column, Element, Role, Table, TableRow, text as terminal};
use shared::arrival::Fact;
use shared::failure::Failure;
use shared::model::summary::{FlowSummary, RecordingSummary};
use shared::sanitize::plain;
use shared::units::{BitsPerSec, format_duration};

/// Version of the JSON document.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct RecordingReport {
    schema: u32,
    file: String,
    host: String,
    kernel: String,
    started: String,
    selection: String,
    /// From its first to its last event.
    length_s: f64,
    events: u64,
    dropped: u64,
    /// The recorder was killed.
    was_cut: bool,
    damaged_blocks: u64,
    damaged_events: u64,
    unread_bytes: u64,
    /// Events of connections beyond the limit of [`RecordingSummary`].
    untracked: u64,
    flows: Vec<FlowSummary>,
}

pub fn is_recording(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == MAGIC
}

/// # Errors
/// A recording cannot be read; the format is Markdown, HTML or Parquet.
pub fn render(files: &[PathBuf], format: ReportFormat) -> Result<String> {
    let recordings = files.iter().map(|file| load(file)).collect::<Result<Vec<RecordingReport>>>()?;
    match format {
        ReportFormat::Text => Ok(recordings.iter().map(text).collect::<Vec<String>>().join("\n")),
        ReportFormat::Json => Ok(serde_json::to_string_pretty(&recordings)? + "\n"),
        ReportFormat::Csv => csv(&recordings),
        ReportFormat::Markdown | ReportFormat::Html | ReportFormat::Parquet => {
            let refusal = Failure::usage(format!("cannot report a recording as {format}"));
            Err(refusal.hint("choose `-o text`, `-o json` or `-o csv`; `tccc top --replay FILE` draws it").into())
        }
    }
}

fn load(file: &Path) -> Result<RecordingReport> {
    let mut reader = RecordingReader::open(file)?;
    let span = reader.span()?.unwrap_or_default();
    let (mut summary, mut events, mut dropped) = (RecordingSummary::default(), 0, 0);
    while let Some(content) = reader.next(Want::All)? {
        match content {
            BlockContent::Events(more) => {
                events += more.len() as u64;
                more.into_iter().for_each(|event| summary.add(event));
            }
            BlockContent::Facts(facts) => facts.iter().for_each(|fact| {
                if let Fact::Dropped { events, .. } = fact {
                    dropped = *events;
                }
            }),
        }
    }
    let was_cut = reader.tail().is_none();
    let Damage { blocks, events: damaged_events, rest_bytes, .. } = reader.damage();
    let Head { host, kernel, started, selection, .. } = reader.head().clone();
    Ok(RecordingReport {
        schema: SCHEMA,
        file: file.display().to_string(),
        host,
        kernel,
        started,
        selection,
        length_s: span[1].saturating_sub(span[0]) as f64 / 1e9,
        events,
        dropped,
        was_cut,
        damaged_blocks: blocks,
        damaged_events,
        unread_bytes: rest_bytes,
        untracked: summary.untracked,
        flows: summary.flows(),
    })
}

fn text(recording: &RecordingReport) -> String {
    let RecordingReport { file, host, kernel, started, events, dropped, selection, flows, .. } = recording;
    let (length, count) = (milliseconds(recording.length_s), flows.len());
    let mut text = plain(&format!("{file}: {host}, Linux {kernel}, {started}")) + "\n";
    text += &plain(&format!("  {selection}: {events} events of {count} connections in {length}, {dropped} dropped"));
    text += "\n";
    if recording.was_cut {
        text += &format!("  cut: {} bytes after the last whole block are not read\n", recording.unread_bytes);
    }
    if recording.damaged_blocks > 0 {
        text += &format!("  damaged: {} blocks, {} events\n", recording.damaged_blocks, recording.damaged_events);
    }
    if recording.untracked > 0 {
        text += &format!("  {} events of further connections are not shown\n", recording.untracked);
    }
    text + "\n" + &terminal::written([vec![Element::Table(table(flows))]].into_iter())
}

/// Limits the length, because a damaged recording may have any.
fn milliseconds(length_s: f64) -> String {
    format_duration(Duration::from_millis((length_s.min(1e9) * 1e3).round() as u64))
}

fn table(flows: &[FlowSummary]) -> Table {
    type FlowColumn<'a> = &'a dyn Fn(&FlowSummary) -> Option<String>;
    let word = |title: &str, show: FlowColumn| Column::of(title, Role::Word, flows, show);
    let number = |title: &str, show: FlowColumn| Column::of(title, Role::Number, flows, show);
    let pkts = |count: u32| Some(format!("{count} pkts"));
    let time = |us: Option<u32>| us.map(|us| format_duration(Duration::from_micros(us.into())));
    let at_most = |us: Option<u32>| time(us).map(|time| format!("<={time}"));
    let columns = vec![
        word("local", &|flow| Some(flow.local.clone())),
        word("remote", &|flow| Some(flow.remote.clone())),
        word("algorithm", &|flow| Some(flow.algorithm.clone())),
        number("length", &|flow| Some(milliseconds(flow.length_s))),
        number("goodput", &|flow| flow.goodput_bps.map(|rate| BitsPerSec(rate as u64).to_string())),
        number("delivered", &|flow| pkts(flow.delivered_pkts)),
        number("retrans", &|flow| pkts(flow.retrans_pkts)),
        number("lost", &|flow| pkts(flow.lost_pkts)),
        number("timeouts", &|flow| Some(flow.timeouts.to_string())),
        number("mean cwnd", &|flow| flow.mean_cwnd_pkts.map(|pkts| format!("{pkts:.1} pkts"))),
        number("srtt p50", &|flow| at_most(flow.srtt_p50_us)),
        number("srtt p95", &|flow| at_most(flow.srtt_p95_us)),
        number("min_rtt", &|flow| time(flow.min_rtt_us)),
    ];
    Table::new("", Caption::default(), columns, vec![TableRow::default(); flows.len()])
}

fn csv(recordings: &[RecordingReport]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for flow in recordings.iter().flat_map(|recording| &recording.flows) {
        writer.serialize(flow).context("write CSV")?;
    }
    let bytes = writer.into_inner().context("write CSV")?;
    String::from_utf8(bytes).context("write CSV")
}
