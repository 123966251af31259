//! The first file system of a guest: this program as its first process, and the libraries that it needs.

use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::archive::Archive;
use super::guest;

/// Number of images of other builds to keep.
const KEPT: usize = 3;

/// An image. No other tccc removes it while this value exists.
#[derive(Debug)]
pub struct Image {
    pub file: PathBuf,
    _held: File,
}

/// The image of this program, from the cache if possible.
///
/// Side effects: one file in the user's cache.
///
/// # Errors
/// The program or a library cannot be read; the cache cannot be written.
pub fn prepare() -> Result<Image> {
    prepare_with(&std::env::current_exe().context("find this program")?, &libraries())
}

/// Like [`prepare`], with another program as the first process.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_with(program: &Path, libraries: &[PathBuf]) -> Result<Image> {
    let folder = guest::cache()?.join("images");
    fs::create_dir_all(&folder).with_context(|| format!("create \"{}\"", folder.display()))?;
    let met = fs::metadata(program).with_context(|| format!("look at \"{}\"", program.display()))?;
    // Distinguishes builds without reading a hundred megabytes.
    let mark = format!("{:x}-{:x}-{:x}{:09x}", met.ino(), met.size(), met.mtime(), met.mtime_nsec());
    let file = folder.join(format!("{mark}.cpio"));
    loop {
        if let Some(image) = hold(&file)? {
            return Ok(image);
        }
        let bytes = archive(program, libraries, &folder)?;
        let partial = folder.join(format!("{mark}.{}", std::process::id()));
        fs::write(&partial, bytes).with_context(|| format!("write \"{}\"", partial.display()))?;
        fs::rename(&partial, &file).with_context(|| format!("keep \"{}\"", file.display()))?;
        forget_others(&folder, &file)?;
    }
}

/// Locks an image. `None`: it is missing, or was removed before the lock.
fn hold(file: &Path) -> Result<Option<Image>> {
    let held = match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("open \"{}\"", file.display()))?,
    };
    held.lock_shared().with_context(|| format!("hold \"{}\"", file.display()))?;
    Ok(file.exists().then(|| Image { file: file.to_owned(), _held: held }))
}

fn archive(init: &Path, libraries: &[PathBuf], folder: &Path) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    let mut folders = BTreeSet::new();
    for library in libraries {
        let parents: Vec<&Path> = library.ancestors().skip(1).filter(|path| path.parent().is_some()).collect();
        for parent in parents.into_iter().rev() {
            let name = within(parent);
            if folders.insert(name.clone()) {
                archive.folder(&name);
            }
        }
        let content = fs::read(library).with_context(|| format!("read \"{}\"", library.display()))?;
        archive.program(&within(library), &content);
    }
    for name in ["proc", "sys", "job"] {
        archive.folder(name);
    }
    archive.program("init", &stripped(init, folder)?);
    Ok(archive.finish())
}

/// The path without its leading slash.
fn within(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

/// A program without debug information, if `strip` is installed.
fn stripped(program: &Path, folder: &Path) -> Result<Vec<u8>> {
    let stripped = folder.join(format!("stripped.{}", std::process::id()));
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(program).stdin(Stdio::null()).stderr(Stdio::null());
    let is_done = strip.status().is_ok_and(|status| status.success());
    let bytes = fs::read(if is_done { &stripped } else { program }).context("read the guest's first program");
    let _ = fs::remove_file(&stripped); // missing if strip failed
    bytes
}

/// Paths of the libraries in this process, and of their loader.
pub fn libraries() -> Vec<PathBuf> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, names: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader passes a valid record, and the vector that the caller below lent.
        let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<PathBuf>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: a name of the loader ends with a zero and outlives this call.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            names.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
        }
        0
    }
    let mut names: Vec<PathBuf> = Vec::new();
    // SAFETY: the function above matches what the loader calls, and the vector outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names.retain(|name| name.is_absolute()); // the program has no name, and the vDSO no path
    names
}

fn forget_others(folder: &Path, newest: &Path) -> Result<()> {
    let mut others = Vec::new();
    for entry in fs::read_dir(folder).context("list the images")? {
        let entry = entry.context("list the images")?;
        // Another tccc may be writing any other file.
        let is_image = entry.path().extension().is_some_and(|ending| ending == "cpio");
        if is_image && entry.path() != newest {
            others.push((entry.metadata().and_then(|it| it.modified()).ok(), entry.path()));
        }
    }
    others.sort();
    let too_many = others.len().saturating_sub(KEPT);
    for (_, file) in others.into_iter().take(too_many) {
        let Ok(image) = File::open(&file) else { continue };
        if image.try_lock().is_ok() {
            let _ = fs::remove_file(file); // another tccc may have removed it
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_in_use_is_not_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let file = |number: usize| folder.path().join(format!("{number}.cpio"));
        for number in 0..=KEPT + 2 {
            fs::write(file(number), "x").unwrap();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(number as u64);
            File::options().write(true).open(file(number)).unwrap().set_modified(at).unwrap();
        }
        let held = hold(&file(0)).unwrap().unwrap();
        forget_others(folder.path(), &file(KEPT + 2)).unwrap();
        assert!(held.file.exists() && !file(1).exists() && file(2).exists());
        drop(held);
        forget_others(folder.path(), &file(KEPT + 2)).unwrap();
        assert!(!file(0).exists() && hold(&file(0)).unwrap().is_none());
    }
}
