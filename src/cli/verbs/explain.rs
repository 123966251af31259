//! `tccc explain`: which rule and arm decided a connection, and why.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::capabilities;
use crate::cli::output::Format;
use crate::failure::Failure;
use crate::kernel::netns::Netns;
use crate::kernel::privilege::{self, Capability};
use crate::kernel::{cgroup, socket};
use crate::policy::change;
use crate::policy::decide::{self, ConnectionView, Decision};
use crate::policy::label::LabelOutcome;
use crate::policy::pins::PolicyPins;
use crate::policy::record::{ArmSlot, GenerationRecord, PolicyRecord};
use crate::policy::resolve;
use crate::policy::rule::{Portion, Way};
use crate::policy::sweep::{self, Sight};
use crate::policy::table::{Resolved, RuleTables};
use crate::state::Store;

/// What looking at the sockets of every network namespace takes.
const RIGHTS: [Capability; 1] = [Capability::SysAdmin];
/// More cgroups than a host has.
const CGROUPS_MAX: usize = 100_000;

/// Show which rule of the policy decides a connection, and why
///
/// A process id shows each of its connections; with a descriptor after it, that one. A 5-tuple shows the open connection
/// between two ends; where there is none, it shows what the rules would choose for one with the given options.
///
/// Example: `tccc explain 812:12`, or `tccc explain tcp 10.0.0.1:443 192.0.2.7:51000 --direction in`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("explain", ""))]
pub struct Args {
    /// A process id, a process id and a descriptor, or `[tcp] LOCAL REMOTE` with ports
    #[arg(required = true, num_args = 1..=3, value_name = "PID[:FD]|5-TUPLE")]
    what: Vec<String>,
    /// For a connection that is not open: which end begins it
    #[arg(long, value_parser = ["in", "out"])]
    direction: Option<String>,
    /// For a connection that is not open: its cgroup, by the path below the mount
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// For a connection that is not open: its network namespace by name, path or process id
    #[arg(long, value_name = "NETNS")]
    netns: Option<String>,
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

enum Asked {
    Process { pid: u32, descriptor: Option<u32> },
    Ends { local: SocketAddr, remote: SocketAddr },
}

#[derive(Serialize)]
struct Document {
    generation: Option<u32>,
    connections: Vec<Explained>,
}

#[derive(Serialize)]
struct Explained {
    local: SocketAddr,
    remote: SocketAddr,
    is_open: bool,
    direction: Option<&'static str>,
    cgroup: Option<String>,
    netns: Option<u32>,
    algorithm: Option<String>,
    /// What a policy did when it was established; none where no policy labelled it.
    decided: Option<Decided>,
    /// What the rules say now.
    now: Now,
}

#[derive(Serialize)]
struct Decided {
    rule: String,
    arm: String,
    outcome: LabelOutcome,
    before: String,
}

#[derive(Serialize)]
struct Now {
    rule: Option<String>,
    arm: Option<String>,
    share: Option<f64>,
    #[serde(skip)]
    portion: Option<Portion>,
    passed_over: Vec<PassedOver>,
}

#[derive(Serialize)]
struct PassedOver {
    rule: String,
    because: &'static str,
}

impl Args {
    /// Explains.
    ///
    /// Errors: no such process, descriptor or namespace; another text.
    pub fn run(&self) -> Result<()> {
        let asked = self.asked()?;
        privilege::require("explain a connection", &RIGHTS)?;
        let generation = change::current()?;
        let connections = self.explained(&asked, generation.as_ref())?;
        let document = Document { generation: generation.map(|it| it.number), connections };
        self.output.print(&document, |out, document| {
            if document.generation.is_none() {
                let what = "there is no policy: every connection has the algorithm that it chose, or the default";
                writeln!(out, "{what}")?;
            }
            document.connections.iter().try_for_each(|one| write(out, one))
        })
    }

    fn asked(&self) -> Result<Asked, Failure> {
        let refuse = |text: &str| {
            Failure::usage(format!("\"{text}\" is no process, descriptor or connection"))
                .hint("write `812`, `812:12`, or two ends with ports: `10.0.0.1:443 192.0.2.7:51000`")
        };
        let words: Vec<&str> = self.what.iter().map(String::as_str).filter(|word| *word != "tcp").collect();
        match words[..] {
            [process] => {
                let (pid, descriptor) = process.split_once(':').map_or((process, None), |(pid, fd)| (pid, Some(fd)));
                let pid = pid.parse().map_err(|_| refuse(process))?;
                let descriptor = descriptor.map(|fd| fd.parse().map_err(|_| refuse(process))).transpose()?;
                Ok(Asked::Process { pid, descriptor })
            }
            [local, remote] => {
                let end = |text: &str| text.parse::<SocketAddr>().map(canonical).map_err(|_| refuse(text));
                Ok(Asked::Ends { local: end(local)?, remote: end(remote)? })
            }
            _ => Err(refuse(&self.what.join(" "))),
        }
    }

    fn explained(&self, asked: &Asked, generation: Option<&GenerationRecord>) -> Result<Vec<Explained>> {
        let host = Host::look(generation)?;
        let found: Vec<Explained> = match asked {
            Asked::Process { pid, descriptor } => {
                let cookies = socket::cookies_of(*pid, *descriptor)?;
                let sights = host.sights.iter().filter(|sight| cookies.contains(&sight.cookie));
                let found: Vec<Explained> = sights.map(|sight| host.open(sight)).collect();
                if found.is_empty() {
                    let what = match descriptor {
                        Some(fd) => format!("descriptor {fd} of process {pid} is no open TCP connection"),
                        None => format!("process {pid} has no open TCP connection"),
                    };
                    return Err(Failure::failed(what).hint("`tccc sockets` shows every connection").into());
                }
                found
            }
            Asked::Ends { local, remote } => {
                let is_it = |sight: &&Sight| sight.local == *local && sight.remote == *remote;
                let open: Vec<Explained> = host.sights.iter().filter(is_it).map(|sight| host.open(sight)).collect();
                if open.is_empty() { vec![self.imagined(*local, *remote, &host)?] } else { open }
            }
        };
        Ok(found)
    }

    /// A connection that is not open, as far as the options tell of it.
    fn imagined(&self, local: SocketAddr, remote: SocketAddr, host: &Host) -> Result<Explained> {
        let netns = self.netns.as_deref().map(Netns::find).transpose()?;
        let cgroup = self.cgroup.as_ref().map(|path| below_mount(Path::new(path))).transpose()?;
        let way = self.direction.as_deref().map(|text| if text == "in" { Way::In } else { Way::Out });
        let connection = ConnectionView {
            local,
            remote,
            way,
            cgroup,
            netns_cookie: netns.as_ref().map(Netns::cookie).transpose()?,
            algorithm: None,
        };
        let netns = netns.map(|netns| netns.inode());
        Ok(host.explain(&connection, netns, None))
    }
}

/// An IPv4 address in its IPv6 form is the IPv4 address, as in everything that is shown of a connection.
fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

/// The path of a cgroup as rules write it.
///
/// Errors: there is no such cgroup.
fn below_mount(path: &Path) -> Result<String> {
    let whole = cgroup::resolve(path)?;
    let below = whole.strip_prefix(cgroup::mount_point()?).unwrap_or(&whole);
    Ok(format!("/{}", below.display()))
}

/// What there is on this host to explain by.
struct Host<'a> {
    generation: Option<&'a GenerationRecord>,
    resolved: Resolved,
    slots: Vec<ArmSlot>,
    sights: Vec<Sight>,
    cgroups: HashMap<u64, String>,
}

impl<'a> Host<'a> {
    fn look(generation: Option<&'a GenerationRecord>) -> Result<Self> {
        let record = PolicyRecord::read(&Store::of_host())?;
        let resolved =
            generation.map(|it| resolve::resolve_present(&it.policy, &record)).transpose()?.unwrap_or_default();
        let sights = match (generation, PolicyPins::of_host()) {
            (Some(generation), Some(pins)) => {
                let tables = RuleTables::of(&generation.policy, &resolved);
                sweep::look(&tables, Some(&change::shared(&pins, generation.number)?))?
            }
            _ => sweep::look(&RuleTables::default(), None)?,
        };
        let cgroups = cgroup::paths(CGROUPS_MAX).unwrap_or_default().into_iter().collect();
        Ok(Host { generation, resolved, slots: record.slots, sights, cgroups })
    }

    fn open(&self, sight: &Sight) -> Explained {
        let label = sight.label.as_ref();
        let before = label.filter(|label| label.outcome == LabelOutcome::Set).map(|label| label.before.clone());
        let connection = ConnectionView {
            local: sight.local,
            remote: sight.remote,
            way: Some(if sight.is_in { Way::In } else { Way::Out }),
            cgroup: self.cgroups.get(&sight.cgroup).cloned(),
            netns_cookie: Some(sight.netns_cookie),
            algorithm: Some(before.unwrap_or_else(|| sight.algorithm.clone())),
        };
        self.explain(&connection, Some(sight.netns), Some(sight))
    }

    fn explain(&self, connection: &ConnectionView, netns: Option<u32>, sight: Option<&Sight>) -> Explained {
        let verdict = self.generation.map(|it| decide::decide(&it.policy, connection, &self.resolved));
        let label = sight.and_then(|sight| sight.label.as_ref());
        let decided = label.and_then(|label| {
            let slot = self.slots.get((label.slot as usize).checked_sub(1)?)?;
            let (rule, arm) = (slot.rule.clone(), slot.arm.clone());
            Some(Decided { rule, arm, outcome: label.outcome, before: label.before.clone() })
        });
        Explained {
            local: connection.local,
            remote: connection.remote,
            is_open: sight.is_some(),
            direction: connection.way.map(Into::into),
            cgroup: connection.cgroup.clone(),
            netns,
            algorithm: sight.map(|sight| sight.algorithm.clone()),
            decided,
            now: now_of(verdict.as_ref()),
        }
    }
}

fn now_of(verdict: Option<&Decision>) -> Now {
    let decided = verdict.and_then(|verdict| verdict.decided);
    let over = verdict.map_or(&[][..], |verdict| &verdict.passed_over);
    Now {
        rule: decided.map(|(rule, _)| rule.name.clone()),
        arm: decided.map(|(_, arm)| arm.treatment.to_string()),
        share: decided.map(|(_, arm)| arm.portion.fraction()),
        portion: decided.map(|(_, arm)| arm.portion),
        passed_over: over.iter().map(|(rule, why)| PassedOver { rule: rule.name.clone(), because: why }).collect(),
    }
}

fn write(out: &mut impl Write, one: &Explained) -> io::Result<()> {
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
    if let Some(decided) = &one.decided {
        let Decided { rule, arm, outcome, before } = decided;
        let text = match outcome {
            LabelOutcome::Set => format!("rule \"{rule}\", arm {arm}; had {before} before"),
            LabelOutcome::Kept => format!("rule \"{rule}\", arm {arm}"),
            LabelOutcome::Locked => {
                format!("rule \"{rule}\", arm {arm}, refused by the kernel: its route locks the algorithm")
            }
            LabelOutcome::Missing => {
                format!("rule \"{rule}\", arm {arm}, refused by the kernel: not registered at that moment")
            }
            LabelOutcome::Chosen | LabelOutcome::Routed | LabelOutcome::Failed => {
                format!("rule \"{rule}\", arm {arm}, which was not applied")
            }
        };
        line("decided by", text)?;
    } else if one.is_open {
        line(
            "decided by",
            "no rule: the policy labels what it changes or compares; programs and routes may choose".into(),
        )?;
    }
    match (&one.now.rule, &one.now.arm, one.now.portion) {
        (Some(rule), Some(arm), Some(portion)) => {
            line("the rules", format!("rule \"{rule}\" gives arm {arm}, {portion} of its connections"))?;
        }
        _ => line("the rules", "no rule matches".to_owned())?,
    }
    for over in &one.now.passed_over {
        line("", format!("rule \"{}\" {}", over.rule, over.because))?;
    }
    if let Some(cgroup) = &one.cgroup {
        line("cgroup", cgroup.clone())?;
    }
    Ok(())
}
