//! The labels that a policy puts on sockets: rule and arm of each connection.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use anyhow::Result;
use libbpf_rs::Link;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::migrate::{self, types::policy_mark};
use super::pins::PolicyPins;
use shared::kernel::{bpf, iterate};

/// Outcome for a matched connection. The kernel program uses the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum LabelOutcome {
    /// The arm says `keep`.
    Kept,
    /// Got the arm's algorithm.
    Set,
    /// Unchanged: a program chose the algorithm.
    Chosen,
    /// Unchanged: a route names the algorithm.
    Routed,
    /// The kernel refused: a route locks the algorithm.
    Locked,
    /// The kernel refused: the algorithm is not registered.
    Missing,
    /// The kernel refused for another reason.
    Failed,
}

impl LabelOutcome {
    pub(super) fn from_byte(byte: u8) -> Self {
        Self::VARIANTS.get(usize::from(byte)).copied().unwrap_or(LabelOutcome::Failed)
    }
}

/// Reads the labels of all open sockets in every network namespace.
pub struct LabelReader {
    link: Link,
    map_id: u32,
}

impl LabelReader {
    /// The labels outlive a replacement of the policy.
    ///
    /// None: no policy has labelled anything on this host.
    ///
    /// # Errors
    /// A capability is missing; the kernel refuses the iterator.
    pub fn open() -> Result<Option<Self>> {
        let Some(pins) = PolicyPins::of_host() else { return Ok(None) };
        let Ok(labels) = bpf::open_pin(&pins.labels()) else { return Ok(None) };
        Ok(Some(LabelReader { map_id: bpf::map_id(&labels)?, link: migrate::attach_labels(&labels)? }))
    }

    /// Whether these are still the labels of this host's policy.
    pub fn is_current(&self) -> bool {
        let now = PolicyPins::of_host().and_then(|pins| bpf::open_pin(&pins.labels()).ok());
        now.and_then(|labels| bpf::map_id(&labels).ok()) == Some(self.map_id)
    }

    /// Whether tccc set the algorithm of an open connection.
    pub(super) fn any_is_ours(labels: &OwnedFd) -> Result<bool> {
        let mut any = false;
        iterate::rows(&migrate::attach_labels(labels)?, |marks: &[policy_mark]| {
            any |= marks.iter().any(|mark| mark.is_ours != 0);
            Ok(())
        })?;
        Ok(any)
    }

    /// Number of rule and arm of each labelled socket, by socket cookie. Sockets that no rule decides now are left out.
    ///
    /// # Errors
    /// The iterator cannot be opened or read.
    pub fn read(&self) -> Result<HashMap<u64, u32>> {
        let mut found = HashMap::new();
        iterate::rows(&self.link, |marks: &[policy_mark]| {
            found.extend(marks.iter().filter(|mark| mark.slot != 0).map(|mark| (mark.cookie, mark.slot)));
            Ok(())
        })?;
        Ok(found)
    }
}
