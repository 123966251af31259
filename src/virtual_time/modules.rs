//! The guest's kernel modules: the laboratory and the algorithms, compiled from the sources that this program carries.
//!
//! A module is kept by the digest of everything that it is made of, so that a changed source gives a new one by itself.

use std::cell::OnceCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::guest::{self, Guest};
use crate::catalog::source::SOURCES;
use crate::failure::Failure;
use crate::lab::work::interrupted;
use crate::scratch::Scratch;

/// Raised when the way of compiling changes, so that older modules are not taken.
const WAY: u32 = 1;
/// What stands before an algorithm's file.
const NATIVE: &str = "guest/native.h";
/// Warnings of the kernel's own set that an algorithm's file was not written for.
const ALGORITHM_FLAGS: [&str; 3] = ["-Wno-unused", "-Wno-missing-prototypes", "-Wno-declaration-after-statement"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The name by which the guest's kernel knows it.
    pub name: String,
    pub file: PathBuf,
    /// Digest of its sources, without the guest's.
    pub digest: String,
}

/// An algorithm's file.
#[derive(Debug, Clone, Copy)]
pub struct AlgorithmSource<'a> {
    /// What messages call it.
    pub file: &'a str,
    pub text: &'a str,
}

/// The source of an algorithm of the catalogue; none where it has none of that name.
pub fn source_of(id: &str) -> Option<AlgorithmSource<'static>> {
    let name = format!("cc/{id}.bpf.c");
    SOURCES.iter().find(|(file, _)| *file == name).map(|(file, text)| AlgorithmSource { file, text })
}

/// Compiles modules for one guest.
pub struct Workshop<'a> {
    guest: &'a Guest,
    shelf: PathBuf,
    bench: OnceCell<Bench<'a>>,
    /// Set from outside: the next program is not started.
    stop: &'a AtomicBool,
}

impl<'a> Workshop<'a> {
    /// Opens the folder in which modules are kept.
    ///
    /// Errors: it cannot be made.
    pub fn open(guest: &'a Guest, stop: &'a AtomicBool) -> Result<Self> {
        let shelf = guest::cache()?.join("modules");
        fs::create_dir_all(&shelf).with_context(|| format!("create \"{}\"", shelf.display()))?;
        Ok(Workshop { guest, shelf, bench: OnceCell::new(), stop })
    }

    /// The laboratory: links, traffic and tracer.
    ///
    /// Errors: the compiler is missing (unmet) or refuses it.
    pub fn laboratory(&self) -> Result<Module> {
        let parts = SOURCES.iter().filter(|(file, _)| file.starts_with("guest/") && file.ends_with(".c"));
        let parts: Vec<Part> = parts.map(|(file, text)| Part { file, text, flags: &[] }).collect();
        self.module("tccc_lab", &parts)
    }

    /// An algorithm as a module of this name.
    ///
    /// Errors: the compiler is missing (unmet) or refuses the file.
    pub fn algorithm(&self, name: &str, source: AlgorithmSource<'_>) -> Result<Module> {
        self.module(name, &[Part { file: source.file, text: source.text, flags: &ALGORITHM_FLAGS }])
    }

    fn module(&self, name: &str, parts: &[Part<'_>]) -> Result<Module> {
        let digest = digest_of(parts);
        let kept =
            hex(Sha256::new().chain_update(&self.guest.facts.kernel_sha256).chain_update(&digest).chain_update(name));
        let file = self.shelf.join(format!("{}.ko", &kept[..32]));
        if !file.exists() {
            if self.bench.get().is_none() {
                let bench = Bench::set_up(self.guest, self.stop)?;
                self.bench.get_or_init(|| bench);
            }
            let bench = self.bench.get().expect("it was set up");
            let fresh = bench.compile(name, parts)?;
            // Another tccc may put the same module there: it appears whole, by renaming.
            let partial = self.shelf.join(format!("{kept}.{}", std::process::id()));
            fs::copy(&fresh, &partial).with_context(|| format!("keep \"{}\"", partial.display()))?;
            fs::rename(&partial, &file).with_context(|| format!("keep \"{}\"", file.display()))?;
        }
        Ok(Module { name: name.to_owned(), file, digest })
    }
}

struct Part<'a> {
    file: &'a str,
    text: &'a str,
    flags: &'static [&'static str],
}

/// Digest of the files and of every header they may include.
fn digest_of(parts: &[Part<'_>]) -> String {
    let headers = SOURCES.iter().filter(|(file, _)| file.ends_with(".h"));
    let texts = headers.map(|(_, text)| *text).chain(parts.iter().map(|part| part.text));
    let digest = texts.fold(Sha256::new().chain_update(WAY.to_le_bytes()), |digest, text| {
        digest.chain_update((text.len() as u64).to_le_bytes()).chain_update(text)
    });
    hex(digest)
}

fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The kernel's headers and our sources, laid out for the compiler; gone when dropped.
struct Bench<'a> {
    folder: Scratch,
    compiler_flags: Vec<String>,
    linker_flags: Vec<String>,
    stop: &'a AtomicBool,
}

impl<'a> Bench<'a> {
    fn set_up(guest: &Guest, stop: &'a AtomicBool) -> Result<Self> {
        let bench = Bench {
            folder: Scratch::create(&std::env::temp_dir())?,
            compiler_flags: guest.facts.compiler_flags.clone(),
            linker_flags: guest.facts.linker_flags.clone(),
            stop,
        };
        fs::create_dir(bench.kernel()).with_context(|| format!("create \"{}\"", bench.kernel().display()))?;
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(guest.headers()).arg("--directory").arg(bench.kernel());
        bench.carry_out(&mut tar, "unpack the guest's headers")?;
        for (file, text) in SOURCES {
            bench.write(file, text)?;
        }
        Ok(bench)
    }

    fn kernel(&self) -> PathBuf {
        self.folder.path().join("kernel")
    }

    /// Writes a source where its path below `bpf` says.
    fn write(&self, file: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.path().join("bpf").join(file);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("create \"{}\"", folder.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("write \"{}\"", path.display()))?;
        Ok(path)
    }

    /// Compiles a module's files, what every module has, and puts them together.
    fn compile(&self, name: &str, parts: &[Part<'_>]) -> Result<PathBuf> {
        let mut objects = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let path = self.write(&format!("module/{name}-{number}.c"), part.text)?;
            let native = self.folder.path().join("bpf").join(NATIVE);
            let include = if part.flags.is_empty() { Vec::new() } else { vec!["-include".into(), native] };
            let mut flags: Vec<PathBuf> = part.flags.iter().map(PathBuf::from).collect();
            flags.extend(include);
            objects.push(self.object(name, &path, &flags).with_context(|| format!("compile \"{}\"", part.file))?);
        }
        let own = self.write(&format!("module/{name}.mod.c"), OWN_PART)?;
        objects.push(self.object(name, &own, &[]).context("compile what every module has")?);
        let common = self.kernel().join("scripts/module-common.c");
        objects.push(self.object(name, &common, &[]).context("compile what every module has")?);
        let module = self.folder.path().join(format!("{name}.ko"));
        let mut linker = Command::new("ld");
        linker.current_dir(self.kernel()).args(&self.linker_flags).arg("-o").arg(&module).args(&objects);
        self.carry_out(&mut linker, "put a module together")?;
        Ok(module)
    }

    fn object(&self, module: &str, source: &Path, flags: &[PathBuf]) -> Result<PathBuf> {
        let object = source.with_extension("o");
        let own = self.folder.path().join("bpf");
        let mut compiler = Command::new("gcc");
        compiler.current_dir(self.kernel()).args(&self.compiler_flags).args(flags);
        compiler.arg("-I").arg(own.join("include")).arg("-I").arg(own.join("guest"));
        compiler.arg(format!("-ffile-prefix-map={}=.", self.folder.path().display()));
        let names = [("KBUILD_BASENAME", module), ("KBUILD_MODNAME", module)];
        compiler.args(names.map(|(name, value)| format!("-D{name}=\"{value}\"")));
        compiler.arg(format!("-D__KBUILD_MODNAME=kmod_{module}"));
        compiler.arg("-c").arg(source).arg("-o").arg(&object);
        self.carry_out(&mut compiler, "compile")?;
        Ok(object)
    }

    /// Runs a program. Its output is part of the error.
    ///
    /// Errors: `stop` is set; the program is missing (unmet) or fails.
    fn carry_out(&self, command: &mut Command, what: &str) -> Result<()> {
        let is_stopped = || self.stop.load(Ordering::Relaxed);
        if is_stopped() {
            return Err(interrupted());
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let output = match command.stdin(Stdio::null()).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let failure = Failure::unmet(format!("cannot {what}: there is no {program} here"));
                return Err(failure.hint("`apt-get install gcc binutils tar xz-utils`").into());
            }
            other => other.with_context(|| format!("{what}: start {program}"))?,
        };
        match output.status.success() {
            true => Ok(()),
            false if is_stopped() => Err(interrupted()), // the signal ended the program too
            false => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                bail!("{what}: {program} ended with {}:\n{said}", output.status)
            }
        }
    }
}

/// What the kernel's own build adds to every module.
///
/// Source: scripts/mod/modpost.c of Linux 6.12, `add_header`.
const OWN_PART: &str = "#include <linux/module.h>
#include <linux/export-internal.h>
#include <linux/compiler.h>

MODULE_INFO(name, KBUILD_MODNAME);

__visible struct module __this_module __section(\".gnu.linkonce.this_module\") = {
	.name = KBUILD_MODNAME,
	.init = init_module,
	.arch = MODULE_ARCH_INIT,
};
";
