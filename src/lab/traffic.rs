//! Starts the two processes of each flow in their nodes' namespaces and collects their reports.
//!
//! Bulk flows use iperf3 ([`iperf3`]) unless the scenario asks for our own sender. Transfers of a size and datagrams at
//! a constant rate always use our own processes ([`own`] here, [`child`] in the namespaces). iperf3 does not suit them:
//! it opens a control connection for each, times them by that connection, and gives up a UDP flow whose first packet is
//! lost.

pub mod child;
pub(crate) mod datagrams;
pub(crate) mod ends;
pub mod iperf3;
mod messages;
pub(crate) mod own;
mod process;
pub(crate) mod report;
mod socket;
mod stream;
mod transfers;

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context, Result};

use self::ends::{FlowEnds, RunContext, slack};
use self::process::NodeProcess;
use self::report::TrafficReport;
use crate::load::{Load, Starts};
use crate::scenario::{BulkSender, Cell, FlowSpec, Scenario, Sends};
use shared::failure::Failure;

/// Most connections of a cell: each has a port of its own, and a thread at both ends.
const CONNECTIONS_MAX: u32 = 10_000;

/// Refuses a cell with more connections than this host's processes send.
///
/// # Errors
/// The first of these cells, with the place of its flow with most connections.
pub fn check_number<'a>(scenario: &Scenario, cells: impl IntoIterator<Item = &'a Cell>) -> Result<()> {
    for cell in cells {
        let of = |flow: &FlowSpec| flow.connections(cell.duration);
        let all = cell.flows.iter().map(of).fold(0, u32::saturating_add);
        let Some(most) = cell.flows.iter().max_by_key(|flow| of(flow)).filter(|_| all > CONNECTIONS_MAX) else {
            continue;
        };
        let is_regular = matches!(
            most.sends,
            Sends::Transfers { .. } | Sends::Load(Load::Drawn { starts: Starts::Regular { .. }, .. })
        );
        let key = if is_regular { "count" } else { "arrivals" };
        let what = format!("all flows have {all} connections, and the real kernel runs at most {CONNECTIONS_MAX}");
        let why = Failure::usage(what).hint("`--engine virtual` runs more");
        return Err(scenario.mistake_in_flow(cell, most, key, why).into());
    }
    Ok(())
}

/// The receiver of a flow and, once it has started, its sender.
#[derive(Debug)]
pub struct FlowProcesses {
    receiver: NodeProcess,
    /// The sender, and the deadline of both ends.
    sender: Option<(NodeProcess, Instant)>,
}

impl FlowProcesses {
    /// Starts the receiver of a flow and returns when it listens.
    ///
    /// Side effects: a process that ends with the returned value.
    ///
    /// # Errors
    /// The process cannot be started or does not listen in time.
    pub fn listen(ends: &FlowEnds<'_>, context: RunContext<'_>) -> Result<Self> {
        let (task, file) =
            if uses_iperf3(ends) { (iperf3::receiver(ends), "server") } else { (own::receiver(ends), "receiver") };
        let mut receiver = NodeProcess::start(ends.to, context, &task, &format!("flow-{}.{file}.json", ends.number))?;
        receiver.await_listening(ends, context.stop)?;
        Ok(FlowProcesses { receiver, sender: None })
    }

    /// Starts the sender.
    ///
    /// `algorithm` is the kernel's name of the algorithm.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn send(&mut self, ends: &FlowEnds<'_>, algorithm: &str, context: RunContext<'_>) -> Result<()> {
        let (task, file) = if uses_iperf3(ends) {
            (iperf3::sender(ends, algorithm), "")
        } else {
            let file = context.folder.join(format!("flow-{}.transfers.json", ends.number));
            if let Some(planned) = &ends.transfers {
                transfers::write(planned, &file)?;
            }
            (own::sender(ends, algorithm, file), ".sender")
        };
        let sender = NodeProcess::start(ends.from, context, &task, &format!("flow-{}{file}.json", ends.number))?;
        self.sender = Some((sender, Instant::now() + ends.length + slack(ends.length)));
        Ok(())
    }

    /// Waits until both ends are done and reads their reports.
    ///
    /// # Errors
    /// An end reports an error, no report, or does not end; iperf3 ran another algorithm; `stop` was set.
    pub fn finish(mut self, ends: &FlowEnds<'_>, algorithm: &str, stop: &AtomicBool) -> Result<TrafficReport> {
        let (mut sender, deadline) = self.sender.take().context("the flow was never started")?;
        let wait = |end: &mut NodeProcess| end.wait(deadline, stop).map_err(|error| iperf3_waits(error, ends));
        wait(&mut sender)?;
        let sent = sender.output()?;
        if uses_iperf3(ends) {
            iperf3::read_report(&sent)?; // the receiver may still wait for a sender that failed
        }
        self.receiver.close_input(); // our own receivers stop at the end of their input
        wait(&mut self.receiver)?;
        let outputs = [sent, self.receiver.output()?];
        if uses_iperf3(ends) { iperf3::report(&outputs, algorithm, ends.length) } else { own::report(&outputs, ends) }
    }
}

/// iperf3 ends a flow over a connection of its own, which needs the path as well.
fn iperf3_waits(error: anyhow::Error, ends: &FlowEnds<'_>) -> anyhow::Error {
    if !uses_iperf3(ends) {
        return error;
    }
    let advice = "with `sender = \"tccc\"`, a flow counts what arrived by its end";
    error.context(format!("end flow \"{}\" over its path: {advice}", ends.flow.name))
}

fn uses_iperf3(ends: &FlowEnds<'_>) -> bool {
    matches!(ends.flow.sends, Sends::Bulk) && ends.flow.sender == BulkSender::Iperf3
}
