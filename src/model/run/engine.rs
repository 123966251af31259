//! What runs an experiment.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// What runs an experiment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Engine {
    /// Linux, over emulated links
    #[default] // of older records, which say nothing
    Kernel,
    /// Linux' own TCP in virtual time, with a native build of the same algorithm files; needs no root
    Virtual,
    /// The simulator ns-2 with its own TCP agents, as far as the scenario names them in [ns2]; needs no root
    Ns2,
}

impl Engine {
    /// The word options, files and reports use.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
