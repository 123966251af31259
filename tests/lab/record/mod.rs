//! Many flows over a path that loses packets, the kernel's own counts of them at every moment, and a recorder that is
//! killed: what its file must hold.

mod witness;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use tccc::trace::event::Event;
use tccc::trace::record::read::{BlockContent, RecordingReader, Want};
use tccc::trace::record::{MAGIC, Tail};

use crate::common::{Owned, poll_until, tccc};
use crate::lab::socket::path_of;
use crate::lab::trace::LossyPath;
#[allow(unused_imports, reason = "each test binary uses its own part of this module")]
pub use witness::{Verdict, Witness};

const SOON: Duration = Duration::from_secs(300);
/// What a flow writes and reads at once.
const PIECE_BYTES: usize = 16 << 10;
/// A flow's threads do little.
const STACK_BYTES: usize = 128 << 10;
/// The head of a block: kind, stored bytes and records lie at these places of so many bytes.
const HEADER_BYTES: usize = 48;
const KIND_AT: usize = 4;
const STORED_AT: usize = 8;
const RECORDS_AT: usize = 16;
/// Kind of a block of events.
const EVENTS: u8 = 2;

/// Flows that send for as long as they live, over one path at once.
pub struct Flows {
    path: LossyPath,
    clients: Vec<TcpStream>,
    servers: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Flows {
    /// Begins so many flows, of two algorithms in turn.
    pub fn begin(count: usize) -> Flows {
        let mut flows =
            Flows { path: LossyPath::build(), clients: Vec::new(), servers: Vec::new(), threads: Vec::new() };
        // All before any of them sends: a full queue drops the packets that open the next one.
        let connections: Vec<_> = (0..count).map(|number| flows.path.connect(["reno", "cubic"][number % 2])).collect();
        for connection in connections {
            let (mut to, mut from) = (connection.client.try_clone().unwrap(), connection.server.try_clone().unwrap());
            flows.spawn(move || while to.write_all(&[0; PIECE_BYTES]).is_ok() {});
            flows.spawn(move || while from.read(&mut [0; PIECE_BYTES]).is_ok_and(|count| count > 0) {});
            flows.clients.push(connection.client);
            flows.servers.push(connection.server);
        }
        flows
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) {
        self.threads.push(std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap());
    }

    /// Begins to note the kernel's own counts of every sender.
    pub fn witness(&self) -> Witness {
        Witness::begin(self.clients.iter().map(|client| client.try_clone().unwrap()).collect())
    }

    /// Path by which other processes find the senders' namespace while this one lives.
    pub fn place(&self) -> String {
        path_of(self.path.sender())
    }

    /// Starts `tccc trace --record` for the senders.
    pub fn recorder(&self, file: &Path, interval: &str) -> Recorder {
        let place = self.place();
        let arguments = ["--quiet", "trace", "--interval", interval, "--netns", &place, "--record"];
        Recorder(tccc().args(arguments).arg(file).spawn().unwrap().into())
    }

    /// Waits until every sender is in the recording; reading it again and again would take the flows' processor, so
    /// that is done only when it has grown by half.
    pub fn until_recorded(&self, file: &Path) {
        let mut read_bytes = 0;
        poll_until(SOON, "every flow is recorded", || {
            let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
            if bytes <= read_bytes + read_bytes / 2 {
                return false;
            }
            read_bytes = bytes;
            Recording::of(file).is_some_and(|recording| recording.last_of_each().len() >= self.clients.len())
        });
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        for stream in self.clients.iter().chain(&self.servers) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A running recorder; one that is not killed before is killed with the value.
pub struct Recorder(Owned);

impl Recorder {
    #[allow(dead_code, reason = "not every test asks what it takes of a processor")]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// What tells a flow from the others, local end first: the kernel gives a local port to several destinations.
pub type Ends = (SocketAddr, SocketAddr);

/// What the program's own reader finds in a file.
pub struct Recording {
    pub events: Vec<Event>,
    pub rest_bytes: u64,
    pub damaged_blocks: u64,
    pub tail: Option<Tail>,
}

impl Recording {
    /// None: not a recording yet.
    pub fn of(file: &Path) -> Option<Recording> {
        let mut reader = RecordingReader::open(file).ok()?;
        let mut events = Vec::new();
        while let Some(content) = reader.next(Want::All).unwrap() {
            if let BlockContent::Events(more) = content {
                events.extend(more);
            }
        }
        let damage = reader.damage();
        Some(Recording {
            events,
            rest_bytes: damage.rest_bytes,
            damaged_blocks: damage.blocks + damage.events,
            tail: reader.tail(),
        })
    }

    /// The last event of each flow.
    pub fn last_of_each(&self) -> BTreeMap<Ends, &Event> {
        let mut last: BTreeMap<Ends, &Event> = BTreeMap::new();
        for event in &self.events {
            let known = last.entry((event.local, event.remote)).or_insert(event);
            if known.time_ns <= event.time_ns {
                *known = event;
            }
        }
        last
    }
}

/// The whole blocks of a file, found without the program's reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// Events in them.
    pub events: u64,
    /// Where the last of them ends.
    pub end: u64,
}

impl Whole {
    /// None: not even the head is whole.
    pub fn of(bytes: &[u8]) -> Option<Whole> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut at = MAGIC.len() + 4;
        let mut whole = None;
        let mut events = 0;
        while bytes.len() >= at + HEADER_BYTES && bytes.len() >= at + HEADER_BYTES + word(at + STORED_AT) as usize {
            events += if bytes[at + KIND_AT] == EVENTS { u64::from(word(at + RECORDS_AT)) } else { 0 };
            at += HEADER_BYTES + word(at + STORED_AT) as usize;
            whole = Some(Whole { events, end: at as u64 });
        }
        whole
    }
}

/// Writes the first bytes of a recording to another file.
pub fn cut(bytes: &[u8], length: usize, folder: &Path) -> PathBuf {
    let file = folder.join(format!("cut-{length}"));
    std::fs::write(&file, &bytes[..length]).unwrap();
    file
}
