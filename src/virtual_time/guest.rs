//! The guest of virtual time: a kernel built by `cargo xtask virtual`, with the headers its modules are compiled against.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::recipe;
use crate::failure::Failure;

/// The variable of the environment that names the folder of another guest.
const FOLDER_VARIABLE: &str = "TCCC_GUEST";
/// Where packages put it.
const INSTALLED: &str = "/usr/lib/tccc/guest";
/// Digits of the recipe's digest in the name of a folder.
const DIGITS: usize = 16;

/// What a guest was built of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Digest of patches, configuration and list of headers: [`recipe::digest`].
    pub recipe: String,
    /// `uname -r` in the guest.
    pub release: String,
    /// Debian's package of the source.
    pub package: String,
    pub version: String,
    pub source_sha256: String,
    pub kernel_sha256: String,
    pub compiler: String,
    /// How a module's file is compiled, in the folder of the headers.
    pub compiler_flags: Vec<String>,
    /// How its objects become one.
    pub linker_flags: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Guest {
    folder: PathBuf,
    pub facts: Facts,
}

impl Guest {
    /// The guest of this program's recipe.
    ///
    /// Errors: none is built (unmet); one is, of another recipe; it cannot be read.
    pub fn find() -> Result<Guest> {
        const BUILD: &str = "`cargo xtask virtual` builds it, in two minutes and without root";
        let named = env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
        let places = match &named {
            Some(folder) => vec![folder.clone()],
            None => vec![cache()?.join(format!("guest-{}", &recipe::digest()[..DIGITS])), INSTALLED.into()],
        };
        let Some(folder) = places.into_iter().find(|folder| folder.join("guest.json").exists()) else {
            let what = match named {
                Some(folder) => format!("{FOLDER_VARIABLE} names \"{}\", where no guest is", folder.display()),
                None => "the guest of virtual time is not built".to_owned(),
            };
            return Err(Failure::unmet(what).hint(BUILD).into());
        };
        let guest = Guest::open(&folder)?;
        if guest.facts.recipe != recipe::digest() {
            let what = format!("the guest in \"{}\" was built of other patches than this tccc has", folder.display());
            return Err(Failure::unmet(what).hint(BUILD).into());
        }
        Ok(guest)
    }

    fn open(folder: &Path) -> Result<Guest> {
        let file = folder.join("guest.json");
        let bytes = fs::read(&file).with_context(|| format!("read \"{}\"", file.display()))?;
        let facts = serde_json::from_slice(&bytes).with_context(|| format!("read \"{}\"", file.display()))?;
        Ok(Guest { folder: folder.canonicalize().context("find the guest")?, facts })
    }

    /// The kernel: a program.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join("linux")
    }

    /// The archive of the headers.
    pub fn headers(&self) -> PathBuf {
        self.folder.join("headers.tar.xz")
    }
}

/// Where this user's guest and modules are kept; `cargo xtask virtual` keeps the guest there.
///
/// Errors: there is no home (unmet).
pub fn cache() -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| {
        Failure::unmet("there is no home in which to keep the guest of virtual time").hint("set XDG_CACHE_HOME")
    })?;
    Ok(cache.join("tccc"))
}
