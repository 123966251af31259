//! What our own processes do in the nodes' namespaces: one long connection, transfers of a size, and datagrams at a
//! constant rate.
//!
//! `tccc run` starts them as `tccc traffic TASK`; they are of no use on their own. Receivers end when their standard
//! input does, and so with the process that holds its other end.

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

use super::socket::Sending;
use super::{datagrams, messages, stream, transfers};
use crate::kernel::netns::Netns;
use crate::units::{BitsPerSec, Bytes, duration_text};

/// Where a process works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildPlace {
    pub netns: PathBuf,
    /// The file to which a process that joins the cgroup writes.
    pub cgroup: PathBuf,
    /// The process with whose starting thread this one ends.
    pub parent: u32,
}

impl ChildPlace {
    /// Goes there for good. To be called before any thread is started.
    ///
    /// Errors: not permitted; the parent is dead.
    pub fn enter(&self) -> Result<()> {
        prctl::set_pdeathsig(Signal::SIGKILL).context("tie this process to its parent")?;
        if getppid().as_raw() as u32 != self.parent {
            bail!("the process that started this one is dead"); // before the kernel knew that we go with it
        }
        Netns::open(&self.netns)?.enter_for_good().context("enter the network namespace")?;
        fs::write(&self.cgroup, "0").with_context(|| format!("join \"{}\"", self.cgroup.display()))
    }
}

/// What a process is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    Become {
        program: String,
        arguments: Vec<String>,
    },
    /// Sends transfers of a size, one port each from the given one on.
    SendTransfers(Sending),
    SendMessages(Sending),
    ReceiveMessages {
        at: SocketAddrV4,
        /// Payload of each.
        size: Bytes,
    },
    ReceiveTransfers {
        at: SocketAddrV4,
    },
    /// Sends over one connection until `length` is over.
    SendStream(Sending),
    ReceiveStream {
        at: SocketAddrV4,
        /// Payload counts if it arrives within this time of the flow's start.
        #[serde(with = "duration_text")]
        length: Duration,
    },
    SendDatagrams {
        from: SocketAddrV4,
        to: SocketAddrV4,
        /// Rate in whole IP packets.
        rate: BitsPerSec,
        /// Length of each IP packet.
        packet_bytes: u32,
        #[serde(with = "duration_text")]
        length: Duration,
    },
    ReceiveDatagrams {
        at: SocketAddrV4,
        /// How long after the first packet others count.
        #[serde(with = "duration_text")]
        length: Duration,
        /// How long after the last packet the path is empty.
        #[serde(with = "duration_text")]
        settle: Duration,
    },
}

/// What a process says at its end. Times are on the host's monotonic clock, nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    Begun(transfers::Begun),
    MessagesBegun(messages::Begun),
    MessagesArrived(messages::Arrived),
    /// What arrived of each transfer, by the sender's port.
    Arrived(BTreeMap<u16, transfers::Arrived>),
    StreamSent(stream::Sent),
    StreamReceived(stream::Received),
    Sent(datagrams::Sent),
    Counted(datagrams::Counted),
}

/// Does a task and returns what there is to say.
///
/// Errors: a socket cannot be opened at the address, or the kernel does not take the algorithm; no such program.
pub fn work(task: &Task) -> Result<Told> {
    match task {
        Task::Become { program, arguments } => {
            let why = Command::new(program).args(arguments).exec();
            Err(why).with_context(|| format!("start {program}"))
        }
        Task::SendTransfers(sending) => transfers::send(sending).map(Told::Begun),
        Task::ReceiveTransfers { at } => transfers::receive(*at).map(Told::Arrived),
        Task::SendMessages(sending) => messages::send(sending).map(Told::MessagesBegun),
        Task::ReceiveMessages { at, size } => messages::receive(*at, *size).map(Told::MessagesArrived),
        Task::SendStream(sending) => stream::send(sending).map(Told::StreamSent),
        Task::ReceiveStream { at, length } => stream::receive(*at, *length).map(Told::StreamReceived),
        Task::SendDatagrams { from, to, rate, packet_bytes, length } => {
            datagrams::send([*from, *to], *rate, *packet_bytes, *length).map(Told::Sent)
        }
        Task::ReceiveDatagrams { at, length, settle } => datagrams::receive(*at, *length, *settle).map(Told::Counted),
    }
}
