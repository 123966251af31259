//! Compiles an algorithm's file, for BPF and natively, with the embedded headers and the C files of the host ring.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};

use super::{recipe, template};
use shared::catalog::source::SOURCES;
use shared::failure::Failure;

/// Path and text of the files that authors need in addition to [`SOURCES`]: the C files of the host ring, the template,
/// its page, and libbpf's headers.
pub static FOR_AUTHORS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/author.rs"));
/// Includes the warnings of the BPF build, so both builds accept the same code.
const NATIVE_FLAGS: &str = "-shared -fPIC -O1 -g -DTCCC_HOST -Wall -Wextra -Wno-unused-parameter -fno-builtin \
                            -Wl,-Bsymbolic,-z,defs";
/// What `tccc check` says about a sanitizer of undefined behaviour, and its flags. The most informative comes first.
const SANITIZERS: [(&str, &[&str]); 3] = [
    ("with the sanitizer of undefined behaviour", &["-fsanitize=undefined", "-fno-sanitize-recover=all"]),
    (
        "with the sanitizer of undefined behaviour, which gives no reason here",
        &["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"],
    ),
    ("without a sanitizer: the compiler has none", &[]),
];

/// A temporary folder with the headers, removed on drop.
#[derive(Debug)]
pub struct BuildFolder {
    folder: tempfile::TempDir,
    /// Folder of the source.
    home: PathBuf,
    /// The user's own headers. They take precedence over the embedded ones.
    own: Option<PathBuf>,
}

impl BuildFolder {
    /// Writes the headers. A folder `include` beside the source takes precedence over them.
    ///
    /// # Errors
    /// The folder for temporary files cannot be written.
    pub fn set_up(source: &Path) -> Result<BuildFolder> {
        let folder = tempfile::Builder::new().prefix("tccc-check-").tempdir().context("make a folder to compile in")?;
        let headers = SOURCES.iter().filter(|(file, _)| file.starts_with("include/"));
        for (file, text) in headers.chain(FOR_AUTHORS) {
            template::put(folder.path(), file, text)?;
        }
        let home = source.parent().unwrap_or(Path::new("")).to_owned();
        let own = Some(home.join("include")).filter(|own| own.join("tccc.bpf.h").is_file());
        Ok(BuildFolder { folder, home, own })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A message with paths relative to the folder of the source, or to this one, which does not outlive the check.
    pub fn short(&self, message: &str) -> String {
        let folders = [self.path(), &self.home].map(|folder| format!("{}/", folder.display()));
        let named = folders.iter().filter(|folder| folder.len() > 1);
        named.fold(message.to_owned(), |text, folder| text.replace(folder, ""))
    }

    /// The path of a file of the host ring.
    pub fn host(&self, name: &str) -> PathBuf {
        self.path().join("host").join(name)
    }

    /// Folders for `#include "…"`.
    pub fn includes(&self) -> Vec<PathBuf> {
        self.own.iter().cloned().chain([self.path().join("include")]).collect()
    }

    /// [`BuildFolder::includes`] as compiler options.
    pub fn include_flags(&self) -> Vec<PathBuf> {
        self.includes().into_iter().flat_map(|folder| [PathBuf::from("-I"), folder]).collect()
    }

    /// Compiles an algorithm's file to a BPF object that contains the file's card.
    ///
    /// # Errors
    /// Clang is missing (unmet) or rejects the file; the error has clang's messages.
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
        // Keeps paths of this machine out of the object, so the same source gives the same bytes.
        command.arg(format!("-ffile-prefix-map={}=.", self.path().display()));
        run(command.arg("-o").arg(&raw).arg(source), "clang", "compile for BPF")?;
        // libbpf's linker drops the debug information.
        let mut linker = libbpf_rs::Linker::new(&object).context("write the object")?;
        linker.add_file(&raw).and_then(|()| linker.link()).context("write the object")?;
        Ok(object)
    }

    /// Compiles an algorithm's file to a native library, with the best sanitizer of undefined behaviour available.
    ///
    /// # Errors
    /// The system has no C compiler (unmet), or the compiler rejects the file; the error has its messages.
    pub fn library(&self, source: &Path) -> Result<(PathBuf, &'static str)> {
        let library = self.path().join("algorithm.so");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let compile = |flags: &[&str]| {
            let mut command = Command::new(&compiler);
            command.args(NATIVE_FLAGS.split(' ')).args(flags);
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

/// # Errors
/// The program is missing (unmet) or fails; the error has its messages.
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
