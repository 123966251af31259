//! The risk of an algorithm to other flows and on difficult paths, as measured by `cargo xtask risk`.
//!
//! Each question is one scenario of `scenarios/safety`. Its figure is a ratio to Reno (beside CUBIC: to CUBIC) with a
//! confidence interval. `scenarios/safety/README.md` explains how figures become low, medium or high risk.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use strum::Display;

use super::source;
use super::{Algorithm, Setting};

#[cfg(test)]
mod tests;

static MEASURED: &str = include_str!("../../../scenarios/safety/risk.json");
/// The risk is medium if a figure is worse than Reno's by this factor.
pub const MEDIUM_FROM: f64 = 1.25;
/// The risk is high if a figure is worse than Reno's by this factor.
pub const HIGH_FROM: f64 = 2.0;

/// The risk of an algorithm for connections that did not choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Level {
    Low,
    Medium,
    High,
    /// At least one question has no figure.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorseOff {
    /// A throughput.
    Lower,
    /// A time, or a number of lost packets.
    Higher,
}

#[derive(Debug, PartialEq, Eq)]
pub struct RiskQuestion {
    /// Stem of the scenario's file in `scenarios/safety`.
    pub id: &'static str,
    worse: WorseOff,
    /// Label of the ratio in a table.
    what: &'static str,
    /// The finding as a sentence. `{}` stands for the ratio.
    sentence: &'static str,
}

/// This question applies only to algorithms with a companion program.
const FOR_COMPANIONS: &str = "peer";
/// Questions about other flows come first.
pub static QUESTIONS: [RiskQuestion; 10] = [
    RiskQuestion {
        id: "beside-reno",
        worse: WorseOff::Lower,
        what: "throughput of a Reno flow beside it",
        sentence: "a competing Reno flow gets {} of its share against Reno",
    },
    RiskQuestion {
        id: "beside-cubic",
        worse: WorseOff::Lower,
        what: "throughput of a CUBIC flow beside it",
        sentence: "a competing CUBIC flow gets {} of its share against CUBIC",
    },
    RiskQuestion {
        id: "beside-three",
        worse: WorseOff::Lower,
        what: "throughput of three Reno flows beside it, 0.3 % loss",
        sentence: "on a path that loses packets, three competing Reno flows get {} of their share against a fourth",
    },
    RiskQuestion {
        id: "ecn",
        worse: WorseOff::Lower,
        what: "throughput of a Reno flow beside it, ECN",
        sentence: "where the queue marks packets, a competing Reno flow gets {} of its share against Reno",
    },
    RiskQuestion {
        id: "short-flows",
        worse: WorseOff::Higher,
        what: "time of short flows beside it",
        sentence: "short flows beside it take {} as long as beside Reno",
    },
    RiskQuestion {
        id: "responses",
        worse: WorseOff::Higher,
        what: "time of its own responses of 10 packets",
        sentence: "its own responses of ten packets take {} as long as Reno's",
    },
    RiskQuestion {
        id: "route",
        worse: WorseOff::Lower,
        what: "own throughput, route of 20 to 80 ms and back",
        sentence: "when its route gets longer it carries {} of what Reno does",
    },
    RiskQuestion {
        id: "rate",
        worse: WorseOff::Lower,
        what: "own throughput, rate to a quarter and back",
        sentence: "when the rate falls to a quarter and comes back it carries {} of what Reno does",
    },
    RiskQuestion {
        id: "access-line",
        worse: WorseOff::Higher,
        what: "own lost packets, 2 Mbit/s access line",
        sentence: "on an access line of 2 Mbit/s it loses {} as many packets as Reno",
    },
    RiskQuestion {
        id: "peer",
        worse: WorseOff::Higher,
        what: "time of its transfers to a peer without its option",
        sentence: "to a peer without its option a transfer takes {} as long as Reno's",
    },
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskFigure {
    pub question: String,
    /// The cell of the scenario, for example `queue 1bdp`. Empty if there is only one cell.
    pub at: String,
    /// Ratio to Reno's value, or to CUBIC's beside CUBIC.
    pub ratio: f64,
    /// 95 % confidence interval. `None` for fewer than three runs, or where Reno's own value may be 0.
    pub ci95: Option<[f64; 2]>,
    /// Number of runs.
    pub n: u32,
    /// `virtual` or `kernel`.
    pub engine: String,
}

impl RiskFigure {
    fn question(&self) -> Option<&'static RiskQuestion> {
        QUESTIONS.iter().find(|question| question.id == self.question)
    }

    /// The factor by which the figure is worse than Reno's. Below 1: better.
    fn harm(&self) -> f64 {
        self.question().map_or(0.0, |question| match question.worse {
            WorseOff::Lower => 1.0 / self.ratio,
            WorseOff::Higher => self.ratio,
        })
    }

    /// The level that this figure alone would give.
    pub fn level(&self) -> Level {
        match self.harm() {
            harm if harm >= HIGH_FROM => Level::High,
            harm if harm >= MEDIUM_FROM => Level::Medium,
            _ => Level::Low,
        }
    }

    /// The label, for example `throughput of a Reno flow beside it, queue 1bdp`.
    pub fn what(&self) -> String {
        let what = self.question().map_or(self.question.as_str(), |question| question.what);
        if self.at.is_empty() { what.to_owned() } else { format!("{what}, {}", self.at) }
    }

    /// The ratio with its interval, for example `0.27 (0.25 to 0.29)`.
    pub fn value(&self) -> String {
        let interval = self.ci95.map_or(String::new(), |[low, high]| format!(" ({low:.2} to {high:.2})"));
        format!("{:.2}{interval}", self.ratio)
    }

    pub fn sentence(&self) -> String {
        let Some(question) = self.question() else { return self.what() };
        let (unit, number): (_, fn(f64) -> String) = match question.worse {
            WorseOff::Lower => (" %", |ratio| format!("{:.0}", 100.0 * ratio)),
            WorseOff::Higher => (" times", |ratio| format!("{ratio:.2}")),
        };
        let interval = self.ci95.map_or(String::new(), |[low, high]| format!(" ({} to {})", number(low), number(high)));
        let at = if self.at.is_empty() { String::new() } else { format!(" ({})", self.at) };
        question.sentence.replace("{}", &format!("{}{unit}{interval}", number(self.ratio))) + &at
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskEntry {
    /// [`source::code_digest`] of the measured code. `None` for the kernel's own.
    pub code: Option<String>,
    pub figures: Vec<RiskFigure>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measurements {
    schema: u32,
    algorithms: BTreeMap<String, RiskEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Risk {
    pub level: Level,
    pub sentence: String,
    /// Whether the figures were measured with the embedded code.
    pub of_this_code: bool,
    /// Shape: in the order of [`QUESTIONS`]; empty if nothing was measured.
    pub figures: Vec<RiskFigure>,
}

impl Risk {
    pub fn of(algorithm: &Algorithm) -> Risk {
        let carried = super::all().iter().find(|carried| carried.id == algorithm.id);
        let is_carried = carried.is_some_and(|carried| carried.object == algorithm.object);
        match measured().get(&algorithm.id).filter(|_| is_carried) {
            Some(entry) => Risk::from(entry, &algorithm.id, algorithm.companion_of_both_ends().is_some()),
            None => Risk::unknown("nobody has measured its effect on other flows"),
        }
    }

    /// The risk with these settings. Figures exist only for the defaults.
    pub fn of_tuned(algorithm: &Algorithm, settings: &[Setting]) -> Risk {
        let differs = |setting: &&Setting| {
            let tunable = algorithm.tunables.iter().find(|tunable| tunable.name == setting.name);
            tunable.is_none_or(|tunable| tunable.default != setting.value)
        };
        match settings.iter().find(differs) {
            Some(Setting { name, value, .. }) => {
                Risk::unknown(&format!("nobody has measured its effect on other flows with {name} = {value}"))
            }
            None => Risk::of(algorithm),
        }
    }

    /// The risk of a loaded algorithm whose file is gone.
    pub fn gone() -> Risk {
        Risk::unknown("the file it was loaded from is gone")
    }

    fn unknown(sentence: &str) -> Risk {
        Risk { level: Level::NotMeasured, sentence: sentence.to_owned(), of_this_code: false, figures: Vec::new() }
    }

    fn from(entry: &RiskEntry, id: &str, has_companion: bool) -> Risk {
        let asked = QUESTIONS.iter().filter(|question| has_companion || question.id != FOR_COMPANIONS);
        let missing =
            asked.into_iter().find(|question| entry.figures.iter().all(|figure| figure.question != question.id));
        let worst = entry.figures.iter().max_by(|one, other| one.harm().total_cmp(&other.harm()));
        let (level, sentence) = match (missing, worst) {
            (None, Some(worst)) => (worst.level(), worst.sentence()),
            (Some(question), _) => (Level::NotMeasured, format!("one figure is missing: {}", question.what)),
            (None, None) => (Level::NotMeasured, String::new()),
        };
        let of_this_code = entry.code.is_none() || entry.code == source::code_digest(id);
        let mut figures = entry.figures.clone();
        figures.sort_by_key(|figure| QUESTIONS.iter().position(|question| question.id == figure.question));
        Risk { level, sentence, of_this_code, figures }
    }
}

/// The measurements by algorithm, including the kernel's own for comparison.
pub fn measured() -> &'static BTreeMap<String, RiskEntry> {
    static MEASUREMENTS: OnceLock<BTreeMap<String, RiskEntry>> = OnceLock::new();
    MEASUREMENTS.get_or_init(|| {
        let table: Measurements =
            serde_json::from_str(MEASURED).unwrap_or_else(|why| panic!("scenarios/safety/risk.json: {why}"));
        table.algorithms
    })
}
