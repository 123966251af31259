//! A layout as hosts of Mininet, built by Mininet's own Python API, joined by the same links as namespaces of our own.
//!
//! Mininet's process ends when its input does, so that a network goes with this process, however that ends. Its environment
//! says whose it was: what is left all the same stands in `tccc status`, and the next that uses Mininet ends it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::emulate::layout::{EndLayout, LINK_PREFIX, Layout, NodeLayout};
use crate::emulate::topology::{Node, Topology};
use crate::emulate::{LinkDriver, Network, plain};
use crate::failure::Failure;
use crate::kernel::netns::Netns;
use crate::kernel::process::{self, Process};

/// Debian's own Python: Mininet is a package of it, and another `python3` that may come first does not see it.
const PYTHON: &str = "/usr/bin/python3";
/// What builds the network.
const SCRIPT: &str = include_str!("mininet_net.py");

/// Networks of Mininet's hosts, joined by the links of a driver.
pub struct Mininet {
    driver: Box<dyn LinkDriver>,
}

impl Mininet {
    /// Networks whose links the driver builds.
    ///
    /// Errors: Mininet, or a program that it starts, is not installed; what a killed run left does not end.
    /// Side effects: ends the processes that killed runs left.
    pub fn on_this_host(driver: Box<dyn LinkDriver>) -> Result<Self> {
        let mut command = Command::new(PYTHON);
        command.args(["-c", "import mininet.net, shutil, sys; sys.exit(shutil.which('ifconfig') is None)"]);
        let answer = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if answer.is_ok_and(|status| status.success()) {
            process::end_orphans().context("end what a killed run left")?;
            return Ok(Mininet { driver });
        }
        let unmet = Failure::unmet("cannot build networks with Mininet: it is not installed");
        Err(unmet.hint("`apt-get install mininet net-tools`").into())
    }
}

impl Network for Mininet {
    fn name(&self) -> &'static str {
        "mininet"
    }

    fn link_driver(&self) -> &'static str {
        self.driver.name()
    }

    fn build(&self, layout: &Layout) -> Result<Topology> {
        let mut keeper = Keeper::start()?;
        keeper.say(&serde_json::to_string(&Asked::of(layout)).context("write the layout for Mininet")?)?;
        let processes = keeper.hear()?.processes.context("Mininet named no hosts")?;
        let mut nodes = Vec::new();
        let mut lacking = Vec::new();
        for node in &layout.nodes {
            let process = processes.get(&node.name).ok_or_else(|| anyhow!("Mininet has no host \"{}\"", node.name))?;
            let netns = Netns::find(&process.to_string())?;
            let (node, missing) = Node::settled(node, netns)?;
            nodes.push(node);
            lacking = missing;
        }
        let mut links = Vec::new();
        for link in &layout.links {
            let joined = Node::ends(&nodes, link).and_then(|ends| plain::join(&*self.driver, &link.config, ends));
            links.push(joined.with_context(|| format!("build the link {}", link.name))?);
        }
        keeper.say("linked")?;
        ensure!(keeper.hear()?.built, "Mininet did not finish the network");
        Ok(Topology { layout: layout.clone(), nodes, links, lacking, keeper: Some(Box::new(Mutex::new(keeper))) })
    }
}

/// What Mininet is asked to build.
#[derive(Debug, Serialize)]
struct Asked<'a> {
    nodes: &'a [NodeLayout],
    links: Vec<AskedLink<'a>>,
    prefix: u8,
}

#[derive(Debug, Serialize)]
struct AskedLink<'a> {
    ends: &'a [EndLayout; 2],
}

impl<'a> Asked<'a> {
    fn of(layout: &'a Layout) -> Self {
        let links = layout.links.iter().map(|link| AskedLink { ends: &link.ends });
        Asked { nodes: &layout.nodes, links: links.collect(), prefix: LINK_PREFIX }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    /// Host to its process.
    processes: Option<BTreeMap<String, u32>>,
    built: bool,
    error: Option<String>,
}

/// Mininet's process; the network goes when this is dropped.
struct Keeper {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    fn start() -> Result<Keeper> {
        let mut command = Command::new(PYTHON);
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0); // Ctrl-C is for us: it ends with its input
        command.envs(Process::this().map(|own| (process::OWNER, own.owner_text())));
        let mut child = command.spawn().context("start Mininet")?;
        let asks = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("listen to Mininet")?);
        Ok(Keeper { child, asks, answers })
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let asks = self.asks.as_mut().context("speak to Mininet")?;
        writeln!(asks, "{line}").context("speak to Mininet")
    }

    fn hear(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("listen to Mininet")?;
        if line.is_empty() {
            let mut remarks = String::new();
            if let Some(stderr) = &mut self.child.stderr {
                let _ = std::io::Read::read_to_string(stderr, &mut remarks); // a reason is welcome, not needed
            }
            let said = remarks.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
            bail!("Mininet ended: {said}");
        }
        let answer: Answer = serde_json::from_str(&line).context("read what Mininet answers")?;
        answer.error.as_ref().map_or(Ok(()), |error| Err(anyhow!("Mininet: {error}")))?;
        Ok(answer)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.asks.take()); // the end of its input is the end of the network
        let _ = self.child.wait(); // it was ours to wait for, whatever it ended with
    }
}
