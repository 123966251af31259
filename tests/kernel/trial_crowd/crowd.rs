//! Many connections that carry checked bytes until they are stopped.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tccc::kernel::netns::Netns;

use super::*;

const PEERS: usize = 200;

pub struct CheckedCrowd {
    clients: Vec<TcpStream>,
    traffic: BackgroundTraffic,
}

impl CheckedCrowd {
    pub fn gather(netns: &Netns, port: u16, connections: usize) -> CheckedCrowd {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let listener = netns.run(|| Ok(TcpListener::bind(("0.0.0.0", port))?)).unwrap();
        let pair = |number: usize| {
            let address = Ipv4Addr::new(127, 4, 0, 1 + (number % PEERS) as u8);
            let client = netns.run(|| Ok(TcpStream::connect((address, port))?)).unwrap();
            let server = listener.accept().unwrap().0;
            server.set_read_timeout(Some(SOON)).unwrap();
            SocketPair { client, server }
        };
        let pairs: Vec<SocketPair> = (0..connections).map(pair).collect();
        let clients = pairs.iter().map(|pair| pair.client.try_clone().unwrap()).collect();
        CheckedCrowd { clients, traffic: BackgroundTraffic::begin(pairs) }
    }

    /// Waits for three more rounds per connection on average.
    #[track_caller]
    pub fn goes_on(&self) {
        self.traffic.goes_on(3 * self.clients.len());
    }

    pub fn with(&self, algorithm: &str) -> usize {
        self.clients.iter().filter(|client| algorithm_of(client) == algorithm).count()
    }

    pub fn end(self) -> TrafficSummary {
        self.traffic.end().1
    }
}
