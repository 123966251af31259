//! Flows that continue until they are stopped. Each byte is compared with what was sent.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng as _;

use super::SocketPair;
use crate::common::{SOON, poll_until};

/// Bytes of one round of a flow. They fit into the buffers of both sockets.
const PIECE: usize = 16 << 10;
const WORKERS: usize = 8;
/// Pause after a round of up to so many connections, so that the test itself gets processor time.
const PAUSE: (Duration, usize) = (Duration::from_millis(20), 5);

/// Connections that carry bytes in both directions, one after another, in the background.
pub struct BackgroundTraffic {
    stops: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    workers: Vec<JoinHandle<(Vec<SocketPair>, TrafficSummary)>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct TrafficSummary {
    pub bytes: u64,
    pub longest: Duration,
}

impl BackgroundTraffic {
    pub fn begin(mut pairs: Vec<SocketPair>) -> Self {
        let (stops, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let each = pairs.len().div_ceil(WORKERS).max(1);
        let mut workers = Vec::new();
        while !pairs.is_empty() {
            let own = pairs.split_off(pairs.len() - each.min(pairs.len()));
            let (stops, rounds, seed) = (Arc::clone(&stops), Arc::clone(&rounds), workers.len() as u64);
            workers.push(std::thread::spawn(move || carry(own, seed, &stops, &rounds)));
        }
        BackgroundTraffic { stops, rounds, workers }
    }

    #[track_caller]
    pub fn goes_on(&self, rounds: usize) {
        let before = self.rounds.load(Ordering::Relaxed);
        poll_until(SOON, "bytes are carried", || {
            assert!(!self.workers.iter().any(JoinHandle::is_finished), "a connection ended");
            self.rounds.load(Ordering::Relaxed) >= before + rounds
        });
    }

    /// Stops the traffic and returns the connections.
    ///
    /// Panics: a connection was reset, or a wrong byte arrived.
    pub fn end(mut self) -> (Vec<SocketPair>, TrafficSummary) {
        self.stops.store(true, Ordering::Relaxed);
        let (mut pairs, mut all) = (Vec::new(), TrafficSummary::default());
        for worker in std::mem::take(&mut self.workers) {
            let (own, carried) = worker.join().expect("every byte arrives");
            pairs.extend(own);
            all = TrafficSummary { bytes: all.bytes + carried.bytes, longest: all.longest.max(carried.longest) };
        }
        (pairs, all)
    }
}

/// Otherwise the threads would keep the mount namespace of a failed test, and everything pinned there.
impl Drop for BackgroundTraffic {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
    }
}

fn carry(
    mut pairs: Vec<SocketPair>,
    seed: u64,
    stops: &AtomicBool,
    rounds: &AtomicUsize,
) -> (Vec<SocketPair>, TrafficSummary) {
    let mut carried = TrafficSummary::default();
    let (mut random, mut noise, mut piece) = (Pcg32::new(seed, 15), vec![0; 2 * PIECE], vec![0; PIECE]);
    random.fill_bytes(&mut noise);
    let pause = PAUSE.0 * pairs.len().div_ceil(PAUSE.1) as u32;
    while !stops.load(Ordering::Relaxed) {
        std::thread::sleep(pause); // the pace of the load
        for pair in &mut pairs {
            // Bytes of another round are hardly ever the same. New ones for each round cost a debug build the most time.
            let sent = &noise[random.next_u32() as usize % PIECE..][..PIECE];
            let begin = Instant::now();
            for [from, to] in [[0, 1], [1, 0]] {
                let ends = [&pair.client, &pair.server];
                let (mut from, mut to) = (ends[from], ends[to]);
                from.write_all(sent).unwrap();
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
