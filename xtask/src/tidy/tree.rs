//! The files of the project, as git knows them: tracked, or not yet added and not ignored.

use std::cell::OnceCell;
use std::fs;

use anyhow::Result;

use super::scan::{Language, Scanned};
use crate::process;

#[derive(Debug)]
pub struct Tree {
    /// In the order of their paths.
    pub files: Vec<SourceFile>,
}

/// One file and, on demand, its code without comments and literals.
#[derive(Debug)]
pub struct SourceFile {
    /// Path from the top of the workspace.
    pub path: String,
    /// Content; bytes that are not text are replaced.
    pub text: String,
    /// Size on disk, bytes.
    pub bytes: u64,
    scanned: OnceCell<Scanned>,
}

impl Tree {
    /// Reads every file of the project.
    ///
    /// Errors: this is not a git clone, or git is missing.
    pub fn read() -> Result<Self> {
        let top = process::workspace();
        let mut files = Vec::new();
        for path in paths()? {
            // A file that git still lists may be deleted in the work tree.
            let Ok(content) = fs::read(top.join(&path)) else { continue };
            files.push(SourceFile::new(&path, &String::from_utf8_lossy(&content)));
        }
        Ok(Tree { files })
    }
}

impl SourceFile {
    pub fn new(path: &str, text: &str) -> Self {
        SourceFile { path: path.into(), text: text.into(), bytes: text.len() as u64, scanned: OnceCell::new() }
    }

    /// The language, if it is one whose code the rules look at.
    pub fn language(&self) -> Option<Language> {
        match self.path.rsplit_once('.')?.1 {
            "rs" => Some(Language::Rust),
            "c" | "h" => Some(Language::C),
            _ => None,
        }
    }

    /// Code, comments and literals; empty for other languages.
    pub fn scanned(&self) -> &Scanned {
        self.scanned.get_or_init(|| {
            let mut scanned = self.language().map(|language| Scanned::new(&self.text, language)).unwrap_or_default();
            if self.path.ends_with("/tests.rs") {
                scanned.is_test.fill(true);
            }
            scanned
        })
    }

    /// Whether this is Rust below `src`.
    pub fn is_product_rust(&self) -> bool {
        self.path.starts_with("src/") && self.path.ends_with(".rs")
    }

    /// `dtcp` for `bpf/cc/dtcp.bpf.c`; none for other files.
    pub fn algorithm(&self) -> Option<&str> {
        self.path.strip_prefix("bpf/cc/")?.strip_suffix(".bpf.c")
    }

    /// Lines with their number from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Paths of the project's files from the top of the workspace, sorted.
///
/// Errors: this is not a git clone, or git is missing.
pub fn paths() -> Result<Vec<String>> {
    let mut git = process::program("git");
    // A clone owned by another user is still the project's; nothing is run from it.
    git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::output("list the project's files", &mut git)?;
    let mut paths: Vec<String> = listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}
