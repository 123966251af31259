//! A scenario: one TOML file that says what is measured on which path, and what others published about it.
//!
//! `scenarios/REFERENCE.md` describes the file for those who write one. Reading is strict: every mistake is named with
//! its file, line, field and what is allowed there.

mod bottleneck;
mod document;
mod measurable;
mod ns2;
mod virtual_time;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use self::document::Purpose;
use crate::bounded;
use crate::failure::Failure;
use crate::model::run::{At, Engine, compared_unless_said};
use crate::path::{Direction, LinkConfig};
use crate::units::{BitsPerSec, Bytes, Share, duration_text, some_duration_text};
use crate::written::Mistake;

pub use document::{DifferenceSpec, Draw, FigureSpec, Places, TIME};
pub use document::{Expected, Goal, Of, Published, ReportSpec, SelectionSpec, Source};
pub use ns2::Ns2Spec;
pub use virtual_time::{VIRTUAL_MAX, VirtualSpec};

/// Sweep variable that names the bundles of `[variant.NAME]`.
pub const VARIANT: &str = "variant";
/// Sweep variable by which scenarios without variants compare algorithms.
pub const ALGORITHM: &str = "algorithm";

/// Under which socket conditions a scenario runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The conditions of the papers' simulator, as far as a kernel can give them
    #[default]
    Paper,
    /// The kernel's own defaults
    Native,
}

impl Profile {
    /// The word scenarios, options and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Paper => "paper",
            Profile::Native => "native",
        }
    }
}

/// A single mistake is one of a scenario: other files have all of theirs reported at once.
impl From<Box<Mistake>> for Failure {
    fn from(mistake: Box<Mistake>) -> Failure {
        let failure = Failure::usage(mistake.to_string());
        let hint = mistake.hint.unwrap_or_else(|| format!("{} lists every field", document::REFERENCE));
        failure.hint(hint)
    }
}

/// A link of the path: which nodes it joins and what each direction does to packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// The two nodes.
    pub ends: [String; 2],
    /// From the first end to the second, and back. Seeds are 0 here; each run has its own.
    pub directions: [Direction; 2],
}

impl LinkSpec {
    /// The link's name in results: `s-r`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.ends[0], self.ends[1])
    }

    /// The link as a driver builds it.
    pub fn config(&self, mtu: u32) -> LinkConfig {
        LinkConfig { directions: self.directions.clone(), mtu }
    }
}

/// A transfer between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Unique in the scenario.
    pub name: String,
    /// Node that sends.
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// Catalogue id, or the kernel's name of one of its own algorithms.
    pub algorithm: String,
    /// Whether it is what the sweep compares: it is of the variant, or it runs the swept algorithm. All are where
    /// nothing is compared.
    #[serde(default = "compared_unless_said")]
    pub compared: bool,
    /// Tunables of a catalogue algorithm that differ from its defaults.
    pub tunables: BTreeMap<String, String>,
    /// Largest cwnd, packets; as in the papers' simulator also the initial ssthresh.
    pub window_cap: Option<u32>,
    /// Initial ssthresh, packets, without a cap.
    pub initial_ssthresh: Option<u32>,
    /// Initial cwnd, packets.
    pub initial_cwnd: Option<u32>,
    /// Whether it asks for selective acknowledgements; Reno without them is NewReno.
    #[serde(default = "is_on")]
    pub tcp_sack: bool,
    /// Whether it asks for explicit congestion notification.
    #[serde(default)]
    pub ecn: bool,
    /// When it starts, from the start of the run.
    #[serde(with = "duration_text")]
    pub start: Duration,
    /// How long it sends; none until the run ends or all is sent.
    #[serde(default, with = "some_duration_text")]
    pub duration: Option<Duration>,
    /// What it sends.
    #[serde(default)]
    pub sends: Sends,
}

/// What a flow sends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sends {
    /// As much as its algorithm lets it, over one TCP connection.
    #[default]
    Bulk,
    /// So many bytes over a TCP connection of their own, so many times.
    Transfers {
        /// Payload of each connection.
        size: Bytes,
        /// How many connections.
        count: u32,
        /// From the start of one to the start of the next, whether that one is done or not.
        #[serde(with = "duration_text")]
        interval: Duration,
    },
    /// So many bytes, so many times, over one TCP connection that stays open between them.
    Messages {
        /// Payload of each.
        size: Bytes,
        /// How many.
        count: u32,
        /// From the start of one to the start of the next.
        #[serde(with = "duration_text")]
        interval: Duration,
    },
    /// UDP packets at a constant rate.
    Datagrams {
        /// Rate in whole IP packets.
        rate: BitsPerSec,
        /// Length of each IP packet.
        packet_bytes: u32,
    },
}

/// What stands for the algorithm of a flow that has none.
pub const UDP: &str = "udp";

fn is_on() -> bool {
    true
}

impl FlowSpec {
    /// Whether it has an algorithm.
    pub fn is_tcp(&self) -> bool {
        !matches!(self.sends, Sends::Datagrams { .. })
    }

    /// How many connections, or sockets, it takes.
    pub fn connections(&self) -> u32 {
        match self.sends {
            Sends::Transfers { count, .. } => count,
            _ => 1,
        }
    }

    /// How long it may send in a run of this length.
    pub fn length(&self, run: Duration) -> Duration {
        self.duration.unwrap_or(run.saturating_sub(self.start))
    }

    /// Whether it is the flow that the file calls so, or a copy of it.
    pub fn is_of(&self, written: &str) -> bool {
        is_copy_or_itself(&self.name, written)
    }
}

/// Whether a flow is the one of that name, or one of its numbered copies.
fn is_copy_or_itself(flow: &str, written: &str) -> bool {
    let number = flow.strip_prefix(written).and_then(|rest| rest.strip_prefix('-'));
    flow == written || number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// A sweep variable and the values it takes, in the file's order, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Name, as `$name` refers to it.
    pub name: String,
    /// Values as written.
    pub values: Vec<String>,
}

/// One combination of the sweep with everything resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Sweep variable to value.
    pub at: At,
    /// Length of one run.
    #[serde(with = "duration_text")]
    pub duration: Duration,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// The path.
    pub links: Vec<LinkSpec>,
    /// The transfers.
    pub flows: Vec<FlowSpec>,
}

impl Cell {
    /// The label of one flow in comparisons: its variant, else its algorithm with its changed tunables.
    pub fn label(&self, flow: &FlowSpec) -> String {
        if let Some(variant) = self.at.get(VARIANT).filter(|_| flow.compared) {
            return variant.clone();
        }
        if flow.tunables.is_empty() {
            return flow.algorithm.clone();
        }
        let changed: Vec<String> = flow.tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} {}", flow.algorithm, changed.join(" "))
    }
}

/// A file that a scenario names: a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioFile {
    /// Its path from the scenario's folder, never out of it.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// A scenario that reads without mistakes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenario {
    /// The file as it was given, for mistakes that are found later.
    pub file: String,
    /// File stem: `loss-sweep`.
    pub name: String,
    /// The file's text, copied into every result directory.
    pub text: String,
    /// The files it names, copied beside it.
    pub files: Vec<ScenarioFile>,
    /// One line for headings.
    pub title: String,
    /// What the scenario shows, one sentence.
    pub claim: String,
    /// Socket conditions, unless the command says otherwise.
    pub profile: Profile,
    /// Runs per cell.
    pub runs: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Interval of the traced samples.
    pub sample: Duration,
    /// Where the published numbers come from.
    pub source: Option<Source>,
    /// What varies; the last variable varies fastest.
    pub sweep: Vec<Variable>,
    /// What the report shows.
    pub report: ReportSpec,
    /// The parameter to choose, where the scenario is a sweep to choose one.
    pub selection: Option<SelectionSpec>,
    /// How the simulator ns-2 runs it, where it can.
    pub ns2: Option<Ns2Spec>,
    /// What virtual time adds.
    pub virtual_time: VirtualSpec,
    /// Numbers of the source.
    pub published: Vec<Published>,
    /// Numbers a faithful implementation should give, with the reason.
    pub expected: Vec<Expected>,
    /// What the report draws; without any, every metric over the sweep and the windows over time.
    pub figures: Vec<FigureSpec>,
    /// Known reasons why numbers differ from published ones.
    pub differences: Vec<DifferenceSpec>,
    /// Every combination of the sweep.
    pub cells: Vec<Cell>,
}

/// Largest scenario, bytes.
const BYTES_MAX: u64 = 16 << 20;

impl Scenario {
    /// Reads a scenario from a file, to run it by an engine.
    ///
    /// Errors: the file cannot be read; any mistake in it, as a usage failure that names file, line and field.
    pub fn load(path: &Path, engine: Engine) -> Result<Scenario> {
        let file = path.display().to_string();
        let bytes = match bounded::read(path, BYTES_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let what = format!("no scenario \"{}\": no such file", path.display());
                return Err(Failure::usage(what).hint("`ls scenarios` shows those that come with tccc").into());
            }
            Err(error) if error.raw_os_error().is_none() => {
                let what = format!("cannot read the scenario \"{}\": {error}", path.display());
                return Err(Failure::usage(what).hint("name a TOML file, such as one below scenarios/").into());
            }
            other => other.with_context(|| format!("read the scenario \"{}\"", path.display()))?,
        };
        let text = str::from_utf8(&bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            let expected = "expected a TOML file, which is text in UTF-8".to_owned();
            let (file, field) = (file.clone(), String::new());
            Failure::from(Box::new(Mistake { file, line: Some(line), field, given: None, expected, hint: None }))
        })?;
        Ok(document::parse(&file, text, Purpose::Run(engine)).map_err(Failure::from)?)
    }

    /// Reads a scenario from its text; `file` is only named in errors.
    ///
    /// Errors: the first mistake found.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, Box<Mistake>> {
        document::parse(file, text, Purpose::Report)
    }

    /// What a file holds that the scenario names; nothing where it names none of that name.
    pub fn text_of(&self, name: &str) -> &str {
        self.files.iter().find(|file| file.name == name).map_or("", |file| &file.text)
    }

    /// The variable along which results are compared: `variant`, else `algorithm`, else none.
    pub fn series_variable(&self) -> Option<&str> {
        let names = || self.sweep.iter().map(|variable| variable.name.as_str());
        names().find(|&name| name == VARIANT).or_else(|| names().find(|&name| name == ALGORITHM))
    }

    /// The values of a sweep variable, in the file's order; empty when it is not swept.
    pub fn values_of(&self, variable: &str) -> &[String] {
        self.sweep.iter().find(|v| v.name == variable).map_or(&[], |v| &v.values)
    }
}

/// Tolerance of a verdict where the scenario states none: one 100 s run with random loss scatters by about 8 %.
pub const DEFAULT_TOLERANCE: Share = Share(0.10);

#[cfg(test)]
mod tests;
