//! The Debian packages tccc needs, why, and how they get onto this machine.

use std::fmt;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::process;

/// What to install for.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Name what is missing and install nothing
    #[arg(long)]
    no_install: bool,
    /// The command that shall be able to run
    #[arg(long = "for", value_enum, default_value_t = Purpose::Ci)]
    purpose: Purpose,
}

/// A command that needs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Purpose {
    /// `cargo xtask demo`
    Demo,
    /// `cargo xtask test`
    Test,
    /// `cargo xtask ci`
    Ci,
    /// `cargo xtask bench`
    Bench,
    /// `cargo xtask prove`
    Prove,
    /// `cargo xtask fuzz`
    Fuzz,
    /// `cargo xtask virtual`
    Virtual,
    /// `cargo xtask selftests`
    Selftests,
    /// `cargo xtask vm`
    Vm,
    /// `cargo xtask web`
    Web,
    /// `cargo xtask dist`
    Dist,
}

impl Purpose {
    const ALL: &[Purpose] = &[
        Purpose::Demo,
        Purpose::Test,
        Purpose::Ci,
        Purpose::Bench,
        Purpose::Prove,
        Purpose::Fuzz,
        Purpose::Virtual,
        Purpose::Selftests,
        Purpose::Vm,
        Purpose::Web,
    ];
}

/// This machine lacks packages, and they could or should not be installed: exit code 4.
#[derive(Debug)]
pub struct Unmet(String);

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unmet {}

/// What shows that a package is not needed because its content is there by other means.
#[derive(Debug, Clone, Copy)]
enum Content {
    Program(&'static str),
    File(&'static str),
    /// How the name of a library begins that clang brings along; the rest is the processor's.
    ClangLibrary(&'static str),
}

#[derive(Debug, Clone, Copy)]
struct Package {
    name: &'static str,
    why: &'static str,
    content: Content,
    purposes: &'static [Purpose],
}

const fn package(name: &'static str, content: Content, why: &'static str) -> Package {
    Package { name, why, content, purposes: Purpose::ALL }
}

/// Names are the same on Debian 12 and 13.
const PACKAGES: [Package; 39] = [
    package("clang", Content::Program("clang"), "compiles the BPF programs, and the algorithms for the host ring"),
    package("gcc", Content::Program("cc"), "compiles libbpf, and links Rust programs"),
    package("libc6-dev", Content::File("/usr/include/stdio.h"), "C headers for libbpf and the host ring"),
    package("make", Content::Program("make"), "builds libbpf"),
    package("pkg-config", Content::Program("pkg-config"), "lets libbpf's build find libelf and zlib"),
    package("libelf-dev", Content::File("/usr/include/libelf.h"), "libbpf reads and writes ELF objects"),
    package("zlib1g-dev", Content::File("/usr/include/zlib.h"), "libelf's compressed sections"),
    package("iperf3", Content::Program("iperf3"), "the traffic of experiments"),
    Package {
        name: "iproute2",
        why: "lets tests compare what tccc built with what `ip` sees",
        content: Content::Program("ip"),
        purposes: &[Purpose::Test, Purpose::Ci, Purpose::Bench],
    },
    Package {
        name: "mininet",
        why: "builds the networks of `tccc run --network mininet`",
        content: Content::Program("mnexec"),
        purposes: &[Purpose::Test, Purpose::Ci],
    },
    Package {
        name: "net-tools",
        why: "Mininet's hosts get their addresses by `ifconfig`",
        content: Content::Program("ifconfig"),
        purposes: &[Purpose::Test, Purpose::Ci],
    },
    Package {
        name: "ns2",
        why: "the simulator whose baselines the papers published: `tccc run --engine ns2`",
        content: Content::Program("ns"),
        purposes: &[Purpose::Test, Purpose::Ci],
    },
    Package {
        name: "clang-format",
        why: "checks the layout of the C files",
        content: Content::Program("clang-format"),
        purposes: &[Purpose::Ci],
    },
    Package {
        name: "frama-c-base",
        why: "proves that no algorithm divides by zero, overflows or reads out of bounds",
        content: Content::Program("frama-c"),
        purposes: &[Purpose::Prove, Purpose::Ci],
    },
    Package {
        name: "libclang-rt-dev",
        why: "clang's fuzzer and sanitizers, for the fuzz targets of the algorithms",
        content: Content::ClangLibrary("libclang_rt.fuzzer"),
        purposes: &[Purpose::Fuzz, Purpose::Ci],
    },
    Package {
        name: "bpftool",
        why: "looks at what tccc loads from outside, and registers its objects; writes the kernel's types as a header",
        content: Content::Program("bpftool"),
        purposes: &[Purpose::Test, Purpose::Selftests, Purpose::Ci],
    },
    Package {
        name: "linux-perf",
        why: "samples what congestion control takes of a processor, the kernel's own included",
        content: Content::Program("perf"),
        purposes: &[Purpose::Bench],
    },
    Package {
        name: "qemu-system-x86",
        why: "runs kernels older and newer than this machine's",
        content: Content::Program("qemu-system-x86_64"),
        purposes: &[Purpose::Vm],
    },
    Package {
        name: "busybox-static",
        why: "the first programs in a virtual machine, before it sees any library",
        content: Content::Program("busybox"),
        purposes: &[Purpose::Vm],
    },
    Package {
        name: "kmod",
        why: "finds what a kernel module needs, here and in a virtual machine",
        content: Content::Program("modprobe"),
        purposes: &[Purpose::Vm],
    },
    Package {
        name: "flex",
        why: "reads the kernel's configuration language",
        content: Content::Program("flex"),
        purposes: &[Purpose::Virtual, Purpose::Ci],
    },
    Package {
        name: "bison",
        why: "reads the kernel's configuration language",
        content: Content::Program("bison"),
        purposes: &[Purpose::Virtual, Purpose::Ci],
    },
    Package {
        name: "bc",
        why: "computes constants of the kernel's build",
        content: Content::Program("bc"),
        purposes: &[Purpose::Virtual, Purpose::Ci],
    },
    Package {
        name: "patch",
        why: "changes the source of the guest kernel, and of ports that tests compare with the kernel's own",
        content: Content::Program("patch"),
        purposes: &[Purpose::Virtual, Purpose::Test, Purpose::Ci],
    },
    Package {
        name: "xz-utils",
        why: "unpacks kernel modules and the kernel's source",
        content: Content::Program("xz"),
        purposes: &[Purpose::Vm, Purpose::Virtual, Purpose::Selftests, Purpose::Ci],
    },
    Package {
        name: "prometheus",
        why: "scrapes `/metrics` as users will, and checks metrics and alert rules with promtool",
        content: Content::Program("promtool"),
        purposes: &[Purpose::Test, Purpose::Ci, Purpose::Dist],
    },
    Package {
        name: "systemd",
        why: "tells how far the units are exposed",
        content: Content::Program("systemd-analyze"),
        purposes: &[Purpose::Test, Purpose::Ci],
    },
    Package {
        name: "nmap",
        why: "scans the port of `tccc serve` as attackers do",
        content: Content::Program("nmap"),
        purposes: &[Purpose::Test, Purpose::Ci],
    },
    Package {
        name: "lintian",
        why: "checks the Debian package",
        content: Content::Program("lintian"),
        purposes: &[Purpose::Dist],
    },
    Package {
        name: "mmdebstrap",
        why: "makes the clean Debian that the package is tried in",
        content: Content::Program("mmdebstrap"),
        purposes: &[Purpose::Dist],
    },
    Package {
        name: "e2fsprogs",
        why: "makes the disk of the machine that the package is tried in",
        content: Content::Program("mke2fs"),
        purposes: &[Purpose::Dist],
    },
    Package {
        name: "rpmlint",
        why: "checks the RPM package",
        content: Content::Program("rpmlint"),
        purposes: &[Purpose::Dist],
    },
    Package { name: "rpm", why: "reads the RPM package", content: Content::Program("rpm"), purposes: &[Purpose::Dist] },
    Package {
        name: "python3-venv",
        why: "holds the checkers of the recipes for clusters, which pip installs",
        content: Content::File("/usr/share/doc/python3-venv"),
        purposes: &[Purpose::Dist],
    },
    Package {
        name: "file",
        why: "tells whether the program is static",
        content: Content::Program("file"),
        purposes: &[Purpose::Dist],
    },
    Package {
        name: "podman",
        why: "builds and runs the container image",
        content: Content::Program("podman"),
        purposes: &[Purpose::Dist],
    },
    Package {
        name: "npm",
        why: "bundles the web page of `tccc serve`; without it the binary has none, and says so; brings Grafana's types",
        content: Content::Program("npm"),
        purposes: &[Purpose::Web, Purpose::Dist],
    },
    Package {
        name: "chromium",
        why: "shows the web page as people see it, for its tests",
        content: Content::Program("chromium"),
        purposes: &[Purpose::Web],
    },
    Package {
        name: "git",
        why: "tells tidy which files belong to the project",
        content: Content::Program("git"),
        purposes: &[Purpose::Ci],
    },
];

/// Packages without which tests skip and nothing fails: a machine that cannot have them is not held up.
const SKIPPABLE: [&str; 4] = ["mininet", "net-tools", "ns2", "systemd"];

/// Installs on its own: `cargo xtask setup`.
pub fn run(arguments: &Arguments) -> Result<()> {
    set_up(arguments.purpose, arguments.no_install)?;
    eprintln!("xtask: setup: everything is here");
    Ok(())
}

/// Makes sure that the packages for `purpose` are there, and says which of those that tests can skip are not.
///
/// Errors: [`Unmet`] when something is missing and `no_install` is given, apt is not there or this is not root;
/// apt's own failure.
/// Side effects: installs Debian packages.
pub fn set_up(purpose: Purpose, no_install: bool) -> Result<()> {
    let missing = missing(purpose);
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: setup: missing on this machine:");
    for package in &missing {
        eprintln!("  {:14} {}", package.name, package.why);
    }
    match obstacle(no_install) {
        Some(why) => go_without(&missing, why),
        None => install(&missing),
    }
}

/// Why nothing is installed.
fn obstacle(no_install: bool) -> Option<&'static str> {
    let answers = || process::answers(&mut process::program("apt-get"));
    match (no_install, process::is_root()) {
        (true, _) => Some("shall not be installed"),
        (_, false) => Some("only root may install"),
        _ => (!answers()).then_some("there is no apt-get here"),
    }
}

/// Goes on where tests can skip all that is missing.
fn go_without(missing: &[Package], why: &str) -> Result<()> {
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let by_hand = format!("`apt-get install {}` as root", names.join(" "));
    let text = format!("{} missing, and {why}: {by_hand}", count_text(names.len()));
    if missing.iter().all(|package| SKIPPABLE.contains(&package.name)) {
        eprintln!("xtask: setup: {text}; without, some tests are skipped");
        return Ok(());
    }
    Err(Unmet(text).into())
}

fn count_text(packages: usize) -> String {
    if packages == 1 { "1 package is".into() } else { format!("{packages} packages are") }
}

fn missing(purpose: Purpose) -> Vec<Package> {
    wanted(purpose).filter(|package| !is_there(package)).collect()
}

fn wanted(purpose: Purpose) -> impl Iterator<Item = Package> {
    PACKAGES.into_iter().filter(move |package| package.purposes.contains(&purpose))
}

fn is_there(package: &Package) -> bool {
    let content = match package.content {
        Content::Program(name) => is_in_path(name),
        Content::File(path) => Path::new(path).exists(),
        Content::ClangLibrary(name) => has_clang_library(name),
    };
    content || is_installed(package.name)
}

fn is_in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Asks clang where its own libraries lie: the folder holds its version.
fn has_clang_library(name: &str) -> bool {
    let folder = process::program("clang").arg("-print-runtime-dir").stderr(Stdio::null()).output();
    let folder = folder.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.any(|file| file.file_name().to_string_lossy().starts_with(name))
}

/// Asks dpkg; a machine without dpkg has no package installed.
fn is_installed(name: &str) -> bool {
    let mut query = process::program("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", name]).stderr(Stdio::null());
    query.output().is_ok_and(|output| output.stdout == b"installed")
}

fn install(missing: &[Package]) -> Result<()> {
    let apt = || {
        let mut apt = process::program("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-q", "-o", "DPkg::Lock::Timeout=120"]);
        apt
    };
    process::run("setup", apt().arg("update"))?;
    let (offered, absent): (Vec<&Package>, Vec<&Package>) =
        missing.iter().partition(|package| !SKIPPABLE.contains(&package.name) || is_offered(package.name));
    for package in absent {
        eprintln!("xtask: setup: this machine's apt has no {}; tests that need it are skipped", package.name);
    }
    let names: Vec<&str> = offered.iter().map(|package| package.name).collect();
    if names.is_empty() {
        return Ok(());
    }
    process::run("setup", apt().args(["install", "-y", "--no-install-recommends"]).args(names))
        .context("install the packages")
}

/// Whether apt could install a package of this name.
fn is_offered(name: &str) -> bool {
    let mut ask = process::program("apt-get");
    ask.args(["install", "--simulate", "-qq", "--no-install-recommends", name]);
    ask.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_a_reason() {
        assert!(PACKAGES.iter().all(|package| package.why.len() > 10));
    }

    #[test]
    fn content_found_by_other_means_is_enough() {
        let shell = package("no-such-package-in-debian", Content::Program("sh"), "a shell");
        assert!(is_there(&shell));
        assert!(!is_there(&Package { content: Content::Program("no-such-program"), ..shell }));
        assert!(!is_there(&Package { content: Content::File("/no/such/file"), ..shell }));
    }

    #[test]
    fn what_tests_can_skip_holds_nothing_up() {
        let of = |name: &str| PACKAGES.into_iter().find(|package| package.name == name).unwrap();
        assert!(go_without(&[of("mininet"), of("ns2")], "shall not be installed").is_ok());
        let unmet = go_without(&[of("mininet"), of("clang")], "only root may install").unwrap_err().to_string();
        assert_eq!(unmet, "2 packages are missing, and only root may install: `apt-get install mininet clang` as root");
        assert!(!is_offered("no-such-package-in-debian"));
    }

    #[test]
    fn format_checker_is_for_ci_only() {
        let is_wanted = |name: &str, purpose| wanted(purpose).any(|package| package.name == name);
        assert!(is_wanted("clang-format", Purpose::Ci));
        assert!(!is_wanted("clang-format", Purpose::Demo));
        assert!(is_wanted("clang", Purpose::Demo));
    }
}
