//! Flows that go on until they are stopped, each byte compared with what was sent.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng as _;

use super::Pair;
use crate::common::poll_until;
use crate::lab::trial::SOON;

/// Bytes of one round of a flow: they fit into the buffers of both sockets.
const PIECE: usize = 16 << 10;
const WORKERS: usize = 8;
/// Between two rounds, so that what is tested gets the processors too.
const PAUSE: Duration = Duration::from_millis(20);

/// Connections that carry bytes both ways, one after another, in the background.
pub struct Traffic {
    stops: Arc<AtomicBool>,
    /// Rounds of all flows so far.
    rounds: Arc<AtomicUsize>,
    workers: Vec<JoinHandle<(Vec<Pair>, Carried)>>,
}

/// What flows carried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Carried {
    pub bytes: u64,
    /// The longest time that one round of a flow took.
    pub longest: Duration,
}

impl Traffic {
    /// Begins on all of them.
    pub fn begin(mut pairs: Vec<Pair>) -> Self {
        let (stops, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let each = pairs.len().div_ceil(WORKERS).max(1);
        let mut workers = Vec::new();
        while !pairs.is_empty() {
            let own = pairs.split_off(pairs.len() - each.min(pairs.len()));
            let (stops, rounds, seed) = (Arc::clone(&stops), Arc::clone(&rounds), workers.len() as u64);
            workers.push(std::thread::spawn(move || carry(own, seed, &stops, &rounds)));
        }
        Traffic { stops, rounds, workers }
    }

    /// Waits until there were so many more rounds.
    #[track_caller]
    pub fn goes_on(&self, rounds: usize) {
        let before = self.rounds.load(Ordering::Relaxed);
        poll_until(SOON, "bytes are carried", || {
            assert!(!self.workers.iter().any(JoinHandle::is_finished), "a connection ended");
            self.rounds.load(Ordering::Relaxed) >= before + rounds
        });
    }

    /// Ends, and gives the connections back.
    ///
    /// Panics: a connection was reset, or a byte was not what was sent.
    pub fn end(mut self) -> (Vec<Pair>, Carried) {
        self.stops.store(true, Ordering::Relaxed);
        let (mut pairs, mut all) = (Vec::new(), Carried::default());
        for worker in std::mem::take(&mut self.workers) {
            let (own, carried) = worker.join().expect("every byte arrives");
            pairs.extend(own);
            all = Carried { bytes: all.bytes + carried.bytes, longest: all.longest.max(carried.longest) };
        }
        (pairs, all)
    }
}

/// Its threads would keep the mount namespace of a test that failed, with all that is pinned there.
impl Drop for Traffic {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
    }
}

fn carry(mut pairs: Vec<Pair>, seed: u64, stops: &AtomicBool, rounds: &AtomicUsize) -> (Vec<Pair>, Carried) {
    let mut carried = Carried::default();
    let (mut random, mut sent, mut piece) = (Pcg32::new(seed, 15), vec![0; PIECE], vec![0; PIECE]);
    while !stops.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE); // the pace of the load, not a wait for a condition
        for pair in &mut pairs {
            random.fill_bytes(&mut sent);
            let begin = Instant::now();
            for [from, to] in [[0, 1], [1, 0]] {
                let ends = [&pair.client, &pair.server];
                let (mut from, mut to) = (ends[from], ends[to]);
                from.write_all(&sent).unwrap();
                to.read_exact(&mut piece).unwrap();
                assert!(piece == sent, "the bytes arrive as they were sent");
            }
            carried.bytes += 2 * PIECE as u64;
            carried.longest = carried.longest.max(begin.elapsed());
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
    (pairs, carried)
}
