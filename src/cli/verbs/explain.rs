//! `tccc explain`: which rule and arm decided a connection, and why.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::cli::output::OutputFormat;
use host::policy::change;
use host::policy::decide::{self, ConnectionView};
use host::policy::label::LabelOutcome;
use host::policy::migrate::{self, SocketDecision};
use host::policy::pins::PolicyPins;
use host::policy::record::{ArmSlot, GenerationRecord, PolicyRecord};
use host::policy::resolve;
use host::policy::rule::{Portion, Way};
use host::policy::table::{Resolved, RuleTables};
use host::state::Store;
use host::trial;
use shared::failure::Failure;
use shared::kernel::netns::Netns;
use shared::kernel::privilege::{self, Capability};
use shared::kernel::{cgroup, socket};

/// More cgroups than a host has.
const CGROUPS_MAX: usize = 100_000;

/// Show which rule of the policy decides a connection, and why
///
/// A process id shows all its connections; a process id with a descriptor shows one. A 5-tuple shows the open connection
/// between two ends. If there is none, it shows what the rules would choose for one with the given options. Changes
/// nothing.
///
/// Example: `tccc explain 812:12`, or `tccc explain tcp 10.0.0.1:443 192.0.2.7:51000 --direction in`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A process id, a process id and a descriptor, or `[tcp] LOCAL REMOTE` with ports
    #[arg(required = true, num_args = 1..=3, value_name = "PID[:FD]|5-TUPLE")]
    what: Vec<String>,
    /// For a connection that is not open: `in` if the remote end opens it, `out` if this host does
    #[arg(long, value_parser = ["in", "out"])]
    direction: Option<String>,
    /// For a connection that is not open: its cgroup, as a path below the mount point
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// For a connection that is not open: its network namespace by name, path or process id
    #[arg(long, value_name = "NETNS")]
    netns: Option<String>,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

enum ExplainTarget {
    Process { pid: u32, descriptor: Option<u32> },
    Ends { local: SocketAddr, remote: SocketAddr },
}

#[derive(Serialize)]
struct ExplainDocument {
    /// The generation whose rules decide about new connections now.
    generation: Option<u32>,
    /// Why a trial that is still attached no longer decides.
    over: Option<String>,
    connections: Vec<Explanation>,
}

#[derive(Serialize)]
struct Explanation {
    local: SocketAddr,
    remote: SocketAddr,
    is_open: bool,
    direction: Option<&'static str>,
    cgroup: Option<String>,
    netns: Option<u32>,
    algorithm: Option<String>,
    /// What a policy did when the connection was established; `None` if no policy labelled it.
    decided: Option<LabelLine>,
    /// What the current rules say.
    now: DecisionLine,
}

#[derive(Serialize)]
struct LabelLine {
    rule: String,
    arm: String,
    outcome: LabelOutcome,
    before: String,
}

#[derive(Default, Serialize)]
struct DecisionLine {
    rule: Option<String>,
    arm: Option<String>,
    share: Option<f64>,
    #[serde(skip)]
    portion: Option<Portion>,
    /// What the rule asks for and nobody said: `cgroup`, `network namespace`, `direction`, `algorithm`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    only_if: Vec<&'static str>,
    passed_over: Vec<SkippedRule>,
}

#[derive(Serialize)]
struct SkippedRule {
    rule: String,
    because: &'static str,
}

impl Args {
    /// # Errors
    /// A malformed argument; no such process, descriptor or namespace.
    pub fn run(&self) -> Result<()> {
        let target = self.target()?;
        privilege::require("explain a connection", &[Capability::SysAdmin])?;
        change::refuse_hidden()?;
        let generation = change::deciding()?;
        let connections = self.explanations(&target, generation.as_ref())?;
        let over = trial::lapsed()?;
        let document = ExplainDocument { generation: generation.map(|it| it.number), over, connections };
        self.output.print(&document, |out, document| {
            document.over.as_ref().map_or(Ok(()), |over| writeln!(out, "{over}"))?;
            if document.generation.is_none() {
                let none = if document.over.is_some() { "no rule decides now" } else { "there is no policy" };
                writeln!(out, "{none}: every connection has the algorithm that it chose, or the default")?;
            }
            document.connections.iter().try_for_each(|one| write(out, one))
        })
    }

    fn target(&self) -> Result<ExplainTarget, Failure> {
        let refuse = |text: &str| {
            Failure::usage(format!("\"{text}\" is not a process, a descriptor or a connection"))
                .hint("write `812`, `812:12`, or two ends with ports: `10.0.0.1:443 192.0.2.7:51000`")
        };
        let words: Vec<&str> = self.what.iter().map(String::as_str).filter(|word| *word != "tcp").collect();
        match words[..] {
            [process] => {
                let (pid, descriptor) = process.split_once(':').map_or((process, None), |(pid, fd)| (pid, Some(fd)));
                let pid = pid.parse().map_err(|_| refuse(process))?;
                let descriptor = descriptor.map(|fd| fd.parse().map_err(|_| refuse(process))).transpose()?;
                Ok(ExplainTarget::Process { pid, descriptor })
            }
            [local, remote] => {
                // Connections are listed with an IPv4 address instead of its mapped IPv6 form.
                let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
                let end = |text: &str| text.parse().map(canonical).map_err(|_| refuse(text));
                Ok(ExplainTarget::Ends { local: end(local)?, remote: end(remote)? })
            }
            _ => Err(refuse(&self.what.join(" "))),
        }
    }

    fn explanations(&self, target: &ExplainTarget, generation: Option<&GenerationRecord>) -> Result<Vec<Explanation>> {
        let policy = PolicyOnHost::look(generation)?;
        let open = |is_it: &dyn Fn(&SocketDecision) -> bool| -> Vec<Explanation> {
            policy.sights.iter().filter(|sight| is_it(sight)).map(|sight| policy.open(sight)).collect()
        };
        match *target {
            ExplainTarget::Process { pid, descriptor } => {
                let cookies = socket::cookies_of(pid, descriptor)?;
                let found = open(&|sight| cookies.contains(&sight.cookie));
                if found.is_empty() {
                    let what = match descriptor {
                        Some(fd) => format!("descriptor {fd} of process {pid} is not an open TCP connection"),
                        None => format!("process {pid} has no open TCP connection"),
                    };
                    return Err(Failure::failed(what).hint("`tccc sockets` shows every connection").into());
                }
                Ok(found)
            }
            ExplainTarget::Ends { local, remote } => {
                let open = open(&|sight| (sight.local, sight.remote) == (local, remote));
                Ok(if open.is_empty() { vec![self.imagined(local, remote, &policy)?] } else { open })
            }
        }
    }

    /// A connection that is not open, as the options describe it.
    fn imagined(&self, local: SocketAddr, remote: SocketAddr, policy: &PolicyOnHost) -> Result<Explanation> {
        let netns = self.netns.as_deref().map(Netns::find).transpose()?;
        let connection = ConnectionView {
            local,
            remote,
            way: self.direction.as_deref().map(|text| if text == "in" { Way::In } else { Way::Out }),
            cgroup: self.cgroup.as_deref().map(below_mount).transpose()?,
            netns_cookie: netns.as_ref().map(Netns::cookie).transpose()?,
            algorithm: None,
        };
        Ok(policy.explain(connection, netns.map(|netns| netns.inode()), None))
    }
}

/// The path of a cgroup as rules write it.
///
/// # Errors
/// There is no such cgroup.
fn below_mount(path: &str) -> Result<String> {
    let whole = cgroup::resolve(Path::new(path))?;
    let below = whole.strip_prefix(cgroup::mount_point()?).unwrap_or(&whole);
    Ok(format!("/{}", below.display()))
}

struct PolicyOnHost<'a> {
    generation: Option<&'a GenerationRecord>,
    resolved: Resolved,
    slots: Vec<ArmSlot>,
    sights: Vec<SocketDecision>,
    cgroups: HashMap<u64, String>,
}

impl<'a> PolicyOnHost<'a> {
    fn look(generation: Option<&'a GenerationRecord>) -> Result<Self> {
        let record = PolicyRecord::read(&Store::of_host())?;
        let resolved =
            generation.map(|it| resolve::resolve_present(&it.policy, &record)).transpose()?.unwrap_or_default();
        let sights = match (generation, PolicyPins::of_host()) {
            (Some(generation), Some(pins)) => {
                let tables = RuleTables::of(&generation.policy, &resolved);
                migrate::look(&tables, Some(&change::shared(&pins, generation.number)?))?
            }
            _ => migrate::look(&RuleTables::default(), None)?,
        };
        let cgroups = cgroup::paths(CGROUPS_MAX).unwrap_or_default().into_iter().collect();
        Ok(PolicyOnHost { generation, resolved, slots: record.slots, sights, cgroups })
    }

    fn open(&self, sight: &SocketDecision) -> Explanation {
        let connection = ConnectionView {
            local: sight.local,
            remote: sight.remote,
            way: Some(if sight.is_in { Way::In } else { Way::Out }),
            cgroup: self.cgroups.get(&sight.cgroup).cloned(),
            netns_cookie: Some(sight.netns_cookie),
            algorithm: Some(sight.without_policy().to_owned()),
        };
        self.explain(connection, Some(sight.netns), Some(sight))
    }

    fn explain(&self, connection: ConnectionView, netns: Option<u32>, sight: Option<&SocketDecision>) -> Explanation {
        let label = sight.and_then(|sight| sight.label.as_ref());
        let decided = label.and_then(|label| {
            let ArmSlot { rule, arm } = self.slots.get((label.slot as usize).checked_sub(1)?)?.clone();
            Some(LabelLine { rule, arm, outcome: label.outcome, before: label.before.clone() })
        });
        Explanation {
            is_open: sight.is_some(),
            direction: connection.way.map(Into::into),
            netns,
            algorithm: sight.map(|sight| sight.algorithm.clone()),
            decided,
            now: self.decide_now(&connection),
            local: connection.local,
            remote: connection.remote,
            cgroup: connection.cgroup,
        }
    }

    fn decide_now(&self, connection: &ConnectionView) -> DecisionLine {
        let Some(generation) = self.generation else { return DecisionLine::default() };
        let decision = decide::decide(&generation.policy, connection, &self.resolved);
        let over = decision.passed_over.iter();
        DecisionLine {
            rule: decision.decided.map(|(rule, _)| rule.name.clone()),
            arm: decision.decided.map(|(_, arm)| arm.treatment.to_string()),
            share: decision.decided.map(|(_, arm)| arm.portion.fraction()),
            portion: decision.decided.map(|(_, arm)| arm.portion),
            only_if: decision.decided.map_or(Vec::new(), |(rule, _)| decide::unknown(&rule.when, connection)),
            passed_over: over.map(|(rule, why)| SkippedRule { rule: rule.name.clone(), because: why }).collect(),
        }
    }
}

fn write(out: &mut impl Write, one: &Explanation) -> io::Result<()> {
    let arrow = match one.direction {
        Some("in") => "<-",
        Some(_) => "->",
        None => "--",
    };
    let state = if one.is_open { "" } else { "  (not open)" };
    writeln!(out, "{} {arrow} {}{state}", one.local, one.remote)?;
    let mut line = |name: &str, text: String| writeln!(out, "  {name:<11} {text}");
    if let Some(algorithm) = &one.algorithm {
        line("algorithm", algorithm.clone())?;
    }
    if let Some(LabelLine { rule, arm, outcome, before }) = &one.decided {
        let what = match outcome {
            LabelOutcome::Set => format!("; had {before} before"),
            LabelOutcome::Kept => String::new(),
            LabelOutcome::Locked => ", refused by the kernel: its route locks the algorithm".to_owned(),
            LabelOutcome::Missing => ", refused by the kernel: not registered at that moment".to_owned(),
            LabelOutcome::Chosen | LabelOutcome::Routed | LabelOutcome::Failed => ", which was not applied".to_owned(),
        };
        line("decided by", format!("rule \"{rule}\", arm {arm}{what}"))?;
    } else if one.is_open {
        let none =
            "no rule: it is older than the policy, or its program or route chose (`override = true` replaces that)";
        line("decided by", none.to_owned())?;
    }
    match (&one.now.rule, &one.now.arm, one.now.portion) {
        (Some(rule), Some(arm), Some(portion)) => {
            line("the rules", format!("rule \"{rule}\" gives arm {arm}, {portion} of its connections"))?;
            if !one.now.only_if.is_empty() {
                let only_if = one.now.only_if.join(" and ");
                line("", format!("only if its {only_if} fit the rule; options say what they are"))?;
            }
        }
        _ => line("the rules", "no rule matches".to_owned())?,
    }
    for over in &one.now.passed_over {
        line("", format!("rule \"{}\" {}", over.rule, over.because))?;
    }
    one.cgroup.iter().try_for_each(|cgroup| line("cgroup", cgroup.clone()))
}
