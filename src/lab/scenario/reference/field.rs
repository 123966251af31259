//! The types of sections and fields, and the macro that declares them.

use std::time::Duration;

use shared::units::{BitsPerSec, format_duration};

/// A table of a scenario file.
#[derive(Debug)]
pub struct ScenarioSection {
    pub own: &'static [ScenarioField],
    pub shared: &'static [SharedFields],
}

/// Fields that a section has in common with another one.
#[derive(Debug)]
pub struct SharedFields {
    pub of: &'static ScenarioSection,
    pub names: &'static [&'static str],
    pub unset: Unset,
}

#[derive(Debug)]
pub struct ScenarioField {
    /// In capitals if the file chooses the name.
    pub name: &'static str,
    pub kind: Kind,
    pub unset: Unset,
    /// The doc comment. Its last lines are examples.
    pub lines: &'static [&'static str],
}

/// Type of a field's value.
#[derive(Debug)]
pub enum Kind {
    /// A type described by these words.
    Is(&'static str),
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
    Table(&'static ScenarioSection),
    Tables(&'static ScenarioSection),
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

/// Declares sections. Each field has a doc comment with examples, a name, a kind, and a default.
macro_rules! sections {
    ($(
        $section:ident {
            $($(#[doc = $line:literal])+ $name:ident: $kind:expr, $unset:expr;)*
            $(from $of:ident [$($taken:ident),+]: $taken_unset:expr;)*
        }
    )+) => {$(
        pub static $section: super::field::ScenarioSection = super::field::ScenarioSection {
            own: &[$(super::field::ScenarioField {
                name: stringify!($name),
                kind: $kind,
                unset: $unset,
                lines: &[$($line),+],
            }),*],
            shared: &[$(super::field::SharedFields {
                of: &$of,
                names: &[$(stringify!($taken)),+],
                unset: $taken_unset,
            }),*],
        };
    )+};
}
pub(super) use sections;

const EXAMPLE: &str = "Example: ";

impl ScenarioField {
    /// The doc comment without its examples.
    pub fn text(&self) -> String {
        let lines = self.lines.iter().map(|line| line.trim()).filter(|line| !line.starts_with(EXAMPLE));
        lines.collect::<Vec<_>>().join(" ")
    }

    /// Lines of a scenario that set the field.
    pub fn examples(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.lines.iter().filter_map(|line| line.trim().strip_prefix(EXAMPLE))
    }

    /// None: the field does not hold tables.
    pub fn section(&self) -> Option<&'static ScenarioSection> {
        match self.kind {
            Kind::Table(section) | Kind::Tables(section) => Some(section),
            _ => None,
        }
    }
}

impl ScenarioSection {
    /// Every field with its default in this section.
    pub fn fields(&self) -> Vec<(&'static ScenarioField, Unset)> {
        let own = self.own.iter().map(|field| (field, field.unset));
        let shared = self.shared.iter().flat_map(|shared| {
            let taken = |name| shared.of.field(name).map(|field| (field, shared.unset));
            shared.names.iter().copied().filter_map(taken)
        });
        own.chain(shared).collect()
    }

    /// The field with this key. If no name matches, the field with an open name, if there is one.
    pub fn field(&self, key: &str) -> Option<&'static ScenarioField> {
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
pub(super) fn is_open(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_uppercase())
}

impl Kind {
    /// The type in a few words, for people.
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
