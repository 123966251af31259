//! Connections that carry bytes, each of which is checked, until they are stopped.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng as _;
use tccc::kernel::netns::Netns;

use crate::common::poll_until;
use crate::lab::trial::{SOON, algorithm_of};

/// Bytes that are sent at once, and the time until the next: the rate of one connection.
const PIECE: usize = 4096;
const PAUSE: Duration = Duration::from_millis(50);
/// Addresses of the servers.
const PEERS: usize = 200;

pub struct Crowd {
    clients: Vec<TcpStream>,
    carriers: Vec<JoinHandle<Seen>>,
    stop: Arc<AtomicBool>,
    pieces: Arc<AtomicU64>,
}

/// What all connections together saw.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    pub bytes: u64,
    /// The longest time from writing a piece until it was read.
    pub stall: Duration,
}

impl Crowd {
    pub fn gather(netns: &Netns, port: u16, connections: usize) -> Crowd {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let (stop, pieces) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut crowd = Crowd { clients: Vec::new(), carriers: Vec::new(), stop, pieces };
        let listener = netns.run(|| Ok(TcpListener::bind(("0.0.0.0", port))?)).unwrap();
        for number in 0..connections {
            let address = SocketAddrV4::new(Ipv4Addr::new(127, 4, 0, 1 + (number % PEERS) as u8), port);
            let client = netns.run(|| Ok(TcpStream::connect(address)?)).unwrap();
            let server = listener.accept().unwrap().0;
            server.set_read_timeout(Some(SOON)).unwrap();
            crowd.clients.push(client.try_clone().unwrap());
            let (stop, pieces) = (Arc::clone(&crowd.stop), Arc::clone(&crowd.pieces));
            crowd.carriers.push(std::thread::spawn(move || carry([client, server], number as u64, &stop, &pieces)));
        }
        crowd
    }

    /// Waits until every connection has carried something more, on average.
    #[track_caller]
    pub fn goes_on(&self) {
        let before = self.pieces.load(Ordering::Relaxed);
        poll_until(SOON, "bytes are carried", || {
            assert!(!self.carriers.iter().any(JoinHandle::is_finished), "a connection ended");
            self.pieces.load(Ordering::Relaxed) >= before + 3 * self.carriers.len() as u64
        });
    }

    /// How many clients have this algorithm.
    pub fn with(&self, algorithm: &str) -> usize {
        self.clients.iter().filter(|client| algorithm_of(client) == algorithm).count()
    }

    /// Ends every connection in order.
    pub fn end(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let carriers = std::mem::take(&mut self.carriers);
        let seen = carriers.into_iter().map(|carrier| carrier.join().expect("every byte arrives as it was"));
        seen.fold(Seen::default(), |all, one| Seen { bytes: all.bytes + one.bytes, stall: all.stall.max(one.stall) })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn carry([mut client, mut server]: [TcpStream; 2], seed: u64, stop: &AtomicBool, pieces: &AtomicU64) -> Seen {
    let (mut random, mut sent, mut received) = (Pcg32::new(seed, 15), [0; PIECE], [0; PIECE]);
    let mut seen = Seen::default();
    while !stop.load(Ordering::Relaxed) {
        random.fill_bytes(&mut sent);
        let begin = Instant::now();
        client.write_all(&sent).expect("the connection takes bytes");
        server.read_exact(&mut received).expect("the bytes arrive");
        seen.stall = seen.stall.max(begin.elapsed());
        assert!(sent == received, "bytes changed after {}", seen.bytes);
        seen.bytes += PIECE as u64;
        pieces.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(PAUSE); // the rate of the traffic, not a wait
    }
    seen
}
