//! The project's files: tracked by git, or untracked and not ignored.

use fs_err as fs;

use anyhow::{Result, ensure};

use crate::process;

#[derive(Debug)]
pub struct SourceFile {
    /// Path from the top of the workspace.
    pub path: String,
    /// Content; invalid UTF-8 is replaced.
    pub text: String,
}

/// All files, sorted by path.
pub fn read() -> Result<Vec<SourceFile>> {
    // A listed file may be deleted in the work tree.
    let content = |path: String| Some((fs::read(process::workspace().join(&path)).ok()?, path));
    let files = paths()?.into_iter().filter_map(content);
    Ok(files.map(|(content, path)| SourceFile::new(&path, &String::from_utf8_lossy(&content))).collect())
}

/// Sorted paths of the project's files from the top of the workspace.
pub fn paths() -> Result<Vec<String>> {
    let listed = super::git(&["ls-files", "-z", "--deduplicate", "--cached", "--others", "--exclude-standard"]);
    let mut paths: Vec<String> = listed.split_terminator('\0').map(str::to_owned).collect();
    ensure!(!paths.is_empty(), "git lists no file of the project");
    paths.sort();
    Ok(paths)
}

impl SourceFile {
    pub fn new(path: &str, text: &str) -> Self {
        SourceFile { path: path.into(), text: text.into() }
    }

    pub fn ends_with(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }

    pub fn is_in(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| self.path.starts_with(folder))
    }

    pub fn is_product_rust(&self) -> bool {
        self.path.starts_with("src/") && self.path.ends_with(".rs") && !self.path.ends_with("/build.rs")
    }

    /// Binary data may contain any word by chance.
    pub fn is_binary(&self) -> bool {
        self.text.contains('\0')
    }

    /// `dtcp` for `bpf/cc/dtcp.bpf.c`; `None` for other files.
    pub fn algorithm(&self) -> Option<&str> {
        self.path.strip_prefix("bpf/cc/")?.strip_suffix(".bpf.c")
    }

    /// Lines with numbers from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Number of the line that begins the tests of a Rust file.
    pub fn tests(&self) -> usize {
        if self.path.starts_with("tests/") || self.path.ends_with("/tests.rs") {
            return 0;
        }
        let begins = |lines: &[&str]| lines[0].starts_with("#[cfg(test)]") && lines[1].ends_with("mod tests {");
        let lines: Vec<&str> = self.text.lines().collect();
        lines.windows(2).position(begins).map_or(usize::MAX, |index| index + 1)
    }

    /// The lines of Rust outside tests and comments.
    pub fn product(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.tests();
        self.lines().filter(move |(line, text)| *line < tests && !text.trim_start().starts_with("//"))
    }
}
