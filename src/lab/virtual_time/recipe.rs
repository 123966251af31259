//! The parts of a guest kernel besides the kernel's source: patches, configuration, and the list of headers.
//!
//! `cargo xtask virtual` includes this file too. The digest shows whether a guest matches this program.

use sha2::{Digest, Sha256};

/// A file in `bpf/guest`.
#[derive(Debug)]
pub struct GuestSource {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! guest_sources {
    ($($name:literal),*) => {
        &[$(GuestSource { name: $name, text: include_str!(concat!("../../../bpf/guest/", $name)) }),*]
    };
}

/// Patches of both kernels. Each begins with its reason.
const PATCHES: &[GuestSource] = guest_sources![
    "patches/01-clock.patch",
    "patches/02-hz.patch",
    "patches/03-random.patch",
    "patches/04-hostfs.patch",
    "patches/06-code-model.patch",
    "patches/08-timer.patch",
    "patches/09-start.patch",
    "patches/10-idle.patch",
    "patches/11-builtin.patch"
];

/// What a guest is made of.
#[derive(Debug)]
pub struct Recipe {
    /// The kernel, as Debian's package `linux-source-SERIES` names it.
    pub series: &'static str,
    /// Patches of this kernel alone.
    own_patches: &'static [GuestSource],
    /// Additions to the smallest configuration of the kernel.
    pub configuration: &'static [GuestSource],
}

/// The first is the default.
pub const RECIPES: [Recipe; 2] = [
    Recipe {
        series: "6.12",
        own_patches: guest_sources![
            "patches-6.12/05-exitkill.patch",
            "patches-6.12/07-interrupts.patch",
            "patches-6.12/12-xstate.patch"
        ],
        configuration: guest_sources!["config", "config-6.12"],
    },
    Recipe {
        series: "7.3",
        own_patches: guest_sources![
            "patches-7.3/05-exitkill.patch",
            "patches-7.3/07-interrupts.patch",
            "patches-7.3/12-exports.patch",
            "patches-7.3/13-ect1.patch"
        ],
        configuration: guest_sources!["config", "config-7.3"],
    },
];

/// The headers that modules may include.
pub const HEADERS: &[GuestSource] = guest_sources!["headers.h"];

/// Digits of the digest in the name of a guest's folder.
const DIGITS: usize = 16;

impl Recipe {
    /// The recipe of a kernel.
    pub fn find(series: &str) -> Option<&'static Recipe> {
        RECIPES.iter().find(|recipe| recipe.series == series)
    }

    /// Patches of the kernel's source, by number: the order in which they apply.
    pub fn patches(&self) -> Vec<&'static GuestSource> {
        let mut patches: Vec<&GuestSource> = PATCHES.iter().chain(self.own_patches).collect();
        patches.sort_by_key(|patch| patch.name.rsplit('/').next());
        patches
    }

    /// 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(format!("linux {}\n", self.series));
        for GuestSource { name, text } in self.patches().into_iter().chain(self.configuration).chain(HEADERS) {
            digest.update(format!("{name}\n{}\n", text.len()));
            digest.update(text);
        }
        hex::encode(digest.finalize())
    }

    /// Name of the guest's folder.
    pub fn folder(&self) -> String {
        format!("guest-{}", &self.digest()[..DIGITS])
    }
}
