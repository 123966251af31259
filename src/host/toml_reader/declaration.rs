//! Declares the fields of TOML tables: name, kind, default, text, and the struct that is read.

use std::time::Duration;

use super::mistake::Result;
use super::value::Value;
use shared::units::{BitsPerSec, format_duration};

/// A declared table.
#[derive(Debug)]
pub struct Section {
    pub own: &'static [FieldDeclaration],
    pub shared: &'static [SharedFields],
}

/// Fields that a section has in common with another one.
#[derive(Debug)]
pub struct SharedFields {
    pub of: &'static Section,
    pub names: &'static [&'static str],
    pub unset: Unset,
}

#[derive(Debug)]
pub struct FieldDeclaration {
    /// In capitals if the file chooses the name.
    pub name: &'static str,
    pub kind: Kind,
    pub unset: Unset,
    /// The doc comment. Its last lines are examples.
    pub lines: &'static [&'static str],
    /// Reads the value only for its mistakes.
    pub check: fn(&Value<'_>) -> Result<()>,
}

/// Type of a field's value.
#[derive(Debug)]
pub enum Kind {
    /// A type described by these words.
    Is(&'static str),
    /// A type described by these words, which its mistakes repeat.
    Form(&'static str),
    /// Texts described by these words, each one of these names.
    Named(&'static str, fn() -> Vec<&'static str>),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number with its range and its unit, which is empty or a text such as " of packets".
    Whole([u64; 2], &'static str),
    /// A time, with its range if that is fixed.
    Time(Option<[Duration; 2]>),
    Queue,
    /// An amount of data.
    Data,
    Share,
    Rate([BitsPerSec; 2]),
    /// A rate, or a trace whose mean rate is in the range.
    RateOrTrace([BitsPerSec; 2]),
    Table(&'static Section),
    Tables(&'static Section),
}

/// Meaning of a field that is left out.
#[derive(Debug, Clone, Copy)]
pub enum Unset {
    /// A mistake.
    Needed,
    /// This value.
    Is(&'static str),
    /// A default described by these words.
    Means(&'static str),
}

/// Declares a section, and the struct that is read from its table.
///
/// Each field has a doc comment with examples, a type, a kind, and what it means to leave the field out:
///
/// - `needed`: a mistake.
/// - `or "20ms"`: this value.
/// - `unless "words"`: `None`, which the words describe.
/// - `empty "words"`: the default of the type, which the words describe.
/// - `apart`: a mistake that other code finds, because it reads the field.
///
/// `section` instead of `struct` declares a table that other code reads.
#[macro_export]
macro_rules! fields {
    (
        $(#[$meta:meta])*
        $vis:vis struct $type:ident: $section:ident {
            $($(#[doc = $line:literal])+
            $name:ident: $ty:ty = $kind:expr, $unset:ident $($words:expr)? $(, #[$note:meta])?;)*
            $(from $of:ident [$($taken:ident: $taken_ty:ty),+]: $taken_unset:ident $($taken_words:expr)?;)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $type {
            $($(#[doc = $line])+ $(#[$note])? pub $name: $crate::fields!(@type $unset $ty),)*
            $($(
                #[doc = concat!("Declared with [`", stringify!($of), "`].")]
                pub $taken: $crate::fields!(@type $taken_unset $taken_ty),
            )+)*
        }

        impl $type {
            /// # Errors
            /// Every mistake in the table's own fields.
            $vis fn of_table(table: &$crate::toml_reader::Table<'_>) -> $crate::toml_reader::Result<Self> {
                let mut found = $crate::toml_reader::Found::unknown_in(table);
                $(let $name: Option<$crate::fields!(@type $unset $ty)> =
                    found.keep($crate::fields!(@read table, $name, $unset $($words)?));)*
                $($crate::fields!(@shared table, found, [$($taken: $taken_ty),+], $taken_unset $($taken_words)?);)*
                match ($($name,)* $($($taken,)+)*) {
                    ($(Some($name),)* $($(Some($taken),)+)*) if found.is_empty() => {
                        Ok($type { $($name,)* $($($taken,)+)* })
                    }
                    _ => Err(found),
                }
            }
        }

        impl $crate::toml_reader::Read for $type {
            fn read(value: &$crate::toml_reader::Value<'_>) -> $crate::toml_reader::Result<Self> {
                $type::of_table(&value.table()?)
            }
        }

        $crate::fields! {
            $vis section $section {
                $($(#[doc = $line])+ $name: $ty = $kind, $unset $($words)?;)*
                $(from $of [$($taken),+]: $taken_unset $($taken_words)?;)*
            }
        }
    };
    (
        $vis:vis section $section:ident {
            $($(#[doc = $line:literal])+ $name:ident: $ty:ty = $kind:expr, $unset:ident $($words:expr)?;)*
            $(from $of:ident [$($taken:ident),+]: $taken_unset:ident $($taken_words:expr)?;)*
        }
    ) => {
        $vis static $section: $crate::toml_reader::Section = $crate::toml_reader::Section {
            own: &[$($crate::toml_reader::FieldDeclaration {
                name: $crate::toml_reader::key_of(stringify!($name)),
                kind: $kind,
                unset: $crate::fields!(@unset $unset $($words)?),
                lines: &[$($line),+],
                check: |value| <$ty as $crate::toml_reader::Read>::read(value).map(drop),
            }),*],
            shared: &[$($crate::toml_reader::SharedFields {
                of: &$of,
                names: &[$($crate::toml_reader::key_of(stringify!($taken))),+],
                unset: $crate::fields!(@unset $taken_unset $($taken_words)?),
            }),*],
        };
    };
    (@shared $table:ident, $found:ident, [$($name:ident: $ty:ty),+], needed) => {
        $(let $name: Option<$ty> = $found.keep($crate::fields!(@read $table, $name, needed));)+
    };
    (@shared $table:ident, $found:ident, [$($name:ident: $ty:ty),+], $unset:ident $words:expr) => {
        $(let $name: Option<$crate::fields!(@type $unset $ty)> =
            $found.keep($crate::fields!(@read $table, $name, $unset $words));)+
    };
    (@type unless $ty:ty) => { Option<$ty> };
    (@type $unset:ident $ty:ty) => { $ty };
    (@unset needed) => { $crate::toml_reader::Unset::Needed };
    (@unset apart) => { $crate::toml_reader::Unset::Needed };
    (@unset or $words:expr) => { $crate::toml_reader::Unset::Is($words) };
    (@unset $unset:ident $words:expr) => { $crate::toml_reader::Unset::Means($words) };
    (@read $table:ident, $name:ident, needed) => {
        $table.needed($crate::toml_reader::key_of(stringify!($name)))
    };
    (@read $table:ident, $name:ident, apart) => { Ok::<_, $crate::toml_reader::Found>($crate::toml_reader::Apart) };
    (@read $table:ident, $name:ident, or $words:expr) => {
        $table.read_or($crate::toml_reader::key_of(stringify!($name)), $words)
    };
    (@read $table:ident, $name:ident, unless $words:expr) => {
        $table.read($crate::toml_reader::key_of(stringify!($name)))
    };
    (@read $table:ident, $name:ident, empty $words:expr) => {
        $table.read($crate::toml_reader::key_of(stringify!($name))).map(Option::unwrap_or_default)
    };
}

/// The key of an identifier: `where` for `r#where`.
pub const fn key_of(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

const EXAMPLE: &str = "Example: ";

impl FieldDeclaration {
    /// The doc comment without its examples.
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.trim()).filter(|line| !line.starts_with(EXAMPLE));
        lines.collect::<Vec<_>>().join(" ")
    }

    /// Lines of a file that set the field.
    pub fn examples(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.lines.iter().filter_map(|line| line.trim().strip_prefix(EXAMPLE))
    }

    /// None: the field does not hold tables.
    pub fn section(&self) -> Option<&'static Section> {
        match self.kind {
            Kind::Table(section) | Kind::Tables(section) => Some(section),
            _ => None,
        }
    }
}

impl Section {
    /// A section in which the file chooses the names of all fields.
    pub const OPEN: &'static Section = &Section { own: &[], shared: &[] };

    /// Every field with its default in this section.
    pub fn fields(&self) -> impl Iterator<Item = (&'static FieldDeclaration, Unset)> + use<'_> {
        let own = self.own.iter().map(|field| (field, field.unset));
        let shared = self
            .shared
            .iter()
            .flat_map(|shared| shared.names.iter().filter_map(|name| Some((shared.of.field(name)?, shared.unset))));
        own.chain(shared)
    }

    /// The field with this key. If no name matches, the field with an open name, if there is one.
    pub fn field(&self, key: &str) -> Option<&'static FieldDeclaration> {
        let own = self.own.iter().find(|field| field.name == key);
        let shared = || self.shared.iter().find(|shared| shared.names.contains(&key))?.of.field(key);
        own.or_else(shared).or_else(|| self.own.iter().find(|field| is_open(field.name)))
    }

    /// Whether the file chooses the names of all fields.
    pub fn is_open(&self) -> bool {
        self.own.iter().all(|field| is_open(field.name)) && self.shared.is_empty()
    }
}

/// Whether a name is in capitals, so that the file chooses it.
fn is_open(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_uppercase())
}

impl Kind {
    /// The type in a few words, for people.
    pub fn name(&self) -> String {
        match self {
            Kind::Is(what) | Kind::Form(what) | Kind::Named(what, _) => (*what).to_owned(),
            Kind::Words(words) => format!("\"{}\"", words.join("\" or \"")),
            Kind::Whole(_, of) => format!("whole number{of}"),
            Kind::Time(_) => "time".to_owned(),
            Kind::Queue => "queue size".to_owned(),
            Kind::Data => "amount of data".to_owned(),
            Kind::Share => "share".to_owned(),
            Kind::Rate(_) => "rate".to_owned(),
            Kind::RateOrTrace(_) => "rate or trace".to_owned(),
            Kind::Table(_) => "table".to_owned(),
            Kind::Tables(_) => "tables".to_owned(),
        }
    }

    /// The units that a value may have.
    pub fn units(&self) -> Option<&'static str> {
        match self {
            Kind::Time(_) => Some("us, ms, s, m, h or d"),
            Kind::Rate(_) | Kind::RateOrTrace(_) => Some("bit, kbit, mbit or gbit"),
            Kind::Data => Some("B, kB, MB, GB, KiB, MiB or GiB"),
            Kind::Queue => Some("pkts, B, kB, MB or bdp"),
            Kind::Share => Some("%, or none"),
            _ => None,
        }
    }

    /// The message for a wrong number.
    ///
    /// None: not a [`Kind::Whole`].
    pub fn expected_number(&self) -> Option<String> {
        let Kind::Whole([low, high], of) = self else { return None };
        Some(format!("expected a whole number{of} from {low} to {high}"))
    }

    /// Whether a whole number is in the range, if there is one.
    pub fn takes(&self, number: u64) -> bool {
        match self {
            Kind::Whole([low, high], _) => (*low..=*high).contains(&number),
            _ => true,
        }
    }

    /// The smallest and the largest value.
    pub fn range(&self) -> Option<[String; 2]> {
        match self {
            Kind::Whole(range, _) => Some(range.map(|end| end.to_string())),
            Kind::Time(range) => range.map(|range| range.map(format_duration)),
            Kind::Share => Some(["0%", "100%"].map(str::to_owned)),
            Kind::Rate(range) | Kind::RateOrTrace(range) => Some(range.map(|end| end.to_string())),
            _ => None,
        }
    }
}

/// A field at one place of the file.
#[derive(Debug, Clone)]
pub struct FieldEntry {
    /// Dotted, such as `link.reverse.rate`.
    pub path: String,
    pub field: &'static FieldDeclaration,
    pub unset: Unset,
    section: &'static Section,
    /// Whether an earlier place has the same section.
    pub is_repeated: bool,
}

/// Every field of a file at every place. The fields of a table follow the table.
pub fn entries(document: &'static Section) -> Vec<FieldEntry> {
    let mut entries = Vec::new();
    add("", document, &mut entries);
    entries
}

fn add(place: &str, section: &'static Section, entries: &mut Vec<FieldEntry>) {
    let is_repeated = entries.iter().any(|entry| std::ptr::eq(entry.section, section));
    for (field, unset) in section.fields() {
        let path = if place.is_empty() { field.name.to_owned() } else { format!("{place}.{}", field.name) };
        entries.push(FieldEntry { path: path.clone(), field, unset, section, is_repeated });
        if let Some(section) = field.section() {
            add(&path, section, entries);
        }
    }
}

impl FieldEntry {
    /// The path of the table that has the field; empty at the top of the file.
    pub fn place(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(place, _)| place)
    }

    /// Whether a dotted name is the whole path, or the end of it.
    fn has_name(&self, name: &str) -> bool {
        let given: Vec<&str> = name.split('.').collect();
        let own: Vec<&str> = self.path.split('.').collect();
        let is_own = |(own, given): (&&str, &&str)| own == given || is_open(own);
        own.ends_with(&given) || own.len() == given.len() && own.iter().zip(&given).all(is_own)
    }
}

/// The different fields that a dotted name may mean.
pub fn find<'a>(name: &str, entries: &'a [FieldEntry]) -> Vec<&'a FieldEntry> {
    let mut found: Vec<&FieldEntry> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.has_name(name)) {
        if !found.iter().any(|other| std::ptr::eq(other.field, entry.field)) {
            found.push(entry);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Kind;
    use crate::toml_reader::{Document, Mistake};

    fields! {
        #[derive(Debug, PartialEq)]
        struct PathFields: PATH {
            /// Rate.
            /// Example: rate = "1mbit"
            rate: String = Kind::Form("a rate"), needed;
            /// Delay.
            /// Example: delay = "1ms"
            delay: Duration = Kind::Time(Some([Duration::ZERO, Duration::from_secs(1)])), or "20ms";
            /// Packets.
            /// Example: queue = 9
            queue: u32 = Kind::Whole([1, 9], ""), unless "no queue";
            /// Word.
            /// Example: where = ["x"]
            r#where: Vec<String> = Kind::Is("names"), empty "everywhere";
        }
    }

    fn read(text: &str) -> Result<PathFields, Vec<Mistake>> {
        let document = Document::parse("x.toml", text).unwrap();
        PathFields::of_table(&document.source().document(&PATH)).map_err(|found| found.into_vec())
    }

    #[test]
    fn fields_that_are_left_out_have_their_declared_meaning() {
        let delay = Duration::from_millis(20);
        let least = PathFields { rate: "x".into(), delay, queue: None, r#where: Vec::new() };
        assert_eq!(read("rate = \"x\""), Ok(least));
    }

    #[test]
    fn all_mistakes_of_a_table_are_found_at_once() {
        let said = |text: &str| -> Vec<String> {
            read(text).unwrap_err().iter().map(|it| format!("{}: {}", it.field, it.expected)).collect()
        };
        let all = [
            "rate: missing: expected a rate",
            "delay: outside 0us..1s",
            "queue: expected a whole number from 1 to 9",
            "where: expected a text in quotes",
            "where: expected a text in quotes",
        ];
        assert_eq!(said("\ndelay = \"2s\"\nqueue = 10\nwhere = [1, \"x\",\n2]"), all);
        assert_eq!(said("rte = \"x\""), ["rte: unknown field: expected one of rate, delay, queue, where"]);
    }
}
