//! `[ns2]`: settings for the simulator ns-2.

use super::CellReader;
use super::link::Nodes;
use crate::scenario::reference::Ns2Spec;
use host::toml_reader::{Read, Result, Value, each};

/// Variant or algorithm with its ns-2 agent, in the order of the file: `TCP/Sack1`, or `TCP/Linux cubic` for one
/// algorithm of an agent. A name that is not a variant of the file runs in the simulator only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agents(pub Vec<(String, String)>);

impl Ns2Spec {
    pub fn agent(&self, label: &str) -> Option<&str> {
        self.agents.0.iter().find(|(name, _)| name == label).map(|(_, agent)| agent.as_str())
    }
}

/// Whether a text names a TCP agent of ns-2 and nothing else. It becomes part of a Tcl script.
fn is_agent(text: &str) -> bool {
    let (class, selected) = text.split_once(' ').unwrap_or((text, "none"));
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    class.split('/').next() == Some("TCP") && class.split('/').all(is_word) && is_word(selected)
}

impl Read for Agents {
    fn read(value: &Value<'_>) -> Result<Self> {
        let agents = each(value.table()?.entries(), |(name, value)| {
            let agent = String::read(&value)?;
            if is_agent(&agent) {
                return Ok((name.to_owned(), agent));
            }
            let expected = "expected a TCP agent of ns-2, such as TCP/Sack1 or TCP/Linux cubic";
            Err(value.refuse(expected).into())
        })?;
        match agents.is_empty() {
            true => Err(value.refuse_field("expected at least one, such as SACK = \"TCP/Sack1\"").into()),
            false => Ok(Agents(agents)),
        }
    }
}

impl CellReader<'_> {
    /// Checks that a link joins each pair of `error_models`.
    pub(super) fn check_ns2(&self, spec: Option<&Ns2Spec>) -> Result<()> {
        let Some(pairs) = spec.and_then(|spec| spec.error_models.as_ref()) else { return Ok(()) };
        let values = self.document().table("ns2")?.need("error_models")?.items();
        let links = self.written_links()?;
        each(pairs.iter().zip(values), |(Nodes(pair), value)| {
            let is_joined = links.iter().any(|link| pair.iter().all(|end| link.ends.contains(end)));
            if pair[0] != pair[1] && is_joined { Ok(()) } else { Err(value.refuse("no link joins them").into()) }
        })
        .map(drop)
    }
}
