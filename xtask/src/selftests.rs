//! Loads the congestion control of the kernel's own selftests, as an example of algorithms by others.
//!
//! The sources come from Debian's package of the kernel's source, and stay in the build's folder.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use fs_err as fs;

use crate::guest::source;
use crate::made::{self, GeneratedTable};
use crate::process::{self, command};
use crate::setup::{self, SetupPurpose};

const TABLE: GeneratedTable = GeneratedTable { document: "bpf/README.md", command: "cargo xtask selftests --bless" };
/// The kernel whose selftests they are.
const SERIES: &str = "6.12";
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
    fs::create_dir_all(&folder)?;
    let objects = compile(&folder)?;
    let mut test = process::tests_of(["--test", "kernel"], "selftests::");
    test.arg("--ignored").env("TCCC_SELFTESTS", objects);
    TABLE.settle(&made::table_of(&mut test, "TCCC_SELFTESTS_TABLE")?, arguments.bless)
}

/// Compiles the sources as the kernel's own build does, and returns the folder of objects.
///
/// The headers are a vmlinux.h of the running kernel and tccc's copy of libbpf's headers.
fn compile(folder: &Path) -> Result<PathBuf> {
    let selftests = unpack(folder)?.join(SELFTESTS);
    let types = command!("bpftool btf dump file /sys/kernel/btf/vmlinux format c");
    fs::write(folder.join("vmlinux.h"), process::output("write vmlinux.h", types)?)?;
    let template = folder.join("template");
    process::remove(&template)?;
    let mut tccc = process::cargo("run");
    tccc.args(["--quiet", "--package", "tccc", "--", "new", "headers_only"]).arg(&template);
    process::output("write libbpf's headers", &mut tccc)?;
    let objects = folder.join("objects");
    process::remove(&objects)?;
    fs::create_dir_all(&objects)?;
    let sources = sources(&selftests.join("progs"))?;
    let options = "-target bpf -g -O2 -mcpu=v3 -w -c -D__TARGET_ARCH_x86".split(' ');
    for source in &sources {
        let (stem, options) = (source.file_stem().unwrap_or_default().to_string_lossy(), options.clone());
        let headers = ["-I".as_ref(), folder, "-I".as_ref(), &selftests, "-I".as_ref(), &selftests.join("progs")];
        let system = template.join("libbpf");
        let object = objects.join(format!("{stem}.bpf.o"));
        process::output("compile", command!("clang {options...} {headers...} -isystem {system} -o {object} {source}"))?;
    }
    eprintln!("xtask: selftests: {} files compiled", sources.len());
    Ok(objects)
}

/// The C files with an ops table, sorted.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut sources: Vec<PathBuf> =
        process::names_in(folder, ".c").iter().map(|name| folder.join(format!("{name}.c"))).collect();
    let has_table = |text: String| text.contains("\nstruct tcp_congestion_ops ");
    sources.retain(|source| fs::read_to_string(source).is_ok_and(has_table));
    ensure!(!sources.is_empty(), "the kernel's source has no congestion control in {SELFTESTS}");
    Ok(sources)
}

fn unpack(folder: &Path) -> Result<PathBuf> {
    let source = source::find(SERIES, &process::target().join("virtual"))?;
    let tree = folder.join("tree");
    let mark = tree.join(&source.sha256);
    if !mark.exists() {
        let parts = [format!("*/{SELFTESTS}/*.h"), format!("*/{SELFTESTS}/progs/*")];
        source.unpack(&tree, &[&["--wildcards".to_owned()], &parts[..]].concat())?;
        fs::write(mark, "")?;
    }
    Ok(tree)
}
