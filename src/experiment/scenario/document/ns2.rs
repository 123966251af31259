//! `[ns2]`: what the simulator has to know beside the scenario.

use serde::Deserialize;

use super::super::ns2::Ns2Spec;
use super::super::position::Step;
use super::super::{LinkSpec, ScenarioError};
use super::Reader;
use super::value::Ordered;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ns2Text {
    agents: Ordered<String>,
    error_models: Option<Vec<[String; 2]>>,
}

/// Whether a text names a TCP agent of ns-2 and nothing else: it becomes part of a Tcl script.
fn is_agent(text: &str) -> bool {
    let (class, selected) = text.split_once(' ').unwrap_or((text, "none"));
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    class.split('/').next() == Some("TCP") && class.split('/').all(is_word) && is_word(selected)
}

impl Reader<'_> {
    /// The table, checked against the links.
    pub(super) fn ns2(&self, written: Option<Ns2Text>, links: &[LinkSpec]) -> Result<Option<Ns2Spec>, ScenarioError> {
        let Some(Ns2Text { agents, error_models }) = written else { return Ok(None) };
        let key = |key| vec![Step::Key("ns2"), Step::Key(key)];
        if agents.0.is_empty() {
            return Err(self.refuse(&key("agents"), "expected at least one, such as SACK = \"TCP/Sack1\""));
        }
        if let Some((name, agent)) = agents.0.iter().find(|(_, agent)| !is_agent(agent)) {
            let path = [key("agents"), vec![Step::Key(name)]].concat();
            let what = format!("\"{agent}\": expected a TCP agent of ns-2, such as TCP/Sack1 or TCP/Linux cubic");
            return Err(self.refuse(&path, what));
        }
        let joins = |pair: &[String; 2]| links.iter().any(|link| pair.iter().all(|end| link.ends.contains(end)));
        for (index, pair) in error_models.iter().flatten().enumerate() {
            if pair[0] == pair[1] || !joins(pair) {
                let path = [key("error_models"), vec![Step::Item(index)]].concat();
                let what = format!("\"{}\" to \"{}\": no link joins them", pair[0], pair[1]);
                return Err(self.refuse(&path, what));
            }
        }
        Ok(Some(Ns2Spec { agents: agents.0, error_models }))
    }
}
