//! The pins of a policy in the BPF file system. `tccc/policy/link` attaches it, `labels` holds the labels of sockets,
//! and `generations/N` holds the parts of one generation.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::program::LoadedPolicy;
use crate::kernel::{bpf, io_error};
use crate::state::pins::{self, Pins};

pub const PROGRAM: &str = "program";
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
        self.folder.join("labels")
    }

    pub fn part(&self, number: u32, name: &str) -> PathBuf {
        self.generation(number).join(name)
    }

    fn generation(&self, number: u32) -> PathBuf {
        self.folder.join("generations").join(number.to_string())
    }

    /// Numbers of the generations with at least one pin, ascending.
    pub fn generations(&self) -> Vec<u32> {
        let entries = fs::read_dir(self.folder.join("generations")).into_iter().flatten().flatten();
        let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    pub fn is_empty(&self) -> bool {
        !self.folder.exists()
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
    /// Errors: the BPF file system is read-only or full; not permitted.
    /// Side effects: [`PolicyPins::remove_generation`] removes the pins.
    pub(in crate::host) fn keep(&self, number: u32, loaded: &LoadedPolicy) -> Result<()> {
        self.pins.mount()?;
        let all = [self.folder.clone(), self.folder.join("generations"), self.generation(number)];
        self.folder.parent().into_iter().chain(all.iter().map(PathBuf::as_path)).try_for_each(pins::make_folder)?;
        let labels = loaded.map("labels")?;
        if !self.labels().exists() {
            bpf::pin(labels, &self.labels())?;
        }
        for (name, part) in loaded.parts.iter().filter(|(name, _)| *name != "labels") {
            bpf::pin(part, &self.part(number, name))?;
        }
        bpf::pin(&loaded.program, &self.part(number, PROGRAM))
    }

    /// Errors: the part is not pinned; not permitted.
    pub fn open(&self, number: u32, name: &str) -> Result<OwnedFd> {
        bpf::open_pin(&self.part(number, name))
    }

    /// Removes the pins of a generation. Missing pins are not an error.
    pub(in crate::host) fn remove_generation(&self, number: u32) -> Result<()> {
        let folder = self.generation(number);
        let array = self.open(number, "fallback").and_then(|array| bpf::map_id(&array)).ok();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            bpf::remove_pin(&entry.path())?;
        }
        if let Some(array) = array {
            bpf::await_map_gone(array, CLEARED_WITHIN);
        }
        io_error::accept(ErrorKind::NotFound, fs::remove_dir(&folder))
            .with_context(|| format!("remove the pins in {}", folder.display()))
    }

    /// Detaches the policy and removes all of its pins.
    ///
    /// Errors: the BPF file system is read-only; not permitted.
    pub(in crate::host) fn remove_all(&self) -> Result<()> {
        if let Ok(link) = bpf::open_pin(&self.link()) {
            bpf::detach_link(&link);
        }
        bpf::remove_pin(&self.link())?;
        for number in self.generations() {
            self.remove_generation(number)?;
        }
        bpf::remove_pin(&self.labels())?;
        for folder in [&self.folder.join("generations"), &self.folder] {
            let _ = fs::remove_dir(folder); // stays if it holds something else
        }
        Ok(())
    }
}
