//! Compiles an algorithm's file, for BPF and natively, with the headers and the host ring's C that this program carries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};

use super::recipe;
use crate::catalog::source::SOURCES;
use crate::failure::Failure;

/// What authors need beside [`SOURCES`]: path and text of the host ring's C, the template, and libbpf's headers.
pub static FOR_AUTHORS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/author.rs"));
/// What the BPF build refuses is refused in the native build too.
const NATIVE_FLAGS: [&str; 10] = [
    "-shared",
    "-fPIC",
    "-O1",
    "-g",
    "-DTCCC_HOST",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-fno-builtin",
    "-Wl,-Bsymbolic,-z,defs",
];
/// The forms of the sanitizer, the most talkative first: with words, with a trap alone, none.
const SANITIZERS: [(Sanitizer, &[&str]); 3] = [
    (Sanitizer::Words, &["-fsanitize=undefined", "-fno-sanitize-recover=all"]),
    (Sanitizer::Trap, &["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]),
    (Sanitizer::None, &[]),
];

/// What the native build does at undefined behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sanitizer {
    /// It ends with file, line and reason.
    Words,
    Trap,
    None,
}

/// A folder with the headers, for as long as the value lives.
#[derive(Debug)]
pub struct Bench {
    folder: tempfile::TempDir,
    /// The user's own headers, which come before those of this program.
    own: Option<PathBuf>,
}

impl Bench {
    /// Writes the headers; those in a folder `include` beside the source come first.
    ///
    /// Errors: the system's folder for temporary files cannot be written.
    pub fn set_up(source: &Path) -> Result<Bench> {
        let folder = tempfile::Builder::new().prefix("tccc-check-").tempdir().context("make a folder to compile in")?;
        let headers = SOURCES.iter().filter(|(file, _)| file.starts_with("include/"));
        for (file, text) in headers.chain(FOR_AUTHORS) {
            let place = folder.path().join(file);
            let parent = place.parent().unwrap_or(folder.path());
            fs::create_dir_all(parent).and_then(|()| fs::write(&place, text)).context("write the headers")?;
        }
        let own = source.parent().map(|folder| folder.join("include")).filter(|own| own.join("tccc.bpf.h").is_file());
        Ok(Bench { folder, own })
    }

    /// Where results may be written.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file of the host ring.
    pub fn host(&self, name: &str) -> PathBuf {
        self.path().join("host").join(name)
    }

    /// Folders in which `#include "…"` looks.
    pub fn includes(&self) -> Vec<PathBuf> {
        self.own.iter().cloned().chain([self.path().join("include")]).collect()
    }

    /// The same as options of a compiler.
    pub fn include_flags(&self) -> Vec<PathBuf> {
        self.includes().into_iter().flat_map(|folder| [PathBuf::from("-I"), folder]).collect()
    }

    /// The object of an algorithm's file, with its card in it.
    ///
    /// Errors: clang is missing (unmet) or refuses the file, in its own words.
    pub fn object(&self, source: &Path, definitions: &[&str]) -> Result<PathBuf> {
        let text = fs::read_to_string(source).with_context(|| format!("read \"{}\"", source.display()))?;
        let card = self.path().join("card.h");
        fs::write(&card, recipe::card(&text)).context("write the card")?;
        let (raw, object) = (self.path().join("raw.o"), self.path().join("algorithm.bpf.o"));
        let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
        let mut command = Command::new(clang);
        command.args(["-target", "bpf", "-g", "-O2", "-c"]).args(recipe::BPF_FLAGS).args(definitions);
        command.args(self.include_flags());
        command.arg("-isystem").arg(self.path().join("libbpf")).arg("-include").arg(&card);
        // No path of this machine in the object: the same source gives the same bytes.
        command.arg(format!("-ffile-prefix-map={}=.", self.path().display()));
        run(command.arg("-o").arg(&raw).arg(source), "clang", "compile for BPF")?;
        // The linker of libbpf leaves the debugger's information out.
        let mut linker = libbpf_rs::Linker::new(&object).context("write the object")?;
        linker.add_file(&raw).and_then(|()| linker.link()).context("write the object")?;
        Ok(object)
    }

    /// The native library of an algorithm's file, with the sanitizer of undefined behaviour where the compiler has it.
    ///
    /// Errors: the system has no C compiler (unmet), or it refuses the file, in its own words.
    pub fn library(&self, source: &Path) -> Result<(PathBuf, Sanitizer)> {
        let library = self.path().join("algorithm.so");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let compile = |flags: &[&str]| {
            let mut command = Command::new(&compiler);
            command.args(NATIVE_FLAGS).args(flags);
            command.args(self.include_flags());
            run(command.arg("-o").arg(&library).arg(self.host("shim.c")).arg(source), "cc", "compile natively")
        };
        let mut refusal = None;
        for (sanitizer, flags) in SANITIZERS {
            match compile(flags) {
                Ok(_) => return Ok((library, sanitizer)),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.expect("three tries failed"))
    }
}

/// Errors: the program is missing (unmet); it fails, with what it said.
fn run(command: &mut Command, name: &str, what: &str) -> Result<Output> {
    let output = command.output().map_err(|error| {
        Failure::unmet(format!("cannot {what}: `{name}` does not start: {error}")).hint(format!("install {name}"))
    })?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::failed(said.trim().to_owned()).into())
}
