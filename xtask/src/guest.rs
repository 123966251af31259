//! Builds the guest of virtual time, the kernel that `tccc run --engine virtual` runs in, from Debian's kernel source.
//!
//! The result is one folder with the kernel as one program, the headers for modules, and a description of both.

pub mod source;

use std::env;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};
use clap::Args;
use fs_err::{self as fs, File};
use serde_json::json;

use crate::process::{self, command};
use crate::setup::{self, SetupPurpose, Unmet};
use recipe::Recipe;

#[path = "../../src/lab/virtual_time/recipe.rs"]
mod recipe;

const KERNEL: &str = "linux";
const HEADERS: &str = "headers.tar.xz";
const FACTS: &str = "guest.json";
/// Folder of the trial module in the kernel's tree.
const TRIAL: &str = "tccc_trial";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Its Linux: 6.12 or 7.3
    #[arg(long, value_name = "SERIES", default_value = recipe::RECIPES[0].series, value_parser = parse_series)]
    kernel: &'static Recipe,
    /// Build the guest again if it exists
    #[arg(long)]
    again: bool,
    /// Print the guest's folder and change nothing
    #[arg(long)]
    dry_run: bool,
}

fn parse_series(text: &str) -> Result<&'static Recipe, String> {
    let known = || recipe::RECIPES.each_ref().map(|recipe| recipe.series).join(" or ");
    Recipe::find(text).ok_or_else(|| format!("expected {}", known()))
}

/// `cargo xtask virtual`: builds the guest unless it exists, and prints its folder.
///
/// Side effects: installs packages; writes below the build's folder and in the user's cache.
pub fn run(arguments: &Arguments) -> Result<()> {
    let recipe = arguments.kernel;
    let place = place_of(recipe)?;
    if !arguments.dry_run && (arguments.again || !place.join(FACTS).exists()) {
        setup::set_up(SetupPurpose::Virtual)?;
        build(recipe, &place)?;
    }
    println!("{}", place.display());
    Ok(())
}

/// Builds the guest unless it exists, for another command.
pub fn provide() -> Result<()> {
    run(&Arguments { kernel: &recipe::RECIPES[0], again: false, dry_run: false })
}

/// As [`provide`], for every kernel.
pub fn provide_all() -> Result<()> {
    recipe::RECIPES.iter().try_for_each(|kernel| run(&Arguments { kernel, again: false, dry_run: false }))
}

pub fn is_there() -> bool {
    place().is_ok_and(|place| place.join(FACTS).exists())
}

/// The folder of the guest with the default kernel.
pub fn place() -> Result<PathBuf> {
    place_of(&recipe::RECIPES[0])
}

/// The guest's folder; `src/lab/virtual_time/guest.rs` computes the same path.
fn place_of(recipe: &Recipe) -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let cache = cache.context("there is no folder for the guest, because HOME is not set: set XDG_CACHE_HOME")?;
    Ok(cache.join("tccc").join(recipe.folder()))
}

fn build(recipe: &Recipe, place: &Path) -> Result<()> {
    let work = process::target().join("virtual");
    fs::create_dir_all(&work)?;
    let lock = File::create(work.join("lock"))?;
    lock.lock().context("wait for another process that builds the guest")?;
    let source = source::find(recipe.series, &work);
    let source = source.map_err(|why| Unmet(format!("the kernel's source is not to be had: {why:#}")))?;
    let tree = work.join("tree");
    source.unpack_for_guest(&tree)?;
    apply_patches(recipe, &tree)?;
    configure(recipe, &tree)?;
    compile(&tree)?;
    let flags = try_module(&tree)?;
    keep(recipe, &tree, (&source, &flags), place)?;
    Ok(fs::remove_dir_all(&tree)?)
}

/// Stops at a patch that does not apply exactly, before it changes the tree.
fn apply_patches(recipe: &Recipe, tree: &Path) -> Result<()> {
    for patch in recipe.patches() {
        fs::write(tree.join(".tccc.patch"), patch.text)?;
        let apply = |mode: &[&str]| {
            let exactly = ["-p1", "--fuzz=0", "--forward", "--silent"];
            process::output("patch", command!("patch {exactly...} {mode...} --input=.tccc.patch").current_dir(tree))
        };
        apply(&["--dry-run"]).with_context(|| {
            let why = "the kernel's source has changed there, so the patch must be revised";
            format!("bpf/guest/{} does not apply: {why}", patch.name)
        })?;
        apply(&[])?;
    }
    Ok(())
}

fn make(tree: &Path) -> std::process::Command {
    let jobs = available_parallelism().map_or(1, usize::from).to_string();
    let mut make = command!("make ARCH=um --silent -j{jobs}");
    // Equal sources give equal kernels: nothing of this machine gets into the kernel.
    let who = [("KBUILD_BUILD_USER", "tccc"), ("KBUILD_BUILD_HOST", "tccc"), ("KBUILD_BUILD_VERSION", "1")];
    make.envs(who).env("KBUILD_BUILD_TIMESTAMP", "2000-01-01").env_remove("MAKEFLAGS").env_remove("CARGO_MAKEFLAGS");
    make.current_dir(tree);
    make
}

/// Configures the kernel, and checks that it kept every line: it drops unknown names silently.
fn configure(recipe: &Recipe, tree: &Path) -> Result<()> {
    let asked: String = recipe.configuration.iter().map(|file| file.text).collect();
    let file = tree.join(".tccc.config");
    fs::write(&file, &asked)?;
    process::output("configure", make(tree).env("KCONFIG_ALLCONFIG", &file).arg("allnoconfig"))?;
    let taken = fs::read_to_string(tree.join(".config"))?;
    let lines = asked.lines().filter(|line| line.starts_with("CONFIG_"));
    let refused: Vec<&str> = lines.filter(|line| !taken.lines().any(|one| one == *line)).collect();
    if !refused.is_empty() {
        bail!("the kernel dropped {} of bpf/guest/config", refused.join(", "));
    }
    Ok(())
}

fn compile(tree: &Path) -> Result<()> {
    eprintln!("xtask: virtual: compiling the kernel, which takes some minutes");
    process::output("compile the kernel", make(tree).args(["linux", "modules_prepare"]))?;
    process::output("strip", command!("strip {tree}/{KERNEL}")).map(drop)
}

/// How modules are compiled, taken from the trial module, which includes every header.
struct Flags {
    compiler: Vec<String>,
    linker: Vec<String>,
    headers: Vec<String>,
}

fn try_module(tree: &Path) -> Result<Flags> {
    let folder = tree.join(TRIAL);
    fs::create_dir_all(&folder)?;
    let (makefile, code) = (format!("obj-m := {TRIAL}.o\n"), "#include \"headers.h\"\nMODULE_LICENSE(\"GPL\");\n");
    let program = format!("{TRIAL}.c");
    for (name, text) in [("Makefile", makefile.as_str()), ("headers.h", recipe::HEADERS[0].text), (&program, code)] {
        fs::write(folder.join(name), text)?;
    }
    let mut command = make(tree);
    command.arg(format!("M={TRIAL}")).arg("KBUILD_MODPOST_WARN=1").arg("modules");
    process::output("compile a module", &mut command)?;
    // Linux 7.3 names its files by whole paths. A guest does not depend on where it was built.
    let whole = format!("{}/", tree.canonicalize().context("find the kernel's tree")?.display());
    let saved = |name: &str| -> Result<String> {
        Ok(fs::read_to_string(folder.join(format!(".{name}.cmd")))?.replace(&whole, ""))
    };
    let (object, module) = (saved(&format!("{TRIAL}.o"))?, saved(&format!("{TRIAL}.ko"))?);
    let (plain, common) = (saved(&format!("{TRIAL}.mod.o"))?, saved(".module-common.o")?);
    let mut headers: Vec<String> = [&object, &plain, &common].into_iter().flat_map(|one| headers_in(one)).collect();
    // The kernel's build leaves autoconf.h out of its rules, because it has one rule per option.
    let others = ["include/generated/autoconf.h", "scripts/module.lds", "scripts/module-common.c"];
    headers.extend(others.map(str::to_owned));
    headers.sort();
    headers.dedup();
    Ok(Flags { compiler: compiler_flags(&object), linker: linker_flags(&module), headers })
}

/// The arguments of the command that built an object.
fn words(saved: &str) -> impl Iterator<Item = String> {
    let line = saved.lines().next().unwrap_or_default();
    let command = line.split_once(":=").map_or("", |(_, command)| command);
    let command = command.split(';').next().unwrap_or_default();
    command.split_whitespace().skip(1).map(str::to_owned)
}

fn compiler_flags(saved: &str) -> Vec<String> {
    let is_of_file = |word: &String| {
        ["-Wp,-MMD", "-DKBUILD_", "-D__KBUILD_", TRIAL].iter().any(|part| word.contains(part))
            || word == "-c"
            || word == "-o"
    };
    words(saved).filter(|word| !is_of_file(word)).collect()
}

fn linker_flags(saved: &str) -> Vec<String> {
    words(saved).take_while(|word| word != "-o").collect()
}

/// The headers below the tree that an object's rule names.
fn headers_in(saved: &str) -> impl Iterator<Item = String> {
    let names = saved.split_whitespace().filter(|word| word.ends_with(".h")).map(|word| word.trim_start_matches("./"));
    names.filter(|name| !name.starts_with('/') && name.contains('/') && !name.contains(TRIAL)).map(str::to_owned)
}

/// Writes the guest's folder, which appears complete by a rename.
fn keep(recipe: &Recipe, tree: &Path, (source, flags): (&source::KernelSource, &Flags), place: &Path) -> Result<()> {
    let fresh = place.with_extension("partial");
    process::remove(&fresh)?;
    fs::create_dir_all(&fresh)?;
    fs::copy(tree.join(KERNEL), fresh.join(KERNEL))?;
    fs::write(tree.join(".tccc.headers"), flags.headers.join("\n"))?;
    let options = ["--xz", "--create", "--sort=name", "--owner=0", "--group=0", "--mtime=2000-01-01"];
    let mut tar = command!("tar {options...} --file {fresh}/{HEADERS} --files-from .tccc.headers");
    process::output("keep the headers", tar.current_dir(tree))?;
    let release = fs::read_to_string(tree.join("include/config/kernel.release"))?;
    let compiler = process::output("ask the compiler", command!("gcc -dumpfullversion"))?;
    let facts = json!({
        "recipe": recipe.digest(),
        "release": release.trim(),
        "package": source.package,
        "version": source.version,
        "source_sha256": source.sha256,
        "kernel_sha256": process::sha256_of(&fresh.join(KERNEL))?,
        "compiler": format!("gcc {}", compiler.trim()),
        "compiler_flags": flags.compiler,
        "linker_flags": flags.linker,
    });
    let text = serde_json::to_string_pretty(&facts).context("write the guest's description")?;
    fs::write(fresh.join(FACTS), text + "\n")?;
    process::remove(place)?;
    Ok(fs::rename(&fresh, place)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_module_name_none_of_its_files() {
        let saved = "savedcmd_tccc_trial/tccc_trial.o := gcc -Wp,-MMD,tccc_trial/.tccc_trial.o.d -nostdinc -O2 -Itccc_trial \
                     -DMODULE -DKBUILD_MODNAME='\"tccc_trial\"' -c -o tccc_trial/tccc_trial.o tccc_trial/tccc_trial.c\n\
                     deps := ./include/linux/a.h tccc_trial/headers.h include/b.h /usr/c.h";
        assert_eq!(compiler_flags(saved), ["-nostdinc", "-O2", "-DMODULE"]);
        assert_eq!(headers_in(saved).collect::<Vec<_>>(), ["include/linux/a.h", "include/b.h"]);
        let saved = "savedcmd_a.ko := ld -r -m elf_x86_64 -T scripts/module.lds -o a.ko a.o a.mod.o; true";
        assert_eq!(linker_flags(saved), ["-r", "-m", "elf_x86_64", "-T", "scripts/module.lds"]);
    }

    #[test]
    fn every_patch_says_why_it_is_there() {
        for patch in recipe::RECIPES.iter().flat_map(Recipe::patches) {
            let why = patch.text.split("\n--- ").next().unwrap_or_default();
            assert!(why.len() > 40 && why.contains('.'), "{}", patch.name);
        }
    }
}
