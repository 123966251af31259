//! A table of text cells: each column has its role, and the function that makes its cells of the rows.

use crate::report::judge::cell::Verdict;
use crate::report::judge::number::NOTHING;

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Word,
    Name,
    /// Numbers, which stand at the right.
    Number,
    /// Intervals of the column before, which can stand below its numbers.
    Interval,
    Verdict,
    Notes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub title: String,
    /// Unit; empty where the cells have none.
    pub unit: String,
    pub role: Role,
    /// Left out where there is no room.
    pub is_detail: bool,
    /// One text per row.
    pub cells: Vec<String>,
}

impl Column {
    /// A column over rows; `show` gives a row's cell, or none where it has nothing.
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

    /// The same in a unit.
    pub fn unit(self, unit: &str) -> Column {
        Column { unit: unit.to_owned(), ..self }
    }

    /// The same as a detail.
    pub fn detail(self) -> Column {
        Column { is_detail: true, ..self }
    }

    /// Heading with its unit.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() { self.title.clone() } else { format!("{} [{}]", self.title, self.unit) }
    }

    /// Whether its cells stand at the right.
    pub fn is_number(&self) -> bool {
        matches!(self.role, Role::Number | Role::Interval)
    }

    fn has_something(&self) -> bool {
        self.cells.iter().any(|cell| !cell.is_empty() && cell != NOTHING)
    }
}

/// What a row is beside its cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Its verdict, for colour.
    pub verdict: Verdict,
    pub reason: String,
    /// The first row of another point in the sweep.
    pub starts_group: bool,
    /// Where its name leads to; empty where it does not.
    pub link: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its place on a page; empty where no link leads to it.
    pub id: String,
    /// What it shows, a name and `: ` before; may be empty.
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

impl Table {
    /// A table of the columns with anything in them.
    pub fn new(id: &str, caption: String, mut columns: Vec<Column>, rows: Vec<Row>) -> Table {
        columns.retain(Column::has_something);
        Table { id: id.to_owned(), caption, columns, rows }
    }

    /// What the caption begins with.
    pub fn name(&self) -> &str {
        self.caption.split(": ").next().unwrap_or_default()
    }
}
