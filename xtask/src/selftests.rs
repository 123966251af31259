//! Loads the congestion control of the kernel's own selftests, as an example of algorithms by others.
//!
//! The sources come from Debian's package of the kernel's source, and stay in the build's folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::guest::source;
use crate::made::{self, GeneratedTable};
use crate::process;
use crate::setup::{self, SetupPurpose};

const TABLE: GeneratedTable = GeneratedTable { document: "bpf/README.md", command: "cargo xtask selftests --bless" };
const SELFTESTS: &str = "tools/testing/selftests/bpf";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Write the table into bpf/README.md instead of comparing it
    #[arg(long)]
    bless: bool,
}

/// `cargo xtask selftests`: compiles each algorithm, sends data with it, and compares the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Selftests)?;
    let folder = process::target().join("selftests");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let objects = compile(&folder)?;
    let mut test = process::tests_of(["--test", "kernel"], "selftests::");
    test.arg("--ignored").env("TCCC_SELFTESTS", objects);
    TABLE.settle(&made::table_of(&mut test, "TCCC_SELFTESTS_TABLE")?, arguments.bless)
}

/// Compiles the sources as the kernel's own build does, and returns the folder of objects.
///
/// The headers are a vmlinux.h of the running kernel and tccc's copy of libbpf's headers.
fn compile(folder: &Path) -> Result<PathBuf> {
    let tree = unpack(folder)?;
    let selftests = tree.join(SELFTESTS);
    let types = process::output(
        "write vmlinux.h",
        process::program("bpftool").args(["btf", "dump", "file", "/sys/kernel/btf/vmlinux", "format", "c"]),
    )?;
    fs::write(folder.join("vmlinux.h"), types).context("write vmlinux.h")?;
    let template = folder.join("template");
    process::remove(&template)?;
    let mut tccc = process::cargo("run");
    tccc.args(["--quiet", "--package", "tccc", "--", "new", "headers_only"]).arg(&template);
    process::output("write libbpf's headers", &mut tccc)?;
    let objects = folder.join("objects");
    process::remove(&objects)?;
    fs::create_dir_all(&objects).context("create the folder of objects")?;
    let sources = sources(&selftests.join("progs"))?;
    ensure!(!sources.is_empty(), "the kernel's source has no congestion control in {SELFTESTS}");
    for source in &sources {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let mut clang = process::program("clang");
        clang.args(["-target", "bpf", "-g", "-O2", "-mcpu=v3", "-w", "-c", "-D__TARGET_ARCH_x86"]);
        clang.arg("-I").arg(folder).arg("-I").arg(&selftests).arg("-I").arg(selftests.join("progs"));
        clang.arg("-isystem").arg(template.join("libbpf"));
        clang.arg("-o").arg(objects.join(format!("{stem}.bpf.o"))).arg(source);
        process::output("compile", &mut clang)?;
    }
    eprintln!("xtask: selftests: {} files compiled", sources.len());
    Ok(objects)
}

/// The C files with an ops table, sorted.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        path.extension().is_some_and(|extension| extension == "c") && text.contains("\nstruct tcp_congestion_ops ")
    });
    found.sort();
    Ok(found)
}

fn unpack(folder: &Path) -> Result<PathBuf> {
    let source = source::find(&process::target().join("virtual"))?;
    let tree = folder.join("tree");
    let mark = tree.join(&source.sha256);
    if mark.exists() {
        return Ok(tree);
    }
    process::remove(&tree)?;
    fs::create_dir_all(&tree).context("create the folder of the selftests")?;
    eprintln!("xtask: selftests: unpacking those of {} {}", source.package, source.version);
    let mut tar = process::program("tar");
    tar.arg("--extract").arg("--file").arg(&source.archive).arg("--directory").arg(&tree);
    tar.args(["--strip-components=1", "--wildcards"]);
    tar.args([format!("*/{SELFTESTS}/*.h"), format!("*/{SELFTESTS}/progs/*")]);
    process::output("unpack the selftests", &mut tar)?;
    fs::write(mark, "").context("note which source was unpacked")?;
    Ok(tree)
}
