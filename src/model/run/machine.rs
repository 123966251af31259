//! The machine that made runs, as result directories name it: enough to tell machines apart, nothing to find them by.

use serde::{Deserialize, Serialize};

/// One machine. What it does not say is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Beginning of the SHA-256 digest of `/etc/machine-id`, by which runs name the machine.
    pub id: String,
    /// `uname -n`.
    pub node: String,
    /// Model of the processor.
    pub processor: String,
    /// `none`, or what the hypervisor calls the machine.
    pub virtualisation: String,
    /// What chooses the clock rate of the processors, such as `performance`.
    pub governor: String,
    /// Build of the kernel, `uname -v`.
    pub kernel_build: String,
}
