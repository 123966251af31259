//! Benchmark: a hundred thousand connections under a policy, the guard of its trial, and a page with a viewer.
//!
//! `cargo xtask bench crowd` prints memory, processor time and durations. Both ends of each connection are on this host, so
//! the guard and the page see 200,000 sockets.

use std::sync::atomic::{AtomicUsize, Ordering};

use procfs::{Current as _, Meminfo};

use super::*;
use crate::common::{inhabit, run};
use crate::gathered::SocketCrowd;
use crate::usage;

const CONNECTIONS: &str = "TCCC_CROWD_CONNECTIONS";
const DEFAULT: usize = 100_000;
/// Six looks of the guard, twelve sweeps of `/metrics`.
const MEASURED: Duration = Duration::from_secs(60);
/// Time limit for a look at all of them on a busy host.
const ALL_WITHIN: Duration = Duration::from_secs(300);

/// Slab memory of the kernel, megabytes.
fn slab() -> f64 {
    Meminfo::current().unwrap().slab as f64 / f64::from(1 << 20)
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    println!("{what}: {:.2} s", begin.elapsed().as_secs_f64());
    done
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench crowd`"]
fn policy_guard_and_page_of_a_hundred_thousand_connections() {
    let connections = std::env::var(CONNECTIONS).map_or(DEFAULT, |text| text.parse().expect("a number"));
    let sockets = 2 * connections;
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let netns = loopback_netns();
    let _inhabitant = inhabit(&netns);
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
        SocketCrowd::gather_in(netns.try_clone().unwrap(), sockets, None)
    });
    println!("kernel memory: {:.0} MB more", slab() - before);
    timed("guard has seen all", || poll_until(ALL_WITHIN, "a look at all", || counted_connections() >= sockets as u64));
    timed("page shows all", || poll_until(ALL_WITHIN, "a page of all", || shown.load(Ordering::Relaxed) >= sockets));
    let names = ["guard", "serve"];
    for (name, used) in names.iter().zip(usage::over(MEASURED, [guard(), server.process.id()])) {
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
    timed("policy removed, connections restored", || run(0, "policy remove --live"));
    assert_eq!(server.get("/").status, 200, "it still serves");
    drop(server);
    timed("connections ended", || drop(crowd));
    until_no_process();
}

/// Reads the page's frames as a viewer does, and keeps the largest number of sockets.
fn watch(server: &Server, shown: &Arc<AtomicUsize>) {
    let (mut events, shown) = (server.stream("/api/stream/sockets", &[]), Arc::clone(shown));
    std::thread::spawn(move || {
        while let Some((_, data)) = events.try_next() {
            shown.fetch_max(data["status"]["open"].as_u64().unwrap_or(0) as usize, Ordering::Relaxed);
        }
    });
}
