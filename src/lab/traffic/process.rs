//! A process in a node's namespace that dies with this one.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::child::{ChildPlace, TrafficTask};
use super::ends::{FlowEnds, RunContext};
use crate::emulate::topology::Node;
use shared::kernel::process::OWN_PROGRAM;
use shared::poll::{POLL_INTERVAL, try_poll};

/// A server that takes longer to listen has failed.
const LISTENING_WITHIN: Duration = Duration::from_secs(10);

/// Killed when dropped, and by the kernel when this process dies.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    what: String,
    file: PathBuf,
}

impl NodeProcess {
    /// Starts this program with a task in a node's namespace and the experiment's cgroup. Its output and its errors go
    /// to a new file in the folder of the run.
    ///
    /// The child enters the namespace itself. Work between fork and exec would need a copy of this process. The link
    /// threads of this process would then wait for every page that they write to.
    ///
    /// The calling thread must live as long as the child: the kernel kills the child when its parent thread ends.
    pub fn start(node: &Node, context: RunContext<'_>, task: &TrafficTask, file: &str) -> Result<NodeProcess> {
        let what = match task {
            TrafficTask::Become { program, .. } => format!("{program} on node \"{}\"", node.name),
            _ => format!("the traffic on node \"{}\"", node.name),
        };
        let parent = std::process::id();
        let netns = format!("/proc/{parent}/fd/{}", node.netns.as_raw_fd()).into();
        let place = ChildPlace { netns, cgroup: context.cgroup.joining_file(), parent };
        let mut command = Command::new(OWN_PROGRAM);
        command.arg("traffic");
        command.arg(serde_json::to_string(&place).context("encode a place")?);
        command.arg(serde_json::to_string(task).context("encode a task")?);
        let file = context.folder.join(file);
        let output = File::create(&file).with_context(|| format!("create \"{}\"", file.display()))?;
        let errors = output.try_clone().context("use a file twice")?;
        command.stdin(Stdio::piped()).stdout(output).stderr(errors).process_group(0);
        let child = command.spawn().with_context(|| format!("start {what}"))?;
        Ok(NodeProcess { child, what, file })
    }

    /// Output and errors so far.
    pub fn output(&self) -> Result<String> {
        fs::read_to_string(&self.file).with_context(|| format!("read the output of {}", self.what))
    }

    /// Waits for the process to end.
    ///
    /// # Errors
    /// The deadline passed; `stop` was set.
    pub fn wait(&mut self, deadline: Instant, stop: &AtomicBool) -> Result<()> {
        let Self { child, what, .. } = self;
        let ended =
            wait_until(deadline, stop, || Ok(child.try_wait().with_context(|| format!("wait for {what}"))?.is_some()))?;
        ensure!(ended, "{what} did not end in time");
        Ok(())
    }

    /// Waits until the flow's server port is open.
    ///
    /// # Errors
    /// The process ended, or does not listen in time; `stop` was set.
    pub fn await_listening(&mut self, ends: &FlowEnds<'_>, stop: &AtomicBool) -> Result<()> {
        let deadline = Instant::now() + LISTENING_WITHIN;
        let what = self.what.clone();
        let listening = wait_until(deadline, stop, || {
            if let Some(status) = self.child.try_wait().with_context(|| format!("look after {what}"))? {
                bail!("{what} ended before it listened ({status}): {}", self.output()?.trim());
            }
            is_listening(ends)
        })?;
        ensure!(listening, "{what} did not listen on port {} within {LISTENING_WITHIN:?}", ends.server_port());
        Ok(())
    }

    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill(); // fails if the child has ended, which is usual
        let _ = self.child.wait();
    }
}

/// Returns whether the condition came true before the deadline.
///
/// # Errors
/// `stop` was set; those of the condition.
fn wait_until(deadline: Instant, stop: &AtomicBool, mut condition: impl FnMut() -> Result<bool>) -> Result<bool> {
    try_poll(deadline.saturating_duration_since(Instant::now()), POLL_INTERVAL, || {
        let is_true = condition()?;
        ensure!(is_true || !stop.load(Ordering::Relaxed), "interrupted");
        Ok(is_true)
    })
}

fn is_listening(ends: &FlowEnds<'_>) -> Result<bool> {
    // The state of a socket in /proc/net: a TCP socket that listens, or a UDP socket that is bound.
    let (table, state) = if ends.flow.is_tcp() { ("tcp", "0A") } else { ("udp", "07") };
    let table = format!("/proc/thread-self/net/{table}");
    let table = ends.to.netns.run(|| fs::read_to_string(table).context("read the sockets"))?;
    let local = local_field(ends.to.address, ends.server_port());
    Ok(table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some(state)
    }))
}

/// An address as /proc/net/tcp writes it: the bytes as one number of this machine, then the port.
fn local_field(address: Ipv4Addr, port: u16) -> String {
    format!("{:08X}:{port:04X}", u32::from_ne_bytes(address.octets()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_socket_is_found_as_the_kernel_writes_it() {
        let expected = if cfg!(target_endian = "little") { "010012C6:1451" } else { "C6120001:1451" };
        assert_eq!(local_field(Ipv4Addr::new(198, 18, 0, 1), 5201), expected);
    }
}
