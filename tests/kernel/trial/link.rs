//! Many peers: addresses of a second namespace, behind a user-space link with loss or a short queue.

use std::io::{Read as _, Write as _};
use std::sync::atomic::AtomicUsize;

use tccc::emulate::tunlink::TunLink;
use tccc::emulate::{LinkDriver as _, LinkEnd};
use tccc::kernel::netlink;
use tccc::path::LinkConfig;
use tccc::units::Share;

use super::*;

const INTERFACES: [&str; 2] = ["kgt0", "kgt1"];

/// 200 Mbit/s, 2 ms each way, a queue of 40 packets.
pub fn short_queue() -> Direction {
    Direction {
        rate: Some(BitsPerSec(200_000_000)),
        delay: Duration::from_millis(2),
        queue: QueueSize::Packets(40),
        seed: 3,
        ..Direction::default()
    }
}

pub struct ManyPeers {
    peers: Netns,
    pub addresses: Vec<Ipv4Addr>,
    _link: Box<dyn tccc::emulate::Link>,
}

impl ManyPeers {
    /// A long queue, and 2 % loss towards the peers.
    pub fn lossy(netns: &Netns, peers: u8) -> Self {
        let there = Direction { queue: QueueSize::Packets(1000), loss: Share(0.02).into(), seed: 1, ..short_queue() };
        Self::build(netns, peers, there)
    }

    pub fn build(netns: &Netns, peers: u8, there: Direction) -> Self {
        let far = Netns::create().unwrap();
        let back = Direction { loss: Share(0.0).into(), queue: QueueSize::Packets(4000), ..there.clone() };
        let config = LinkConfig { directions: [there, back], mtu: 1500 };
        let ends = [(netns, INTERFACES[0]), (&far, INTERFACES[1])]
            .map(|(netns, name)| LinkEnd { netns: netns.try_clone().unwrap(), interface: name.to_owned() });
        let link = TunLink.connect(&config, ends).unwrap();
        netlink::set_up(&far, "lo").unwrap();
        netlink::add_address(netns, INTERFACES[0], [10, 79, 0, 1].into(), 16).unwrap();
        let addresses: Vec<Ipv4Addr> = (0..peers).map(|number| [10, 79, 1, 1 + number].into()).collect();
        for address in &addresses {
            netlink::add_address(&far, INTERFACES[1], (*address).into(), 16).unwrap();
        }
        ManyPeers { peers: far, addresses, _link: link }
    }

    /// Sends transfers of these sizes to the peers in turn, with concurrent workers. Collects the value of `keep` for the
    /// two ends of each transfer.
    pub fn transfer<T: Send>(
        &self,
        netns: &Netns,
        workers: usize,
        sizes: &[usize],
        keep: impl Fn([TcpStream; 2]) -> T + Sync,
    ) -> Vec<T> {
        let next = AtomicUsize::new(0);
        let one = || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let bytes = *sizes.get(number)?;
            let peer = self.addresses[number % self.addresses.len()];
            let listener = self.peers.run(|| Ok(TcpListener::bind((peer, 0))?)).unwrap();
            let mut client = netns.run(|| Ok(TcpStream::connect(listener.local_addr()?)?)).unwrap();
            let mut server = listener.accept().unwrap().0;
            std::thread::scope(|scope| {
                scope.spawn(|| client.write_all(&vec![7; bytes]).unwrap());
                server.read_exact(&mut vec![0; bytes]).unwrap();
            });
            Some(keep([client, server]))
        };
        std::thread::scope(|scope| {
            let work = || std::iter::from_fn(one).collect::<Vec<T>>();
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        })
    }
}
