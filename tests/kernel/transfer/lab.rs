//! Every algorithm of the catalogue registered, each with a path of its own, and what must hold for its sockets.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use crate::lab::socket::algorithm_of;
use crate::lab::socket::choose;
use libbpf_rs::query::{MapInfoIter, ProgInfoIter};
use nix::libc;
use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;
use tccc::catalog::{self, Algorithm};
use tccc::emulate::netem::Netem;
use tccc::emulate::{Link, LinkDriver, LinkEnd};
use tccc::kernel::netns::Netns;
use tccc::kernel::probe::Features;
use tccc::kernel::{netlink, sysctl};
use tccc::loader::{self, Registration, Request};
use tccc::path::loss::LossModel;
use tccc::path::{Direction, LinkConfig};
use tccc::units::{BitsPerSec, QueueSize, Share};

use super::wire::Wire;
use crate::common::{HostSnapshot, poll_until, state, tun, verdict};
use crate::lab::trace::{Connection, TcpInfo, tcp_info};

/// Enough for any transfer of these tests on a busy host.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Words in the names of all algorithms that these tests register.
const NAMES: &str = "ktr";
/// Every situation registers under the same names.
static NAMES_IN_USE: Mutex<()> = Mutex::new(());
/// Characters of a name in the kernel.
const NAME_LENGTH: usize = 15;
const INTERFACES: [&str; 2] = ["ktr0", "ktr1"];

/// A registered algorithm, and the name of another one that a socket can switch to.
pub struct Subject {
    pub algorithm: &'static Algorithm,
    pub other: String,
    registered: Registration,
}

impl Subject {
    pub fn name(&self) -> &str {
        self.registered.name()
    }
}

/// Runs a situation for each algorithm of the catalogue at the same time.
///
/// Panics: naming each algorithm that did not stand it, left something behind, or made the kernel complain.
pub fn for_every_algorithm(situation: impl Fn(&Subject) + Sync) {
    let _alone = NAMES_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = HostSnapshot::take(&[NAMES]);
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
    before.assert_unchanged();
}

fn register_all() -> Vec<Subject> {
    let features = Features::probe().unwrap();
    let all = catalog::all();
    let name_of = |number: usize| {
        let mut name = format!("{NAMES}{number}_{}", all[number].id);
        name.truncate(NAME_LENGTH);
        name
    };
    let register = |number| {
        let name = name_of(number);
        let request = Request { name: &name, ..Request::of(&all[number]) };
        let registered = loader::register(&request, &features).unwrap();
        Subject { algorithm: &all[number], other: name_of((number + 1) % all.len()), registered }
    };
    (0..all.len()).map(register).collect()
}

/// The map of a registration lives as long as any socket refers to it: a socket that was not released shows here.
fn unregister_all(subjects: Vec<Subject>) {
    let maps: BTreeSet<u32> = subjects.iter().map(|subject| subject.registered.record().map_id).collect();
    for subject in subjects {
        let name = subject.name().to_owned();
        subject.registered.unregister().unwrap();
        assert!(!state::algorithms().contains(&name), "{name} is still offered");
    }
    poll_until(LIMIT, "the kernel frees every registration", || {
        !MapInfoIter::default().any(|map| maps.contains(&map.id))
    });
}

/// The kernel skips a program that is entered again while it runs, and counts that.
fn assert_no_callback_was_skipped(subjects: &[Subject]) {
    let callbacks = subjects.iter().flat_map(|subject| &subject.algorithm.callbacks);
    let short = |name: &str| name.chars().take(NAME_LENGTH).collect::<String>();
    let names: BTreeSet<String> = callbacks.map(|callback| short(&callback.program)).collect();
    let programs = ProgInfoIter::default().filter(|program| names.contains(&*program.name.to_string_lossy()));
    let skipped: Vec<_> = programs.map(|program| (program.name, program.recursion_misses)).collect();
    assert!(skipped.len() >= names.len(), "{} programs of {} callbacks", skipped.len(), names.len());
    assert!(skipped.iter().all(|(_, misses)| *misses == 0), "{skipped:?}");
}

/// The kernel's log from a moment on.
struct KernelLog(File);

impl KernelLog {
    fn from_now_on() -> KernelLog {
        let log = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").unwrap();
        // SAFETY: the descriptor is open; the call takes plain values.
        assert!(unsafe { libc::lseek(log.as_raw_fd(), 0, libc::SEEK_END) } >= 0);
        KernelLog(log)
    }

    /// No warning, oops or lockup.
    fn assert_quiet(&mut self) {
        const COMPLAINTS: [&str; 6] = ["WARNING:", "BUG:", "Oops", "Call Trace", "divide error", "rcu_sched"];
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(bytes @ 1..) => {
                    let line = String::from_utf8_lossy(&record[..bytes]);
                    assert!(!COMPLAINTS.iter().any(|word| line.contains(word)), "the kernel complains: {line}");
                }
                // Records were overwritten before they were read: go on with those that are left.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                _ => return,
            }
        }
    }
}

/// Two namespaces with a wire; traffic goes from the first to the second.
pub struct Path<W = Wire> {
    pub sides: [Netns; 2],
    pub wire: W,
}

impl Path<Box<dyn Link>> {
    /// 20 Mbit/s, 10 ms each way, one packet of fifty lost on the way there: by the kernel's own emulation.
    pub fn by_netem() -> Self {
        let sides = [Netns::create().unwrap(), Netns::create().unwrap()];
        let direction = |loss, seed| Direction {
            rate: Some(BitsPerSec(20_000_000)),
            delay: Duration::from_millis(10),
            queue: QueueSize::Packets(100),
            loss: LossModel::Independent(Share(loss)),
            seed,
            ..Direction::default()
        };
        let ends =
            [0, 1].map(|n| LinkEnd { netns: sides[n].try_clone().unwrap(), interface: INTERFACES[n].to_owned() });
        let config = LinkConfig { directions: [direction(0.02, 1), direction(0.0, 2)], mtu: 1500 };
        let wire = Netem.connect(&config, ends).unwrap();
        set_addresses(&sides);
        Path { sides, wire }
    }
}

fn set_addresses(sides: &[Netns; 2]) {
    for (n, side) in sides.iter().enumerate() {
        netlink::add_address(side, INTERFACES[n], [10, 77, 0, 1 + n as u8].into(), 24).unwrap();
    }
}

impl Path {
    pub fn build(settings: &[(&str, &str)]) -> Path {
        let sides = [Netns::create().unwrap(), Netns::create().unwrap()];
        let ends = [0, 1].map(|n| sides[n].run(|| Ok(tun::open(INTERFACES[n])?)).unwrap());
        set_addresses(&sides);
        for (n, side) in sides.iter().enumerate() {
            netlink::set_up(side, INTERFACES[n]).unwrap();
            assert!(sysctl::set_all(side, settings).unwrap().is_empty(), "{settings:?}");
        }
        Path { sides, wire: Wire::between(ends) }
    }
}

impl<W> Path<W> {
    /// A connection over the wire whose sender runs the algorithm; neither end waits for ever.
    pub fn connect(&self, algorithm: &str) -> Connection {
        let listener = self.sides[1].run(|| Ok(TcpListener::bind("10.77.0.2:0")?)).unwrap();
        let connection = Connection::between(&self.sides[0], listener, algorithm);
        connection.server.set_read_timeout(Some(LIMIT)).unwrap();
        connection.client.set_write_timeout(Some(LIMIT)).unwrap();
        connection
    }

    /// Ends a connection in order; its sender is gone when this returns, but for the kernel's note of it (TIME_WAIT).
    pub fn close(&self, connection: Connection) {
        const TIME_WAIT: &str = "06";
        drop(connection);
        poll_until(LIMIT, "the connection closes", || {
            self.proc_net("tcp").lines().skip(1).all(|line| line.split_whitespace().nth(3) == Some(TIME_WAIT))
        });
    }

    /// Sum of these counters of the sender's TCP, by the names of /proc/net/netstat.
    pub fn count(&self, names: &[&str]) -> u64 {
        let text = self.proc_net("netstat");
        let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
        let (heads, values) = (lines.next().unwrap().split(' '), lines.next().unwrap().split(' '));
        let counters: Vec<(&str, u64)> = heads.zip(values).filter_map(|(h, v)| Some((h, v.parse().ok()?))).collect();
        let value = |name: &&str| counters.iter().find(|(head, _)| head == name).map(|(_, value)| *value);
        names.iter().map(|name| value(name).unwrap_or_else(|| panic!("this kernel does not count {name}"))).sum()
    }

    /// A file of /proc/net as the sender's namespace shows it.
    fn proc_net(&self, file: &str) -> String {
        let read = || Ok(std::fs::read_to_string(format!("/proc/thread-self/net/{file}"))?);
        self.sides[0].run(read).unwrap()
    }
}

/// Sends random bytes from the client, calling `watch` with its socket all the while; they arrive as they were.
pub fn carry(connection: &Connection, bytes: usize, mut watch: impl FnMut(&TcpStream)) {
    let mut sent = vec![0; bytes];
    Pcg32::new(bytes as u64, 0).fill_bytes(&mut sent);
    let mut received = vec![0; bytes];
    let Connection { client, server, .. } = connection;
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

/// What holds at any moment of any connection.
pub fn assert_sound(client: &TcpStream, name: &str) -> TcpInfo {
    let info = tcp_info(client);
    assert!(info.cwnd_pkts >= 1 && info.ssthresh_pkts >= 2, "{}, {}", info.cwnd_pkts, info.ssthresh_pkts);
    assert!(info.ca_state <= 4);
    assert_eq!(algorithm_of(client), name);
    info
}

pub fn switch(client: &TcpStream, name: &str) {
    choose(client, name).unwrap();
    assert_eq!(algorithm_of(client), name);
}
