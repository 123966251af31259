//! Tests the package in a booted Debian: a virtual machine with a disk and systemd.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fs_err::{self as fs, os::unix::fs::symlink};

use super::kernel::{self, KernelChoice};
use super::machine::{self, VirtualMachine};
use super::{Hardware, emulator};
use crate::dist;
use crate::process::{self, command};
use crate::setup::{self, SetupPurpose};

/// The guest's release of Debian.
const RELEASE: &str = "bookworm";
/// Packages beyond a minimal Debian: the dependencies of tccc, and `ip`.
const PACKAGES: &str = "systemd-sysv,iproute2,libelf1,zlib1g,kmod";
const DISK: &str = "1200M";
/// Shortest time limit of a boot, which takes minutes without KVM on a busy host.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Most boots of a job.
const BOOTS: usize = 16;

/// Files of each job. `try.sh` runs at each boot, beginning with this stage.
const JOB: [(&str, &str); 2] = [("common.sh", include_str!("boot/common.sh")), ("stage", "install\n")];
/// Tests the package. Its script installs the declaration and the policy.
const PACKAGE: [(&str, &str); 3] = [
    ("try.sh", include_str!("try.sh")),
    ("10-site.toml", include_str!("boot/10-site.toml")),
    ("web.toml", include_str!("boot/web.toml")),
];
/// Reboots in the middle of rollouts.
const ROLLOUTS: [(&str, &str); 1] = [("try.sh", include_str!("boot/rollouts.sh"))];
/// Units of the guest: the second adds a route that names an algorithm, before the network is up.
const UNITS: [(&str, &str); 2] =
    [("try.service", include_str!("boot/try.service")), ("try-route.service", include_str!("boot/try-route.service"))];

/// Install the Debian package in a booted machine, reboot it, purge the package, and compare the file system
///
/// The guest runs systemd. It installs and enables the package. After a reboot the default, the policy and a route with
/// `congctl` are set before the network is up. The page starts by socket activation, and restarts when it stalls. A lease
/// ends in time although the clock is set. The commands of tccc(7) work. Stopping and purging leave nothing. Without KVM
/// this takes 3 minutes on two idle cores. Before that, the package is built and, once, the guest's Debian. Needs root.
///
/// With --rollouts the guest is rebooted in the middle of a declared rollout, five times at random moments, three
/// of them without any unit being stopped; then after the rollout was kept, and after one was reverted for harm. This takes half
/// an hour.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A package to test instead of building one
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
    /// Build and pack the program without the page and the checks of `cargo xtask dist`
    #[arg(long, conflicts_with = "package")]
    quick: bool,
    /// Reboot in the middle of declared rollouts and after their ends
    #[arg(long)]
    rollouts: bool,
    /// Chooses the moments of the reboots
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "rollouts")]
    seed: u16,
    /// A series that Debian packages, for example 6.12, or `newest`
    #[arg(long, value_name = "SERIES|newest", default_value = "6.12")]
    kernel: KernelChoice,
    #[command(flatten)]
    hardware: Hardware,
}

/// `cargo xtask vm-boot`. Side effects: installs packages; writes below the build's folder.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Vm)?;
    if arguments.package.is_none() && !arguments.quick {
        setup::set_up(SetupPurpose::Dist)?;
    }
    ensure!(process::is_root(), "only root can create a Debian: run `cargo xtask vm-boot` as root");
    let package = match &arguments.package {
        Some(package) => package.clone(),
        None if arguments.quick => dist::quick_package()?,
        None => dist::package()?,
    };
    let kernel = kernel::prepare(&arguments.kernel, arguments.hardware.renew)?;
    let scratch = tempfile::tempdir_in(kernel::folder()).context("create a folder for the guest")?;
    let disk = scratch.path().join("disk");
    let image = image()?;
    process::run("vm-boot", command!("cp --sparse=always {image} {disk}"))?;
    let job = scratch.path().join("job");
    fs::create_dir(&job)?;
    fs::copy(&package, job.join("tccc.deb"))?;
    let seed = arguments.seed.to_string();
    let own = if arguments.rollouts { ROLLOUTS.as_slice() } else { &PACKAGE };
    for (name, content) in JOB.iter().chain(own).chain(&[("seed", seed.as_str())]) {
        fs::write(job.join(name), content)?;
    }
    let hardware = Hardware { limit: arguments.hardware.limit.max(LIMIT), ..arguments.hardware.clone() };
    let machine = VirtualMachine { emulator: emulator::find()?, hardware };
    for number in 1..=BOOTS {
        eprintln!("xtask: vm-boot: boot {number} of Debian {RELEASE} with Linux {}", kernel.release);
        let console = machine.boot_disk(&kernel, &disk, &job)?;
        let said = fs::read_to_string(job.join("said")).unwrap_or_default();
        let code = fs::read_to_string(job.join("code")).unwrap_or_default();
        match code.trim() {
            "0" => {
                said.lines().filter(|line| line.starts_with("== ")).for_each(|line| println!("{line}"));
                return Ok(());
            }
            "" if said.matches("\n== reboot").count() == number => {}
            "" => bail!("the guest said {said}\nand its console ends with\n{}", machine::last_lines(&console)),
            _ => bail!("the guest said {said}"),
        }
    }
    bail!("the guest did not end after {BOOTS} boots")
}

/// The disk of a Debian before its first boot, made once.
fn image() -> Result<PathBuf> {
    let image = kernel::folder().join(format!("boot-{RELEASE}.ext4"));
    if image.exists() {
        return Ok(image);
    }
    // apt's own user downloads into it.
    let scratch = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir_in(kernel::folder())?;
    let root = scratch.path().join("root");
    process::run("vm-boot", command!("mmdebstrap --variant=minbase --include={PACKAGES} {RELEASE} {root}"))?;
    settle(&root)?;
    let fresh = image.with_extension("new");
    let options = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0"];
    process::run("vm-boot", command!("mke2fs {options...} -d {root} {fresh} {DISK}"))?;
    fs::rename(&fresh, &image)?;
    Ok(image)
}

/// Writes the files that the guest needs to boot.
fn settle(root: &Path) -> Result<()> {
    let units = root.join("etc/systemd/system");
    fs::create_dir_all(root.join("job"))?;
    // Without a machine id the first boot would be that of a new machine, which enables every unit.
    fs::write(root.join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n")?;
    fs::create_dir_all(units.join("multi-user.target.wants"))?;
    for (name, content) in UNITS {
        fs::write(units.join(name), content)?;
        let link = units.join("multi-user.target.wants").join(name);
        symlink(Path::new("..").join(name), link)?;
    }
    // Without udev nothing announces the console.
    Ok(symlink("/dev/null", units.join("serial-getty@ttyS0.service"))?)
}
