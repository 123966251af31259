//! What a policy left at sockets: rule and arm of each connection that it labelled.

use std::collections::HashMap;

use anyhow::Result;
use libbpf_rs::Link;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::pins::PolicyPins;
use super::sweep;
use crate::kernel::{bpf, iterate};

/// Bytes of `struct policy_mark`.
const MARK_BYTES: usize = 16;

/// What became of a connection that a rule matched; the kernel program has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum LabelOutcome {
    /// The arm says keep.
    Kept,
    /// It got the arm's algorithm.
    Set,
    /// Left alone: a program chose its algorithm.
    Chosen,
    /// Left alone: a route names its algorithm.
    Routed,
    /// Refused by the kernel: a route locks its algorithm.
    Locked,
    /// Refused by the kernel: the algorithm is not registered.
    Missing,
    /// Refused by the kernel for another reason.
    Failed,
}

impl LabelOutcome {
    /// All of them, in the order of their numbers.
    pub const ALL: &[LabelOutcome] = LabelOutcome::VARIANTS;

    pub(super) fn from_byte(byte: u8) -> Self {
        Self::ALL.get(usize::from(byte)).copied().unwrap_or(LabelOutcome::Failed)
    }
}

/// Reads the labels of all open sockets, whatever their network namespace.
pub struct Labels {
    link: Link,
    map_id: u32,
}

impl Labels {
    /// Begins to read; the policy may be replaced meanwhile, for its labels stay.
    ///
    /// Errors: a capability is missing; the kernel refuses the iterator.
    /// None: no policy has labelled anything on this host.
    pub fn open() -> Result<Option<Labels>> {
        let Some(pins) = PolicyPins::of_host() else { return Ok(None) };
        let Ok(labels) = bpf::open_pin(&pins.labels()) else { return Ok(None) };
        Ok(Some(Labels { map_id: bpf::map_id(&labels)?, link: sweep::attach_labels(&labels)? }))
    }

    /// Whether these are still the labels of this host's policy.
    pub fn is_current(&self) -> bool {
        let now = PolicyPins::of_host().and_then(|pins| bpf::open_pin(&pins.labels()).ok());
        now.and_then(|labels| bpf::map_id(&labels).ok()) == Some(self.map_id)
    }

    /// Number of rule and arm of each labelled socket, by its cookie; those that no rule has any more are left out.
    ///
    /// Errors: the iterator cannot be read.
    pub fn read(&self) -> Result<HashMap<u64, u32>> {
        let mut found = HashMap::new();
        iterate::rows(&self.link, MARK_BYTES, |rows| {
            for row in rows.chunks_exact(MARK_BYTES) {
                let cookie = u64::from_ne_bytes(row[..8].try_into().expect("eight bytes"));
                let slot = u32::from_ne_bytes(row[8..12].try_into().expect("four bytes"));
                if slot != 0 {
                    found.insert(cookie, slot);
                }
            }
            Ok(())
        })?;
        Ok(found)
    }
}
