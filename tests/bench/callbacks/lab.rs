//! Transfers over a veth pair between two namespaces that only the processors limit.
//!
//! Offloads are off, so that an ACK answers two packets, not dozens, and the cost per ACK dominates. The receiver's window
//! is smaller than the kernel's queue between the two ends, so nothing is lost.

pub mod samples;

use std::fs::read_to_string;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::namespaces::{ENDS, joined, run_on_last_processor, start_in};
use nix::sys::socket::{setsockopt, sockopt};
use tccc::kernel::netns::Netns;
use tccc::kernel::offload::turn_offloads_off;

const SENDING: &str = "bcalla";
const RECEIVING: &str = "bcallb";
/// The kernel allocates twice this, and half of that is window: fewer than the 1000 packets of
/// net.core.netdev_max_backlog.
const RECEIVE_BUFFER_BYTES: usize = 512 << 10;
const BUFFER_BYTES: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

/// The path. Both ends run on the last processor, because two processors would reorder the packets of a connection.
pub struct VethPath {
    sender: Netns,
    receiver: Netns,
}

#[derive(Clone, Copy)]
pub enum WindowGrowth {
    /// 12 packets and no threshold. HyStart ends slow start only from 16 packets on.
    SlowStart,
    /// 20 packets and a threshold of 10.
    Avoidance,
}

impl WindowGrowth {
    fn limits(self) -> &'static [&'static str] {
        match self {
            WindowGrowth::SlowStart => &["cwnd", "lock", "12", "ssthresh", "lock", "1000000"],
            WindowGrowth::Avoidance => &["cwnd", "lock", "20", "ssthresh", "lock", "10"],
        }
    }
}

pub struct TransferCounts {
    pub goodput_bps: f64,
    /// ACKs that the sender processed. The kernel merges those that arrive while it sends.
    pub acks: u64,
    pub retransmitted: u64,
}

impl VethPath {
    pub fn new() -> Self {
        let [sender, receiver] = joined([SENDING, RECEIVING]);
        turn_offloads_off(&sender, SENDING).unwrap();
        turn_offloads_off(&receiver, RECEIVING).unwrap();
        VethPath { sender, receiver }
    }

    pub fn transfer(&self, algorithm: &str, time: Duration) -> TransferCounts {
        let listener = self.receiver.run(|| Ok(TcpListener::bind((ENDS[1], 0))?)).unwrap();
        setsockopt(&listener, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES).unwrap();
        let address = listener.local_addr().unwrap();
        let received = AtomicU64::new(0);
        let before = self.counts();
        let goodput_bps = std::thread::scope(|scope| {
            scope.spawn(|| receive(&listener, &received));
            scope.spawn(|| self.send(address, algorithm, time, &received)).join().unwrap()
        });
        let [acks, retransmitted] = std::array::from_fn(|index| self.counts()[index] - before[index]);
        TransferCounts { goodput_bps, acks, retransmitted }
    }

    /// A path whose connections have a small window that limits the sender in slow start or congestion avoidance. The
    /// sender sleeps when an ACK arrives, so the kernel merges none.
    pub fn with_small_window(growth: WindowGrowth) -> Self {
        const REMEMBER_THRESHOLD: &str = "/proc/sys/net/ipv4/tcp_no_ssthresh_metrics_save";
        let path = VethPath::new();
        path.sender.run(|| Ok(std::fs::write(REMEMBER_THRESHOLD, "0")?)).unwrap();
        let mut command = Command::new("ip");
        command.args(["route", "change", "10.78.0.0/24", "dev", SENDING]).args(growth.limits()).stdin(Stdio::null());
        assert!(start_in(&path.sender, &mut command).status().unwrap().success(), "the route takes its limits");
        // A connection gets the limits from the metrics that the kernel caches of an earlier one.
        path.transfer("reno", Duration::from_millis(50));
        path
    }

    fn send(&self, address: SocketAddr, algorithm: &str, time: Duration, received: &AtomicU64) -> f64 {
        run_on_last_processor();
        let mut stream = self.sender.run(|| Ok(TcpStream::connect(address)?)).unwrap();
        setsockopt(&stream, sockopt::TcpCongestion, &algorithm.into()).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let (buffer, begin) = (vec![0; BUFFER_BYTES], Instant::now());
        while begin.elapsed() < time {
            stream.write_all(&buffer).unwrap();
        }
        received.load(Ordering::Relaxed) as f64 * 8.0 / begin.elapsed().as_secs_f64()
    }

    /// ACKs received and segments retransmitted, of all connections in the sender's namespace.
    fn counts(&self) -> [u64; 2] {
        let read = |file: &'static str| self.sender.run(move || Ok(read_to_string(file)?)).unwrap();
        let (own, extended) = (read("/proc/thread-self/net/snmp"), read("/proc/thread-self/net/netstat"));
        let acks = counted(&extended, "TcpExt: ", "TCPPureAcks") + counted(&extended, "TcpExt: ", "TCPHPAcks");
        [acks, counted(&own, "Tcp: ", "RetransSegs")]
    }
}

/// A counter of the kernel. One line has the names, the next line with the same prefix the values.
fn counted(text: &str, beginning: &str, what: &str) -> u64 {
    let rows: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(beginning)).collect();
    let column = rows[0].split(' ').position(|name| name == what).expect("the kernel counts it");
    rows[1].split(' ').nth(column).unwrap().parse().unwrap()
}

fn receive(listener: &TcpListener, received: &AtomicU64) {
    run_on_last_processor();
    let (mut stream, _) = listener.accept().unwrap();
    wake_late(&stream);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return,
            bytes => received.fetch_add(bytes as u64, Ordering::Relaxed),
        };
    }
}

/// Lets the reader sleep until much has arrived. While it reads, the kernel merges packets and sends fewer ACKs.
fn wake_late(stream: &TcpStream) {
    let bytes = (BUFFER_BYTES / 2) as libc::c_int;
    let size = size_of_val(&bytes) as libc::socklen_t;
    // SAFETY: the option is an int that lives across the call, and its size is given.
    let done = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, (&raw const bytes).cast(), size)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}
