//! The columns of a socket: the fields of its event, its phase and private state, and its arm of a policy.
//!
//! A narrow terminal shows the columns with the lowest ranks. Output to a file or pipe has all columns.

use std::io::{self, Write};
use std::sync::LazyLock;

use super::naming::StateWords;
use super::note;
use host::trace::filter::ALGORITHM_NAME_MAX;
use shared::arrival::RuleArm;
use shared::event::{ColumnPlace, Event, EventField, EventKind, FieldType, FieldValue, column, with_room};
use shared::sanitize;

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

/// Columns of a stream on a terminal whose rank or width differs from the one in files and pipes. The local address gets
/// room last, because rows of one connection repeat it.
const ON_TERMINAL: [(&str, u8, usize); 3] = [("time_s", 1, 8), ("algorithm", 0, ALGORITHM_NAME_MAX), ("local", 4, 21)];
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
    let time = |row: &EventRow| Some(FieldValue::Real((row.time_s * 1e6).round() / 1e6));
    [
        EventColumn { name: "time_s", kind: FieldType::Real, shown: column(0, 0, 10), value: ColumnValue::Row(time) },
        text("prior_ca_state", column(2, 2, 0), |row| {
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
    /// Whether cells are cut to the width of their column, which is chosen before the rows are known.
    is_cut: bool,
}

impl EventTable {
    /// Uses each column's usual width, because the rows are not known yet. On a terminal, cells are cut to it.
    pub fn of_stream(limit: usize) -> Self {
        let is_cut = limit < usize::MAX;
        let usual = |column: &'static EventColumn| (column, column.shown.rank, column.shown.width);
        let place = |column: &'static EventColumn| {
            let own = ON_TERMINAL.iter().find(|(name, ..)| is_cut && *name == column.name);
            own.map_or(usual(column), |&(_, rank, width)| (column, rank, width))
        };
        let shown = COLUMNS.iter().filter(|column| column.shown.rank < ColumnPlace::MACHINE);
        EventTable { is_cut, ..Self::fitting(shown.map(place), limit) }
    }

    pub fn of_rows(rows: &[EventRow], limit: usize) -> Self {
        let widest = |column: &EventColumn| rows.iter().map(|row| text(column, row).chars().count()).max().unwrap_or(0);
        let shown = COLUMNS.iter().filter(|it| it.shown.rank < ColumnPlace::MACHINE && !OF_STREAM.contains(&it.name));
        Self::fitting(shown.map(|column| (column, column.shown.rank, widest(column))), limit)
    }

    /// Takes columns by rank as long as they fit into `limit` characters.
    fn fitting(columns: impl Iterator<Item = (&'static EventColumn, u8, usize)>, limit: usize) -> Self {
        let all: Vec<_> = columns.map(|(column, rank, width)| (column, rank, width.max(column.name.len()))).collect();
        let needs: Vec<_> = all.iter().map(|(_, rank, width)| (*rank, width + GAP.len())).collect();
        let (is_shown, _) = with_room(&needs, limit.saturating_add(GAP.len()));
        let shown = all.iter().zip(is_shown).filter(|(_, is)| *is);
        let columns: Vec<_> = shown.map(|((column, _, width), _)| (*column, *width)).collect();
        EventTable { hidden: all.len() - columns.len(), columns, is_cut: false }
    }

    /// Writes the header, or a row.
    pub fn write_line(&self, out: &mut dyn Write, row: Option<&EventRow>) -> io::Result<()> {
        let cell = |column: &EventColumn, width| match row {
            None => column.name.to_owned(),
            Some(row) if self.is_cut => cut(column, row, width),
            Some(row) => text(column, row),
        };
        let cells: Vec<String> =
            self.columns.iter().map(|&(column, width)| format!("{:<width$}", cell(column, width))).collect();
        writeln!(out, "{}", cells.join(GAP).trim_end())
    }
}

/// The text of a cell of at most `width` characters. A time loses decimals first.
fn cut(column: &EventColumn, row: &EventRow, width: usize) -> String {
    match column.name {
        "time_s" => {
            let digits = |decimals: usize| format!("{:.decimals$}", row.time_s);
            (0..=3).rev().map(digits).find(|text| text.len() <= width).unwrap_or_else(|| digits(0))
        }
        "local" | "remote" => sanitize::cut_begin(&text(column, row), width), // the port is at the end
        _ => sanitize::cut(&text(column, row), width),
    }
}

fn text(column: &EventColumn, row: &EventRow) -> String {
    let text = column.value(row).map_or_else(|| "-".to_owned(), |value| value.to_string());
    // Names of phases and fields come from a user's object file: they must not control the terminal.
    text.replace(char::is_control, " ")
}

/// Prints how many columns do not fit the terminal, and how to see them.
pub fn note_hidden(EventTable { columns, hidden, .. }: &EventTable) {
    if *hidden > 0 {
        let all = hidden + columns.len();
        note(&format!("{hidden} of {all} columns do not fit; `| less -S` or another -o shows all"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::naming::Naming;
    use shared::model::live::samples::sample;

    #[test]
    fn no_line_of_a_stream_is_wider_than_the_terminal() {
        let wide = Event {
            remote: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".parse().unwrap(),
            algorithm: "fifteen_letters".to_owned(),
            srtt_us: Some(u32::MAX),
            ..sample(1, 1)
        };
        let mut naming = Naming::default();
        let words = naming.words(&wide.algorithm).clone();
        for limit in [69, 80, 100, 120] {
            let table = EventTable::of_stream(limit);
            let mut out = Vec::new();
            table.write_line(&mut out, None).unwrap();
            for time_s in [0.0, 12_345.678_9, 1e7] {
                let row = EventRow { event: &wide, words: &words, given: None, time_s };
                table.write_line(&mut out, Some(&row)).unwrap();
            }
            let text = String::from_utf8(out).unwrap();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= limit, "{limit}: {text}");
            let always = ["kind", "remote", "algorithm", "cwnd_pkts", "srtt_us"];
            assert!(always.iter().all(|name| text.contains(name)), "{limit}: {text}");
            assert_eq!(text.contains("time_s"), limit >= 80, "{limit}: {text}");
            assert!(text.contains(":65535") && !text.contains("local"), "{limit}: {text}");
        }
    }

    #[test]
    fn every_column_has_the_type_of_its_quantity() {
        let texts = COLUMNS.iter().filter(|column| column.kind == FieldType::Text).map(|column| column.name);
        let expected = "kind prior_ca_state local remote algorithm phase ca_state tcp_state rule arm state";
        assert_eq!(texts.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn table_in_a_file_has_all_columns_in_full() {
        let table = EventTable::of_stream(usize::MAX);
        assert!(table.hidden == 0 && !table.is_cut);
    }
}
