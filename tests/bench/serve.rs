//! What `tccc serve` takes of a processor and of memory with ten thousand sockets; prints what it measured.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{poll_until, tccc};
use crate::lab::serve::{SOON, Server};
use crate::lab::trace::loopback_netns;
use tccc::kernel::netns::Netns;

/// Connections; each has two sockets.
const CONNECTIONS: usize = 5000;
/// How long each way of serving is measured.
const LENGTH: Duration = Duration::from_secs(30);
/// Each connection sends so much about once a second.
const MESSAGE: [u8; 1000] = [7; 1000];

/// Ten thousand sockets, every one of which says something once a second.
struct Crowd {
    stop: Arc<AtomicBool>,
    worker: Option<thread::JoinHandle<()>>,
}

impl Crowd {
    fn gather(netns: &Netns) -> Crowd {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, (CONNECTIONS as u64 * 2 + 1000).min(hard), hard).unwrap();
        let listener = netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = netns.run(|| Ok(TcpStream::connect(address)?)).unwrap();
            pairs.push((client, listener.accept().unwrap().0));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let worker = thread::spawn(move || talk(pairs, &told));
        Crowd { stop, worker: Some(worker) }
    }
}

fn talk(mut pairs: Vec<(TcpStream, TcpStream)>, stop: &AtomicBool) {
    let mut buffer = [0; MESSAGE.len()];
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        for (client, server) in &mut pairs {
            client.write_all(&MESSAGE).unwrap();
            server.read_exact(&mut buffer).unwrap();
        }
        // The pace itself is what is offered: each connection speaks once a second.
        thread::sleep(Duration::from_secs(1).saturating_sub(begin.elapsed()));
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.worker.take().map(thread::JoinHandle::join);
    }
}

/// Processor time of a process, seconds.
fn cpu_s(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks as f64 / 100.0 // USER_HZ, the same on every Linux
}

fn measure(netns: &Netns, name: &str, arguments: &[&str], pages: usize) {
    let mut command = tccc();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let server = netns.run(|| Ok(Server::start(command))).unwrap();
    let frames = Arc::new(std::sync::Mutex::new((0u64, 0usize)));
    for _ in 0..pages {
        let mut events = netns.run(|| Ok(server.stream("/api/stream/sockets", &[]))).unwrap();
        let frames = Arc::clone(&frames);
        thread::spawn(move || {
            while let Some((_, data)) = events.try_next() {
                let mut frames = frames.lock().unwrap();
                frames.0 += 1;
                frames.1 = frames.1.max(data["status"]["open"].as_u64().unwrap_or(0) as usize);
            }
        });
    }
    if pages > 0 {
        poll_until(SOON, "every socket is on the page", || frames.lock().unwrap().1 >= 2 * CONNECTIONS);
    }
    let (begin, cpu, sent) = (Instant::now(), cpu_s(server.process.id()), frames.lock().unwrap().0);
    thread::sleep(LENGTH); // what is measured lasts so long
    let share = (cpu_s(server.process.id()) - cpu) / begin.elapsed().as_secs_f64();
    let sent = frames.lock().unwrap().0 - sent;
    let megabytes = server.peak_bytes() as f64 / 1e6;
    println!("{name:44} {:5.1} % of a processor, {megabytes:5.1} MB at most, {sent} frames", share * 100.0);
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench serve`"]
fn ten_thousand_sockets() {
    let netns = loopback_netns();
    let _crowd = Crowd::gather(&netns);
    measure(&netns, "metrics only, a sweep every 5 s", &["--metrics-only"], 0);
    measure(&netns, "page that nobody looks at", &[], 0);
    measure(&netns, "page that one looks at", &[], 1);
    measure(&netns, "page that ten look at", &[], 10);
}
