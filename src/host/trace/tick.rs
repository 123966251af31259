//! Samples by a timer in the kernel, which checks every known socket once per interval. Nothing runs per packet, and no
//! thread wakes.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use zerocopy::FromBytes as _;

use super::filter::Filter;
use super::program::TcpTraceSkel;
use super::program::types::ticking;
use shared::btf::TypeKind;
use shared::kernel::btf::Types;
use shared::kernel::privilege::{self, Capability};
use shared::kernel::{iterate, namespaces};

/// Shorter intervals are sampled by packet, because checking every socket takes about as long.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Whether this kernel and process can sample by a timer.
pub(super) fn is_possible(kernel: &Types, has_tracepoint: impl Fn(&str) -> bool) -> bool {
    // The newest of these is bpf_loop: Linux 5.17.
    ["bpf_loop", "bpf_iter_tcp", "bpf_iter_task_file"]
        .into_iter()
        .all(|function| kernel.has(TypeKind::Function, function))
        && ["tcp_cong_state_set", "inet_sock_set_state", "tcp_retransmit_skb"].into_iter().all(has_tracepoint)
        && privilege::missing(&[Capability::SysAdmin]).is_empty()
        // On a real-time kernel, timers of BPF programs are refused or fail.
        && nix::sys::utsname::uname().is_ok_and(|name| !name.version().to_string_lossy().contains("PREEMPT_RT"))
}

/// Registers every open socket with the tracer.
///
/// The pass by process includes sockets in namespaces that cannot be found. The pass by namespace includes sockets that
/// no process holds any more.
///
/// # Errors
/// A network namespace cannot be entered.
pub(super) fn meet_all(by_namespace: &Link, by_process: &Link, filter: &Filter) -> Result<()> {
    iterate::pass(by_process)?;
    let wanted = |inode| filter.netns.as_ref().is_none_or(|wanted| wanted.contains(&inode));
    let reachable = namespaces::all()?.reachable;
    reachable
        .iter()
        .filter(|netns| wanted(netns.inode()))
        .try_for_each(|netns| netns.run(|| iterate::pass(by_namespace)))
}

/// The kernel's timer. It stops when the value is dropped or the process ends.
#[derive(Debug)]
pub(super) struct SampleTimer {
    ticking: MapHandle,
}

/// The cost of sampling by timer since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockCost {
    pub ticks: u64,
    /// Sockets checked.
    pub looks: u64,
    pub nanoseconds: u64,
}

impl SampleTimer {
    /// Starts the timer.
    ///
    /// # Errors
    /// The kernel refuses its iterator or its timer.
    pub fn begin(skel: &TcpTraceSkel<'_>) -> Result<SampleTimer> {
        let starting =
            skel.progs.tccc_begin.attach_iter(skel.maps.tccc_ticking.as_fd()).context("attach the tracer's timer")?;
        iterate::pass(&starting)?;
        let clock =
            SampleTimer { ticking: MapHandle::try_from(&skel.maps.tccc_ticking).context("hold the tracer's timer")? };
        ensure!(clock.state().is_begun != 0, "the kernel starts no timer for the tracer");
        Ok(clock)
    }

    pub fn cost(&self) -> ClockCost {
        let ticking { ticks, looks, spent_ns: nanoseconds, .. } = self.state();
        ClockCost { ticks, looks, nanoseconds }
    }

    fn state(&self) -> ticking {
        let bytes = self.ticking.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let state = bytes.and_then(|bytes| ticking::read_from_bytes(&bytes).ok());
        state.expect("the timer is in a map that this process holds")
    }
}
