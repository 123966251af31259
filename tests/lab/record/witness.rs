//! The kernel's own counts of every flow over time, by `TCP_INFO`, to compare a recording with.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tccc::kernel::clock::monotonic_ns;
use tccc::trace::event::Event;

use super::SocketAddresses;
use crate::lab::socket::tcp_info;

const REST: Duration = Duration::from_millis(2);

/// Counts that the kernel reported at all times from `first_ns` to `last_ns`, and perhaps a little longer.
#[derive(Debug, Clone, Copy)]
struct WitnessedCounts {
    counts: (u32, u32),
    first_ns: u64,
    last_ns: u64,
}

/// The reports of the kernel on each flow, in order of time.
type Reports = BTreeMap<SocketAddresses, Vec<WitnessedCounts>>;

pub struct Witness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Reports>,
}

/// How a recorded event compares with the kernel's own counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// The event has the counts that the kernel reported just before it or just after it.
    Equal,
    Between,
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

    pub fn end(self) -> Testimony {
        self.stop.store(true, Ordering::Relaxed);
        Testimony(self.thread.join().unwrap())
    }
}

fn note_all(reports: &mut Reports, clients: &[TcpStream]) {
    for client in clients {
        let reports = reports.entry((client.local_addr().unwrap(), client.peer_addr().unwrap())).or_default();
        let before = monotonic_ns().unwrap();
        let info = tcp_info(client);
        let after = monotonic_ns().unwrap();
        let counts = (info.tcpi_delivered, info.tcpi_total_retrans);
        match reports.last_mut() {
            Some(last) if last.counts == counts => last.last_ns = before,
            _ => reports.push(WitnessedCounts { counts, first_ns: after, last_ns: before }),
        }
    }
}

pub struct Testimony(Reports);

impl Testimony {
    /// `slack`: longest time between the event's time stamp and its counts. It is zero for samples by packet, because
    /// the socket is locked. For samples at intervals the socket is not locked, and an interrupt may come in between.
    pub fn judge(&self, event: &Event, slack: Duration) -> Agreement {
        let counts = &self.0[&(event.local, event.remote)];
        let slack_ns = slack.as_nanos() as u64;
        let before = counts.partition_point(|seen| seen.first_ns <= event.time_ns - slack_ns).checked_sub(1);
        let after = counts.partition_point(|seen| seen.last_ns < event.time_ns + slack_ns);
        let (Some(before), Some(after)) = (before, counts.get(after)) else { return Agreement::Wrong };
        let (lower, upper) = (counts[before].counts, after.counts);
        let own = (event.delivered_pkts, event.retrans_pkts);
        match () {
            () if own == lower || own == upper => Agreement::Equal,
            () if own.0 >= lower.0 && own.1 >= lower.1 && own.0 <= upper.0 && own.1 <= upper.1 => Agreement::Between,
            () => Agreement::Wrong,
        }
    }
}
