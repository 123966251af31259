//! Reads the remote prefixes of a rule, from the policy file and from the list it names.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::PolicyTally;
use super::fields::RuleFields;
use crate::toml_reader::text::{self, NOT_TEXT, Unreadable};
use crate::toml_reader::{Found, MISTAKES_MAX, Mistake, Result, TWICE, Table, Value, shown};
use shared::units::ParseError;
use shared::units::prefix::Prefix;

const PREFIXES_MAX: usize = 100_000;

/// The prefixes of `to`, then those of the lines of `to_file`.
pub(super) fn all(rule: &Table<'_>, fields: &mut RuleFields, tally: &mut PolicyTally) -> Result<Vec<Prefix>> {
    let mut prefixes = std::mem::take(&mut fields.to).0;
    tally.prefixes += prefixes.len();
    if let Some(to) = rule.get("to").filter(|_| tally.prefixes > PREFIXES_MAX) {
        return Err(to.mistake(too_many()).into());
    }
    if let Some(name) = &fields.to_file {
        add_of_file(name, &rule.need("to_file")?, &mut prefixes, tally)?;
    }
    Ok(prefixes)
}

fn add_of_file(name: &str, value: &Value<'_>, prefixes: &mut Vec<Prefix>, tally: &mut PolicyTally) -> Result<()> {
    let path = Path::new(value.source.file).parent().unwrap_or(Path::new("")).join(name);
    let list = path.display().to_string();
    match text::read(&path) {
        Ok(text) => {
            let before = prefixes.len();
            add_lines(&list, &text, prefixes, tally)?;
            match before == prefixes.len() {
                true => Err(value.refuse("expected at least one prefix in this file").into()),
                false => Ok(()),
            }
        }
        Err(Unreadable::File(why)) => Err(value.refuse(format!("\"{}\" cannot be read: {why}", shown(&list))).into()),
        Err(Unreadable::NotText(line)) => Err(mistake_at(&list, line, NOT_TEXT).into()),
    }
}

/// A list has one prefix per line. Text after `#` is a comment.
fn add_lines(list: &str, text: &str, prefixes: &mut Vec<Prefix>, tally: &mut PolicyTally) -> Result<()> {
    let mut found = Found::default();
    let mut seen: BTreeSet<Prefix> = prefixes.iter().copied().collect();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    for (index, written) in lines.enumerate().filter(|(_, written)| !written.is_empty()) {
        let (expected, meant) = match prefix_in(written) {
            Ok(_) if tally.prefixes >= PREFIXES_MAX => {
                found.add(mistake_at(list, index + 1, &too_many()));
                break;
            }
            Ok(prefix) if seen.insert(prefix) => {
                prefixes.push(prefix);
                tally.prefixes += 1;
                continue;
            }
            Ok(_) => (TWICE.to_owned(), None),
            Err(error) => (error.expected.into_owned(), error.meant),
        };
        let given = format!("\"{}\"", shown(written));
        found.add(mistake_at(list, index + 1, &expected).given(given).suggest(meant));
        if found.len() > MISTAKES_MAX {
            break;
        }
    }
    found.end()
}

fn mistake_at(list: &str, line: usize, expected: &str) -> Box<Mistake> {
    let (file, line, field, expected) = (list.to_owned(), Some(line), String::new(), expected.to_owned());
    Box::new(Mistake { file, line, field, given: None, expected, hint: None })
}

fn too_many() -> String {
    format!("expected at most {PREFIXES_MAX} prefixes in the whole policy")
}

/// Parses a prefix. For one with host bits, the error suggests the prefix without them.
pub(super) fn prefix_in(text: &str) -> Result<Prefix, ParseError> {
    let explain = |error| ParseError { meant: without_host_bits(text).map(|prefix| prefix.to_string()), ..error };
    text.parse().map_err(explain)
}

/// `None` if the text is not an address with a length.
pub(super) fn without_host_bits(text: &str) -> Option<Prefix> {
    let (address, bits) = text.split_once('/')?;
    let bits: u32 = bits.parse().ok()?;
    let network: IpAddr = match address.parse().ok()? {
        IpAddr::V4(address) => (address & !Ipv4Addr::from(u32::MAX.checked_shr(bits).unwrap_or(0))).into(),
        IpAddr::V6(address) => (address & !Ipv6Addr::from(u128::MAX.checked_shr(bits).unwrap_or(0))).into(),
    };
    format!("{network}/{bits}").parse().ok()
}
