//! The guest's kernel modules: the laboratory and the algorithms, compiled from the sources inside this program.
//!
//! Modules are cached by a digest of everything that they are made of, so a changed source is compiled again.

use std::cell::OnceCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::guest::{self, Guest};
use crate::room;
use crate::work::interrupted;
use shared::catalog::source::SOURCES;
use shared::failure::Failure;
use shared::scratch::Scratch;

/// Raised when the way of compiling changes, so that older modules are not used.
const WAY: u32 = 1;
/// Included before the file of an algorithm.
const NATIVE: &str = "guest/native.h";
/// Turns off warnings of the kernel that an algorithm's file was not written for.
const ALGORITHM_FLAGS: [&str; 3] = ["-Wno-unused", "-Wno-missing-prototypes", "-Wno-declaration-after-statement"];

/// Introduces a macro in the compiler's messages.
const EXPANDED: &str = "in expansion of macro ";
/// Lines of the compiler in a refusal.
const REASONS_MAX: usize = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Name in the guest's kernel.
    pub name: String,
    pub file: PathBuf,
    /// Digest of our sources, without the guest's headers.
    pub digest: String,
}

#[derive(Debug, Clone, Copy)]
pub struct AlgorithmSource<'a> {
    /// Name for messages.
    pub file: &'a str,
    pub text: &'a str,
}

/// The source of an algorithm of the catalogue.
pub fn source_of(id: &str) -> Option<AlgorithmSource<'static>> {
    let name = format!("cc/{id}.bpf.c");
    SOURCES.iter().find(|(file, _)| *file == name).map(|(file, text)| AlgorithmSource { file, text })
}

/// Compiles modules for one guest.
pub struct ModuleBuilder<'a> {
    guest: &'a Guest,
    shelf: PathBuf,
    /// The kernel's headers in `kernel` and our sources in `bpf`, once something is compiled.
    folder: OnceCell<Scratch>,
    /// Once it is set, no further program is started.
    stop: &'a AtomicBool,
}

impl<'a> ModuleBuilder<'a> {
    /// Opens the cache of modules.
    ///
    /// # Errors
    /// Its folder cannot be created.
    pub fn open(guest: &'a Guest, stop: &'a AtomicBool) -> Result<Self> {
        let shelf = guest::cache()?.join("modules");
        fs::create_dir_all(&shelf).with_context(|| format!("create \"{}\"", shelf.display()))?;
        Ok(ModuleBuilder { guest, shelf, folder: OnceCell::new(), stop })
    }

    /// Compiles links, traffic and tracer.
    ///
    /// # Errors
    /// The compiler is missing (unmet) or refuses it.
    pub fn laboratory(&self) -> Result<Module> {
        let parts = SOURCES.iter().filter(|(file, _)| file.starts_with("guest/") && file.ends_with(".c"));
        let parts: Vec<_> = parts.map(|(file, text)| ModulePart { file, text, flags: &[] }).collect();
        self.module("tccc_lab", &parts)
    }

    /// Compiles an algorithm as a module of this name.
    ///
    /// # Errors
    /// The compiler is missing (unmet) or refuses the file (usage).
    pub fn algorithm(&self, name: &str, source: AlgorithmSource<'_>) -> Result<Module> {
        let part = ModulePart { file: source.file, text: source.text, flags: &ALGORITHM_FLAGS };
        self.module(name, &[part]).map_err(|error| match error.downcast_ref::<RefusedPart>() {
            Some(RefusedPart(refused)) => self.refusal(name, source.file, refused).into(),
            None => error,
        })
    }

    /// The compiler's refusal of a user's file, which every host would repeat.
    fn refusal(&self, name: &str, file: &str, refused: &Refused) -> Failure {
        let place = self.folder.get().map(|folder| folder.path().join(source_path(name, 0)).display().to_string());
        let said = place.map_or_else(|| refused.said.clone(), |place| refused.said.replace(&place, file));
        refusal(file, &said, refused)
    }

    fn module(&self, name: &str, parts: &[ModulePart<'_>]) -> Result<Module> {
        let digest = digest_of(parts);
        let kept = Sha256::new().chain_update(&self.guest.facts.kernel_sha256).chain_update(&digest).chain_update(name);
        let kept = hex::encode(kept.finalize());
        let file = self.shelf.join(format!("{}.ko", &kept[..32]));
        if !file.exists() {
            let fresh = self.compile(name, parts).map_err(|error| room::explained(error, &std::env::temp_dir()))?;
            self.keep(&fresh, &kept, &file).map_err(|error| room::explained(error, &self.shelf))?;
        }
        Ok(Module { name: name.to_owned(), file, digest })
    }

    /// Another tccc may add the same module, so it appears as a whole by renaming.
    fn keep(&self, fresh: &Path, digest: &str, file: &Path) -> Result<()> {
        let partial = self.shelf.join(format!("{digest}.{}", std::process::id()));
        let copied = fs::copy(fresh, &partial).with_context(|| format!("keep \"{}\"", partial.display()));
        if copied.is_err() {
            let _ = fs::remove_file(&partial); // a part that a full disk left
        }
        copied?;
        fs::rename(&partial, file).with_context(|| format!("keep \"{}\"", file.display()))
    }

    /// Compiles the files of a module and the common part of modules, and links them.
    fn compile(&self, name: &str, parts: &[ModulePart<'_>]) -> Result<PathBuf> {
        let folder = self.folder()?;
        let mut objects = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let path = write(folder, &source_path(name, number), part.text)?;
            let mut flags: Vec<PathBuf> = part.flags.iter().map(PathBuf::from).collect();
            if !flags.is_empty() {
                flags.extend(["-include".into(), folder.join("bpf").join(NATIVE)]);
            }
            let object = self.object(name, &path, &flags).map_err(|error| match error.downcast::<Refused>() {
                Ok(refused) => RefusedPart(refused).into(),
                Err(other) => other,
            });
            objects.push(object.with_context(|| format!("compile \"{}\"", part.file))?);
        }
        let own = write(folder, &format!("bpf/module/{name}.mod.c"), OWN_PART)?;
        for common in [own, folder.join("kernel/scripts/module-common.c")] {
            objects.push(self.object(name, &common, &[]).context("compile the common part of modules")?);
        }
        let module = folder.join(format!("{name}.ko"));
        let mut linker = Command::new("ld");
        linker.current_dir(folder.join("kernel")).args(&self.guest.facts.linker_flags);
        linker.arg("-o").arg(&module).args(&objects);
        self.carry_out(&mut linker, "link a module")?;
        Ok(module)
    }

    fn folder(&self) -> Result<&Path> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.path());
        }
        let folder = Scratch::create(&std::env::temp_dir())?;
        let kernel = folder.path().join("kernel");
        fs::create_dir(&kernel).with_context(|| format!("create \"{}\"", kernel.display()))?;
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(self.guest.headers()).arg("--directory").arg(kernel);
        self.carry_out(&mut tar, "unpack the guest's headers")?;
        for (file, text) in SOURCES {
            write(folder.path(), &format!("bpf/{file}"), text)?;
        }
        Ok(self.folder.get_or_init(|| folder).path())
    }

    fn object(&self, module: &str, source: &Path, flags: &[PathBuf]) -> Result<PathBuf> {
        let object = source.with_extension("o");
        let folder = self.folder()?;
        let own = folder.join("bpf");
        let mut compiler = Command::new("gcc");
        compiler.current_dir(folder.join("kernel")).args(&self.guest.facts.compiler_flags).args(flags);
        compiler.arg("-I").arg(own.join("include")).arg("-I").arg(own.join("guest"));
        compiler.arg(format!("-ffile-prefix-map={}=.", folder.display()));
        compiler.args(["KBUILD_BASENAME", "KBUILD_MODNAME"].map(|name| format!("-D{name}=\"{module}\"")));
        compiler.arg(format!("-D__KBUILD_MODNAME=kmod_{module}"));
        compiler.arg("-c").arg(source).arg("-o").arg(&object);
        self.carry_out(&mut compiler, "compile")?;
        Ok(object)
    }

    /// Runs a program. Its output is part of the error.
    ///
    /// # Errors
    /// `stop` is set; the program is missing (unmet) or fails.
    fn carry_out(&self, command: &mut Command, what: &str) -> Result<()> {
        let is_stopped = || self.stop.load(Ordering::Relaxed);
        if is_stopped() {
            return Err(interrupted());
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let output = match command.env("LC_ALL", "C").stdin(Stdio::null()).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let failure = Failure::unmet(format!("cannot {what}: {program} is not installed"));
                return Err(failure.hint("`apt-get install gcc binutils tar xz-utils`").into());
            }
            other => other.with_context(|| format!("{what}: start {program}"))?,
        };
        match output.status.success() {
            true => Ok(()),
            false if is_stopped() => Err(interrupted()), // the signal ended the program too
            false => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(Refused { what: format!("{what}: {program} ended with {}", output.status), said }.into())
            }
        }
    }
}

/// A program that ended with an error, and all that it printed.
#[derive(Debug, thiserror::Error)]
#[error("{what}:\n{said}")]
struct Refused {
    what: String,
    said: String,
}

/// The compiler's refusal of a file of the module itself.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct RefusedPart(Refused);

/// `said` is what the compiler printed, with the user's name of the file. Without a fault in it, the compiler itself
/// failed.
fn refusal(file: &str, said: &str, refused: &Refused) -> Failure {
    let is_own = |line: &str| line.starts_with("gcc: ") || line.contains("internal compiler error");
    let is_reason =
        |line: &&str| line.contains(" error: ") && !is_own(line) || line.starts_with(file) && line.contains(EXPANDED);
    let mut reasons: Vec<&str> = said.lines().filter(is_reason).take(REASONS_MAX).collect();
    reasons.sort_by_key(|line| !line.starts_with(file)); // the kernel's headers come second
    let what = format!("cannot compile \"{file}\" for the guest's kernel:");
    if reasons.is_empty() {
        return Failure::failed(format!("{what} {}:\n{said}", refused.what));
    }
    let failure = Failure::usage(format!("{what}\n{}", reasons.join("\n")));
    let expanded = reasons.iter().find_map(|line| line.split_once(EXPANDED)?.1.split('\'').nth(1));
    match expanded {
        Some(name) => {
            failure.hint(format!("\"{name}\" is a macro of the kernel: give your own \"{name}\" another name"))
        }
        None if failure.what.contains(": No such file or directory") => {
            failure.hint("headers of your own are beside the file or in include/ there, and included as \"mine.h\"")
        }
        None => failure.hint(format!("`tccc check {file}` finds this too")),
    }
}

struct ModulePart<'a> {
    file: &'a str,
    text: &'a str,
    flags: &'static [&'static str],
}

/// Digest of the files and of every header they may include.
fn digest_of(parts: &[ModulePart<'_>]) -> String {
    let headers = SOURCES.iter().filter(|(file, _)| file.ends_with(".h"));
    let texts = headers.map(|(_, text)| *text).chain(parts.iter().map(|part| part.text));
    let digest = texts.fold(Sha256::new().chain_update(WAY.to_le_bytes()), |digest, text| {
        digest.chain_update((text.len() as u64).to_le_bytes()).chain_update(text)
    });
    hex::encode(digest.finalize())
}

/// Path of a module's file in the folder of the workshop.
fn source_path(module: &str, number: usize) -> String {
    format!("bpf/module/{module}-{number}.c")
}

fn write(folder: &Path, file: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(file);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("create \"{}\"", folder.display()))?;
    }
    fs::write(&path, text).with_context(|| format!("write \"{}\"", path.display()))?;
    Ok(path)
}

/// Source that the kernel's build adds to every module.
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

#[cfg(test)]
mod tests {
    use super::*;
    use shared::failure::FailureKind;

    /// A compiler that was killed, or that a full disk stopped, was reported as a mistake in the user's file.
    #[test]
    fn refusal_without_a_fault_in_the_file_is_a_failure_of_the_tool() {
        let of = |said: &str| {
            let refused = Refused { what: "compile: gcc ended with exit status: 1".into(), said: said.into() };
            let Failure { kind, what, .. } = refusal("my.bpf.c", said, &refused);
            (kind, what)
        };
        let place = "cannot compile \"my.bpf.c\" for the guest's kernel:";
        let fault = "my.bpf.c:3:1: error: unknown type name 'x'";
        assert_eq!(of(&format!("note\n{fault}")), (FailureKind::Usage, format!("{place}\n{fault}")));
        for said in ["gcc: fatal error: Killed signal terminated program cc1", "", "internal compiler error: in x"] {
            let failed = format!("{place} compile: gcc ended with exit status: 1:\n{said}");
            assert_eq!(of(said), (FailureKind::Failed, failed));
        }
    }
}
