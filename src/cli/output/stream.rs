//! Events on stdout as they arrive: columns for people, or a format for programs.

use std::io::{self, BufWriter, Stdout, Write};

use anyhow::Result;
use clap::ValueEnum;

use super::columns::{COLUMNS, EventColumn, EventRow, EventTable, note_hidden};
use super::naming::Naming;
use super::plain::line_limit;
use super::stdout::{Results, results, shared_results, terminal_width};
use super::{SCHEMA, json};
use host::trace::arms::KnownArms;
use shared::arrival::{Arrival, Fact};
use shared::event::{Event, EventKind};
use shared::failure::Failure;
use tabular::ParquetWriter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StreamFormat {
    /// Columns for people
    Table,
    /// One JSON object per line, with a schema number
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
    /// Parquet, for pandas and polars; to a file or a pipe
    Parquet,
}

/// Prints a header, then events as they arrive.
pub struct EventStream {
    printer: Printer,
    naming: Naming,
    arms: KnownArms,
    begin_ns: u64,
}

enum Printer {
    Table(EventTable, BufWriter<Results>),
    Lines(BufWriter<Results>),
    Csv(Box<csv::Writer<Results>>),
    Parquet(Box<ParquetWriter<Results<Stdout>>>),
}

impl EventStream {
    /// Prints the header; times count from `begin_ns`.
    ///
    /// # Errors
    /// Stdout cannot be written, or is a terminal and the format is Parquet.
    pub fn begin(format: StreamFormat, begin_ns: u64, naming: Naming) -> Result<Self> {
        let printer = match format {
            StreamFormat::Table => {
                let (table, mut out) = (EventTable::of_stream(line_limit()), BufWriter::new(results()));
                note_hidden(&table);
                table.write_line(&mut out, None)?;
                Printer::Table(table, out)
            }
            StreamFormat::Jsonl => Printer::Lines(BufWriter::new(results())),
            StreamFormat::Csv => {
                let mut out = csv::Writer::from_writer(results());
                out.write_record(COLUMNS.iter().map(|column| column.name)).map_err(io_error)?;
                Printer::Csv(Box::new(out))
            }
            StreamFormat::Parquet if terminal_width().is_some() => {
                let refusal = Failure::usage("cannot write Parquet to a terminal: it is not text");
                return Err(refusal.hint("write it to a file: `tccc trace … -o parquet > FILE`").into());
            }
            StreamFormat::Parquet => {
                let columns = COLUMNS.iter().map(|column| (column.name, column.kind));
                Printer::Parquet(Box::new(ParquetWriter::begin(shared_results(), "event", columns)?))
            }
        };
        Ok(EventStream { printer, naming, arms: KnownArms::default(), begin_ns })
    }

    /// Prints an event, or learns from a fact.
    ///
    /// # Errors
    /// Stdout cannot be written.
    pub fn take(&mut self, arrival: &Arrival) -> io::Result<()> {
        match arrival {
            Arrival::Event(event) => {
                self.show(event)?;
                // A recording names an arm only before the first event, and may show a connection after its end.
                if event.kind == EventKind::Close && !self.naming.is_recorded {
                    self.arms.forget(event.socket);
                }
            }
            Arrival::Fact(Fact::Layout { algorithm, layout }) => self.naming.learn(algorithm, layout),
            Arrival::Fact(fact) => self.arms.learn(fact),
            Arrival::Restart => {}
        }
        Ok(())
    }

    fn show(&mut self, event: &Event) -> io::Result<()> {
        let time_s = event.time_ns.saturating_sub(self.begin_ns) as f64 / 1e9;
        let words = self.naming.words(&event.algorithm).as_ref();
        let row = EventRow { event, words, given: self.arms.arm(event.socket), time_s };
        match &mut self.printer {
            Printer::Table(table, out) => table.write_line(out, Some(&row)),
            Printer::Lines(out) => {
                let mut line = format!("{{\"schema\":{SCHEMA},").into_bytes();
                json::write_members(row.event, row.words, row.given, &mut line);
                line.push(b'\n');
                out.write_all(&line)
            }
            Printer::Csv(out) => {
                let cell = |column: &EventColumn| column.value(&row).map_or_else(String::new, |it| it.to_string());
                out.write_record(COLUMNS.iter().map(cell)).map_err(io_error)
            }
            Printer::Parquet(out) => out.write(COLUMNS.iter().map(|column| column.value(&row))),
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.printer {
            Printer::Table(_, out) | Printer::Lines(out) => out.flush(),
            Printer::Csv(out) => out.flush(),
            Printer::Parquet(_) => Ok(()), // it writes whole row groups
        }
    }

    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        if let Printer::Parquet(out) = self.printer {
            out.finish()?;
        }
        Ok(())
    }
}

/// The I/O error inside an error of CSV, so that callers recognise a closed pipe.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
