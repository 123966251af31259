//! Tables of text cells, built column by column.

use std::fmt;

use crate::report::judge::cell::Verdict;
use crate::report::judge::number::NOTHING;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Word,
    Name,
    /// Right-aligned.
    Number,
    /// Intervals of the column before; pages show them below its numbers.
    Interval,
    Verdict,
    Notes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub title: String,
    /// Empty if the cells have none.
    pub unit: String,
    pub role: Role,
    /// Left out on terminals.
    pub is_detail: bool,
    /// One per row.
    pub cells: Vec<String>,
}

impl Column {
    pub fn of<T>(
        title: impl Into<String>,
        role: Role,
        rows: &[T],
        mut show: impl FnMut(&T) -> Option<String>,
    ) -> Column {
        let nothing = match role {
            Role::Number | Role::Interval | Role::Verdict => NOTHING,
            Role::Word | Role::Name | Role::Notes => "",
        };
        let cells = rows.iter().map(|row| show(row).unwrap_or_else(|| nothing.to_owned())).collect();
        Column { title: title.into(), unit: String::new(), role, is_detail: false, cells }
    }

    pub fn unit(self, unit: &str) -> Column {
        Column { unit: unit.to_owned(), ..self }
    }

    pub fn detail(self) -> Column {
        Column { is_detail: true, ..self }
    }

    pub fn heading(&self) -> String {
        if self.unit.is_empty() { self.title.clone() } else { format!("{} [{}]", self.title, self.unit) }
    }

    /// Whether its cells are right-aligned.
    pub fn is_number(&self) -> bool {
        matches!(self.role, Role::Number | Role::Interval)
    }

    fn has_something(&self) -> bool {
        self.cells.iter().any(|cell| !cell.is_empty() && cell != NOTHING)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableRow {
    /// For colour.
    pub verdict: Verdict,
    pub reason: String,
    /// Whether it is the first row of a point in the sweep.
    pub starts_group: bool,
    /// Anchor that its name links to; may be empty.
    pub link: String,
}

/// The heading of a table. Either part may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caption {
    pub name: String,
    pub meaning: String,
}

impl Caption {
    pub fn new(name: impl Into<String>, meaning: impl Into<String>) -> Caption {
        Caption { name: name.into(), meaning: meaning.into() }
    }

    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

impl fmt::Display for Caption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.meaning.is_empty() { "" } else { ": " };
        write!(f, "{}{between}{}", self.name, self.meaning)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Anchor on a page; empty if nothing links to it.
    pub id: String,
    /// May be empty.
    pub caption: Caption,
    pub columns: Vec<Column>,
    pub rows: Vec<TableRow>,
}

impl Table {
    /// Drops empty columns.
    pub fn new(id: &str, caption: Caption, mut columns: Vec<Column>, rows: Vec<TableRow>) -> Table {
        columns.retain(Column::has_something);
        Table { id: id.to_owned(), caption, columns, rows }
    }
}
