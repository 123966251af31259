//! `tccc assets`: the files that a package ships with the program.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap_complete::Shell;

use crate::cli::effect::Effect;
use crate::cli::program;
use author::bpftool;
use shared::catalog;

/// Write manual pages, completions and object files for a package
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    folder: PathBuf,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::Work
    }

    /// Writes `man/*.1`, `completions/*` and, for bpftool, `objects/ID.bpf.o`.
    pub fn run(&self) -> Result<()> {
        let folder = |name: &str| {
            let folder = self.folder.join(name);
            fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display())).map(|()| folder)
        };
        let into = |folder: &Path| format!("write into {}", folder.display());
        let manual = folder("man")?;
        let pages = program().disable_help_subcommand(true);
        clap_mangen::generate_to(pages, &manual).with_context(|| into(&manual))?;
        let completions = folder("completions")?;
        for shell in Shell::value_variants() {
            clap_complete::generate_to(*shell, &mut program(), "tccc", &completions)
                .with_context(|| into(&completions))?;
        }
        let objects = folder("objects")?;
        let bench = bpftool::bench()?;
        for algorithm in catalog::all() {
            let file = objects.join(format!("{}.bpf.o", algorithm.id));
            let object = bpftool::object(algorithm, &bench)?;
            fs::write(&file, object).with_context(|| format!("write {}", file.display()))?;
        }
        Ok(())
    }
}
