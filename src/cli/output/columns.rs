//! The columns of a socket: the fields of its event, its phase and private state, and its arm of a policy.
//!
//! A narrow terminal shows the columns with the lowest ranks. Output to a file or pipe has all columns.

use std::io::{self, IsTerminal as _, Write};
use std::sync::LazyLock;

use terminal_size::{Width, terminal_size_of};

use super::naming::StateWords;
use super::note;
use crate::trace::arrival::RuleArm;
use crate::trace::event::{ColumnPlace, Event, EventField, EventKind, FieldType, FieldValue, column, with_room};

/// One socket at one moment.
#[derive(Debug, Clone, Copy)]
pub struct EventRow<'a> {
    pub event: &'a Event,
    pub words: &'a StateWords,
    /// Its arm of a policy.
    pub given: Option<&'a RuleArm>,
    /// Seconds since the stream began.
    pub time_s: f64,
}

pub(crate) struct EventColumn {
    pub name: &'static str,
    pub kind: FieldType,
    shown: ColumnPlace,
    value: ColumnValue,
}

enum ColumnValue {
    Event(for<'a> fn(&'a Event) -> Option<FieldValue<'a>>),
    Row(for<'a> fn(&EventRow<'a>) -> Option<FieldValue<'a>>),
}

const GAP: &str = "  ";
/// Columns that only a stream shows, not a single sweep.
const OF_STREAM: [&str; 3] = ["time_s", "kind", "prior_ca_state"];

/// All columns of a stream, in their order.
pub(crate) static COLUMNS: LazyLock<Vec<EventColumn>> = LazyLock::new(|| {
    let of_event = |field: &EventField| {
        let EventField { name, kind, shown, value, .. } = *field;
        EventColumn { name, kind, shown, value: ColumnValue::Event(value) }
    };
    let is_shown = |field: &&EventField| field.shown.rank <= ColumnPlace::MACHINE;
    let mut columns: Vec<EventColumn> =
        Event::FIELDS.iter().filter(is_shown).map(of_event).chain(derived_columns()).collect();
    columns.sort_by_key(|column| column.shown.position);
    columns
});

/// Columns that are not a field of the event, or that only some kinds of events have.
fn derived_columns() -> [EventColumn; 6] {
    let text = |name, shown, value| EventColumn { name, kind: FieldType::Text, shown, value: ColumnValue::Row(value) };
    let time = |row: &EventRow| Some(FieldValue::Real(row.time_s));
    [
        EventColumn { name: "time_s", kind: FieldType::Real, shown: column(0, 0, 10), value: ColumnValue::Row(time) },
        text("prior_ca_state", column(2, 1, 0), |row| {
            (row.event.kind == EventKind::State).then(|| row.event.prior_ca_state.name().into())
        }),
        text("phase", column(10, 1, 10), |row| row.words.phase(row.event).map(FieldValue::from)),
        text("rule", column(30, 2, 12), |row| Some(row.given?.rule.as_str().into())),
        text("arm", column(31, 2, 9), |row| Some(row.given?.arm.as_str().into())),
        text("state", column(32, 3, 30), |row| Some(FieldValue::Text(row.words.phrase(row.event)?.into()))),
    ]
}

impl EventColumn {
    /// `None` if the value is unknown.
    pub fn value<'a>(&self, row: &EventRow<'a>) -> Option<FieldValue<'a>> {
        match self.value {
            ColumnValue::Event(value) => value(row.event),
            ColumnValue::Row(value) => value(row),
        }
    }
}

/// A table for people: the columns that fit the terminal, with their widths.
pub struct EventTable {
    columns: Vec<(&'static EventColumn, usize)>,
    /// Number of columns that did not fit.
    hidden: usize,
}

impl EventTable {
    /// Uses each column's usual width, because the rows are not known yet.
    pub fn of_stream(limit: usize) -> Self {
        let shown = COLUMNS.iter().filter(|column| column.shown.rank < ColumnPlace::MACHINE);
        Self::fitting(shown.map(|column| (column, column.shown.width)), limit)
    }

    pub fn of_rows(rows: &[EventRow], limit: usize) -> Self {
        let widest = |column: &EventColumn| rows.iter().map(|row| text(column, row).chars().count()).max().unwrap_or(0);
        let shown = COLUMNS.iter().filter(|it| it.shown.rank < ColumnPlace::MACHINE && !OF_STREAM.contains(&it.name));
        Self::fitting(shown.map(|column| (column, widest(column))), limit)
    }

    /// Takes columns by rank as long as they fit into `limit` characters.
    fn fitting(columns: impl Iterator<Item = (&'static EventColumn, usize)>, limit: usize) -> Self {
        let all: Vec<_> = columns.map(|(column, width)| (column, width.max(column.name.len()))).collect();
        let needs: Vec<_> = all.iter().map(|(column, width)| (column.shown.rank, width + GAP.len())).collect();
        let (is_shown, _) = with_room(&needs, limit.saturating_add(GAP.len() - 1));
        let columns: Vec<_> = all.iter().zip(is_shown).filter(|(_, is)| *is).map(|(column, _)| *column).collect();
        EventTable { hidden: all.len() - columns.len(), columns }
    }

    /// Writes the header, or a row.
    pub fn write_line(&self, out: &mut dyn Write, row: Option<&EventRow>) -> io::Result<()> {
        let cell = |column: &EventColumn| row.map_or_else(|| column.name.to_owned(), |row| text(column, row));
        let cells: Vec<String> =
            self.columns.iter().map(|&(column, width)| format!("{:<width$}", cell(column))).collect();
        writeln!(out, "{}", cells.join(GAP).trim_end())
    }
}

fn text(column: &EventColumn, row: &EventRow) -> String {
    let text = column.value(row).map_or_else(|| "-".to_owned(), |value| value.to_string());
    // Names of phases and fields come from a user's object file: they must not control the terminal.
    text.replace(char::is_control, " ")
}

/// Prints how many columns do not fit the terminal, and how to see them.
pub fn note_hidden(EventTable { columns, hidden }: &EventTable) {
    if *hidden > 0 {
        let all = hidden + columns.len();
        note(&format!("{hidden} of {all} columns do not fit this terminal; `| less -S` or another -o shows all"));
    }
}

/// Width of the terminal, characters; unlimited if stdout is not a terminal.
pub fn line_limit() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return usize::MAX;
    }
    terminal_size_of(&stdout).map_or(80, |(Width(columns), _)| columns.into())
}
