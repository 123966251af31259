//! A flow's two ends in a built network, and where a run's processes live.

use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

use crate::emulate::topology::{Node, Topology};
use crate::kernel::cgroup::RunCgroup;
use crate::lab::cost;
use crate::scenario::{Cell, FlowSpec};

/// First port of the servers, one a flow; iperf3's own default.
pub const FIRST_SERVER_PORT: u16 = 5201;
/// First local port of the senders, one a flow; below the range from which kernels choose ports themselves.
pub const FIRST_SENDER_PORT: u16 = 20001;

/// Connections over a lossy path may need several timeouts to open and close; those double from a second.
pub fn slack(length: Duration) -> Duration {
    Duration::from_secs(60) + length / 2
}

/// Where a run's processes live and write.
#[derive(Clone, Copy)]
pub struct Bed<'a> {
    pub cgroup: &'a RunCgroup,
    pub folder: &'a Path,
    /// Set from outside to give up.
    pub stop: &'a AtomicBool,
}

/// A flow and its two ends in a built network.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Its place among the cell's flows.
    pub index: usize,
    pub flow: &'a FlowSpec,
    pub from: &'a Node,
    pub to: &'a Node,
    /// Local port of the data connection, by which events and conditions know it; the first of several.
    pub sender_port: u16,
    /// How long it sends at most.
    pub length: Duration,
    /// Longest that the empty path holds up a packet behind the one before it.
    pub hold_up: Duration,
}

impl<'a> Ends<'a> {
    /// The ends of every flow of a cell; each connection has a port of its own.
    ///
    /// Errors: a node is missing from the network.
    pub fn of_cell(cell: &'a Cell, topology: &'a Topology) -> Result<Vec<Ends<'a>>> {
        let mut sender_port = FIRST_SENDER_PORT;
        let ends = cell.flows.iter().enumerate().map(|(index, flow)| {
            let [from, to] = [topology.node(&flow.from)?, topology.node(&flow.to)?];
            let ends = Ends {
                index,
                flow,
                from,
                to,
                sender_port,
                length: flow.length(cell.duration),
                hold_up: cost::hold_up(cell, flow),
            };
            sender_port += flow.connections() as u16;
            Ok(ends)
        });
        ends.collect()
    }

    /// Local ports of its connections, in the order in which they start.
    pub fn sender_ports(&self) -> std::ops::Range<u16> {
        self.sender_port..self.sender_port + self.flow.connections() as u16
    }

    pub fn server_port(&self) -> u16 {
        FIRST_SERVER_PORT + self.index as u16
    }

    pub fn sender_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.from.address, self.sender_port)
    }

    pub fn server_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.to.address, self.server_port())
    }
}
