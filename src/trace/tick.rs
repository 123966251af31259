//! Samples by the clock: a thread has the kernel look at every known socket once per interval, so that nothing runs per
//! packet and the cost follows the number of sockets and samples.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
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

/// Makes every socket that is open known to the tracer: those of every process, of a namespace that cannot be found
/// too, and those that no process holds any more, in the namespaces of its filter.
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
    failure: Arc<OnceLock<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Begins to look once per interval.
    pub fn start(link: Link, interval: Duration) -> Ticker {
        Ticker::repeat(interval, move || snapshot::pass(&link))
    }

    /// The first failure of a look, in a sentence for people; each is followed by another try.
    pub fn notice(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn repeat(interval: Duration, mut look: impl FnMut() -> Result<()> + Send + 'static) -> Ticker {
        let (stop, failure) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        let (asked, told) = (Arc::clone(&stop), Arc::clone(&failure));
        let thread = std::thread::spawn(move || {
            let mut due = Instant::now() + interval;
            while !asked.load(Ordering::Relaxed) {
                let begin = Instant::now();
                if begin < due {
                    std::thread::park_timeout(due - begin);
                    continue;
                }
                let looked = look();
                let end = Instant::now();
                due = (due + interval).max(end + (end - begin) * REST);
                if let Err(error) = looked {
                    // The iterator of a link that is held fails only for want of memory or descriptors, which passes.
                    due = due.max(end + interval);
                    told.get_or_init(|| why_samples_are_missing(&error));
                }
            }
        });
        Ticker { stop, failure, thread: Some(thread) }
    }
}

fn why_samples_are_missing(error: &anyhow::Error) -> String {
    format!("samples are missing: a look at all sockets failed, and is tried again: {error:#}")
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use anyhow::bail;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    /// One look that found no descriptors ended the thread, and nobody was told.
    #[test]
    fn look_that_fails_is_said_once_and_tried_again() {
        let (tell, looks) = mpsc::channel();
        let mut count = 0;
        let ticker = Ticker::repeat(Duration::from_millis(1), move || {
            count += 1;
            let _ = tell.send(count); // the test may have seen enough
            match count {
                2 => bail!("no descriptors"),
                3 => bail!("no memory"),
                _ => Ok(()),
            }
        });
        assert_eq!(looks.recv_timeout(SOON), Ok(1));
        let seen: Vec<i32> = (0..4).map(|_| looks.recv_timeout(SOON).unwrap()).collect();
        assert_eq!(seen, [2, 3, 4, 5]);
        let notice = ticker.notice().unwrap();
        assert!(notice.contains("tried again: no descriptors") && !notice.contains("no memory"), "{notice}");
    }

    #[test]
    fn looks_that_succeed_say_nothing() {
        let (tell, looks) = mpsc::channel();
        let ticker = Ticker::repeat(Duration::from_millis(1), move || {
            let _ = tell.send(());
            Ok(())
        });
        (0..3).for_each(|_| looks.recv_timeout(SOON).unwrap());
        assert_eq!(ticker.notice(), None);
    }
}
