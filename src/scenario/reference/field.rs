//! What a section and a field are, and the form in which they are declared.

use std::time::Duration;

use crate::units::{BitsPerSec, format_duration};

/// A table of a scenario file.
#[derive(Debug)]
pub struct Section {
    pub own: &'static [Field],
    pub shared: &'static [Shared],
}

/// Fields that a section takes over from another one.
#[derive(Debug)]
pub struct Shared {
    pub of: &'static Section,
    pub names: &'static [&'static str],
    pub unset: Unset,
}

/// A field of a section.
#[derive(Debug)]
pub struct Field {
    /// A name in capitals stands for names that the file chooses.
    pub name: &'static str,
    pub kind: Kind,
    pub unset: Unset,
    /// Lines of its doc comment; the last are examples.
    lines: &'static [&'static str],
}

/// What the value of a field is.
#[derive(Debug)]
pub enum Kind {
    /// What these words say.
    Is(&'static str),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number of a unit: empty, or such as " of packets".
    Whole([u64; 2], &'static str),
    /// A time, in a range where there is a fixed one.
    Time(Option<[Duration; 2]>),
    /// A size of a queue.
    Queue,
    /// An amount of data.
    Data,
    Share,
    Rate([BitsPerSec; 2]),
    Table(&'static Section),
    /// Several tables.
    Tables(&'static Section),
}

/// What holds where a field is left out.
#[derive(Debug, Clone, Copy)]
pub enum Unset {
    /// It must be there.
    Needed,
    /// It has this value.
    Is(&'static str),
    /// What these words say.
    Means(&'static str),
}

/// Declares sections with their fields: a doc comment, a name, a kind, and what holds without the field.
macro_rules! sections {
    ($(
        $(#[doc = $about:literal])+
        $section:ident {
            $($(#[doc = $line:literal])+ $name:ident: $kind:expr, $unset:expr;)*
        }
        $(from $of:ident [$($taken:ident),+]: $taken_unset:expr;)*
    )+) => {$(
        $(#[doc = $about])+
        pub static $section: super::field::Section = super::field::Section {
            own: &[$(super::field::Field::new(stringify!($name), $kind, $unset, &[$($line),+])),*],
            shared: &[$(super::field::Shared {
                of: &$of,
                names: &[$(stringify!($taken)),+],
                unset: $taken_unset,
            }),*],
        };
    )+};
}
pub(super) use sections;

const EXAMPLE: &str = "Example: ";

impl Field {
    pub const fn new(name: &'static str, kind: Kind, unset: Unset, lines: &'static [&'static str]) -> Self {
        Field { name, kind, unset, lines }
    }

    /// What it does.
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.trim());
        lines.filter(|line| !line.is_empty() && !line.starts_with(EXAMPLE)).collect::<Vec<_>>().join(" ")
    }

    /// Lines of a scenario that set it, each with its own value.
    pub fn examples(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.lines.iter().filter_map(|line| line.trim().strip_prefix(EXAMPLE))
    }

    /// Whether its name stands for names that the file chooses.
    pub fn is_open(&self) -> bool {
        is_open(self.name)
    }

    /// The section of a field that holds tables.
    pub fn section(&self) -> Option<&'static Section> {
        match self.kind {
            Kind::Table(section) | Kind::Tables(section) => Some(section),
            _ => None,
        }
    }
}

impl Section {
    /// Every field with what holds without it.
    pub fn fields(&self) -> Vec<(&'static Field, Unset)> {
        let own = self.own.iter().map(|field| (field, field.unset));
        let shared = self.shared.iter().flat_map(|shared| {
            let taken = |name| shared.of.field(name).map(|field| (field, shared.unset));
            shared.names.iter().copied().filter_map(taken)
        });
        own.chain(shared).collect()
    }

    /// The field that a key of the file sets.
    pub fn field(&self, key: &str) -> Option<&'static Field> {
        let own = self.own.iter().find(|field| field.name == key);
        let shared = || self.shared.iter().find(|shared| shared.names.contains(&key))?.of.field(key);
        own.or_else(shared).or_else(|| self.own.iter().find(|field| field.is_open()))
    }

    /// Whether the file chooses the names of its fields.
    pub fn is_open(&self) -> bool {
        self.own.iter().all(Field::is_open) && self.shared.is_empty()
    }
}

/// Whether a name stands for names that the file chooses: it is in capitals.
pub(super) fn is_open(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_uppercase())
}

impl Kind {
    /// What a value is, in a few words.
    pub fn name(&self) -> String {
        match self {
            Kind::Is(what) => (*what).to_owned(),
            Kind::Words(words) => format!("\"{}\"", words.join("\" or \"")),
            Kind::Whole(_, of) => format!("whole number{of}"),
            Kind::Time(_) => "time".to_owned(),
            Kind::Queue => "queue size".to_owned(),
            Kind::Data => "amount of data".to_owned(),
            Kind::Share => "share".to_owned(),
            Kind::Rate(_) => "rate".to_owned(),
            Kind::Table(_) => "table".to_owned(),
            Kind::Tables(_) => "tables".to_owned(),
        }
    }

    /// The units of its values, of which each has one.
    pub fn units(&self) -> Option<&'static str> {
        match self {
            Kind::Time(_) => Some("us, ms, s, m, h or d"),
            Kind::Rate(_) => Some("bit, kbit, mbit or gbit"),
            Kind::Data => Some("B, kB, MB, GB, KiB, MiB or GiB"),
            Kind::Queue => Some("pkts, B, kB, MB or bdp"),
            Kind::Share => Some("%, or none"),
            _ => None,
        }
    }

    /// What a message says of a whole number; none for other kinds.
    pub fn expected_number(&self) -> Option<String> {
        let Kind::Whole([low, high], of) = self else { return None };
        Some(format!("expected a whole number{of} from {low} to {high}"))
    }

    /// Whether a whole number is in the range.
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
            Kind::Rate(range) => Some(range.map(|end| end.to_string())),
            _ => None,
        }
    }
}
