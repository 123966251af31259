//! The guest of virtual time: a kernel built by `cargo xtask virtual`, with the headers for its modules.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{job, recipe};
use shared::failure::Failure;

/// Environment variable with the folder of another guest.
const FOLDER_VARIABLE: &str = "TCCC_GUEST";
/// Folder of the guest that a package installs.
const INSTALLED: &str = "/usr/lib/tccc/guest";
/// Digits of the recipe's digest in the name of the folder.
const DIGITS: usize = 16;

/// How a guest was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// [`recipe::digest`] of the build.
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
    folder: PathBuf,
    pub facts: Facts,
}

impl Guest {
    /// Finds the guest that was built with this program's recipe.
    ///
    /// # Errors
    /// There is no guest (unmet), or one with another recipe (unmet); it cannot be read.
    pub fn find() -> Result<Guest> {
        const BUILD: &str = "`cargo xtask virtual` builds it in two minutes, without root";
        let named = env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
        let places = match &named {
            Some(folder) => vec![folder.clone()],
            None => vec![cache()?.join(format!("guest-{}", &recipe::digest()[..DIGITS])), INSTALLED.into()],
        };
        let Some(folder) = places.into_iter().find(|folder| folder.join("guest.json").exists()) else {
            let what = match named {
                Some(folder) => format!("{FOLDER_VARIABLE} names \"{}\", which has no guest", folder.display()),
                None => "the guest of virtual time is not built".to_owned(),
            };
            return Err(Failure::unmet(what).hint(BUILD).into());
        };
        let facts = job::read(&folder.join("guest.json"))?;
        let guest = Guest { folder: folder.canonicalize().context("find the guest")?, facts };
        if guest.facts.recipe != recipe::digest() {
            let place = folder.display();
            let what = format!("the guest in \"{place}\" was built for another tccc: patches or configuration differ");
            return Err(Failure::unmet(what).hint(BUILD).into());
        }
        Ok(guest)
    }

    /// The kernel, which is a program.
    pub fn kernel(&self) -> PathBuf {
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
