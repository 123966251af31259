//! Registers every algorithm of the catalogue, gives each its own path, and asserts what must hold for its sockets.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use super::wire::AdjustableWire;
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use nix::libc;
use tccc::catalog::Algorithm;
use tccc::emulate::Link;
use tccc::emulate::netem::Netem;
use tccc::kernel::probe::Features;
use tccc::kernel::sysctl;
use tccc::loader;
use tccc::loader::{Registration, Request};
use tccc::path::Direction;
use tccc::path::loss::LossModel;
use tccc::units::{BitsPerSec, QueueSize, Share};

use super::*;
use crate::lab::socket::algorithm_of;

pub const LIMIT: Duration = Duration::from_secs(120);
/// Prefix of the names of all algorithms that these tests register, and of interfaces.
const NAMES: &str = "ktr";
/// Locked by each situation, because all register under the same names.
static NAMES_IN_USE: Mutex<()> = Mutex::new(());
const NAME_LENGTH: usize = 15;

/// BBR has no use for the threshold. Version 1 ignores marks, as the kernel's does; version 3 counts them as losses of a
/// round.
const WITHOUT_THRESHOLD: [&str; 2] = ["bpf_bbr", "bpf_bbr3"];

pub struct RegisteredSubject {
    pub algorithm: &'static Algorithm,
    /// Name of another registered algorithm to which a socket can switch.
    pub other: String,
    registered: Registration,
}

impl RegisteredSubject {
    pub fn name(&self) -> &str {
        self.registered.name()
    }

    pub fn has_threshold(&self) -> bool {
        !WITHOUT_THRESHOLD.contains(&self.algorithm.id.as_str())
    }
}

/// Runs a situation for all algorithms of the catalogue at the same time.
///
/// Panics: a situation fails, a socket or registration is left, the kernel skips a callback or logs a warning.
pub fn for_every_algorithm(situation: impl Fn(&RegisteredSubject) + Sync) {
    let _alone = NAMES_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    let _host = HostSnapshot::take(&[NAMES]);
    let mut log = KernelLog::from_now_on();
    let subjects = register_all();
    let failed = Mutex::new(Vec::new());
    let this = std::thread::current().name().unwrap_or_default().to_owned();
    std::thread::scope(|scope| {
        for subject in &subjects {
            scope.spawn(|| {
                let is_sound = catch_unwind(AssertUnwindSafe(|| situation(subject))).is_ok();
                verdict::record(&this, &subject.algorithm.id, is_sound);
                if !is_sound {
                    failed.lock().unwrap().push(&subject.algorithm.id);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failed for {failed:?}, each with a panic of its own above");
    assert_no_callback_was_skipped(&subjects);
    unregister_all(subjects);
    log.assert_quiet();
}

fn register_all() -> Vec<RegisteredSubject> {
    let features = Features::probe().unwrap();
    let all = crate::common::need::loadable("transfers");
    let name_of = |number: usize| {
        let mut name = format!("{NAMES}{number}_{}", all[number].id);
        name.truncate(NAME_LENGTH);
        name
    };
    let register = |number| {
        let name = name_of(number);
        let request = Request { name: &name, ..Request::of(all[number]) };
        let registered = loader::register(&request, &features).unwrap();
        RegisteredSubject { algorithm: all[number], other: name_of((number + 1) % all.len()), registered }
    };
    (0..all.len()).map(register).collect()
}

/// The map of a registration exists as long as a socket refers to it, so a leaked socket is found here.
fn unregister_all(subjects: Vec<RegisteredSubject>) {
    let maps: BTreeSet<u32> = subjects.iter().map(|subject| subject.registered.record().map_id).collect();
    for subject in subjects {
        let name = subject.name().to_owned();
        subject.registered.unregister().unwrap();
        assert!(!state::algorithms().contains(&name), "{name} is still offered");
    }
    // A closed socket whose FIN is lost retransmits it for up to 100 s, and longer on a busy emulated machine.
    poll_until(3 * LIMIT, "the kernel frees every registration", || {
        !MapInfoIter::default().any(|map| maps.contains(&map.id))
    });
}

/// The kernel skips a program that would interrupt itself, and counts that.
fn assert_no_callback_was_skipped(subjects: &[RegisteredSubject]) {
    let callbacks = subjects.iter().flat_map(|subject| &subject.algorithm.callbacks);
    let short = |name: &str| name.chars().take(NAME_LENGTH).collect::<String>();
    let names: BTreeSet<String> = callbacks.map(|callback| short(&callback.program)).collect();
    let programs = ProgInfoIter::default().filter(|program| names.contains(&*program.name.to_string_lossy()));
    let skipped: Vec<_> = programs.map(|program| (program.name, program.recursion_misses)).collect();
    assert!(skipped.len() >= names.len(), "{} programs of {} callbacks", skipped.len(), names.len());
    assert!(skipped.iter().all(|(_, misses)| *misses == 0), "{skipped:?}");
}

struct KernelLog(File);

impl KernelLog {
    fn from_now_on() -> KernelLog {
        let log = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").unwrap();
        // SAFETY: the descriptor is open; the call takes plain values.
        assert!(unsafe { libc::lseek(log.as_raw_fd(), 0, libc::SEEK_END) } >= 0);
        KernelLog(log)
    }

    fn assert_quiet(&mut self) {
        const COMPLAINTS: [&str; 6] = ["WARNING:", "BUG:", "Oops", "Call Trace", "divide error", "rcu_sched"];
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(bytes @ 1..) => {
                    let line = String::from_utf8_lossy(&record[..bytes]);
                    assert!(!COMPLAINTS.iter().any(|word| line.contains(word)), "the kernel complains: {line}");
                }
                // Records were overwritten before they were read. The next read returns the oldest that is left.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                _ => return,
            }
        }
    }
}

/// Two namespaces and a wire between them. Data flows from the first to the second.
pub struct WirePath<W = AdjustableWire> {
    pub sides: [Netns; 2],
    pub wire: W,
}

impl WirePath<Box<dyn Link>> {
    /// 20 Mbit/s, 10 ms each way, 2 % loss towards the receiver, emulated by netem.
    pub fn by_netem() -> Self {
        let sides = new_sides();
        let direction = |loss, seed| Direction {
            rate: Some(BitsPerSec(20_000_000)),
            delay: Duration::from_millis(10),
            queue: QueueSize::Packets(100),
            loss: LossModel::Independent(Share(loss)),
            seed,
            ..Direction::default()
        };
        let wire = connect_sides(&Netem, &sides, [direction(0.02, 1), direction(0.0, 2)], NAMES);
        set_addresses(&sides, NAMES, 77);
        WirePath { sides, wire }
    }
}

impl WirePath {
    pub fn build(settings: &[(&str, &str)]) -> WirePath {
        let sides = new_sides();
        let wire = AdjustableWire::between(&sides, NAMES);
        set_addresses(&sides, NAMES, 77);
        for side in &sides {
            assert!(sysctl::set_all(side, settings).unwrap().is_empty(), "{settings:?}");
        }
        WirePath { sides, wire }
    }
}

impl<W> WirePath<W> {
    /// A connection over the wire whose ends run the algorithm. Reads and writes have a time limit.
    pub fn connect(&self, algorithm: &str) -> HeldConnection {
        let listener = self.sides[1].run(|| Ok(TcpListener::bind("10.77.0.2:0")?)).unwrap();
        choose(&listener, algorithm).unwrap(); // otherwise one that needs ECN hands its socket over to reno
        let connection = HeldConnection::between(&self.sides[0], listener, algorithm);
        connection.server.set_read_timeout(Some(LIMIT)).unwrap();
        connection.client.set_write_timeout(Some(LIMIT)).unwrap();
        connection
    }

    /// Closes a connection and waits until its sockets are closed or in TIME_WAIT.
    pub fn close(&self, connection: HeldConnection) {
        const TIME_WAIT: &str = "06";
        drop(connection);
        poll_until(LIMIT, "the connection closes", || {
            self.proc_net("tcp").lines().skip(1).all(|line| line.split_whitespace().nth(3) == Some(TIME_WAIT))
        });
    }

    /// Sum of the sender's counters with these names in /proc/net/netstat.
    pub fn count(&self, names: &[&str]) -> u64 {
        let text = self.proc_net("netstat");
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (heads, values) = (lines.next().unwrap().split(' '), lines.next().unwrap().split(' '));
        let counters: Vec<(&str, u64)> = heads.zip(values).filter_map(|(h, v)| Some((h, v.parse().ok()?))).collect();
        let value = |name: &&str| counters.iter().find(|(head, _)| head == name).map(|(_, value)| *value);
        names.iter().map(|name| value(name).unwrap_or_else(|| panic!("this kernel does not count {name}"))).sum()
    }

    fn proc_net(&self, file: &str) -> String {
        let read = || Ok(std::fs::read_to_string(format!("/proc/thread-self/net/{file}"))?);
        self.sides[0].run(read).unwrap()
    }
}

/// Sends random bytes from the client and asserts that they arrive. Calls `watch` with the client all the while.
pub fn carry(connection: &HeldConnection, bytes: usize, mut watch: impl FnMut(&TcpStream)) {
    let mut sent = vec![0; bytes];
    Pcg32::new(bytes as u64, 0).fill_bytes(&mut sent);
    let mut received = vec![0; bytes];
    let HeldConnection { client, server, .. } = connection;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| { client }.write_all(&sent));
        let reader = scope.spawn(|| { server }.read_exact(&mut received));
        poll_until(LIMIT, "everything arrives", || {
            watch(client);
            reader.is_finished()
        });
        writer.join().unwrap().unwrap();
        reader.join().unwrap().unwrap();
    });
    assert!(received == sent, "{bytes} bytes arrived changed");
}

pub fn assert_sound(client: &TcpStream, name: &str) -> libc::tcp_info {
    let info = tcp_info(client);
    assert!(
        info.tcpi_snd_cwnd >= 1 && info.tcpi_snd_ssthresh >= 2,
        "{}, {}",
        info.tcpi_snd_cwnd,
        info.tcpi_snd_ssthresh
    );
    assert!(info.tcpi_ca_state <= 4);
    assert_eq!(algorithm_of(client), name);
    info
}
