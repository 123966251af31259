//! The labels that a policy puts on sockets: rule and arm of each connection.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use anyhow::Result;
use libbpf_rs::Link;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use super::pins::PolicyPins;
use super::sweep;
use shared::kernel::{bpf, iterate};

/// Bytes of `struct policy_mark`.
const MARK_BYTES: usize = 16;

/// What became of a connection that a rule matched. The kernel program uses the same numbers.
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
    /// Errors: a capability is missing; the kernel refuses the iterator.
    /// None: no policy has labelled anything on this host.
    pub fn open() -> Result<Option<Self>> {
        let Some(pins) = PolicyPins::of_host() else { return Ok(None) };
        let Ok(labels) = bpf::open_pin(&pins.labels()) else { return Ok(None) };
        Ok(Some(LabelReader { map_id: bpf::map_id(&labels)?, link: sweep::attach_labels(&labels)? }))
    }

    /// Whether these are still the labels of this host's policy.
    pub fn is_current(&self) -> bool {
        let now = PolicyPins::of_host().and_then(|pins| bpf::open_pin(&pins.labels()).ok());
        now.and_then(|labels| bpf::map_id(&labels).ok()) == Some(self.map_id)
    }

    /// Whether tccc set the algorithm of an open connection.
    pub(super) fn any_is_ours(labels: &OwnedFd) -> Result<bool> {
        let mut any = false;
        iterate::rows(&sweep::attach_labels(labels)?, MARK_BYTES, |rows| {
            any |= rows.chunks_exact(MARK_BYTES).any(|row| row[12..] != [0; 4]);
            Ok(())
        })?;
        Ok(any)
    }

    /// Number of rule and arm of each labelled socket, by socket cookie. Sockets that no rule decides now are left out.
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
