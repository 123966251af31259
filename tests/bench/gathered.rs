//! Thousands of sockets in a namespace of their own.
//!
//! The number of descriptors per process is limited, so several processes hold a part of the sockets each. They are this
//! test binary, started again for its ignored test `crowd_member`.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::Result;
use tccc::kernel::netlink;

use super::*;
use crate::common::test_alone;
use crate::namespaces::start_in;

const OF_ONE_MEMBER: usize = 16_000;
/// Connections per listener. With more, the kernel would search longer for a free port.
const OF_ONE_LISTENER: usize = 2_000;
/// Variables of a member: number of sockets, file for their addresses, interval of their transfers in milliseconds.
const SOCKETS: &str = "TCCC_CROWD_SOCKETS";
const LIST: &str = "TCCC_CROWD_LIST";
const PACE: &str = "TCCC_CROWD_PACE";

pub struct SocketCrowd {
    pub netns: Netns,
    members: Vec<Child>,
    /// Local and remote address of every socket.
    pub ends: BTreeSet<(SocketAddr, SocketAddr)>,
}

impl SocketCrowd {
    /// Opens sockets, two per connection. Each connection transfers some bytes once per `pace`.
    pub fn gather(sockets: usize, pace: Option<Duration>) -> SocketCrowd {
        let netns = Netns::create().unwrap();
        netlink::set_up(&netns, "lo").unwrap();
        SocketCrowd::gather_in(netns, sockets, pace)
    }

    /// Like [`SocketCrowd::gather`], in an existing namespace.
    pub fn gather_in(netns: Netns, sockets: usize, pace: Option<Duration>) -> SocketCrowd {
        let mut crowd = SocketCrowd { netns, members: Vec::new(), ends: BTreeSet::new() };
        let folder = tempfile::tempdir().unwrap();
        while crowd.ends.len() < sockets {
            let list = folder.path().join(crowd.members.len().to_string());
            crowd.start_member(OF_ONE_MEMBER.min(sockets - crowd.ends.len()), &list, pace);
            poll_until(SOON, "a part of the crowd is connected", || list.exists());
            let text = std::fs::read_to_string(&list).unwrap();
            let address = |word: Option<&str>| word.unwrap().parse::<SocketAddr>().unwrap();
            crowd.ends.extend(text.lines().map(|line| {
                let mut words = line.split(' ');
                (address(words.next()), address(words.next()))
            }));
        }
        crowd
    }

    fn start_member(&mut self, sockets: usize, list: &Path, pace: Option<Duration>) {
        let mut command = test_alone(module_path!(), "crowd_member");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.env(SOCKETS, sockets.to_string()).env(LIST, list);
        command.envs(pace.map(|pace| (PACE, pace.as_millis().to_string())));
        self.members.push(start_in(&self.netns, &mut command).spawn().unwrap());
    }
}

impl Drop for SocketCrowd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

/// The work of a member, until its parent ends. Does nothing without the variables of a member.
#[test]
#[ignore = "started by the benchmarks"]
fn crowd_member() {
    let Ok(sockets) = std::env::var(SOCKETS) else { return };
    let connections = Arc::new(connect_all(sockets.parse::<usize>().unwrap() / 2).unwrap());
    let list = std::env::var(LIST).unwrap();
    let line = |stream: &TcpStream| format!("{} {}\n", stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    let text: String = connections.iter().flatten().map(line).collect();
    std::fs::write(format!("{list}.part"), text).unwrap();
    std::fs::rename(format!("{list}.part"), &list).unwrap();
    if let Ok(pace) = std::env::var(PACE) {
        let (talking, pace) = (Arc::clone(&connections), Duration::from_millis(pace.parse().unwrap()));
        std::thread::spawn(move || {
            loop {
                let begin = Instant::now();
                talk(&talking);
                std::thread::sleep(pace.saturating_sub(begin.elapsed())); // the pace of the load
            }
        });
    }
    // Ends when the parent's end of the pipe is closed.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn connect_all(connections: usize) -> Result<Vec<[TcpStream; 2]>> {
    let mut made = Vec::with_capacity(connections);
    while made.len() < connections {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        for _ in made.len()..connections.min(made.len() + OF_ONE_LISTENER) {
            made.push([TcpStream::connect(address)?, listener.accept()?.0]);
        }
    }
    Ok(made)
}

fn talk(connections: &[[TcpStream; 2]]) {
    let mut piece = [0; 1000];
    for [client, server] in connections {
        (&*client).write_all(&piece).unwrap();
        (&*server).read_exact(&mut piece).unwrap();
    }
}
