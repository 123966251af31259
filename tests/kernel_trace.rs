//! The tracer on this kernel: events of real transfers between namespaces, filters, drops, sweeps, nothing left behind.

mod common;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::Result;
use common::{needs, poll_until};
use tccc::kernel::netlink;
use tccc::kernel::netns::Netns;
use tccc::trace::event::{Event, EventKind};
use tccc::trace::filter::Filter;
use tccc::trace::live::{RING_BYTES, Tracer};

/// A namespace of its own with its loopback interface up.
fn loopback_netns() -> Netns {
    let netns = Netns::create().unwrap();
    netlink::set_up(&netns, "lo").unwrap();
    netns
}

fn only(netns: &Netns) -> Filter {
    Filter { netns: Some(BTreeSet::from([netns.inode()])), ..Filter::default() }
}

/// Sends `bytes` from a client to a server in `netns` and closes both; returns the client's address.
fn transfer(netns: &Netns, bytes: usize) -> SocketAddr {
    netns
        .run(|| -> Result<SocketAddr> {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let mut client = TcpStream::connect(listener.local_addr()?)?;
            let (mut server, _) = listener.accept()?;
            let address = client.local_addr()?;
            std::thread::scope(|scope| {
                scope.spawn(move || client.write_all(&vec![0; bytes]).unwrap());
                let mut received = Vec::new();
                server.read_to_end(&mut received).unwrap();
                assert_eq!(received.len(), bytes);
            });
            Ok(address)
        })
        .unwrap()
}

#[test]
fn transfer_gives_open_samples_and_close() {
    needs!(root, btf);
    let netns = loopback_netns();
    let tracer = Tracer::start(&only(&netns), Duration::from_millis(1), RING_BYTES).unwrap();
    let client = transfer(&netns, 64 << 20);
    let mut events: Vec<Event> = Vec::new();
    poll_until(Duration::from_secs(5), "the client closes", || {
        tracer.poll(Duration::from_millis(10), &mut |event| events.push(event)).unwrap();
        events.iter().any(|event| event.kind == EventKind::Close && event.local == client)
    });
    let of_client: Vec<&Event> = events.iter().filter(|event| event.local == client).collect();
    assert_eq!(of_client[0].kind, EventKind::Open);
    let samples: Vec<&&Event> = of_client.iter().filter(|event| event.kind == EventKind::Sample).collect();
    assert!(samples.len() > 1, "{} samples", samples.len());
    assert!(samples.windows(2).all(|pair| pair[0].delivered_pkts <= pair[1].delivered_pkts));
    let close = of_client.last().unwrap();
    assert_eq!((close.kind, close.tcp_state), (EventKind::Close, 7));
    assert!(close.bytes_acked >= 64 << 20, "{} bytes", close.bytes_acked);
    assert_eq!(tracer.dropped(), 0);
}
