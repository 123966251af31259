//! Chooses QEMU and its acceleration: KVM where that works, else software.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;
use fs_err::{self as fs, File};

use super::kernel;
use super::packages::Packages;
use crate::process::{self, command};

/// The first QEMU whose software emulation boots kernels from 6.12 on without occasional crashes.
const FIRST_SOUND: u32 = 8;
const NAME: &str = "qemu-system-x86_64";

/// How the guest's instructions are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Acceleration {
    /// KVM where the host's processor supports it, else software
    Auto,
    /// KVM
    Kvm,
    /// Software
    Tcg,
    /// Software, with one processor whose clock counts instructions: exact on a busy host, but slower
    Virtual,
}

impl Acceleration {
    /// Replaces `Auto`. KVM never starts on a host that is itself a guest without nested virtualization, so the processor decides.
    pub fn resolved(self) -> Acceleration {
        let is_there = || File::options().read(true).write(true).open("/dev/kvm").is_ok();
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        match self {
            Acceleration::Auto if has_virtualization(&processor) && is_there() => Acceleration::Kvm,
            Acceleration::Auto => Acceleration::Tcg,
            chosen => chosen,
        }
    }

    /// QEMU's options.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Acceleration::Kvm => &["-accel", "kvm", "-cpu", "host"],
            Acceleration::Virtual => &["-accel", "tcg,thread=single", "-cpu", "max", "-icount", "shift=0,sleep=off"],
            _ => &["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max"],
        }
    }

    /// Number of processors of the guest.
    pub fn processors(self, asked: u32) -> u32 {
        if self == Acceleration::Virtual { 1 } else { asked }
    }
}

fn has_virtualization(processor: &str) -> bool {
    let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| ["vmx", "svm"].contains(&flag))
}

#[derive(Debug, Clone)]
pub struct Emulator {
    pub program: PathBuf,
    /// Folders of firmware outside QEMU's own search path.
    pub firmware: Vec<PathBuf>,
}

/// The installed QEMU; if it is too old, the one of this release's backports, unpacked beside the kernels.
///
/// Without backports it warns and uses the installed one.
pub fn find() -> Result<Emulator> {
    let installed = Emulator { program: NAME.into(), firmware: Vec::new() };
    let version = process::output("ask QEMU for its version", command!("{NAME} --version"))?;
    if major(&version).is_none_or(|major| major >= FIRST_SOUND) {
        return Ok(installed);
    }
    unpacked().or_else(|error| {
        eprintln!("xtask: warning: vm: {}: {error:#}", version.lines().next().unwrap_or_default());
        eprintln!("  hint: before QEMU {FIRST_SOUND} some boots of newer kernels crash; they are tried twice");
        Ok(installed)
    })
}

/// `QEMU emulator version 7.2.22 (Debian …)` to 7.
fn major(version: &str) -> Option<u32> {
    version.split("version ").nth(1)?.split('.').next()?.parse().ok()
}

fn unpacked() -> Result<Emulator> {
    const PARTS: [&str; 4] = ["qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios"];
    let place = kernel::folder().join("qemu");
    if !place.exists() {
        let release = fs::read_to_string("/etc/os-release")?;
        let release = release_name(&release).context("/etc/os-release names no release of Debian")?;
        let names = PARTS.map(|part| format!("{part}/{release}-backports"));
        Packages::open(&kernel::folder().join("apt"), false)?.unpack(&names, &place, |_| Ok(()))?;
    }
    let share = |name: &str| place.join("usr/share").join(name);
    Ok(Emulator { program: place.join("usr/bin").join(NAME), firmware: vec![share("qemu"), share("seabios")] })
}

fn release_name(os_release: &str) -> Option<&str> {
    os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_without_virtualization_computes_in_software() {
        assert!(has_virtualization("processor : 0\nflags\t\t: fpu vmx sse\n"));
        assert!(!has_virtualization("flags\t\t: fpu hypervisor sse\nbugs : svm\n"));
        assert_eq!(Acceleration::Tcg.resolved(), Acceleration::Tcg);
        assert_eq!(Acceleration::Kvm.arguments()[1], "kvm");
        assert_eq!(Acceleration::Virtual.processors(2), 1);
    }

    #[test]
    fn version_is_read_from_what_qemu_says() {
        assert_eq!(major("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright\n"), Some(10));
        assert_eq!(major("bash: not found"), None);
        assert_eq!(release_name("ID=debian\nVERSION_CODENAME=bookworm\n"), Some("bookworm"));
    }
}
