//! `tccc new`: a template for an algorithm of one's own.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;

use crate::author::{name, template};

/// Write a template for an algorithm of your own
///
/// The folder holds the C file with comments, a Makefile, a scenario, and every header that an algorithm may include. `make`
/// there writes ID.bpf.o, with clang and without Rust.
///
/// Example: `tccc new mine`, then `cd mine && make && tccc check mine.bpf.c`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the algorithm: at most 15 lower-case letters, digits and _
    #[arg(value_name = "ID")]
    id: String,
    /// Folder to write to, which does not exist or is empty [default: ID]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Args {
    /// Writes the folder, and prints what comes next.
    ///
    /// Errors: the name is not possible; the folder is not empty or cannot be written.
    pub fn run(&self) -> Result<()> {
        name::check_new(&self.id)?;
        let folder = self.folder.clone().unwrap_or_else(|| PathBuf::from(&self.id));
        let file = template::write(&self.id, &folder)?;
        let (id, folder) = (&self.id, folder.display());
        let mut out = io::stdout().lock();
        writeln!(out, "\"{id}\" written: edit {}", file.display())?;
        writeln!(out, "  compile it   make -C {folder}")?;
        writeln!(out, "  check it     tccc check {}", file.display())?;
        writeln!(out, "  run it       tccc run {folder}/{id}.toml --engine virtual")?;
        writeln!(out, "  load it      tccc load {folder}/{id}.bpf.o")?;
        Ok(())
    }
}
