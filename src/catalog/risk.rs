//! What an algorithm does to its neighbours and on difficult paths, as `cargo xtask risk` measured it.
//!
//! Each question is one scenario of `scenarios/safety`; its figure is a ratio to Reno (beside CUBIC: to CUBIC) with its
//! interval. `scenarios/safety/README.md` gives the rule by which figures become low, medium or high, with its reasons.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use strum::Display;

use super::source;
use super::{Algorithm, Setting};

#[cfg(test)]
mod tests;

static MEASURED: &str = include_str!("../../scenarios/safety/risk.json");
/// A figure that is worse than Reno's by this factor makes the risk medium.
pub const MEDIUM_FROM: f64 = 1.25;
/// A figure that is worse than Reno's by this factor makes the risk high.
pub const HIGH_FROM: f64 = 2.0;

/// How much an operator risks who gives an algorithm to connections that did not ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Level {
    /// No figure is worse than Reno's by [`MEDIUM_FROM`].
    Low,
    /// At least one is, none by [`HIGH_FROM`].
    Medium,
    /// At least one is worse by [`HIGH_FROM`].
    High,
    /// A question has no figure.
    #[serde(rename = "not measured")]
    #[strum(serialize = "not measured")]
    NotMeasured,
}

impl Level {
    /// Nobody gets it unasked without a word from the operator.
    pub fn counts_as_high(self) -> bool {
        matches!(self, Level::High | Level::NotMeasured)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorseOff {
    /// The smaller, the worse: a throughput.
    Lower,
    /// The larger, the worse: a time, a number of lost packets.
    Higher,
}

/// A question about every algorithm: one scenario.
#[derive(Debug, PartialEq, Eq)]
pub struct Question {
    /// Stem of its file in `scenarios/safety`.
    pub id: &'static str,
    pub worse: WorseOff,
    /// What the ratio is of, in a table.
    pub what: &'static str,
    /// The finding as a sentence; `{}` stands for the ratio.
    pub sentence: &'static str,
    /// It is asked of algorithms with a companion program alone.
    pub companion_only: bool,
}

/// The questions, those about neighbours first.
pub static QUESTIONS: [Question; 10] = [
    Question {
        id: "beside-reno",
        worse: WorseOff::Lower,
        what: "throughput of a Reno flow beside it",
        sentence: "a Reno flow beside it keeps {} of what another Reno flow would leave it",
        companion_only: false,
    },
    Question {
        id: "beside-cubic",
        worse: WorseOff::Lower,
        what: "throughput of a CUBIC flow beside it",
        sentence: "a CUBIC flow beside it keeps {} of what another CUBIC flow would leave it",
        companion_only: false,
    },
    Question {
        id: "beside-three",
        worse: WorseOff::Lower,
        what: "throughput of three Reno flows beside it, 0.3 % loss",
        sentence: "on a path that loses packets, three Reno flows beside it keep {} of what a fourth would leave them",
        companion_only: false,
    },
    Question {
        id: "ecn",
        worse: WorseOff::Lower,
        what: "throughput of a Reno flow beside it, ECN",
        sentence: "where the queue marks packets, a Reno flow beside it keeps {} of what another Reno flow would leave it",
        companion_only: false,
    },
    Question {
        id: "short-flows",
        worse: WorseOff::Higher,
        what: "time of short flows beside it",
        sentence: "short flows beside it take {} as long as beside Reno",
        companion_only: false,
    },
    Question {
        id: "responses",
        worse: WorseOff::Higher,
        what: "time of its own responses of 10 packets",
        sentence: "its own responses of ten packets take {} as long as Reno's",
        companion_only: false,
    },
    Question {
        id: "route",
        worse: WorseOff::Lower,
        what: "own throughput, route of 20 to 80 ms and back",
        sentence: "when its route gets longer it carries {} of what Reno does",
        companion_only: false,
    },
    Question {
        id: "rate",
        worse: WorseOff::Lower,
        what: "own throughput, rate to a quarter and back",
        sentence: "when the rate falls to a quarter and comes back it carries {} of what Reno does",
        companion_only: false,
    },
    Question {
        id: "access-line",
        worse: WorseOff::Higher,
        what: "own lost packets, 2 Mbit/s access line",
        sentence: "on an access line of 2 Mbit/s it loses {} as many packets as Reno",
        companion_only: false,
    },
    Question {
        id: "peer",
        worse: WorseOff::Higher,
        what: "time of its transfers to a peer without its option",
        sentence: "to a peer without its option a transfer takes {} as long as Reno's",
        companion_only: true,
    },
];

impl Question {
    /// By how much a ratio is worse than 1; below 1 it is better.
    pub fn harm(&self, ratio: f64) -> f64 {
        match self.worse {
            WorseOff::Lower => 1.0 / ratio,
            WorseOff::Higher => ratio,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskFigure {
    pub question: String,
    /// The cell of its scenario: `queue 1bdp`; empty where it has one cell.
    pub at: String,
    /// To Reno's, or CUBIC's beside CUBIC.
    pub ratio: f64,
    /// Its 95 % interval; none under three runs, or where Reno's own value may be 0.
    pub ci95: Option<[f64; 2]>,
    /// Runs.
    pub n: u32,
    /// The engine of the runs: `virtual` or `kernel`.
    pub engine: String,
}

impl RiskFigure {
    fn question(&self) -> Option<&'static Question> {
        QUESTIONS.iter().find(|question| question.id == self.question)
    }

    /// By how much it is worse than 1; see [`Question::harm`].
    pub fn harm(&self) -> f64 {
        self.question().map_or(0.0, |question| question.harm(self.ratio))
    }

    /// The level that it alone gives.
    pub fn level(&self) -> Level {
        match self.harm() {
            harm if harm >= HIGH_FROM => Level::High,
            harm if harm >= MEDIUM_FROM => Level::Medium,
            _ => Level::Low,
        }
    }

    /// What it is of: `throughput of a Reno flow beside it, queue 1bdp`.
    pub fn what(&self) -> String {
        let what = self.question().map_or(self.question.as_str(), |question| question.what);
        if self.at.is_empty() { what.to_owned() } else { format!("{what}, {}", self.at) }
    }

    /// The ratio with its interval: `0.27 (0.25 to 0.29)`.
    pub fn value(&self) -> String {
        let interval = self.ci95.map_or(String::new(), |[low, high]| format!(" ({low:.2} to {high:.2})"));
        format!("{:.2}{interval}", self.ratio)
    }

    pub fn sentence(&self) -> String {
        let Some(question) = self.question() else { return self.what() };
        let (scale, unit) = match question.worse {
            WorseOff::Lower => (100.0, " %"),
            WorseOff::Higher => (1.0, " times"),
        };
        let number = |ratio: f64| match question.worse {
            WorseOff::Lower => format!("{:.0}", ratio * scale),
            WorseOff::Higher => format!("{ratio:.2}"),
        };
        let interval = self.ci95.map_or(String::new(), |[low, high]| format!(" ({} to {})", number(low), number(high)));
        let at = if self.at.is_empty() { String::new() } else { format!(" ({})", self.at) };
        question.sentence.replace("{}", &format!("{}{unit}{interval}", number(self.ratio))) + &at
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskEntry {
    /// [`source::code_digest`] of what was measured; none for the kernel's own.
    pub code: Option<String>,
    /// Shape: any order.
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
    /// Whether the figures are of the code that this program carries.
    pub of_this_code: bool,
    /// Shape: in the order of [`QUESTIONS`]; empty where nothing was measured.
    pub figures: Vec<RiskFigure>,
}

impl Risk {
    pub fn of(algorithm: &Algorithm) -> Risk {
        let carried = super::all().iter().find(|carried| carried.id == algorithm.id);
        let is_carried = carried.is_some_and(|carried| carried.object == algorithm.object);
        match measured().get(&algorithm.id).filter(|_| is_carried) {
            Some(entry) => Risk::from(entry, &algorithm.id, algorithm.companion.is_some()),
            None => Risk::unknown("nobody has measured what it does to its neighbours"),
        }
    }

    /// Of an algorithm whose tunables are set: the figures are those of the defaults alone.
    pub fn of_tuned(algorithm: &Algorithm, settings: &[Setting]) -> Risk {
        let differs = |setting: &&Setting| {
            let tunable = algorithm.tunables.iter().find(|tunable| tunable.name == setting.name);
            tunable.is_none_or(|tunable| tunable.default != setting.value)
        };
        match settings.iter().find(differs) {
            Some(Setting { name, value, .. }) => {
                Risk::unknown(&format!("nobody has measured what it does to its neighbours with {name} = {value}"))
            }
            None => Risk::of(algorithm),
        }
    }

    /// Of what is loaded from a file that can be read no more.
    pub fn gone() -> Risk {
        Risk::unknown("what it was loaded from is gone")
    }

    fn unknown(sentence: &str) -> Risk {
        Risk { level: Level::NotMeasured, sentence: sentence.to_owned(), of_this_code: false, figures: Vec::new() }
    }

    fn from(entry: &RiskEntry, id: &str, has_companion: bool) -> Risk {
        let asked = QUESTIONS.iter().filter(|question| has_companion || !question.companion_only);
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

/// What was measured, by algorithm; the kernel's own too, for comparison.
pub fn measured() -> &'static BTreeMap<String, RiskEntry> {
    static MEASUREMENTS: OnceLock<BTreeMap<String, RiskEntry>> = OnceLock::new();
    MEASUREMENTS.get_or_init(|| {
        let table: Measurements =
            serde_json::from_str(MEASURED).unwrap_or_else(|why| panic!("scenarios/safety/risk.json: {why}"));
        table.algorithms
    })
}
