//! Builds a layout from Mininet hosts with Mininet's own Python API, joined by the same links as our own namespaces.
//!
//! Mininet's process ends when its input ends, so a network disappears with this process, however this process ends.
//! The environment of Mininet's process names its owner. `tccc status` shows leftover processes, and the next run with
//! Mininet ends them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::emulate::layout::{LINK_PREFIX, Layout};
use crate::emulate::topology::{Node, Topology};
use crate::emulate::{LinkDriver, Network, plain};
use crate::failure::Failure;
use crate::kernel::netns::Netns;
use crate::kernel::process::{self, Process};

/// Debian's own Python, which has the package `mininet`. Another `python3` earlier in PATH does not.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = include_str!("mininet_net.py");

/// Networks of Mininet's hosts, joined by the links of a driver.
pub struct Mininet {
    driver: Box<dyn LinkDriver>,
}

impl Mininet {
    /// Checks for Mininet and ends the processes that killed runs left behind.
    ///
    /// Errors: Mininet, or a program that it starts, is not installed; a leftover process does not end.
    pub fn on_this_host(driver: Box<dyn LinkDriver>) -> Result<Self> {
        let mut command = Command::new(PYTHON);
        command.args(["-c", "import mininet.net, shutil, sys; sys.exit(shutil.which('ifconfig') is None)"]);
        let answer = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if answer.is_ok_and(|status| status.success()) {
            process::end_orphans().context("clean up after a killed run")?;
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
        keeper.say(&json!({"nodes": layout.nodes, "links": layout.links, "prefix": LINK_PREFIX}).to_string())?;
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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MininetAnswer {
    /// Host to process id.
    processes: Option<BTreeMap<String, u32>>,
    built: bool,
    error: Option<String>,
}

/// Mininet's process; dropping it removes the network.
struct Keeper {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    fn start() -> Result<Keeper> {
        let mut command = Command::new(PYTHON);
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0); // Ctrl-C must not reach it
        command.envs(Process::this().map(|own| (process::OWNER, own.owner_text())));
        let mut child = command.spawn().context("start Mininet")?;
        let answers = BufReader::new(child.stdout.take().context("listen to Mininet")?);
        Ok(Keeper { child, answers })
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let asks = self.child.stdin.as_mut().context("speak to Mininet")?;
        writeln!(asks, "{line}").context("speak to Mininet")
    }

    fn hear(&mut self) -> Result<MininetAnswer> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("listen to Mininet")?;
        if line.is_empty() {
            let mut remarks = String::new();
            if let Some(stderr) = &mut self.child.stderr {
                let _ = std::io::Read::read_to_string(stderr, &mut remarks); // the reason is optional
            }
            let said = remarks.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
            bail!("Mininet ended: {said}");
        }
        let answer: MininetAnswer = serde_json::from_str(&line).context("read the answer of Mininet")?;
        match answer.error {
            Some(error) => bail!("Mininet: {error}"),
            None => Ok(answer),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.child.wait(); // closes its input, so that it removes the network
    }
}
