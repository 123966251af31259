//! `tccc assets`: the files that a package ships with the program.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap_complete::Shell;

use crate::cli::effect::Effect;
use crate::cli::program;

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

    /// Writes `man/*.1`, `completions/*` and, for bpftool and with the author's half, `objects/ID.bpf.o`.
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
        #[cfg(feature = "author")]
        write_objects(&folder("objects")?)?;
        Ok(())
    }
}

#[cfg(feature = "author")]
fn write_objects(folder: &Path) -> Result<()> {
    let bench = author::bpftool::bench()?;
    for algorithm in shared::catalog::all() {
        let file = folder.join(format!("{}.bpf.o", algorithm.id));
        let object = author::bpftool::object(algorithm, &bench)?;
        fs::write(&file, object).with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
