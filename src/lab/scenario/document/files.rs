//! Files that a scenario names: read once, from its own folder, and kept for the result directory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::load::TransferTrace;
use crate::path::loss::{FILE_PREFIX, LossPositions};
use crate::path::rate_trace::{RateText, RateTrace};
use crate::path::trace_file::{self, FILE_BYTES_MAX, NUMBERS_MAX};
use crate::scenario::algorithm::headers::with_headers;
use crate::scenario::algorithm::source;
use crate::scenario::spec::ScenarioFile;
use host::toml_reader::{Mistake, Value};
use shared::units::BitsPerSec;

/// Limit for all files together, bytes.
const BYTES_MAX: usize = 64 << 20;
/// The hint about a file that is not there.
const BESIDE: &str = "a scenario's files are in its own folder, or below it";
/// The hint about a file that is one too many.
const TOGETHER: &str = "name fewer or shorter files";

/// What is wrong with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFault {
    Absent,
    Content,
    /// All files of the scenario together.
    Total,
}

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedFile {
    pub why: String,
    pub fault: FileFault,
}

impl RefusedFile {
    fn content(why: String) -> Self {
        RefusedFile { why, fault: FileFault::Content }
    }

    /// A mistake in the value that names a file of numbers. `line` says what a line has.
    pub fn numbers(self, value: &Value<'_>, line: &str) -> Box<Mistake> {
        let most = format!("at most {NUMBERS_MAX} lines and {} MiB", FILE_BYTES_MAX >> 20);
        let form = format!("each line has {line}; a file has {most}");
        value.refuse(self.why).or_hint(match self.fault {
            FileFault::Absent => BESIDE,
            FileFault::Content => &form,
            FileFault::Total => TOGETHER,
        })
    }

    /// A mistake in the algorithm of a flow.
    pub fn source(self, value: &Value<'_>) -> Box<Mistake> {
        let mistake = value.refuse_field(self.why);
        match self.fault {
            FileFault::Absent => mistake.or_hint(BESIDE),
            FileFault::Content => mistake,
            FileFault::Total => mistake.or_hint(TOGETHER),
        }
    }
}

/// Names that a result directory uses for itself.
const TAKEN: [&str; 5] = ["runs", "lock", "plan.json", "scenario.toml", "host.json"];

/// The files of a scenario that were read so far.
#[derive(Debug)]
pub struct Files {
    /// `None` if files may be anywhere.
    folder: Option<PathBuf>,
    texts: RefCell<Vec<ScenarioFile>>,
    losses: RefCell<BTreeMap<String, LossPositions>>,
    rates: RefCell<BTreeMap<String, RateTrace>>,
    transfers: RefCell<BTreeMap<String, TransferTrace>>,
}

impl Files {
    /// Files are looked up in the folder of this scenario.
    pub fn beside(scenario: &str) -> Self {
        let folder = Path::new(scenario).parent().unwrap_or(Path::new("")).to_owned();
        Files { folder: Some(folder), ..Files::anywhere() }
    }

    /// Files of a command line, which may be in any folder.
    pub fn anywhere() -> Self {
        Files {
            folder: None,
            texts: RefCell::default(),
            losses: RefCell::default(),
            rates: RefCell::default(),
            transfers: RefCell::default(),
        }
    }

    /// Positions of losses in a file.
    ///
    /// # Errors
    /// A name that leads out of the folder; those of [`trace_file::read`] and [`LossPositions::read`].
    pub fn losses(&self, name: &str) -> Result<LossPositions, RefusedFile> {
        cached(&self.losses, name, || self.with_text(name, |text| LossPositions::read(name, text)))
    }

    /// Starts and sizes of transfers in a file.
    ///
    /// # Errors
    /// A name that leads out of the folder; those of [`trace_file::read`] and [`TransferTrace::read`].
    pub fn transfers(&self, name: &str) -> Result<TransferTrace, RefusedFile> {
        cached(&self.transfers, name, || self.with_text(name, |text| TransferTrace::read(name, text)))
    }

    /// A rate, or a trace with its mean.
    ///
    /// # Errors
    /// A name that leads out of the folder; those of [`trace_file::read`] and [`RateTrace::read`].
    pub fn rate(&self, written: &RateText) -> Result<(BitsPerSec, Option<RateTrace>), RefusedFile> {
        let trace = match written {
            RateText::Rate(rate) => return Ok((*rate, None)),
            RateText::File(file) => cached(&self.rates, file, || {
                self.with_text(file, |text| RateTrace::read(format!("{FILE_PREFIX}{file}"), text))
            })?,
            RateText::Cellular(model) => {
                cached(&self.rates, &model.to_string(), || model.trace().map_err(RefusedFile::content))?
            }
        };
        Ok((trace.mean(), Some(trace)))
    }

    /// Keeps the source file of an algorithm, with its own headers.
    ///
    /// # Errors
    /// A name that leads out of the folder, or that no algorithm can have; those of [`trace_file::read`] and
    /// [`with_headers`].
    pub fn source(&self, name: &str) -> Result<(), RefusedFile> {
        source::id_of(name).map_err(RefusedFile::content)?;
        if self.texts.borrow().iter().any(|file| file.name == name) {
            return Ok(());
        }
        let (place, text) = self.read(name)?;
        let folder = place.parent().unwrap_or(Path::new(""));
        self.keep(name, with_headers(name, &text, folder).map_err(RefusedFile::content)?.text)
    }

    pub fn into_texts(self) -> Vec<ScenarioFile> {
        self.texts.into_inner()
    }

    /// Reads a file, and keeps its text if `read` succeeds.
    fn with_text<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, RefusedFile> {
        let (_, text) = self.read(name)?;
        let value = read(&text).map_err(|why| RefusedFile::content(format!("{name}: {why}")))?;
        self.keep(name, text)?;
        Ok(value)
    }

    /// Its place and its text.
    fn read(&self, name: &str) -> Result<(PathBuf, String), RefusedFile> {
        let path = Path::new(name);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let is_taken = path.iter().next().is_none_or(|first| TAKEN.iter().any(|taken| first == *taken));
        if self.folder.is_some() && (!is_inside || is_taken) {
            let why = "expected a file in the scenario's folder or below, such as losses.txt".to_owned();
            return Err(RefusedFile { why, fault: FileFault::Absent });
        }
        let place = self.folder.as_deref().unwrap_or(Path::new("")).join(path);
        let place = std::path::absolute(&place).unwrap_or(place); // the error shows the whole path
        let fault = || if place.is_file() { FileFault::Content } else { FileFault::Absent };
        let text = trace_file::read(&place).map_err(|why| RefusedFile { why, fault: fault() })?;
        Ok((place, text))
    }

    fn keep(&self, name: &str, text: String) -> Result<(), RefusedFile> {
        let mut texts = self.texts.borrow_mut();
        if texts.iter().map(|file| file.text.len()).sum::<usize>() + text.len() > BYTES_MAX {
            let why = format!("the scenario's files are larger than {} MiB together", BYTES_MAX >> 20);
            return Err(RefusedFile { why, fault: FileFault::Total });
        }
        texts.push(ScenarioFile { name: name.to_owned(), text });
        Ok(())
    }
}

fn cached<T: Clone>(
    cache: &RefCell<BTreeMap<String, T>>,
    name: &str,
    read: impl FnOnce() -> Result<T, RefusedFile>,
) -> Result<T, RefusedFile> {
    let known = cache.borrow().get(name).cloned();
    known.map_or_else(|| read().inspect(|value| drop(cache.borrow_mut().insert(name.to_owned(), value.clone()))), Ok)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The limit of all files together once came with the hint about the lines of one.
    #[test]
    fn limit_of_all_files_together_is_no_fault_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::beside(folder.path().join("x.toml").to_str().unwrap());
        files.texts.borrow_mut().push(ScenarioFile { name: "long".into(), text: " ".repeat(BYTES_MAX) });
        fs::write(folder.path().join("losses.txt"), "3\n").unwrap();
        assert_eq!(files.losses("losses.txt").unwrap_err().fault, FileFault::Total);
        assert_eq!(files.losses("absent.txt").unwrap_err().fault, FileFault::Absent);
    }

    #[test]
    fn files_are_read_once_and_never_from_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("losses.txt");
        fs::write(&path, "3\n5\n").unwrap();
        let files = Files::beside(folder.path().join("x.toml").to_str().unwrap());
        let read = files.losses("losses.txt").unwrap();
        fs::write(&path, "7\n").unwrap();
        assert_eq!(files.losses("losses.txt").unwrap().positions, read.positions);
        for name in ["/etc/passwd", "../x", "a/../../x", "", "plan.json", "runs/x", "./x/.."] {
            assert!(
                files.losses(name).unwrap_err().why.starts_with("expected a file in the scenario's folder"),
                "{name}"
            );
        }
        fs::write(folder.path().join("bad.txt"), "3\n2\n").unwrap();
        assert_eq!(
            files.losses("bad.txt").unwrap_err().why,
            "bad.txt: line 2: 2 after 3: expected each packet number once, in order"
        );
        fs::write(folder.path().join("lte.trace"), "5\n10\n").unwrap();
        let (mean, trace) = files.rate(&"trace:lte.trace".parse().unwrap()).unwrap();
        assert_eq!((mean, trace.unwrap().opportunities), (BitsPerSec(2_400_000), 2));
        assert!(
            files.rate(&"trace:bad.txt".parse().unwrap()).unwrap_err().why.starts_with("bad.txt: line 2: 2 after 3")
        );
        let generated = files.rate(&"cellular:mean=10mbit,seed=1".parse().unwrap()).unwrap();
        assert_eq!(generated.1.unwrap().name, "cellular:mean=10mbit,seed=1,length=60s");
        let texts = files.into_texts();
        assert_eq!(texts.len(), 2);
        assert_eq!((texts[0].name.as_str(), texts[0].text.as_str()), ("losses.txt", "3\n5\n"));
    }
}
