//! Files a scenario names: read once, from its own folder, and kept so that a result directory can hold them too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::path::loss::{FILE_PREFIX, LossPositions};
use crate::path::rate_trace::{RateText, RateTrace};
use crate::path::trace_file;
use crate::scenario::algorithm::source;
use crate::scenario::spec::ScenarioFile;
use crate::units::BitsPerSec;

/// Most bytes of all files together.
const BYTES_MAX: usize = 64 << 20;
/// What a result directory holds already.
const TAKEN: [&str; 5] = ["runs", "lock", "plan.json", "scenario.toml", "host.json"];

/// The files read so far.
#[derive(Debug)]
pub struct Files {
    /// `None` if files may be anywhere.
    folder: Option<PathBuf>,
    texts: RefCell<Vec<ScenarioFile>>,
    losses: RefCell<BTreeMap<String, LossPositions>>,
    rates: RefCell<BTreeMap<String, RateTrace>>,
}

impl Files {
    /// No file yet; names are taken from the folder of this scenario.
    pub fn beside(scenario: &str) -> Self {
        let folder = Path::new(scenario).parent().unwrap_or(Path::new("")).to_owned();
        Files { folder: Some(folder), ..Files::anywhere() }
    }

    /// Files of a command line, which may be in any folder.
    pub fn anywhere() -> Self {
        Files { folder: None, texts: RefCell::default(), losses: RefCell::default(), rates: RefCell::default() }
    }

    /// The positions of losses in a file.
    ///
    /// Errors: a name that leads out of the folder; those of [`trace_file::read`] and [`LossPositions::read`].
    pub fn losses(&self, name: &str) -> Result<LossPositions, String> {
        if let Some(read) = self.losses.borrow().get(name) {
            return Ok(read.clone());
        }
        let read = self.with_text(name, |text| LossPositions::read(name, text))?;
        self.losses.borrow_mut().insert(name.to_owned(), read.clone());
        Ok(read)
    }

    /// The rate that a text means: a number, or the mean of a trace and the trace.
    ///
    /// Errors: a name that leads out of the folder; those of [`trace_file::read`] and [`RateTrace::read`].
    pub fn rate(&self, written: &RateText) -> Result<(BitsPerSec, Option<RateTrace>), String> {
        let (name, file) = match written {
            RateText::Rate(rate) => return Ok((*rate, None)),
            RateText::File(file) => (format!("{FILE_PREFIX}{file}"), file),
            RateText::Cellular(model) => (model.to_string(), &String::new()),
        };
        let known = self.rates.borrow().get(&name).cloned();
        let trace = match (known, written) {
            (Some(trace), _) => trace,
            (None, RateText::Cellular(model)) => model.trace()?,
            (None, _) => self.with_text(file, |text| RateTrace::read(name.clone(), text))?,
        };
        self.rates.borrow_mut().insert(name, trace.clone());
        Ok((trace.mean(), Some(trace)))
    }

    /// Keeps the source file of an algorithm.
    ///
    /// Errors: a name that leads out of the folder, or that no algorithm can have; those of [`trace_file::read`].
    pub fn source(&self, name: &str) -> Result<(), String> {
        source::id_of(name)?;
        if self.texts.borrow().iter().any(|file| file.name == name) {
            return Ok(());
        }
        self.with_text(name, |_| Ok(()))
    }

    /// What was read, by name.
    pub fn into_texts(self) -> Vec<ScenarioFile> {
        self.texts.into_inner()
    }

    /// Reads a file and keeps its text once `read` took it.
    fn with_text<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let path = Path::new(name);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let is_taken = path.iter().next().is_none_or(|first| TAKEN.iter().any(|taken| first == *taken));
        if self.folder.is_some() && (!is_inside || is_taken) {
            return Err("expected a file in the scenario's folder or below, such as losses.txt".to_owned());
        }
        let place = self.folder.as_deref().unwrap_or(Path::new("")).join(path);
        let text = trace_file::read(&std::path::absolute(&place).unwrap_or(place))?; // the error says where it looked
        let value = read(&text).map_err(|why| format!("{name}: {why}"))?;
        let mut texts = self.texts.borrow_mut();
        if texts.iter().map(|file| file.text.len()).sum::<usize>() + text.len() > BYTES_MAX {
            return Err(format!("the scenario's files are larger than {} MiB together", BYTES_MAX >> 20));
        }
        texts.push(ScenarioFile { name: name.to_owned(), text });
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
            assert!(files.losses(name).unwrap_err().starts_with("expected a file in the scenario's folder"), "{name}");
        }
        fs::write(folder.path().join("bad.txt"), "3\n2\n").unwrap();
        assert_eq!(
            files.losses("bad.txt").unwrap_err(),
            "bad.txt: line 2: 2 after 3: expected each packet number once, in order"
        );
        fs::write(folder.path().join("lte.trace"), "5\n10\n").unwrap();
        let (mean, trace) = files.rate(&"trace:lte.trace".parse().unwrap()).unwrap();
        assert_eq!((mean, trace.unwrap().opportunities), (BitsPerSec(2_400_000), 2));
        assert!(files.rate(&"trace:bad.txt".parse().unwrap()).unwrap_err().starts_with("bad.txt: line 2: 2 after 3"));
        let generated = files.rate(&"cellular:mean=10mbit,seed=1".parse().unwrap()).unwrap();
        assert_eq!(generated.1.unwrap().name, "cellular:mean=10mbit,seed=1,length=60s");
        let texts = files.into_texts();
        assert_eq!(texts.len(), 2);
        assert_eq!((texts[0].name.as_str(), texts[0].text.as_str()), ("losses.txt", "3\n5\n"));
    }
}
