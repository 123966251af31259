//! The scenarios of result directories, each parsed once however many directories hold it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use crate::bounded;
use crate::failure::Failure;
use crate::model::run::Engine;
use crate::scenario::{Scenario, ScenarioFile};

/// Which scenario it is: its text, the name and seed that the plan gives it, and whether it is the simulator's.
type Key = (String, String, u64, bool);

/// Parsed scenarios.
#[derive(Default)]
pub struct Scenarios(HashMap<Key, Arc<Scenario>>);

impl Scenarios {
    /// The scenario of a directory as its runs were made.
    ///
    /// `parsed` gives it where it is not known; a known one counts only if the files that it names are the same here.
    /// Errors: those of `parsed`; a simulator's scenario without agents.
    pub fn find(
        &mut self,
        folder: &Path,
        (text, name, seed, engine): (String, String, u64, Engine),
        parsed: impl FnOnce(&str) -> Result<Scenario, Failure>,
    ) -> Result<Arc<Scenario>> {
        let key = (text, name, seed, engine == Engine::Ns2);
        let has_same = |file: &ScenarioFile| {
            bounded::read(&folder.join(&file.name), file.text.len() as u64).is_ok_and(|it| it == file.text.as_bytes())
        };
        if let Some(known) = self.0.get(&key).filter(|known| known.files.iter().all(has_same)) {
            return Ok(Arc::clone(known));
        }
        let mut scenario = Scenario { name: key.1.clone(), seed, ..parsed(&key.0)? };
        if key.3 {
            scenario = scenario.simulated()?;
        }
        let scenario = Arc::new(scenario);
        self.0.insert(key, Arc::clone(&scenario));
        Ok(scenario)
    }
}
