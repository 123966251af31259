//! What `tccc serve` takes of a processor and of memory with ten thousand sockets; prints what it measured.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{needs, poll_until, tccc};
use crate::gathered::Crowd;
use crate::lab::serve::{SOON, Server};
use crate::usage;
use tccc::kernel::netns::Netns;

/// Each of them sends some bytes once in each pace, or receives them.
const SOCKETS: usize = 10_000;
const PACE: Duration = Duration::from_secs(1);
/// How long each way of serving is measured.
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
    let crowd = Crowd::gather(SOCKETS, Some(PACE));
    let netns = &crowd.netns;
    measure(netns, "metrics only, a sweep every 5 s", &["--metrics-only"], 0);
    measure(netns, "page that nobody looks at", &[], 0);
    measure(netns, "page that one looks at", &[], 1);
    measure(netns, "page that ten look at", &[], 10);
}
