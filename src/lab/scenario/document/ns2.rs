//! `[ns2]`: settings for the simulator ns-2.

use super::table::{CellReader, Result};
use super::value::{Read, ScenarioValue};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ns2Spec {
    /// Variant or algorithm with its ns-2 agent, in the order of the file: `TCP/Sack1`, or `TCP/Linux cubic` for one
    /// algorithm of an agent. A name that is not a variant of the file runs in the simulator only.
    pub agents: Vec<(String, String)>,
    /// Link directions, from node to node, with an error model, in the order of creation. Each error model draws a
    /// random number for every packet. `None`: the directions that lose packets.
    pub error_models: Option<Vec<[String; 2]>>,
}

impl Ns2Spec {
    pub fn agent(&self, label: &str) -> Option<&str> {
        self.agents.iter().find(|(name, _)| name == label).map(|(_, agent)| agent.as_str())
    }
}

/// Whether a text names a TCP agent of ns-2 and nothing else. It becomes part of a Tcl script.
fn is_agent(text: &str) -> bool {
    let (class, selected) = text.split_once(' ').unwrap_or((text, "none"));
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    class.split('/').next() == Some("TCP") && class.split('/').all(is_word) && is_word(selected)
}

impl CellReader<'_> {
    /// Checks that a link joins each pair of `error_models`.
    pub(super) fn ns2(&self) -> Result<Option<Ns2Spec>> {
        let Some(value) = self.document().get("ns2") else { return Ok(None) };
        let table = value.table()?;
        let value = table.need("agents")?;
        let agents = value.table()?.entries().map(agent).collect::<Result<Vec<_>, _>>()?;
        if agents.is_empty() {
            return Err(value.refuse_field("expected at least one, such as SACK = \"TCP/Sack1\""));
        }
        let links = self.written_links()?;
        let pair = |value: &ScenarioValue<'_>| {
            let pair = <[String; 2]>::read(value)?;
            let is_joined = links.iter().any(|link| pair.iter().all(|end| link.ends.contains(end)));
            if pair[0] != pair[1] && is_joined { Ok(pair) } else { Err(value.refuse("no link joins them")) }
        };
        let error_models = table.get("error_models").map(|value| value.list(pair)).transpose()?;
        Ok(Some(Ns2Spec { agents, error_models }))
    }
}

fn agent((name, value): (&str, ScenarioValue<'_>)) -> Result<(String, String)> {
    let agent = String::read(&value)?;
    if !is_agent(&agent) {
        return Err(value.refuse("expected a TCP agent of ns-2, such as TCP/Sack1 or TCP/Linux cubic"));
    }
    Ok((name.to_owned(), agent))
}
