//! The project's files: tracked by git, or untracked and not ignored.

use std::cell::OnceCell;
use std::fs;

use anyhow::Result;

use super::scan::{Language, Scanned};
use crate::process;

#[derive(Debug)]
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<SourceFile>,
}

/// A file, split into code, comments and literals on demand.
#[derive(Debug)]
pub struct SourceFile {
    /// Path from the top of the workspace.
    pub path: String,
    /// Content; invalid UTF-8 is replaced.
    pub text: String,
    /// Size on disk, bytes.
    pub bytes: u64,
    scanned: OnceCell<Scanned>,
}

impl Tree {
    pub fn read() -> Result<Self> {
        let top = process::workspace();
        let mut files = Vec::new();
        for path in paths()? {
            // A listed file may be deleted in the work tree.
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

    /// The language, if rules check its code.
    pub fn language(&self) -> Option<Language> {
        match self.path.rsplit_once('.')?.1 {
            "rs" => Some(Language::Rust),
            "c" | "h" => Some(Language::C),
            _ => None,
        }
    }

    /// Empty for languages without rules.
    pub fn scanned(&self) -> &Scanned {
        self.scanned.get_or_init(|| {
            let mut scanned = self.language().map(|language| Scanned::new(&self.text, language)).unwrap_or_default();
            if self.path.ends_with("/tests.rs") {
                scanned.is_test.fill(true);
            }
            scanned
        })
    }

    pub fn is_product_rust(&self) -> bool {
        self.path.starts_with("src/") && self.path.ends_with(".rs") && !self.path.ends_with("/build.rs")
    }

    /// `dtcp` for `bpf/cc/dtcp.bpf.c`; `None` for other files.
    pub fn algorithm(&self) -> Option<&str> {
        self.path.strip_prefix("bpf/cc/")?.strip_suffix(".bpf.c")
    }

    /// Lines with numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Sorted paths of the project's files from the top of the workspace.
pub fn paths() -> Result<Vec<String>> {
    let mut git = process::program("git");
    // A clone may belong to another user; nothing is run from it.
    git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::output("list the project's files", &mut git)?;
    let mut paths: Vec<String> = listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}
