//! A flow's two ends in a built network, and the place of a run's processes.

use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

use crate::cost;
use crate::emulate::topology::{Node, Topology};
use crate::load::{Bursts, PlannedTransfer};
use crate::scenario::{Cell, FlowSpec, NumberedFlow};
use shared::kernel::cgroup::RunCgroup;

/// First port of the servers, one for each flow; iperf3's own default.
pub const FIRST_SERVER_PORT: u16 = 5201;
/// First local port of the senders, one for each connection; below the range from which kernels choose ports.
pub const FIRST_SENDER_PORT: u16 = 20001;

/// Extra time for a flow to end. Connections over a lossy path may need several timeouts to open and close, and these
/// double from one second.
pub fn slack(length: Duration) -> Duration {
    Duration::from_secs(60) + length / 2
}

/// Where a run's processes live and write.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    pub cgroup: &'a RunCgroup,
    pub folder: &'a Path,
    /// Set by the caller to interrupt the run.
    pub stop: &'a AtomicBool,
}

#[derive(Debug, Clone)]
pub struct FlowEnds<'a> {
    /// Unique among the cell's flows.
    pub number: u32,
    pub flow: &'a FlowSpec,
    pub from: &'a Node,
    pub to: &'a Node,
    /// Local port of the first data connection. Events and socket conditions identify the flow by it.
    pub sender_port: u16,
    /// Its transfers, each over its own connection; `None` for a flow of one connection.
    pub transfers: Option<Vec<PlannedTransfer>>,
    /// `None`: it never pauses.
    pub bursts: Option<Bursts>,
    /// The longest time for which the flow sends.
    pub length: Duration,
    /// The longest time by which the empty path delays a packet behind the one before it.
    pub hold_up: Duration,
}

impl<'a> FlowEnds<'a> {
    /// The ends of every flow of a cell in a run with this seed; each connection has its own port.
    ///
    /// # Errors
    /// A node is missing from the network.
    pub fn of_cell(cell: &'a Cell, seed: u64, topology: &'a Topology) -> Result<Vec<FlowEnds<'a>>> {
        let ends = cell.numbered_flows(seed).into_iter().map(|numbered| {
            let NumberedFlow { flow, number, connection, transfers, bursts } = numbered;
            let [from, to] = [topology.node(&flow.from)?, topology.node(&flow.to)?];
            let (length, hold_up) = (flow.length(cell.duration), cost::hold_up(cell, flow));
            let sender_port = FIRST_SENDER_PORT + connection as u16;
            Ok(FlowEnds { number, flow, from, to, sender_port, transfers, bursts, length, hold_up })
        });
        ends.collect()
    }

    /// Local ports of the connections, in the order in which they start.
    pub fn sender_ports(&self) -> std::ops::Range<u16> {
        self.sender_port..self.sender_port + self.transfers.as_ref().map_or(1, Vec::len) as u16
    }

    pub fn server_port(&self) -> u16 {
        FIRST_SERVER_PORT + self.number as u16
    }

    pub fn sender_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.from.address, self.sender_port)
    }

    pub fn server_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.to.address, self.server_port())
    }
}
