//! The kernel's own counts of every flow at every moment, by `TCP_INFO`: what a recording is compared with.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tccc::kernel::clock::monotonic_ns;
use tccc::trace::event::Event;

use super::Ends;
use crate::lab::trace::tcp_info;

/// Rest between two rounds over all flows.
const REST: Duration = Duration::from_millis(2);

/// Counts that the kernel gave at every moment from `first_ns` to `last_ns`, and perhaps a little longer.
#[derive(Debug, Clone, Copy)]
struct Seen {
    delivered_pkts: u32,
    retrans_pkts: u32,
    first_ns: u64,
    last_ns: u64,
}

impl Seen {
    fn pair(&self) -> (u32, u32) {
        (self.delivered_pkts, self.retrans_pkts)
    }
}

/// Asks the kernel for the counts of every flow, again and again, until it is ended.
pub struct Witness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<Ends, Vec<Seen>>>,
}

/// How a recorded event compares with what the kernel said itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has the counts that the kernel gave just before its moment, or just after.
    Equal,
    /// It lies between the two.
    Between,
    /// It has counts that the kernel did not have.
    Wrong,
}

impl Witness {
    pub(super) fn begin(clients: Vec<TcpStream>) -> Witness {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let mut counts = BTreeMap::new();
        note_all(&mut counts, &clients);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                std::thread::park_timeout(REST);
                note_all(&mut counts, &clients);
            }
            note_all(&mut counts, &clients);
            counts
        });
        Witness { stop, thread }
    }

    /// Ends it; what is known can then be asked.
    pub fn end(self) -> Testimony {
        self.stop.store(true, Ordering::Relaxed);
        Testimony { counts: self.thread.join().unwrap() }
    }
}

fn note_all(counts: &mut BTreeMap<Ends, Vec<Seen>>, clients: &[TcpStream]) {
    for client in clients {
        let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        note(counts.entry(ends).or_default(), client);
    }
}

fn note(counts: &mut Vec<Seen>, client: &TcpStream) {
    let before = monotonic_ns().unwrap();
    let info = tcp_info(client);
    let after = monotonic_ns().unwrap();
    match counts.last_mut() {
        Some(last) if last.pair() == (info.delivered_pkts, info.retrans_pkts) => {
            last.last_ns = before;
        }
        _ => counts.push(Seen {
            delivered_pkts: info.delivered_pkts,
            retrans_pkts: info.retrans_pkts,
            first_ns: after,
            last_ns: before,
        }),
    }
}

/// What the kernel said.
pub struct Testimony {
    counts: BTreeMap<Ends, Vec<Seen>>,
}

impl Testimony {
    /// Compares an event of a witnessed flow.
    ///
    /// `slack`: between the event's time and its counts, nothing for what was sampled by packet: the socket is locked
    /// then. With samples at intervals it is not, and a busy processor may do something else between the two.
    pub fn judge(&self, event: &Event, slack: Duration) -> Verdict {
        let counts = &self.counts[&(event.local, event.remote)];
        let slack_ns = slack.as_nanos() as u64;
        let before = counts.partition_point(|seen| seen.first_ns <= event.time_ns - slack_ns).checked_sub(1);
        let after = counts.partition_point(|seen| seen.last_ns < event.time_ns + slack_ns);
        let (Some(before), Some(after)) = (before, counts.get(after)) else { return Verdict::Wrong };
        let (lower, upper) = (counts[before].pair(), after.pair());
        let own = (event.delivered_pkts, event.retrans_pkts);
        match () {
            () if own == lower || own == upper => Verdict::Equal,
            () if own.0 >= lower.0 && own.1 >= lower.1 && own.0 <= upper.0 && own.1 <= upper.1 => Verdict::Between,
            () => Verdict::Wrong,
        }
    }
}
