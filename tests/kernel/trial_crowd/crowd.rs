//! Many connections that carry bytes, each of which is checked, until they are stopped.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tccc::kernel::netns::Netns;

use crate::lab::policy::Pair;
use crate::lab::policy::traffic::{Carried, Traffic};
use crate::lab::trial::{SOON, algorithm_of};

/// Addresses of the servers.
const PEERS: usize = 200;

pub struct Crowd {
    clients: Vec<TcpStream>,
    traffic: Traffic,
}

impl Crowd {
    pub fn gather(netns: &Netns, port: u16, connections: usize) -> Crowd {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
        let listener = netns.run(|| Ok(TcpListener::bind(("0.0.0.0", port))?)).unwrap();
        let pair = |number: usize| {
            let address = Ipv4Addr::new(127, 4, 0, 1 + (number % PEERS) as u8);
            let client = netns.run(|| Ok(TcpStream::connect((address, port))?)).unwrap();
            let server = listener.accept().unwrap().0;
            server.set_read_timeout(Some(SOON)).unwrap();
            Pair { client, server }
        };
        let pairs: Vec<Pair> = (0..connections).map(pair).collect();
        let clients = pairs.iter().map(|pair| pair.client.try_clone().unwrap()).collect();
        Crowd { clients, traffic: Traffic::begin(pairs) }
    }

    /// Waits until every connection has carried something more, on average.
    #[track_caller]
    pub fn goes_on(&self) {
        self.traffic.goes_on(3 * self.clients.len());
    }

    /// How many clients have this algorithm.
    pub fn with(&self, algorithm: &str) -> usize {
        self.clients.iter().filter(|client| algorithm_of(client) == algorithm).count()
    }

    /// Ends every connection.
    pub fn end(self) -> Carried {
        self.traffic.end().1
    }
}
