//! Programs of cargo and pip for packaging, with fixed versions, below `target/tools`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::process;

#[derive(Debug, Clone, Copy)]
pub struct Tool {
    name: &'static str,
    version: &'static str,
}

pub const DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };
pub const RPM: Tool = Tool { name: "cargo-generate-rpm", version: "0.21.1" };
pub const CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9" };
pub const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

impl Tool {
    /// The program, built on first use.
    pub fn command(self) -> Result<Command> {
        let folder = process::target().join("tools");
        let program = folder.join("bin").join(self.name);
        if !program.is_file() {
            let arguments = ["--locked", self.name, "--version", self.version, "--root"];
            process::run("dist", process::cargo("install").args(arguments).arg(&folder))?;
        }
        Ok(process::program(program))
    }
}

const KUBERNETES: &str = "kubernetes-validate==1.37.0";
const ANSIBLE: &str = "ansible-lint==26.10.1";

/// The folder of programs that pip installs.
pub fn python() -> Result<PathBuf> {
    let folder = process::target().join("tools/python");
    let programs = folder.join("bin");
    if !programs.join("ansible-lint").is_file() {
        process::run("dist", process::program("python3").args(["-m", "venv"]).arg(&folder))?;
        let mut pip = process::program(programs.join("pip"));
        process::run("dist", pip.args(["install", "--quiet", KUBERNETES, ANSIBLE]))?;
    }
    Ok(programs)
}
