//! What a reader must know in addition to a number. Reports show a notice wherever they show the number.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Notice {
    /// What was found, with its numbers.
    pub cause: String,
    /// What it means for the reader or what to do about it.
    pub advice: String,
}

impl Notice {
    pub fn new(cause: impl Into<String>, advice: impl Into<String>) -> Self {
        Notice { cause: cause.into(), advice: advice.into() }
    }
}
