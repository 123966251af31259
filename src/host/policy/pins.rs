//! The pins of a policy in the BPF file system. `tccc/policy/link` attaches it, `v2/labels` holds the labels of sockets,
//! and `v2/generations/N` holds the parts of one generation.
//!
//! The folder `v2` says how the maps are to be read. Another version of tccc may have left another folder, or none. Its
//! pins are removed like others, but its maps are never opened.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::program::LoadedPolicy;
use crate::state::pins::{self, Pins};
use shared::kernel::{bpf, io_error};

pub const PROGRAM: &str = "program";
const GENERATIONS: &str = "generations";
/// Version of the maps that more than one process reads. Raise it, and `POLICY_LABEL_VERSION`, when a layout changes.
const LAYOUT: &str = "v2";
/// The kernel clears the maps of a generation in less time, unless another process still holds them.
const CLEARED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct PolicyPins {
    pins: Pins,
    folder: PathBuf,
}

impl PolicyPins {
    pub fn of(pins: Pins) -> Self {
        PolicyPins { folder: pins.policy(), pins }
    }

    /// None: no BPF file system is mounted.
    pub fn of_host() -> Option<Self> {
        Pins::of_host().map(Self::of)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn link(&self) -> PathBuf {
        self.folder.join("link")
    }

    /// All generations share the labels.
    pub fn labels(&self) -> PathBuf {
        self.folder.join(LAYOUT).join("labels")
    }

    pub fn part(&self, number: u32, name: &str) -> PathBuf {
        self.generation(number).join(name)
    }

    fn generation(&self, number: u32) -> PathBuf {
        generation_in(&self.folder.join(LAYOUT), number)
    }

    /// The folders of every layout. The first layout had none of its own.
    fn layouts(&self) -> Vec<PathBuf> {
        let is_layout = |name: &str| name.strip_prefix('v').is_some_and(|rest| rest.parse::<u32>().is_ok());
        let named = names_in(&self.folder).into_iter().filter(|name| is_layout(name));
        named.map(|name| self.folder.join(name)).chain([self.folder.clone()]).collect()
    }

    /// Numbers of the generations with at least one pin, ascending.
    pub fn generations(&self) -> Vec<u32> {
        let names = self.layouts().into_iter().flat_map(|layout| names_in(&layout.join(GENERATIONS)));
        let mut numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Whether another version of tccc pinned this generation, so that its maps cannot be read.
    pub fn is_of_other_version(&self, number: u32) -> bool {
        !self.generation(number).exists() && self.layouts().iter().any(|it| generation_in(it, number).exists())
    }

    /// Whether labels of another version are pinned. They are lost when this version applies a policy.
    pub fn has_labels_of_other_version(&self) -> bool {
        let labels = self.labels();
        self.layouts().iter().map(|layout| layout.join("labels")).any(|pin| pin != labels && pin.exists())
    }

    /// Whether nothing is pinned but labels of open connections.
    pub fn is_empty(&self) -> bool {
        !self.link().exists() && self.generations().is_empty()
    }

    /// Whether this user may check if anything is pinned.
    pub fn may_be_seen(&self) -> bool {
        self.folder.try_exists().is_ok()
    }

    /// Whether a generation has every part that commands open later.
    pub fn is_whole(&self, number: u32) -> bool {
        let parts = [PROGRAM, "counts", "cgroups", "missed"].map(|name| self.part(number, name));
        parts.iter().chain([&self.labels()]).all(|pin| pin.exists())
    }

    /// Pins every part of a generation, and the labels if none are pinned yet.
    ///
    /// Side effects: [`PolicyPins::remove_generation`] removes the pins.
    ///
    /// # Errors
    /// The BPF file system is read-only or full; not permitted.
    pub(crate) fn keep(&self, number: u32, loaded: &LoadedPolicy) -> Result<()> {
        self.pins.mount()?;
        let layout = self.folder.join(LAYOUT);
        let own = [self.folder.clone(), layout.clone(), layout.join(GENERATIONS), self.generation(number)];
        self.folder.parent().into_iter().chain(own.iter().map(PathBuf::as_path)).try_for_each(pins::make_folder)?;
        let labels = loaded.map("labels")?;
        if !self.labels().exists() {
            bpf::pin(labels, &self.labels())?;
        }
        for (name, part) in loaded.parts.iter().filter(|(name, _)| *name != "labels") {
            bpf::pin(part, &self.part(number, name))?;
        }
        bpf::pin(&loaded.program, &self.part(number, PROGRAM))
    }

    /// # Errors
    /// The part is not pinned; not permitted.
    pub fn open(&self, number: u32, name: &str) -> Result<OwnedFd> {
        bpf::open_pin(&self.part(number, name))
    }

    /// Removes the pins of a generation. Missing pins are not an error.
    pub(crate) fn remove_generation(&self, number: u32) -> Result<()> {
        for folder in self.layouts().iter().map(|layout| generation_in(layout, number)) {
            let array = bpf::open_pin(&folder.join("fallback")).and_then(|array| bpf::map_id(&array)).ok();
            for name in names_in(&folder) {
                bpf::remove_pin(&folder.join(name))?;
            }
            if let Some(array) = array {
                bpf::await_map_gone(array, CLEARED_WITHIN);
            }
            io_error::accept(ErrorKind::NotFound, fs::remove_dir(&folder))
                .with_context(|| format!("remove the pins in {}", folder.display()))?;
        }
        Ok(())
    }

    /// Removes what other versions of tccc pinned, except generations that are still pinned and what these need.
    pub(crate) fn remove_other_versions(&self) -> Result<()> {
        let own = self.folder.join(LAYOUT);
        let others = self.layouts().into_iter().filter(|layout| *layout != own);
        for layout in others.filter(|layout| names_in(&layout.join(GENERATIONS)).is_empty()) {
            bpf::remove_pin(&layout.join("labels"))?;
            let _ = fs::remove_dir(layout.join(GENERATIONS));
            let _ = fs::remove_dir(layout); // stays if it holds something else
        }
        Ok(())
    }

    /// Detaches the policy and removes all of its pins.
    ///
    /// # Errors
    /// The BPF file system is read-only; not permitted.
    pub(crate) fn remove_all(&self) -> Result<()> {
        self.detach()?;
        bpf::remove_pin(&self.labels())?;
        let layout = self.folder.join(LAYOUT);
        for folder in [&layout.join(GENERATIONS), &layout, &self.folder] {
            let _ = fs::remove_dir(folder); // stays if it holds something else
        }
        Ok(())
    }

    /// Detaches the policy and removes all of its pins except the labels of open connections.
    ///
    /// # Errors
    /// The BPF file system is read-only; not permitted.
    pub(crate) fn detach(&self) -> Result<()> {
        if let Ok(link) = bpf::open_pin(&self.link()) {
            bpf::detach_link(&link);
        }
        bpf::remove_pin(&self.link())?;
        for number in self.generations() {
            self.remove_generation(number)?;
        }
        self.remove_other_versions()
    }
}

fn generation_in(layout: &Path, number: u32) -> PathBuf {
    layout.join(GENERATIONS).join(number.to_string())
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
