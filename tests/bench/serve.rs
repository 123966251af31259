//! Benchmark: processor time and memory of `tccc serve` with ten thousand sockets.
//!
//! `cargo xtask bench serve` prints the results.

use std::sync::Mutex;

use super::*;
use crate::gathered::SocketCrowd;
use crate::usage;

/// Half of them send some bytes once per `PACE` to the other half.
const SOCKETS: usize = 10_000;
const PACE: Duration = Duration::from_secs(1);
const LENGTH: Duration = Duration::from_secs(30);

fn measure(netns: &Netns, name: &str, arguments: &[&str], pages: usize) {
    let mut command = tccc();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    let server = netns.run(|| Ok(Server::start(command))).unwrap();
    let frames = Arc::new(Mutex::new((0u64, 0usize)));
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
        poll_until(SOON, "every socket is on the page", || frames.lock().unwrap().1 >= SOCKETS);
    }
    let sent = frames.lock().unwrap().0;
    let [used] = usage::over(LENGTH, [server.process.id()]);
    let sent = frames.lock().unwrap().0 - sent;
    let megabytes = server.peak_bytes() as f64 / 1e6;
    println!("{name:44} {:5.1} % of a processor, {megabytes:5.1} MB at most, {sent} frames", used.share * 100.0);
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench serve`"]
fn ten_thousand_sockets() {
    needs!(root, btf);
    let crowd = SocketCrowd::gather(SOCKETS, Some(PACE));
    let netns = &crowd.netns;
    measure(netns, "metrics only, a sweep every 5 s", &["--metrics-only"], 0);
    measure(netns, "page without viewers", &[], 0);
    measure(netns, "page with one viewer", &[], 1);
    measure(netns, "page with ten viewers", &[], 10);
}
