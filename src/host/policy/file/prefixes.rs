//! Reads the remote prefixes of a rule, from the policy file and from the list it names.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::PolicyTally;
use crate::written::text::{self, NOT_TEXT, Unreadable};
use crate::written::{Field, MISTAKES_MAX, Mistake, Reader, TWICE, TomlTable, shown};
use shared::units::ParseError;
use shared::units::prefix::Prefix;

const PREFIXES_MAX: usize = 100_000;

impl Reader<'_> {
    /// Reads `to`, then the lines of `to_file`.
    pub(super) fn prefixes(&mut self, rule: &TomlTable<'_>, tally: &mut PolicyTally) -> Vec<Prefix> {
        let mut prefixes = self.list(rule.field("to"), Self::prefix);
        tally.prefixes += prefixes.len();
        if let Some(field) = rule.field("to").filter(|_| tally.prefixes > PREFIXES_MAX) {
            self.refuse_at(field.value.span().start, &field.name, too_many());
        }
        if let Some(field) = rule.field("to_file") {
            self.prefixes_of_file(&field, &mut prefixes, tally);
        }
        prefixes
    }

    fn prefix(&mut self, field: &Field<'_>) -> Option<Prefix> {
        let text = self.text(field, "an address or a prefix such as \"10.0.0.0/8\"")?;
        prefix_in(text).map_err(|error| self.refuse_parse(field, error)).ok()
    }

    fn prefixes_of_file(&mut self, field: &Field<'_>, prefixes: &mut Vec<Prefix>, tally: &mut PolicyTally) {
        let Some(name) = self.text(field, "the path of a list of prefixes") else { return };
        let path = Path::new(self.file).parent().unwrap_or(Path::new("")).join(name);
        let list = path.display().to_string();
        match text::read(&path) {
            Ok(text) => {
                let before = (prefixes.len(), self.mistakes.len());
                self.lines(&list, &text, prefixes, tally);
                if before == (prefixes.len(), self.mistakes.len()) {
                    self.refuse(field, "expected at least one prefix in this file");
                }
            }
            Err(Unreadable::File(why)) => {
                self.refuse(field, format!("\"{}\" cannot be read: {why}", shown(&list)));
            }
            Err(Unreadable::NotText(line)) => {
                self.refuse_line(&list, line, NOT_TEXT);
            }
        }
    }

    /// A list has one prefix per line. Text after `#` is a comment.
    fn lines(&mut self, list: &str, text: &str, prefixes: &mut Vec<Prefix>, tally: &mut PolicyTally) {
        let enough = self.mistakes.len() + MISTAKES_MAX;
        let mut seen: BTreeSet<Prefix> = prefixes.iter().copied().collect();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        for (index, written) in lines.enumerate().filter(|(_, written)| !written.is_empty()) {
            let (expected, meant) = match prefix_in(written) {
                Ok(_) if tally.prefixes >= PREFIXES_MAX => {
                    self.refuse_line(list, index + 1, &too_many());
                    return;
                }
                Ok(prefix) if seen.insert(prefix) => {
                    prefixes.push(prefix);
                    tally.prefixes += 1;
                    continue;
                }
                Ok(_) => (TWICE.to_owned(), None),
                Err(error) => (error.expected.into_owned(), error.meant),
            };
            let mistake = self.refuse_line(list, index + 1, &expected);
            mistake.given = Some(format!("\"{}\"", shown(written)));
            mistake.suggest(meant);
            if self.mistakes.len() > enough {
                return;
            }
        }
    }

    fn refuse_line(&mut self, list: &str, line: usize, expected: &str) -> &mut Mistake {
        let mistake = self.refuse_at(0, "", expected);
        mistake.file = list.to_owned();
        mistake.line = Some(line);
        mistake
    }
}

fn too_many() -> String {
    format!("expected at most {PREFIXES_MAX} prefixes in the whole policy")
}

/// Parses a prefix. For one with host bits, the error suggests the prefix without them.
fn prefix_in(text: &str) -> Result<Prefix, ParseError> {
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
