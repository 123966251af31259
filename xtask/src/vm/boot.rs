//! The package in a booted Debian: a virtual machine with a disk of its own and systemd as its first process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::kernel::{self, Choice};
use super::machine::{self, Machine};
use super::{Hardware, emulator};
use crate::setup::{self, Purpose};
use crate::{dist, process};

/// Debian's release of the guest.
const RELEASE: &str = "bookworm";
/// What the guest has besides a minimal Debian: the package's own needs, and `ip`.
const PACKAGES: &str = "systemd-sysv,iproute2,libelf1,zlib1g,kmod";
/// Megabytes of the guest's disk.
const DISK_MEGABYTES: u32 = 1200;
/// How long a boot may take at least; in software on a busy host each takes minutes.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The guest boots once to install and once after that.
const BOOTS: u32 = 2;

/// What the guest does at each boot.
const TRY: &str = include_str!("try.sh");
const TRY_UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/usr/bin/sh -c 'mount -t 9p -o trans=virtio,version=9p2000.L job /job && exec bash /job/try.sh'
[Install]
WantedBy=multi-user.target
";
/// A route that only works once the algorithm is there that it names.
const ROUTE_UNIT: &str = "\
[Unit]
DefaultDependencies=no
ConditionPathExists=/etc/tccc/10-site.toml
Wants=network-pre.target
After=network-pre.target
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/ip link set lo up
ExecStart=/usr/sbin/ip route add local 198.51.100.0/24 dev lo congctl bpf_cubic
[Install]
WantedBy=multi-user.target
";
/// What the guest declares.
const SITE: &str = "\
version = 1
default = \"dtcp\"
policy = \"policies/web.toml\"

[algorithm.dtcp]

[algorithm.bpf_cubic]
";
const POLICY: &str = "\
version = 1

[[rule]]
name = \"web\"
to = \"127.0.0.0/8\"
use = \"bpf_reno\"
";

/// Install the Debian package in a booted machine, reboot it, purge the package, and compare the file system
///
/// In the guest, with systemd as its first process: the package is installed and enabled; after a reboot the default,
/// the policy and a route with `congctl` are there before the network; the page starts by socket activation, and again when
/// it stalls; a lease ends in time although the clock is set; the commands of tccc(7) work; stopping and purging leave
/// nothing. Without KVM that takes 3 minutes on two idle cores, after the package and, once, the guest's Debian are made.
/// Needs root.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The package, where it is built already; else it is built
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
    /// A series that Debian packages, for example 6.12, or `newest`
    #[arg(long, value_name = "SERIES|newest", default_value = "6.12")]
    kernel: Choice,
    #[command(flatten)]
    hardware: Hardware,
}

/// Tries the package: `cargo xtask vm-boot`.
///
/// Errors: a step in the guest fails, with what it said; the package or the guest cannot be made.
/// Side effects: installs packages where some are missing; writes below the build's folder.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Vm)?;
    setup::set_up(Purpose::Dist)?;
    ensure!(process::is_root(), "a Debian takes root to make: run `cargo xtask vm-boot` as root");
    let package = arguments.package.clone().map_or_else(dist::package, Ok)?;
    let kernel = kernel::prepare(&arguments.kernel, arguments.hardware.renew)?;
    let scratch = tempfile::tempdir_in(kernel::folder()).context("create a folder for the guest")?;
    let disk = scratch.path().join("disk");
    process::run("vm-boot", process::program("cp").arg("--sparse=always").arg(image()?).arg(&disk))?;
    let job = scratch.path().join("job");
    fs::create_dir(&job).context("create the folder that the guest sees")?;
    fs::copy(&package, job.join("tccc.deb")).with_context(|| format!("copy {}", package.display()))?;
    for (name, content) in [("try.sh", TRY), ("10-site.toml", SITE), ("web.toml", POLICY), ("stage", "install\n")] {
        fs::write(job.join(name), content).with_context(|| format!("write {name}"))?;
    }
    let hardware = Hardware { limit: arguments.hardware.limit.max(LIMIT), ..arguments.hardware.clone() };
    let machine = Machine { emulator: emulator::find()?, hardware };
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
            "" if number < BOOTS && said.contains("== reboot") => {}
            "" => bail!("the guest said {said}\nand its console ends with\n{}", machine::last_lines(&console)),
            _ => bail!("the guest said {said}"),
        }
    }
    unreachable!("the last boot returns")
}

/// The disk of a Debian that has booted never, made when it is not there yet.
fn image() -> Result<PathBuf> {
    let image = kernel::folder().join(format!("boot-{RELEASE}.ext4"));
    if image.exists() {
        return Ok(image);
    }
    // apt's own user downloads into it.
    let scratch = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir_in(kernel::folder());
    let scratch = scratch.context("create a folder for the guest's Debian")?;
    let root = scratch.path().join("root");
    let include = format!("--include={PACKAGES}");
    let mut debian = process::program("mmdebstrap");
    process::run("vm-boot", debian.args(["--variant=minbase", &include, RELEASE]).arg(&root))?;
    settle(&root)?;
    let fresh = image.with_extension("new");
    let mut command = process::program("mke2fs");
    command.args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d"]).arg(&root).arg(&fresh);
    process::run("vm-boot", command.arg(format!("{DISK_MEGABYTES}M")))?;
    fs::rename(&fresh, &image).context("keep the guest's disk")?;
    Ok(image)
}

/// What the guest needs to boot by itself.
fn settle(root: &Path) -> Result<()> {
    let units = root.join("etc/systemd/system");
    fs::create_dir_all(root.join("job")).context("create the place of the host's folder")?;
    // Without one the first boot would be that of a new machine, which enables every unit.
    fs::write(root.join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").context("name the machine")?;
    fs::create_dir_all(units.join("multi-user.target.wants")).context("create the folder of units")?;
    for (name, content) in [("try.service", TRY_UNIT), ("try-route.service", ROUTE_UNIT)] {
        fs::write(units.join(name), content).with_context(|| format!("write {name}"))?;
        let link = units.join("multi-user.target.wants").join(name);
        std::os::unix::fs::symlink(Path::new("..").join(name), link).with_context(|| format!("enable {name}"))?;
    }
    // There is no udev that would tell of the console.
    std::os::unix::fs::symlink("/dev/null", units.join("serial-getty@ttyS0.service")).context("leave the console alone")
}
