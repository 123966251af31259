//! The parts of a guest kernel besides the kernel's source: patches, configuration, and the list of headers.
//!
//! `cargo xtask virtual` includes this file too. The digest shows whether a guest matches this program.

use sha2::{Digest, Sha256};

/// A file in `bpf/guest`.
pub struct GuestSource {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! guest_sources {
    ($($name:literal),*) => {
        &[$(GuestSource { name: $name, text: include_str!(concat!("../../../bpf/guest/", $name)) }),*]
    };
}

/// Patches of the kernel's source, in the order in which they apply. Each begins with its reason.
pub const PATCHES: &[GuestSource] = guest_sources![
    "patches/01-clock.patch",
    "patches/02-hz.patch",
    "patches/03-random.patch",
    "patches/04-hostfs.patch",
    "patches/05-exitkill.patch",
    "patches/06-code-model.patch",
    "patches/07-interrupts.patch",
    "patches/08-timer.patch",
    "patches/09-image.patch",
    "patches/10-idle.patch",
    "patches/11-builtin.patch",
    "patches/12-xstate.patch"
];

/// Additions to the smallest configuration of the kernel, and the headers that modules may include.
pub const CONFIGURATION: &[GuestSource] = guest_sources!["config", "headers.h"];

/// Digest of the recipe, 64 hexadecimal digits.
pub fn digest() -> String {
    let mut digest = Sha256::new();
    for GuestSource { name, text } in PATCHES.iter().chain(CONFIGURATION) {
        digest.update(format!("{name}\n{}\n", text.len()));
        digest.update(text);
    }
    hex::encode(digest.finalize())
}
