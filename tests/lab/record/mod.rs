//! Many flows over a lossy path, the kernel's own counts of them at every moment, and the content of recordings.

mod witness;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use tccc::trace::arrival::Fact;
use tccc::trace::event::Event;
use tccc::trace::record::read::{BlockContent, Damage, RecordingReader, Want};
use tccc::trace::record::{MAGIC, Tail};

use crate::common::{Owned, poll_until, tccc};
use crate::lab::socket::path_of;
use crate::lab::trace::LossyPath;
#[allow(unused_imports, reason = "each test binary uses its own part of this module")]
pub use witness::{Agreement, Witness};

/// Time limit until hundreds of flows are recorded.
const RECORDED_WITHIN: Duration = Duration::from_secs(300);
const PIECE_BYTES: usize = 16 << 10;
const STACK_BYTES: usize = 128 << 10;
/// The head of a block: its length, and the offsets of kind, stored bytes and number of records.
const HEADER_BYTES: usize = 48;
const KIND_AT: usize = 4;
const STORED_AT: usize = 8;
const RECORDS_AT: usize = 16;
const EVENTS: u8 = 2;

/// Flows that send over one path until they are dropped.
pub struct LossyFlows {
    path: LossyPath,
    clients: Vec<TcpStream>,
    servers: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl LossyFlows {
    /// Starts flows that use reno and cubic in turn.
    pub fn begin(count: usize) -> Self {
        let mut flows =
            LossyFlows { path: LossyPath::build(), clients: Vec::new(), servers: Vec::new(), threads: Vec::new() };
        // Connects all before any of them sends, because a full queue drops SYNs.
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

    pub fn witness(&self) -> Witness {
        Witness::begin(self.clients.iter().map(|client| client.try_clone().unwrap()).collect())
    }

    pub fn place(&self) -> String {
        path_of(self.path.sender())
    }

    /// Starts `tccc trace --record` for the senders. Dropping the process kills it as `kill -9` does.
    pub fn recorder(&self, file: &Path, interval: &str) -> Owned {
        let place = self.place();
        let arguments = ["--quiet", "trace", "--interval", interval, "--netns", &place, "--record"];
        tccc().args(arguments).arg(file).spawn().unwrap().into()
    }

    /// Waits until every sender is in the recording. Reads the file only after it has grown by half, because each read
    /// takes processor time from the flows.
    pub fn until_recorded(&self, file: &Path) {
        let mut read_bytes = 0;
        poll_until(RECORDED_WITHIN, "every flow is recorded", || {
            let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
            if bytes <= read_bytes + read_bytes / 2 {
                return false;
            }
            read_bytes = bytes;
            RecordingContent::of(file).is_some_and(|recording| recording.last_of_each().len() >= self.clients.len())
        });
    }
}

impl Drop for LossyFlows {
    fn drop(&mut self) {
        for stream in self.clients.iter().chain(&self.servers) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Local and remote address of a flow. The kernel uses one local port for several destinations.
pub type SocketAddresses = (SocketAddr, SocketAddr);

pub struct RecordingContent {
    pub events: Vec<Event>,
    pub facts: Vec<Fact>,
    pub damage: Damage,
    pub tail: Option<Tail>,
}

impl RecordingContent {
    /// None: the file is not a recording yet.
    pub fn of(file: &Path) -> Option<Self> {
        let mut reader = RecordingReader::open(file).ok()?;
        let (mut events, mut facts) = (Vec::new(), Vec::new());
        while let Some(content) = reader.next(Want::All).unwrap() {
            match content {
                BlockContent::Events(more) => events.extend(more),
                BlockContent::Facts(more) => facts.extend(more),
            }
        }
        Some(RecordingContent { events, facts, damage: reader.damage(), tail: reader.tail() })
    }

    pub fn last_of_each(&self) -> BTreeMap<SocketAddresses, &Event> {
        let mut last: BTreeMap<SocketAddresses, &Event> = BTreeMap::new();
        for event in &self.events {
            let known = last.entry((event.local, event.remote)).or_insert(event);
            if known.time_ns <= event.time_ns {
                *known = event;
            }
        }
        last
    }
}

/// The complete blocks of a file, found without the program's reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeBlocks {
    pub events: u64,
    /// Offset of the end of the last complete block.
    pub end: u64,
}

impl WholeBlocks {
    /// None: the file has no complete block.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut at = MAGIC.len() + 4;
        let mut whole = None;
        let mut events = 0;
        while bytes.len() >= at + HEADER_BYTES && bytes.len() >= at + HEADER_BYTES + word(at + STORED_AT) as usize {
            events += if bytes[at + KIND_AT] == EVENTS { u64::from(word(at + RECORDS_AT)) } else { 0 };
            at += HEADER_BYTES + word(at + STORED_AT) as usize;
            whole = Some(WholeBlocks { events, end: at as u64 });
        }
        whole
    }
}

pub fn cut(bytes: &[u8], length: usize, folder: &Path) -> PathBuf {
    let file = folder.join(format!("cut-{length}"));
    std::fs::write(&file, &bytes[..length]).unwrap();
    file
}
