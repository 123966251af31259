//! The work of our own processes in the nodes' namespaces: one long connection, transfers of a size, messages, and
//! datagrams at a constant rate.
//!
//! `tccc run` starts them as `tccc traffic PLACE TASK`; they are of no use on their own. A receiver ends at the end of
//! its standard input, and so with the process that holds the other end.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddrV4;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use serde::{Deserialize, Serialize};

use super::datagrams::{self, DatagramsCounted, DatagramsSent};
use super::messages::{self, MessagesArrived, MessagesBegun, Requests};
use super::socket::Sending;
use super::stream::{self, StreamReceived, StreamSent};
use super::transfers::{self, TransferArrived, TransfersBegun};
use crate::load::{Bursts, Schedule};
use crate::scenario::pattern::Pattern;
use shared::kernel::netns::Netns;
use shared::units::{Bytes, duration_text};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildPlace {
    pub netns: PathBuf,
    /// A process joins the cgroup by writing to this file.
    pub cgroup: PathBuf,
    /// The parent's process id. The kernel kills the child when the parent's starting thread ends.
    pub parent: u32,
}

impl ChildPlace {
    /// Moves this process there for good; call it before any thread starts.
    ///
    /// # Errors
    /// Not permitted; the parent is dead.
    pub fn enter(&self) -> Result<()> {
        prctl::set_pdeathsig(Signal::SIGKILL).context("tie this process to its parent")?;
        if getppid().as_raw() as u32 != self.parent {
            bail!("the process that started this one is dead"); // before prctl took effect
        }
        Netns::open(&self.netns)?.enter_for_good().context("enter the network namespace")?;
        fs::write(&self.cgroup, "0").with_context(|| format!("join \"{}\"", self.cgroup.display()))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficTask {
    Become {
        program: String,
        arguments: Vec<String>,
    },
    /// Each transfer has its own port, counted up from the given one.
    SendTransfers {
        sending: Sending,
        /// A file with the transfers, which may be too many for an argument.
        transfers: PathBuf,
    },
    SendMessages(Sending),
    ReceiveMessages {
        at: SocketAddrV4,
        /// Payload of each message.
        size: Bytes,
        /// `None`: the sender begins.
        #[serde(default)]
        requests: Option<Requests>,
    },
    ReceiveTransfers {
        at: SocketAddrV4,
        /// Payload of the request over each connection; `None`: the sender begins.
        #[serde(default)]
        request: Option<Bytes>,
    },
    /// Sends over one connection for `length`.
    SendStream(Sending),
    ReceiveStream {
        at: SocketAddrV4,
        /// Payload counts if it arrives this soon after the flow's start.
        #[serde(with = "duration_text")]
        length: Duration,
    },
    SendDatagrams {
        from: SocketAddrV4,
        to: SocketAddrV4,
        pattern: Pattern,
        #[serde(default)]
        bursts: Option<Bursts>,
        #[serde(with = "duration_text")]
        length: Duration,
    },
    ReceiveDatagrams {
        at: SocketAddrV4,
        pattern: Pattern,
        /// Packets count if they arrive this soon after the first.
        #[serde(with = "duration_text")]
        length: Duration,
        /// The path is empty this long after the last packet.
        #[serde(with = "duration_text")]
        settle: Duration,
    },
}

/// A process's report at its end. Times are nanoseconds of the host's monotonic clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    Begun(TransfersBegun),
    MessagesBegun(MessagesBegun),
    MessagesArrived(MessagesArrived),
    /// Each transfer by its sender's port.
    Arrived(BTreeMap<u16, TransferArrived>),
    StreamSent(StreamSent),
    StreamReceived(StreamReceived),
    Sent(DatagramsSent),
    Counted(DatagramsCounted),
}

/// Performs a task to its end.
///
/// # Errors
/// A socket cannot be opened at the address; the kernel refuses the algorithm; no such program.
pub fn work(task: &TrafficTask) -> Result<Told> {
    match task {
        TrafficTask::Become { program, arguments } => {
            let why = Command::new(program).args(arguments).exec();
            Err(why).with_context(|| format!("start {program}"))
        }
        TrafficTask::SendTransfers { sending, transfers } => {
            transfers::send(sending, &transfers::read(transfers)?).map(Told::Begun)
        }
        TrafficTask::ReceiveTransfers { at, request } => transfers::receive(*at, *request).map(Told::Arrived),
        TrafficTask::SendMessages(sending) => messages::send(sending).map(Told::MessagesBegun),
        TrafficTask::ReceiveMessages { at, size, requests } => {
            messages::receive(*at, *size, *requests).map(Told::MessagesArrived)
        }
        TrafficTask::SendStream(sending) => stream::send(sending).map(Told::StreamSent),
        TrafficTask::ReceiveStream { at, length } => stream::receive(*at, *length).map(Told::StreamReceived),
        TrafficTask::SendDatagrams { from, to, pattern, bursts, length } => {
            datagrams::send([*from, *to], pattern, &Schedule::of(*bursts), *length).map(Told::Sent)
        }
        TrafficTask::ReceiveDatagrams { at, pattern, length, settle } => {
            datagrams::receive(*at, pattern, *length, *settle).map(Told::Counted)
        }
    }
}
