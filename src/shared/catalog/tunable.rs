//! The parameters of an algorithm that a user may set when loading it.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::suggest::nearest;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TunableKind {
    /// `u8` to `u64`.
    Unsigned,
    /// `s8` to `s64`.
    Signed,
    /// Written as `true`, `false`, `1` or `0`.
    Bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunable {
    /// The name in C and on the command line.
    pub name: String,
    pub kind: TunableKind,
    /// 1, 2, 4 or 8 bytes.
    pub size: usize,
    /// Offset in the object's `.rodata`.
    pub offset: usize,
    pub default: i128,
    pub low: i128,
    pub high: i128,
    /// Unit of default, low and high.
    pub unit: String,
    /// Reason for the default.
    pub why: String,
    /// Names in earlier versions. They are refused, and the hint gives the current name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<String>,
}

/// A checked value of a tunable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    pub name: String,
    /// In the tunable's unit.
    pub value: i128,
    /// Offset in the object's `.rodata`.
    pub offset: usize,
    pub bytes: Vec<u8>,
}

impl Setting {
    /// Writes the value into the object's `.rodata`.
    ///
    /// # Errors
    /// The section is shorter than the object's own type information says.
    pub fn write(&self, rodata: &mut [u8]) -> Result<(), Failure> {
        let end = self.offset.saturating_add(self.bytes.len());
        let Some(place) = rodata.get_mut(self.offset..end) else {
            return Err(Failure::failed(format!("cannot set tunable {}: it lies outside .rodata", self.name)));
        };
        place.copy_from_slice(&self.bytes);
        Ok(())
    }
}

impl Tunable {
    /// Parses and checks a value for the algorithm `id`.
    ///
    /// # Errors
    /// Not a whole number, or outside the range.
    pub fn check(&self, id: &str, text: &str) -> Result<Setting, Failure> {
        match number(text) {
            Some(value) => self.check_number(id, value),
            None => {
                let what = format!("tunable {} = {text} for \"{id}\" is not a whole number", self.name);
                Err(Failure::usage(what).hint(format!("expected {}", self.range())))
            }
        }
    }

    /// # Errors
    /// Outside the range.
    fn check_number(&self, id: &str, value: i128) -> Result<Setting, Failure> {
        if !(self.low..=self.high).contains(&value) {
            let (name, range) = (&self.name, self.range());
            return Err(Failure::usage(format!("tunable {name} = {value} for \"{id}\" is outside {range}")));
        }
        Ok(Setting { name: self.name.clone(), value, offset: self.offset, bytes: self.encode(value) })
    }

    /// The allowed range with its unit: `1..1024 (1/1024)`.
    pub fn range(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
        format!("{}..{}{unit}", self.low, self.high)
    }

    /// Encodes a value for `.rodata`.
    pub fn encode(&self, value: i128) -> Vec<u8> {
        value.to_le_bytes()[..self.size].to_vec()
    }

    /// Decodes the value in `.rodata`. None: `.rodata` is too short.
    pub fn value_in(&self, rodata: &[u8]) -> Option<i128> {
        let bytes = rodata.get(self.offset..self.offset.checked_add(self.size)?)?;
        let negative = self.kind == TunableKind::Signed && bytes.last()? & 0x80 != 0;
        let mut wide = if negative { [0xff; 16] } else { [0; 16] };
        wide[..self.size].copy_from_slice(bytes);
        Some(i128::from_le_bytes(wide))
    }

    /// Fills in the numbers and texts of a tag `default|low|high|unit|why`.
    ///
    /// None: a part is missing, a number is malformed, or the default, range and type contradict each other.
    pub(super) fn with_tag(mut self, tag: &str) -> Option<Self> {
        let mut parts = tag.splitn(5, '|');
        self.default = number(parts.next()?)?;
        self.low = number(parts.next()?)?;
        self.high = number(parts.next()?)?;
        self.unit = parts.next()?.to_owned();
        self.why = parts.next()?.to_owned();
        let bits = 8 * self.size as u32;
        let (least, most) = match self.kind {
            TunableKind::Bool => (0, 1),
            TunableKind::Unsigned => (0, (1 << bits) - 1),
            TunableKind::Signed => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        };
        let ordered = least <= self.low && self.low <= self.default && self.default <= self.high && self.high <= most;
        ordered.then_some(self)
    }
}

/// Parses a decimal or hexadecimal number, with C's suffixes, or a truth value.
fn number(text: &str) -> Option<i128> {
    let text = match text.trim() {
        "true" => "1",
        "false" => "0",
        other => other,
    };
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let first = digits.bytes().next()?;
    let value = match digits.strip_prefix("0x") {
        Some(hex) if hex.bytes().next()?.is_ascii_hexdigit() => i128::from_str_radix(hex, 16).ok()?,
        None if first.is_ascii_digit() => digits.parse::<i128>().ok()?,
        _ => return None,
    };
    Some(if negative { -value } else { value })
}

/// Parses `name=value` for the algorithm `id`.
///
/// # Errors
/// No `=`; those of [`named`].
pub fn parse(id: &str, tunables: &[Tunable], text: &str) -> Result<Setting, Failure> {
    let Some((name, value)) = text.split_once('=') else {
        let what = format!("tunable \"{text}\" for \"{id}\" has no value");
        return Err(Failure::usage(what).hint("write it as NAME=VALUE"));
    };
    named(id, tunables, name.trim(), value.trim())
}

/// Parses the value of the tunable `name` for the algorithm `id`.
///
/// # Errors
/// A former name, an unknown name, and those of [`Tunable::check`].
pub fn named(id: &str, tunables: &[Tunable], name: &str, value: &str) -> Result<Setting, Failure> {
    find(id, tunables, name, value)?.check(id, value)
}

/// Checks a value that was recorded for the tunable `name` of the algorithm `id`.
///
/// # Errors
/// As [`named`].
pub fn recorded(id: &str, tunables: &[Tunable], name: &str, value: i128) -> Result<Setting, Failure> {
    find(id, tunables, name, value)?.check_number(id, value)
}

/// Finds a tunable by name. `value` is used only in the hint about a former name.
fn find<'a>(id: &str, tunables: &'a [Tunable], name: &str, value: impl Display) -> Result<&'a Tunable, Failure> {
    if let Some(tunable) = tunables.iter().find(|tunable| tunable.name == name) {
        return Ok(tunable);
    }
    if let Some(renamed) = tunables.iter().find(|tunable| tunable.former.iter().any(|former| former == name)) {
        let what = format!("tunable \"{name}\" for \"{id}\" was renamed");
        return Err(Failure::usage(what).hint(format!("write {}={}", renamed.name, value)));
    }
    let known: Vec<&str> = tunables.iter().map(|tunable| tunable.name.as_str()).collect();
    let failure = Failure::usage(format!("unknown tunable \"{name}\" for \"{id}\""));
    Err(match (nearest(name, known.iter().copied()), known.is_empty()) {
        (Some(near), _) => {
            failure.hint(format!("did you mean \"{near}\"? `tccc show {id}` explains all {}", known.len()))
        }
        (None, true) => failure.hint(format!("\"{id}\" has no tunables")),
        (None, false) => failure.hint(format!("\"{id}\" has {}", known.join(", "))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beta() -> Tunable {
        let (name, unit, why) = ("beta_permille".into(), String::new(), String::new());
        let (kind, size, former) = (TunableKind::Unsigned, 4, vec!["beta".into()]);
        let blank = Tunable { name, kind, size, offset: 0, default: 0, low: 0, high: 0, unit, why, former };
        blank.with_tag("700|100|950|1/1000|the share, as a|b").unwrap()
    }

    #[test]
    fn tag_gives_range_unit_and_reason_unless_it_contradicts_itself() {
        let tunable = beta();
        assert_eq!((tunable.default, tunable.low, tunable.high), (700, 100, 950));
        assert_eq!((tunable.unit.as_str(), tunable.why.as_str()), ("1/1000", "the share, as a|b"));
        for tag in ["", "1|2", "5|6|9|u|w", "5|1|4|u|w", "x|1|4|u|w", "5|-1|9|u|w", "5|1|4294967296|u|w"] {
            assert!(beta().with_tag(tag).is_none(), "{tag:?} was accepted");
        }
    }

    #[test]
    fn values_are_read_checked_and_encoded() {
        let check = |text: &str, value: i128, bytes: [u8; 4]| {
            let setting = parse("aimd", &[beta()], text).unwrap();
            assert_eq!((setting.value, setting.bytes.as_slice()), (value, bytes.as_slice()), "{text}");
        };
        check("beta_permille=100", 100, [100, 0, 0, 0]);
        check("beta_permille = 950", 950, [0xb6, 3, 0, 0]);
        check("beta_permille=0x12c", 300, [0x2c, 1, 0, 0]);
    }

    #[test]
    fn refusals_name_value_range_and_unit() {
        let check = |text: &str, what: &str, hint: Option<&str>| {
            let failure = parse("aimd", &[beta()], text).unwrap_err();
            assert_eq!(failure.kind, crate::failure::FailureKind::Usage);
            assert_eq!((failure.what.as_str(), failure.hint.as_deref()), (what, hint), "{text}");
        };
        let outside = "tunable beta_permille = 1200 for \"aimd\" is outside 100..950 (1/1000)";
        check("beta_permille=1200", outside, None);
        check("beta_permille=-5", &outside.replace("1200", "-5"), None);
        let fraction = "tunable beta_permille = 0.7 for \"aimd\" is not a whole number";
        check("beta_permille=0.7", fraction, Some("expected 100..950 (1/1000)"));
        let near = "did you mean \"beta_permille\"? `tccc show aimd` explains all 1";
        check("beta_permile=700", "unknown tunable \"beta_permile\" for \"aimd\"", Some(near));
        check("gamma=1", "unknown tunable \"gamma\" for \"aimd\"", Some("\"aimd\" has beta_permille"));
        let renamed = "tunable \"beta\" for \"aimd\" was renamed";
        check("beta = 700", renamed, Some("write beta_permille=700"));
        let valueless = "tunable \"beta_permille\" for \"aimd\" has no value";
        check("beta_permille", valueless, Some("write it as NAME=VALUE"));
        assert!(parse("aimd", &[], "x=1").unwrap_err().hint.unwrap().contains("no tunables"));
    }

    #[test]
    fn signed_values_survive_their_bytes() {
        let signed = Tunable { kind: TunableKind::Signed, size: 2, ..beta() };
        let signed = signed.with_tag("-3|-300|300|us|w").unwrap();
        for value in [-300, -1, 0, 1, 300] {
            assert_eq!(signed.value_in(&signed.encode(value)), Some(value));
        }
    }
}
