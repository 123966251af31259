//! Builds a layout from Mininet hosts with Mininet's own Python API, joined by the same links as our own namespaces.
//!
//! Mininet's process ends when its input ends, so a network disappears with this process, however this process ends.
//! The environment of Mininet's process names its owner. `tccc status` shows leftover processes, and the next run with
//! Mininet ends them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::emulate::layout::{LINK_PREFIX, Layout};
use crate::emulate::topology::{Node, Topology};
use crate::emulate::{LinkDriver, Network, plain};
use shared::failure::Failure;
use shared::kernel::netns::Netns;
use shared::kernel::process::{self, Process};
use shared::poll::poll;
use shared::units::format_duration;

/// Debian's own Python, which has the package `mininet`. Another `python3` earlier in PATH does not.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = include_str!("mininet_net.py");
/// Far longer than Mininet takes for the largest network that one machine can hold.
const ANSWERS_WITHIN: Duration = Duration::from_secs(300);
/// The script takes the network down within 10 s of the end of its input.
const ENDS_WITHIN: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Enough of Mininet's messages to contain the last one.
const REMARKS_BYTES: u64 = 1 << 20;

/// Networks of Mininet's hosts, joined by the links of a driver.
pub struct Mininet {
    driver: Box<dyn LinkDriver>,
}

impl Mininet {
    /// Checks for Mininet and ends the processes that killed runs left behind.
    ///
    /// # Errors
    /// Mininet, or a program that it starts, is not installed; a leftover process does not end.
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
    answers: Receiver<io::Result<String>>,
    /// Its stderr. Unlike a pipe, a file is never full.
    remarks: File,
}

impl Keeper {
    fn start() -> Result<Keeper> {
        let mut command = Command::new(PYTHON);
        command.args(["-c", SCRIPT]);
        Self::of(&mut command)
    }

    fn of(command: &mut Command) -> Result<Keeper> {
        let remarks = tempfile::tempfile().context("create a file for the messages of Mininet")?;
        let stderr = remarks.try_clone().context("create a file for the messages of Mininet")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        command.process_group(0); // Ctrl-C must not reach it
        command.envs(Process::this().map(|own| (process::OWNER, own.owner_text())));
        let mut child = command.spawn().context("start Mininet")?;
        let answers = lines_of(child.stdout.take().context("listen to Mininet")?);
        Ok(Keeper { child, answers, remarks })
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let asks = self.child.stdin.as_mut().context("speak to Mininet")?;
        let said = writeln!(asks, "{line}");
        said.with_context(|| self.last_remark())
    }

    fn hear(&mut self) -> Result<MininetAnswer> {
        self.hear_within(ANSWERS_WITHIN)
    }

    fn hear_within(&mut self, patience: Duration) -> Result<MininetAnswer> {
        let line = match self.answers.recv_timeout(patience) {
            Ok(line) => line.context("listen to Mininet")?,
            Err(RecvTimeoutError::Disconnected) => bail!(self.last_remark()),
            Err(RecvTimeoutError::Timeout) => {
                let what = format!("Mininet gave no answer within {}", format_duration(patience));
                return Err(Failure::again(what).hint("a run without `--network mininet` needs no Mininet").into());
            }
        };
        let answer: MininetAnswer = serde_json::from_str(&line).context("read the answer of Mininet")?;
        match answer.error {
            Some(error) => bail!("Mininet: {error}"),
            None => Ok(answer),
        }
    }
}

impl Keeper {
    /// Why it ended, by its last message.
    fn last_remark(&self) -> String {
        let length = self.remarks.metadata().map_or(0, |it| it.len());
        let mut remarks = vec![0; length.min(REMARKS_BYTES) as usize];
        // Not by seeking, because Mininet shares the file's position.
        let read = self.remarks.read_exact_at(&mut remarks, length.saturating_sub(REMARKS_BYTES));
        let text = read.map_or(String::new(), |()| String::from_utf8_lossy(&remarks).into_owned());
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        format!("Mininet ended: {}", last.unwrap_or("it gave no reason"))
    }
}

/// Reads lines in a thread, so that nobody waits for them without a limit. The thread ends with the process.
fn lines_of(stdout: ChildStdout) -> Receiver<io::Result<String>> {
    let (to, from) = channel();
    thread::spawn(move || BufReader::new(stdout).lines().try_for_each(|line| to.send(line)));
    from
}

impl Drop for Keeper {
    /// Closes its input, so that it removes the network. Kills it if it does not end.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !poll(ENDS_WITHIN, POLL_INTERVAL, || !matches!(self.child.try_wait(), Ok(None))) {
            let _ = self.child.kill(); // it may have ended meanwhile
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(script: &str) -> Keeper {
        Keeper::of(Command::new("sh").args(["-c", script])).unwrap()
    }

    /// A pipe that nobody read once blocked it after 64 KiB of messages, and the run waited for ever.
    #[test]
    fn many_messages_do_not_block_it() {
        let mut keeper = keeper("head -c 300000 /dev/zero | tr '\\0' 'x' >&2; echo '{\"built\": true}'; cat >&2");
        assert!(keeper.hear().unwrap().built);
    }

    #[test]
    fn answer_that_does_not_come_ends_the_wait() {
        let mut keeper = keeper("read line");
        let error = keeper.hear_within(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.to_string(), "Mininet gave no answer within 20ms");
    }

    /// The broken pipe once ended the run with success and without a word.
    #[test]
    fn process_that_died_is_an_error_with_its_last_message() {
        let mut keeper = keeper("echo 'out of memory' >&2; exec <&-; echo '{}'; exec sleep 9");
        keeper.hear().unwrap(); // its input is closed now
        let error = keeper.say("linked").unwrap_err();
        assert_eq!(format!("{error:#}"), "Mininet ended: out of memory: Broken pipe (os error 32)");
        keeper.child.kill().unwrap();
        let error = keeper.hear().unwrap_err();
        assert_eq!(error.to_string(), "Mininet ended: out of memory");
    }
}
