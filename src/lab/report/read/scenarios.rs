//! A cache of parsed scenarios, because many result directories hold the same one.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use crate::scenario::{Scenario, ScenarioFile};
use shared::failure::Failure;
use shared::read_limited;

/// Hint for a broken record of the whole directory.
pub(super) const OF_ALL_RUNS: &str = "restore a copy of this file, or measure again: `tccc run` with a new --out";

/// Text, name and seed from the plan, and whether the simulator ran it.
type ScenarioKey = (String, String, u64, bool);

#[derive(Default)]
pub struct Scenarios(HashMap<ScenarioKey, Arc<Scenario>>);

impl Scenarios {
    /// Finds or parses the scenario of a directory. A cached one is used only if the files it names are the same here.
    ///
    /// # Errors
    /// Mistakes in the scenario; the simulator's scenario has no agents.
    pub fn find(&mut self, folder: &Path, key: ScenarioKey) -> Result<Arc<Scenario>> {
        let has_same = |file: &ScenarioFile| {
            read_limited::read(&folder.join(&file.name), file.text.len() as u64)
                .is_ok_and(|it| it == file.text.as_bytes())
        };
        if let Some(known) = self.0.get(&key).filter(|known| known.files.iter().all(has_same)) {
            return Ok(Arc::clone(known));
        }
        let (text, name, seed, is_simulated) = &key;
        let parsed = Scenario::parse(&folder.join("scenario.toml").display().to_string(), text);
        let parsed = parsed.map_err(|mistakes| Failure::from(mistakes).hint(OF_ALL_RUNS))?;
        let scenario = Scenario { name: name.clone(), seed: *seed, ..parsed };
        let scenario = Arc::new(if *is_simulated { scenario.simulated()? } else { scenario });
        self.0.insert(key, Arc::clone(&scenario));
        Ok(scenario)
    }
}
