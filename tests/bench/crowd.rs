//! Benchmark: a host with a hundred thousand connections, a policy that gave each its algorithm, the guard of a trial over
//! all of them, and a page that somebody looks at.
//!
//! `cargo xtask bench crowd` prints memory, processor and time. Both ends of each connection are on this host: the tracer,
//! the guard and the page have 200,000 sockets.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{host_has, poll_until, tccc};
use crate::gathered::Crowd;
use crate::lab::sandbox::{check, in_sandbox, network, run};
use crate::lab::serve::Server;
use crate::lab::socket::path_of;
use crate::lab::trial::{guard, on_trial, processes};
use crate::usage;
use procfs::{Current as _, Meminfo};

/// Variable for another number of connections.
const CONNECTIONS: &str = "TCCC_CROWD_CONNECTIONS";
const DEFAULT: usize = 100_000;
/// Six looks of the guard, twelve sweeps of `/metrics`.
const MEASURED: Duration = Duration::from_secs(60);
/// Longest wait for a look at all of them on a busy host.
const SOON: Duration = Duration::from_secs(300);

/// Memory of the kernel for its own objects, megabytes.
fn slab() -> f64 {
    Meminfo::current().unwrap().slab as f64 / f64::from(1 << 20)
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    println!("{what}: {:.2} s", begin.elapsed().as_secs_f64());
    done
}

/// Connections that the guard has counted in both arms.
fn judged() -> u64 {
    let arms = on_trial()["view"]["rules"][0]["arms"].clone();
    arms.as_array().map_or(0, |arms| arms.iter().filter_map(|arm| arm["connections"].as_u64()).sum())
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench crowd`"]
fn policy_guard_and_page_of_a_hundred_thousand_connections() {
    let connections = std::env::var(CONNECTIONS).map_or(DEFAULT, |text| text.parse().expect("a number"));
    let sockets = 2 * connections;
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let netns = network();
        let place = path_of(&netns);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.toml");
        let rule = "name = \"all\"\nsplit = { cubic = 50, reno = 50 }\nguard = \"abnormal_ends<5%\"";
        fs::write(&file, format!("version = 1\n[[rule]]\n{rule}\nnetns = \"{place}\"\n")).unwrap();
        timed("policy applied", || check(0, tccc().args(["policy", "apply"]).arg(&file)));
        let mut serve = tccc();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--netns", &place]);
        let server = Server::start(serve);
        let shown = Arc::new(AtomicUsize::new(0));
        watch(&server, &shown);
        let before = slab();
        let crowd = timed(&format!("{connections} connections made and decided"), || {
            Crowd::gather_in(netns.try_clone().unwrap(), sockets, None)
        });
        println!("kernel memory: {:.0} MB more", slab() - before);
        timed("guard has seen all", || poll_until(SOON, "a look at all", || judged() >= sockets as u64));
        timed("page shows all", || poll_until(SOON, "a page of all", || shown.load(Ordering::Relaxed) >= sockets));
        let names = ["guard", "serve"];
        for (name, used) in names.iter().zip(usage::over(MEASURED, [guard().as_raw() as u32, server.process.id()])) {
            let (share, most) = (used.share * 100.0, used.most_megabytes);
            println!(
                "{name}: {share:.1} % of a processor over {MEASURED:?}, {:.0} MB, at most {most:.0} MB",
                used.megabytes
            );
        }
        let text = timed("/metrics", || server.get("/metrics"));
        println!("/metrics has {} bytes, status {}", text.body.len(), text.status);
        timed("tccc status", || run(0, "status -o json"));
        timed("tccc sockets", || check(0, tccc().args(["sockets", "-o", "json", "--netns", &place])));
        timed("policy removed, connections given back what they had", || run(0, "policy remove --live"));
        assert_eq!(server.get("/").status, 200, "it still serves");
        drop(server);
        timed("connections ended", || drop(crowd));
        poll_until(SOON, "the guard ends", || processes().is_empty());
    });
}

/// Somebody looks at the page: how many sockets it shows is noted from each frame.
fn watch(server: &Server, shown: &Arc<AtomicUsize>) {
    let (mut events, shown) = (server.stream("/api/stream/sockets", &[]), Arc::clone(shown));
    std::thread::spawn(move || {
        while let Some((_, data)) = events.try_next() {
            shown.fetch_max(data["status"]["open"].as_u64().unwrap_or(0) as usize, Ordering::Relaxed);
        }
    });
}
