//! The folder of an evaluation.
//!
//! Each algorithm has its runs of each question in a directory of its own, so that another candidate needs only its own.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::Args;
use super::object::OwnObject;
use crate::cli::output::note;
use lab::evaluation::{self, Evaluation, Question};
use lab::report::{self, Report};
use lab::scenario::algorithm::headers;
use shared::catalog::risk::{self, Findings};
use shared::catalog::source::{code_digest, laboratory_digest};
use shared::failure::Failure;
use shared::sanitize::shown;

const SOURCE: &str = ".bpf.c";
/// A digest of a file's code is cut to this many bytes.
const CODE_BYTES: usize = 4;
/// The line of a flow that runs the evaluated algorithm.
const FLOW: &str = "algorithm = \"$variant\"\n";

/// The reports of a question, of the first measurement and of the repetition.
pub type FirstAndAgain<'r> = [Option<&'r Report>; 2];

/// An algorithm in one question.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    pub question: &'a Question,
    pub algorithm: &'a str,
}

/// Where an evaluation is.
pub struct Place {
    pub out: PathBuf,
    /// The name of its variant.
    pub candidate: String,
    /// Its source, if it is a file.
    pub source: Option<PathBuf>,
    /// Of the file, with its own headers.
    text: Option<String>,
    /// The object of its source, or why there is none.
    object: Option<Result<OwnObject, String>>,
    /// Digest of its code; `None` for the kernel's own.
    code: Option<String>,
    against: Vec<String>,
    /// The candidate's tunables and their values.
    settings: Vec<(String, String)>,
}

impl Place {
    /// # Errors
    /// The file cannot be read; the candidate is one of its baselines; an algorithm is named twice.
    pub fn new(args: &Args) -> Result<Place> {
        let source = args.algorithm.ends_with(SOURCE).then(|| PathBuf::from(&args.algorithm));
        let name = source.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let candidate = name.unwrap_or_else(|| args.algorithm.clone());
        let is_id =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        let ids = args.against.iter().chain(source.is_none().then_some(&candidate));
        if let Some(name) = ids.into_iter().find(|name| !is_id(name)) {
            let what = format!("\"{}\" is not the name of an algorithm", shown(name));
            return Err(Failure::usage(what).hint("`tccc list` shows them; a source file ends in .bpf.c").into());
        }
        let mut all = args.against.clone();
        all.push(candidate.clone());
        if let Some((_, twice)) = all.iter().enumerate().find(|(index, name)| all[..*index].contains(name)) {
            let what = format!("\"{}\" would be compared with itself", shown(twice));
            return Err(Failure::usage(what).hint("name other algorithms with `--against`").into());
        }
        let settings = args.settings.iter().map(|text| setting(text)).collect::<Result<Vec<_>, Failure>>()?;
        let read = source.as_deref().map(headers::read).transpose().map_err(Failure::usage)?;
        let code = match &read {
            Some(read) => Some(hex::encode(&Sha256::digest(&read.text)[..CODE_BYTES])),
            None => code_digest(&candidate),
        };
        // Each version of a file has a folder of its own.
        let of_file = code.iter().filter(|_| source.is_some());
        let parts = ["evaluate", candidate.trim_end_matches(SOURCE)].into_iter();
        let parts = parts.chain(of_file.map(String::as_str)).chain(args.settings.iter().map(String::as_str));
        let folder = parts.collect::<Vec<&str>>().join("-");
        let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(folder));
        let object = source.as_ref().zip(read.as_ref()).map(|(source, read)| OwnObject::beside(source, read));
        let text = read.map(|read| read.text);
        Ok(Place { out, candidate, source, text, object, code, against: args.against.clone(), settings })
    }

    /// Notes in the folder what is evaluated there, so that a later call does not mix two.
    ///
    /// # Errors
    /// The folder has the evaluation of another code or laboratory, with other tunables or by another seed.
    pub fn claim(&self, seed: u64) -> Result<()> {
        let code = self.code.as_deref().unwrap_or("of the kernel");
        let settings: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let laboratory = laboratory_digest();
        let own = format!("{} {code} {seed} {laboratory} {}\n", self.candidate, settings.join(" "));
        let file = self.out.join("evaluated");
        match fs::read_to_string(&file) {
            Ok(known) if known == own => Ok(()),
            Ok(_) => {
                let what = format!("\"{}\" has an evaluation of other code, tunables or seed", self.out.display());
                Err(Failure::usage(what).hint("remove it, or give another folder with `--out`").into())
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("read \"{}\"", file.display()))
            }
            Err(_) => {
                fs::create_dir_all(&self.out).with_context(|| format!("make \"{}\"", self.out.display()))?;
                let put = next_to(&file, own.as_bytes())
                    .and_then(|next| next.persist_noclobber(&file).map(drop).map_err(|error| error.error));
                match put {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => self.claim(seed), // another share's
                    put => put.with_context(|| format!("write \"{}\"", file.display())),
                }
            }
        }
    }

    /// The candidate, then the baselines.
    pub fn algorithms(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.candidate).chain(&self.against).map(String::as_str)
    }

    pub fn baselines(&self) -> impl Iterator<Item = &str> {
        self.against.iter().map(String::as_str)
    }

    /// The candidate's name in this host's kernel, if it is loaded.
    pub fn loaded(&self) -> &str {
        self.candidate.trim_end_matches(SOURCE)
    }

    pub fn scenario(&self, folder: &Path, part: &Part<'_>) -> PathBuf {
        folder.join("scenarios").join(part.algorithm).join(format!("{}.toml", part.question.name))
    }

    pub fn runs(&self, part: &Part<'_>) -> PathBuf {
        self.out.join("runs").join(part.algorithm).join(part.question.name)
    }

    pub fn again(&self, part: &Part<'_>) -> PathBuf {
        self.out.join("again").join(part.algorithm).join(part.question.name)
    }

    pub fn witness(&self, part: &Part<'_>) -> PathBuf {
        self.out.join("witness/runs").join(part.algorithm).join(part.question.name)
    }

    /// Writes the scenarios, and the candidate's source beside its own.
    pub fn write(&self, folder: &Path, parts: &[Part<'_>]) -> Result<()> {
        for part in parts {
            let file = self.scenario(folder, part);
            let beside = file.parent().unwrap_or(folder);
            fs::create_dir_all(beside).with_context(|| format!("make \"{}\"", beside.display()))?;
            if let Some(text) = self.text.as_ref().filter(|_| part.algorithm == self.candidate) {
                write(&beside.join(&self.candidate), text.as_bytes())?;
            }
            let mut text = part.question.over(&[part.algorithm])?;
            if part.algorithm == self.candidate {
                text = self.with_settings(&text);
            }
            write(&file, text.as_bytes())?;
        }
        Ok(())
    }

    /// A question's text in which the candidate's flows have its tunables.
    fn with_settings(&self, text: &str) -> String {
        let one = |(name, value): &(String, String)| format!("{name} = \"{value}\"");
        let all = self.settings.iter().map(one).collect::<Vec<String>>().join(", ");
        if all.is_empty() { text.to_owned() } else { text.replace(FLOW, &format!("{FLOW}tunables = {{ {all} }}\n")) }
    }

    /// Whether the figures are those of the algorithm's code alone.
    pub fn has_defaults(&self) -> bool {
        self.settings.is_empty()
    }

    pub fn put(&self, name: &str, text: &str) -> Result<()> {
        write(&self.out.join(name), text.as_bytes())
    }

    /// Notes why the evaluation will say nothing of an object that `tccc load` can load.
    pub fn note_missing_object(&self) {
        if let Some(Err(why)) = &self.object {
            note(&format!("{why}: compile it first, and `tccc load` will know its risk"));
        }
    }

    /// Writes what the evaluation says of the risk, also beside the candidate's object, whose `load` reads it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn put_findings(&self, evaluation: &Evaluation) -> Result<()> {
        let object = match &self.object {
            Some(Ok(object)) if !object.is_unchanged() => {
                note(&format!("\"{}\" or its source has changed meanwhile, so it gets no risk", object.file.display()));
                None
            }
            Some(found) => found.as_ref().ok(),
            None => None,
        };
        let code = if self.source.is_some() { object.map(|object| object.digest.clone()) } else { self.code.clone() };
        let findings = written(&evaluation::findings(evaluation, code))?;
        self.put("risk.json", &findings)?;
        let Some(object) = object else { return Ok(()) };
        let Some(file) = risk::findings_file(&object.file) else { return Ok(()) };
        write(&file, findings.as_bytes())?;
        note(&format!("\"{}\" has the risk of \"{}\"", file.display(), object.file.display()));
        Ok(())
    }

    /// One report of all algorithms with runs in a question. None: the candidate has no finished run.
    pub fn report(&self, question: &Question, place: fn(&Place, &Part<'_>) -> PathBuf) -> Result<Option<Report>> {
        let part = |algorithm| Part { question, algorithm };
        let mut algorithms: Vec<&str> = self.algorithms().collect();
        algorithms.retain(|algorithm| place(self, &part(algorithm)).exists());
        let directories: Vec<PathBuf> = algorithms.iter().map(|algorithm| place(self, &part(algorithm))).collect();
        if algorithms.first() != Some(&self.candidate.as_str()) {
            return Ok(None);
        }
        algorithms.rotate_left(1); // the first of a report is its baseline
        report::load_variants(&question.over(&algorithms)?, &directories)
    }
}

/// Replaces a file at once, because other shares of the evaluation may read it.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let replaced = next_to(file, bytes).and_then(|next| Ok(next.persist(file).map(drop)?));
    replaced.with_context(|| format!("write \"{}\"", file.display()))
}

/// A new file with these bytes in the same folder.
fn next_to(file: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut next = NamedTempFile::new_in(file.parent().unwrap_or(Path::new(".")))?;
    next.write_all(bytes)?;
    next.as_file().set_permissions(Permissions::from_mode(0o644))?;
    Ok(next)
}

fn written(findings: &Findings) -> Result<String> {
    Ok(serde_json::to_string_pretty(findings)? + "\n")
}

/// # Errors
/// The text is not `TUNABLE=VALUE`, or has another character than such a name and number.
fn setting(text: &str) -> Result<(String, String), Failure> {
    let is_plain =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    match text.split_once('=') {
        Some((name, value)) if is_plain(name) && is_plain(value) => Ok((name.to_owned(), value.to_owned())),
        _ => {
            let failure = Failure::usage(format!("cannot read \"{}\": it is not TUNABLE=VALUE", shown(text)));
            Err(failure.hint("`tccc show ID` lists the tunables"))
        }
    }
}
