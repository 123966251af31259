//! Samples by the clock: a thread has the kernel look at every known socket once per interval, so that nothing runs per
//! packet and the cost follows the number of sockets and samples.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use libbpf_rs::Link;

use super::filter::Filter;
use super::snapshot;
use crate::kernel::btf::{Kind, Types};
use crate::kernel::namespaces;
use crate::kernel::privilege::{self, Capability};

/// Shorter intervals are sampled by packet: a look at every socket takes about as long as they are.
pub(super) const INTERVAL_MIN: Duration = Duration::from_millis(1);
/// Rest after each look, in times of what it took: on a host with so many sockets that it matters, samples come more
/// seldom than asked for rather than take a processor.
const REST: u32 = 10;

/// Whether this kernel and process can sample by the clock.
pub(super) fn is_possible(kernel: &Types, has_tracepoint: impl Fn(&str) -> bool) -> bool {
    kernel.find(Kind::Function, "bpf_iter_bpf_sk_storage_map").is_some()
        && kernel.find(Kind::Function, "bpf_iter_tcp").is_some()
        && kernel.find(Kind::Function, "bpf_iter_task_file").is_some()
        && ["tcp_cong_state_set", "inet_sock_set_state", "tcp_retransmit_skb"].into_iter().all(has_tracepoint)
        && privilege::missing(&[Capability::SysAdmin]).is_empty()
}

/// Makes every socket that is open known to the tracer: those of every process, of a namespace that cannot be found too,
/// and those that no process holds any more, in the namespaces of its filter.
///
/// Errors: not permitted to enter a network namespace.
pub(super) fn meet_all(by_namespace: &Link, by_process: &Link, filter: &Filter) -> Result<()> {
    snapshot::pass(by_process)?;
    let wanted = |inode| filter.netns.as_ref().is_none_or(|wanted| wanted.contains(&inode));
    let reachable = namespaces::all()?.reachable;
    reachable
        .iter()
        .filter(|netns| wanted(netns.inode()))
        .try_for_each(|netns| netns.run(|| snapshot::pass(by_namespace)))
}

/// The thread; it ends with the value.
pub(super) struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Begins to look once per interval.
    pub fn start(link: Link, interval: Duration) -> Ticker {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut due = Instant::now() + interval;
            while !asked.load(Ordering::Relaxed) {
                let begin = Instant::now();
                if begin < due {
                    std::thread::park_timeout(due - begin);
                    continue;
                }
                if snapshot::pass(&link).is_err() {
                    return; // the iterator of a link that is held can only fail for want of memory or descriptors
                }
                let end = Instant::now();
                due = (due + interval).max(end + (end - begin) * REST);
            }
        });
        Ticker { stop, thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
