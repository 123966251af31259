//! Queue disciplines of the kernel in front of a link's rate, in the words of `tc`. Plain data.

mod attributes;
mod words;

use std::fmt;
use std::str::FromStr;

use rtnetlink::packet_route::tc::TcHandle;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

pub use self::attributes::{LinkFacts, attributes};
use self::words::{Word, words};
use shared::kernel::netlink::Qdisc;
use shared::sanitize::shown;
use shared::suggest::nearest;
use shared::units::{BitsPerSec, ParseError, serde_as_text};

/// The class that the qdisc above a discipline has for its queue. In a guest, each change has the next one.
pub(crate) const FIRST_CLASS: u16 = 1;

/// Parent of a discipline: a class of a qdisc with the handle `1:`.
pub(crate) fn class(number: u16) -> TcHandle {
    TcHandle { major: 1, minor: number }
}

/// The kernel's own name is the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum DisciplineKind {
    Pfifo,
    Codel,
    FqCodel,
    Pie,
    FqPie,
    Red,
    Cake,
    Fq,
    /// RFC 9332, from Linux 6.17 on.
    Dualpi2,
}

/// A queue discipline with what differs from the kernel's defaults. The size of the link's queue is its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Discipline {
    pub kind: DisciplineKind,
    /// Shape: in the order in which they are written, none of them twice.
    settings: Vec<Setting>,
}

/// A word of `tc`, and the number that it sets.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Setting {
    word: &'static Word,
    /// In the unit of the word's [`Follows`](words::Follows).
    value: u64,
}

impl FromStr for Discipline {
    type Err = ParseError;

    /// Reads `codel` or `fq_codel target 5ms noecn`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(text).map_err(|why| ParseError::because(text, why))
    }
}

fn read(text: &str) -> Result<Discipline, String> {
    let mut rest = text.split_whitespace();
    let name = rest.next().unwrap_or_default();
    let kind: DisciplineKind = name.parse().map_err(|_| {
        let near = nearest(name, DisciplineKind::VARIANTS.iter().copied());
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("expected one of {}{hint}", DisciplineKind::VARIANTS.join(", "))
    })?;
    let mut settings: Vec<Setting> = Vec::new();
    while let Some(name) = rest.next() {
        let word = find(kind, name)?;
        let value = word.follows.read(&mut rest).map_err(|why| format!("{name} {why}"))?;
        if let Some(other) = settings.iter().find(|other| other.word.sets == word.sets) {
            return Err(format!("{} and {name} set the same", other.word.name));
        }
        settings.push(Setting { word, value });
    }
    Ok(Discipline { kind, settings })
}

fn find(kind: DisciplineKind, name: &str) -> Result<&'static Word, String> {
    if let Some(word) = words(kind).iter().find(|word| word.name == name) {
        return Ok(word);
    }
    let known: Vec<&str> = words(kind).iter().map(|word| word.name).collect();
    Err(match name {
        "limit" => "limit: the link's `queue` is its limit".to_owned(),
        _ if known.is_empty() => format!("\"{}\": {kind} has no parameter but the link's `queue`", shown(name)),
        _ => format!("\"{}\": {kind} has {}", shown(name), known.join(", ")),
    })
}

impl Discipline {
    /// The number that a word sets.
    ///
    /// None: the kernel's default applies.
    fn value(&self, name: &str) -> Option<u64> {
        self.settings.iter().find(|setting| setting.word.name == name).map(|setting| setting.value)
    }

    /// The request that gives it, with these options, to a class of a qdisc with the handle `1:`.
    pub(crate) fn as_child(&self, number: u16, options: Vec<u8>) -> Qdisc<'static> {
        Qdisc {
            kind: self.kind.into(),
            parent: class(number),
            handle: TcHandle { major: 1 + number, minor: 0 },
            options,
            is_nested: self.kind != DisciplineKind::Pfifo,
            overhead: 0,
        }
    }

    /// The rate at which it lets packets pass, if it limits that itself.
    pub fn own_rate(&self) -> Option<BitsPerSec> {
        self.value("bandwidth").map(BitsPerSec)
    }

    /// The rate to which it limits each flow.
    pub fn flow_rate(&self) -> Option<BitsPerSec> {
        self.value("maxrate").map(BitsPerSec)
    }

    /// Whether the size of the link's queue is its limit.
    pub fn has_limit(&self) -> bool {
        self.kind != DisciplineKind::Cake
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        self.settings.iter().try_for_each(|Setting { word, value }| {
            write!(f, " {}", word.name)?;
            word.follows.show(*value).map_or(Ok(()), |value| write!(f, " {value}"))
        })
    }
}

serde_as_text!(Discipline => ToString::to_string);

#[cfg(test)]
mod tests;
