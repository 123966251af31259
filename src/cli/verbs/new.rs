//! `tccc new`: a template for a user's algorithm.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use crate::cli::effect::Effect;
use crate::cli::output::results;
use author::{name, template};

/// Write a template for an algorithm of your own
///
/// The folder gets the C file with comments, a Makefile, a scenario, and every header that an algorithm may include. `make`
/// in it writes ID.bpf.o; it needs clang, but not Rust. PORTING.md leads from a paper's pseudo code to such a file. Delete
/// the folder to undo it.
///
/// Example: `tccc new mine`, then `cd mine && make && tccc check mine.bpf.c`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the algorithm: at most 15 lower-case letters, digits and _
    #[arg(value_name = "ID")]
    id: String,
    /// Folder to write to; must be empty or not exist [default: ID]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::Change("delete the folder to undo it".to_owned())
    }

    /// # Errors
    /// An impossible name; the folder is not empty or cannot be written.
    pub fn run(&self) -> Result<()> {
        name::check_new(&self.id)?;
        let folder = self.folder.clone().unwrap_or_else(|| PathBuf::from(&self.id));
        let file = template::write(&self.id, &folder)?;
        let (id, folder, file) = (&self.id, folder.display(), file.display());
        let mut out = results();
        writeln!(out, "\"{id}\" written: edit {file}")?;
        writeln!(out, "  port a paper {folder}/{}, from pseudo code to a file", template::PAGE)?;
        writeln!(out, "  compile it   make -C {folder}")?;
        writeln!(out, "  check it     tccc check {file}")?;
        writeln!(out, "  run it       tccc run {folder}/{id}.toml --engine virtual")?;
        writeln!(out, "  evaluate it  make -C {folder} evaluate FLAGS=\"--quick --only 5\"")?;
        writeln!(out, "  load it      tccc load {folder}/{id}.bpf.o")?;
        Ok(())
    }
}
