//! The object of a user's own source, whose risk an evaluation tells.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lab::scenario::algorithm::headers::{self, SourceText};
use shared::catalog;

/// An object that was compiled from a source before its evaluation.
pub struct OwnObject {
    source: PathBuf,
    text: String,
    pub file: PathBuf,
    pub digest: String,
}

impl OwnObject {
    /// The object beside a source.
    ///
    /// # Errors
    /// Why there is none that was compiled from this source, as a phrase.
    pub fn beside(source: &Path, read: &SourceText) -> Result<OwnObject, String> {
        let file = source.with_extension("o");
        let changed = |file: &Path| fs::metadata(file).and_then(|facts| facts.modified());
        let compiled: SystemTime = changed(&file).map_err(|_| format!("there is no \"{}\"", file.display()))?;
        let parts = std::iter::once(source).chain(read.headers.iter().map(PathBuf::as_path));
        if let Some(newer) = parts.into_iter().find(|part| changed(part).is_ok_and(|time| time > compiled)) {
            return Err(format!("\"{}\" is older than \"{}\"", file.display(), newer.display()));
        }
        let digest = catalog::open(&file).map_err(|failure| failure.what)?.digest();
        Ok(OwnObject { source: source.to_owned(), text: read.text.clone(), file, digest })
    }

    /// Whether source and object are still those that were evaluated.
    pub fn is_unchanged(&self) -> bool {
        let is_text = headers::read(&self.source).is_ok_and(|read| read.text == self.text);
        is_text && catalog::open(&self.file).is_ok_and(|object| object.digest() == self.digest)
    }
}
