//! The guest of virtual time: a kernel built by `cargo xtask virtual`, with the headers for its modules.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::job;
use super::recipe::Recipe;
use crate::scenario::GuestKernel;
use shared::failure::Failure;

/// Environment variable with the folder of another guest.
const FOLDER_VARIABLE: &str = "TCCC_GUEST";
/// Folder of the guest that a package installs.
const INSTALLED: &str = "/usr/lib/tccc/guest";

/// How a guest was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// [`Recipe::digest`] of the build.
    pub recipe: String,
    /// `uname -r` in the guest.
    pub release: String,
    /// Debian package of the source.
    pub package: String,
    pub version: String,
    pub source_sha256: String,
    pub kernel_sha256: String,
    pub compiler: String,
    /// For a file of a module, in the folder of the headers.
    pub compiler_flags: Vec<String>,
    /// For the objects of a module.
    pub linker_flags: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Guest {
    pub kernel: GuestKernel,
    folder: PathBuf,
    pub facts: Facts,
}

impl Guest {
    /// Finds the guest that was built with this program's recipe.
    ///
    /// # Errors
    /// There is no guest (unmet), or one with another recipe (unmet); it cannot be read.
    pub fn find(kernel: GuestKernel) -> Result<Guest> {
        let series = kernel.series();
        let recipe = Recipe::find(series).context("find the recipe of the guest")?;
        let option = if kernel.is_default() { String::new() } else { format!(" --kernel {series}") };
        let build = format!("`cargo xtask virtual{option}` builds it in some minutes, without root");
        let named = env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
        let places = match &named {
            Some(folder) => vec![folder.clone()],
            None => vec![cache()?.join(recipe.folder()), INSTALLED.into()],
        };
        let Some(folder) = places.into_iter().find(|folder| folder.join("guest.json").exists()) else {
            let what = match named {
                Some(folder) => format!("{FOLDER_VARIABLE} names \"{}\", which has no guest", folder.display()),
                None => format!("the guest of virtual time with Linux {series} is not built"),
            };
            return Err(Failure::unmet(what).hint(build).into());
        };
        let facts = job::read(&folder.join("guest.json"))?;
        let guest = Guest { kernel, folder: folder.canonicalize().context("find the guest")?, facts };
        if guest.facts.recipe != recipe.digest() {
            let place = folder.display();
            let what = format!(
                "the guest in \"{place}\", Linux {}, was built for another tccc or kernel: patches or configuration differ",
                guest.facts.release
            );
            return Err(Failure::unmet(what).hint(build).into());
        }
        Ok(guest)
    }

    /// The kernel, which is a program.
    pub fn program(&self) -> PathBuf {
        self.folder.join("linux")
    }

    /// Archive of the kernel headers.
    pub fn headers(&self) -> PathBuf {
        self.folder.join("headers.tar.xz")
    }
}

/// This user's folder for guest and modules.
///
/// # Errors
/// There is no home directory (unmet).
pub fn cache() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| {
        Failure::unmet("there is no home directory for the guest of virtual time").hint("set XDG_CACHE_HOME")
    })?;
    Ok(cache.join("tccc"))
}
