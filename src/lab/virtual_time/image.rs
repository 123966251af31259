//! The first file system of a guest, a folder of the host: this program as its first process, the libraries that it
//! needs, and mount points. The guest reads only what it uses of them.

use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::guest;
use shared::kernel::process::own_program_for_others;
use shared::scratch::Scratch;

/// Number of images of other builds to keep.
const KEPT: usize = 3;
/// Ending of the name of a complete image.
const ENDING: &str = "root";
/// The first program, as the kernel's command line names it.
const FIRST: &str = "init";
const MOUNT_POINTS: [&str; 3] = ["proc", "sys", "job"];

/// An image. No other tccc removes it while this value exists.
#[derive(Debug)]
pub struct Image {
    pub folder: PathBuf,
    _held: File,
}

/// The image of this program, from the cache if possible.
///
/// Side effects: one folder in the user's cache.
///
/// # Errors
/// The program or a library cannot be read; the cache cannot be written.
pub fn prepare() -> Result<Image> {
    prepare_with(&own_program_for_others()?, &libraries())
}

/// Like [`prepare`], with another program as the first process.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_with(program: &Path, libraries: &[PathBuf]) -> Result<Image> {
    let images = guest::cache()?.join("images");
    fs::create_dir_all(&images).with_context(|| format!("create \"{}\"", images.display()))?;
    let met = fs::metadata(program).with_context(|| format!("look at \"{}\"", program.display()))?;
    // Distinguishes builds without reading a hundred megabytes.
    let mark = format!("{:x}-{:x}-{:x}{:09x}", met.ino(), met.size(), met.mtime(), met.mtime_nsec());
    let folder = images.join(format!("{mark}.{ENDING}"));
    loop {
        if let Some(image) = hold(&folder)? {
            return Ok(image);
        }
        let scratch = Scratch::create(&images)?;
        let partial = scratch.path().join(ENDING);
        fill(&partial, program, libraries).with_context(|| format!("write \"{}\"", partial.display()))?;
        let kept = fs::rename(&partial, &folder);
        if !folder.exists() {
            kept.with_context(|| format!("keep \"{}\"", folder.display()))?; // else another tccc was faster
        }
        forget_others(&images, &folder)?;
    }
}

/// Locks an image. `None`: it is missing, or was removed before the lock.
fn hold(folder: &Path) -> Result<Option<Image>> {
    let held = match File::open(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("open \"{}\"", folder.display()))?,
    };
    held.lock_shared().with_context(|| format!("hold \"{}\"", folder.display()))?;
    Ok(folder.exists().then(|| Image { folder: folder.to_owned(), _held: held }))
}

/// Makes the folder of an image.
fn fill(folder: &Path, program: &Path, libraries: &[PathBuf]) -> Result<()> {
    for name in MOUNT_POINTS {
        fs::create_dir_all(folder.join(name))?;
    }
    for library in libraries {
        let place = folder.join(library.strip_prefix("/").unwrap_or(library));
        fs::create_dir_all(place.parent().context("find a library's folder")?)?;
        fs::copy(library, &place).with_context(|| format!("copy \"{}\"", library.display()))?;
    }
    copy_stripped(program, &folder.join(FIRST))
}

/// Copies a program without its debug information, if `strip` is installed.
fn copy_stripped(program: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(to).arg(program).stdin(Stdio::null()).stderr(Stdio::null());
    if !strip.status().is_ok_and(|status| status.success()) {
        fs::copy(program, to).context("copy the guest's first program")?;
    }
    Ok(())
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

fn forget_others(images: &Path, newest: &Path) -> Result<()> {
    let mut others = Vec::new();
    for entry in fs::read_dir(images).context("list the images")? {
        let entry = entry.context("list the images")?;
        // Another tccc may be filling its scratch folder.
        let is_image = entry.path().extension().is_some_and(|ending| ending == ENDING);
        if is_image && entry.path() != newest {
            others.push((entry.metadata().and_then(|it| it.modified()).ok(), entry.path()));
        }
    }
    others.sort();
    let too_many = others.len().saturating_sub(KEPT);
    for (_, folder) in others.into_iter().take(too_many) {
        let Ok(image) = File::open(&folder) else { continue };
        if image.try_lock().is_ok() {
            let _ = fs::remove_dir_all(folder); // another tccc may have removed it
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
        let image = |number: usize| folder.path().join(format!("{number}.{ENDING}"));
        for number in 0..=KEPT + 2 {
            fs::create_dir(image(number)).unwrap();
            fs::write(image(number).join(FIRST), "x").unwrap();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(number as u64);
            File::open(image(number)).unwrap().set_modified(at).unwrap();
        }
        let held = hold(&image(0)).unwrap().unwrap();
        forget_others(folder.path(), &image(KEPT + 2)).unwrap();
        assert!(held.folder.exists() && !image(1).exists() && image(2).exists());
        drop(held);
        forget_others(folder.path(), &image(KEPT + 2)).unwrap();
        assert!(!image(0).exists() && hold(&image(0)).unwrap().is_none());
    }
}
