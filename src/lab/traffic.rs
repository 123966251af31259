//! Traffic: processes in the nodes' namespaces that die with this one, and what they report.
//!
//! Bulk flows are iperf3's ([`bulk`]) unless the scenario asks for our own sender. Transfers of a size and datagrams at a
//! constant rate are always our own ([`own`], and [`child`] in the namespaces): iperf3 opens a control connection for every
//! one, times by its exchange over that, and gives up a UDP flow whose first packet is lost.

pub mod bulk;
pub mod child;
pub(crate) mod datagrams;
pub(crate) mod ends;
mod messages;
pub(crate) mod own;
mod process;
pub(crate) mod report;
mod socket;
mod stream;
mod transfers;

use std::sync::atomic::AtomicBool;

use anyhow::Result;

use self::ends::{Bed, Ends};
use self::report::TrafficReport;
use crate::scenario::{BulkSender, Sends};

/// One flow as it is sent: its processes and its files.
#[derive(Debug)]
pub enum Traffic {
    /// By iperf3.
    Bulk(bulk::Transfer),
    /// By our own processes.
    Own(own::Own),
}

impl Traffic {
    /// Starts the receiving end of a flow and returns when it listens.
    ///
    /// Errors: a process cannot be started or does not listen in time.
    /// Side effects: a process that ends with the returned value.
    pub fn listen(ends: &Ends<'_>, bed: Bed<'_>) -> Result<Traffic> {
        match ends.flow.sends {
            Sends::Bulk if ends.flow.sender == BulkSender::Iperf3 => {
                Ok(Traffic::Bulk(bulk::Transfer::listen(ends, bed)?))
            }
            Sends::Bulk | Sends::Transfers { .. } | Sends::Messages { .. } | Sends::Datagrams { .. } => {
                Ok(Traffic::Own(own::Own::listen(ends, bed)?))
            }
        }
    }

    /// Starts to send.
    ///
    /// `algorithm` is the name under which the kernel knows it.
    ///
    /// Errors: a process cannot be started.
    pub fn send(&mut self, ends: &Ends<'_>, algorithm: &str, bed: Bed<'_>) -> Result<()> {
        match self {
            Traffic::Bulk(transfer) => transfer.send(ends, algorithm, bed),
            Traffic::Own(own) => own.send(ends, algorithm, bed),
        }
    }

    /// Waits until both ends are done and reads what they say.
    ///
    /// Errors: an end reports an error or does not end; iperf3 ran another algorithm; `stop` was set.
    pub fn finish(self, ends: &Ends<'_>, algorithm: &str, stop: &AtomicBool) -> Result<TrafficReport> {
        match self {
            Traffic::Bulk(transfer) => Ok(TrafficReport::Bulk(transfer.finish(algorithm, stop)?)),
            Traffic::Own(own) => own.finish(ends, stop),
        }
    }
}
