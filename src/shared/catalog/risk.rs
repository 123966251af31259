//! The risk of an algorithm for connections that did not choose it: a view of its evaluation.
//!
//! Each criterion of RFC 9743 that `tccc evaluate` measured gives one finding, and the worst finding decides.
//! `scenarios/evaluate/README.md` explains the criteria, and how a verdict becomes low, medium or high.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use strum::Display;

use super::source;
use super::{Algorithm, Setting};
use crate::kernel::io_error;
use crate::read_limited;
use crate::sanitize::{plain, shown};

#[cfg(test)]
mod tests;

static EVALUATED: &str = include_str!("../../../scenarios/evaluate/risk.json");
/// The form of a file of findings.
pub const RISK_SCHEMA: u32 = 1;
/// An own object `mine.bpf.o` has its findings beside it, in `mine.risk.json`.
const ENDINGS: [&str; 2] = [".bpf.o", ".risk.json"];
/// A file of findings has some 10 kB.
const FINDINGS_BYTES_MAX: u64 = 1 << 20;
/// Of one text in it, bytes.
const TEXT_MAX: usize = 1000;
/// Fewer give no interval.
const FEWEST_RUNS: usize = 3;

/// The risk of an algorithm for connections that did not choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Level {
    /// On average no worse than Reno or CUBIC by more than is allowed.
    Low,
    /// Worse, or on average worse although the runs cannot tell.
    Medium,
    /// Worse even if twice as much were allowed, or a property of its traces is broken.
    High,
    #[serde(rename = "not measured")]
    #[strum(serialize = "not measured")]
    NotMeasured,
}

impl Level {
    /// Whether the operator has to allow the algorithm explicitly.
    pub fn counts_as_high(self) -> bool {
        matches!(self, Level::High | Level::NotMeasured)
    }
}

/// What an evaluation says in one criterion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Such as `5.2.1: harm to Reno and CUBIC`.
    pub criterion: String,
    /// `worse`, `no worse`, `better`, `cannot tell` or `not measured`.
    pub verdict: String,
    pub level: Level,
    /// The reason of the verdict, as one sentence without its end.
    pub why: String,
    /// The deciding experiment and the point of its sweep; empty if a property decides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cell: String,
    /// Of the deciding metric to that of the milder baseline. `None` if that has none.
    pub ratio: Option<f64>,
    /// 95 % confidence interval.
    pub ci95: Option<[f64; 2]>,
    /// The deciding value as a multiple of what is allowed.
    pub harm: Option<f64>,
    /// Number of runs.
    pub n: usize,
}

impl Finding {
    /// The ratio with its interval, for example `0.27 (0.25 to 0.29)`.
    pub fn value(&self) -> String {
        let interval = self.ci95.map_or(String::new(), |[low, high]| format!(" ({low:.2} to {high:.2})"));
        self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}{interval}"))
    }

    fn is_worse(&self) -> bool {
        self.verdict == "worse"
    }
}

/// What an evaluation says of one algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Findings {
    /// [`RISK_SCHEMA`].
    pub schema: u32,
    /// What was evaluated: [`source::code_digest`] of an algorithm of tccc, SHA-256 of a file's object. `None` for the
    /// kernel's own.
    pub code: Option<String>,
    /// `uname -r` of the guest.
    pub kernel: String,
    /// By section.
    pub criteria: Vec<Finding>,
}

impl Findings {
    /// Of a file, with texts that a terminal can show.
    ///
    /// # Errors
    /// A criterion that this program measures is missing; a text is too long; too few runs.
    fn checked(mut self) -> Result<Findings, String> {
        let asked = evaluated().values().next().map_or(&[][..], |known| &known.criteria);
        if let Some(missing) = asked.iter().find(|one| self.criteria.iter().all(|own| own.criterion != one.criterion)) {
            return Err(format!("it has no criterion \"{}\"", missing.criterion));
        }
        for Finding { criterion, verdict, why, cell, n, .. } in &mut self.criteria {
            if (1..FEWEST_RUNS).contains(n) {
                return Err(format!("fewer than {FEWEST_RUNS} runs say nothing of \"{}\"", shown(criterion)));
            }
            for text in [criterion, verdict, why, cell] {
                if text.len() > TEXT_MAX {
                    return Err(format!("a text is longer than {TEXT_MAX} bytes"));
                }
                *text = plain(text);
            }
        }
        Ok(self)
    }
}

/// An object's findings, and where they are from.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnFindings {
    file: PathBuf,
    /// Else why the file cannot be used.
    findings: Result<Findings, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Risk {
    pub level: Level,
    pub sentence: String,
    /// Whether the embedded code was evaluated.
    pub of_this_code: bool,
    /// Shape: by section; empty if nothing was measured.
    pub criteria: Vec<Finding>,
}

impl Risk {
    pub fn of(algorithm: &Algorithm) -> Risk {
        let carried = super::all().iter().find(|carried| carried.id == algorithm.id);
        if carried.is_some_and(|carried| carried.object == algorithm.object) {
            return match evaluated().get(&algorithm.id) {
                Some(findings) => {
                    let of_this_code = findings.code == source::code_digest(&algorithm.id);
                    Risk::from(findings, of_this_code)
                }
                None if algorithm.companion_of_both_ends().is_some() => {
                    Risk::unknown("it needs a program at both ends, which `tccc evaluate` does not have")
                }
                None => Risk::unknown("nobody has evaluated it"),
            };
        }
        let Some(OwnFindings { file, findings }) = &algorithm.findings else {
            return Risk::unknown("nobody has evaluated it");
        };
        match findings {
            Ok(findings) if findings.code.as_deref() == Some(&algorithm.digest()) => {
                let risk = Risk::from(findings, true);
                Risk { sentence: format!("{}, by \"{}\"", risk.sentence, file.display()), ..risk }
            }
            Ok(_) => Risk::unknown(&format!("\"{}\" is of another version of the object", file.display())),
            Err(why) => Risk::unknown(&format!("cannot read \"{}\": {why}", file.display())),
        }
    }

    /// The risk with these settings. Evaluations count only for the defaults.
    pub fn of_tuned(algorithm: &Algorithm, settings: &[Setting]) -> Risk {
        let differs = |setting: &&Setting| {
            let tunable = algorithm.tunables.iter().find(|tunable| tunable.name == setting.name);
            tunable.is_none_or(|tunable| tunable.default != setting.value)
        };
        match settings.iter().find(differs) {
            Some(Setting { name, value, .. }) => {
                Risk::unknown(&format!("nobody has evaluated it with {name} = {value}"))
            }
            None => Risk::of(algorithm),
        }
    }

    /// The risk of a loaded algorithm whose file is gone.
    pub fn gone() -> Risk {
        Risk::unknown("the file it was loaded from is gone")
    }

    /// The risk of a loaded algorithm whose file, or whose version of tccc, has other code now.
    pub fn of_other_code() -> Risk {
        Risk::unknown("what is loaded has other code than its file has now")
    }

    fn unknown(sentence: &str) -> Risk {
        Risk { level: Level::NotMeasured, sentence: sentence.to_owned(), of_this_code: false, criteria: Vec::new() }
    }

    fn from(findings: &Findings, of_this_code: bool) -> Risk {
        let criteria = findings.criteria.clone();
        let badness = |one: &&Finding| (one.level, one.harm.unwrap_or(f64::INFINITY));
        let worst = criteria.iter().max_by(|one, other| {
            let (one, other) = (badness(one), badness(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        match worst {
            Some(worst) => Risk {
                level: worst.level,
                sentence: sentence(&criteria, worst),
                of_this_code,
                criteria: criteria.clone(),
            },
            None => Risk::unknown("its evaluation has no criterion"),
        }
    }
}

/// How many criteria are worse, and the worst of all.
fn sentence(criteria: &[Finding], worst: &Finding) -> String {
    let worse = criteria.iter().filter(|finding| finding.is_worse()).count();
    let all = criteria.len();
    let count = match worse {
        0 => format!("in none of {all} criteria worse than Reno and CUBIC"),
        some => format!("in {some} of {all} criteria worse than Reno and CUBIC"),
    };
    if worst.level == Level::Low {
        return count;
    }
    let cell = if worst.cell.is_empty() { String::new() } else { format!(" ({})", worst.cell) };
    let link = if worst.is_worse() { ", most in ".to_owned() } else { format!("; {} in ", worst.verdict) };
    format!("{count}{link}{}: {}{cell}", worst.criterion, worst.why)
}

/// Where an own object has its findings. None: its name does not end in `.bpf.o`.
pub fn findings_file(object: &Path) -> Option<PathBuf> {
    let [of_object, of_findings] = ENDINGS;
    let name = object.file_name()?.to_str()?.strip_suffix(of_object)?;
    Some(object.with_file_name(format!("{name}{of_findings}")))
}

/// The findings beside an own object. None: there are none.
pub(super) fn beside(object: &Path) -> Option<OwnFindings> {
    let file = findings_file(object).filter(|file| file.exists())?;
    let bytes = read_limited::read(&file, FINDINGS_BYTES_MAX).map_err(|error| io_error::reason(&error));
    let findings =
        bytes.and_then(|bytes| serde_json::from_slice::<Findings>(&bytes).map_err(|why| shown(&why.to_string())));
    let findings = findings.and_then(|findings| match findings.schema {
        RISK_SCHEMA => findings.checked(),
        other => Err(format!("its schema is {other}, not {RISK_SCHEMA}")),
    });
    Some(OwnFindings { file, findings })
}

/// The evaluations that this program carries, by algorithm.
pub fn evaluated() -> &'static BTreeMap<String, Findings> {
    static FINDINGS: OnceLock<BTreeMap<String, Findings>> = OnceLock::new();
    FINDINGS.get_or_init(|| {
        serde_json::from_str(EVALUATED).unwrap_or_else(|why| panic!("scenarios/evaluate/risk.json: {why}"))
    })
}
