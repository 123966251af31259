//! Benchmark: the cost of a trial's guard while it only looks.
//!
//! With ten thousand labelled sockets, idle and active, and the recording of the last minute; and with a policy of the
//! maximum number of prefixes. `cargo xtask bench guard` prints the results.

use std::fmt::Write as _;

use super::*;
use crate::common::run;
use crate::gathered::SocketCrowd;
use crate::lab::trial::until_guard_has_looked;
use crate::usage;
use crate::usage::Usage;

const SOCKETS: usize = 10_000;
const PREFIXES: u32 = 100_000;
/// Time of six looks.
const MEASURED: Duration = Duration::from_secs(60);
/// The requirement for a policy with many prefixes: share of a processor.
const PREFIXES_MOST: f64 = 0.01;

fn share(what: &str) -> f64 {
    let [Usage { share, megabytes, .. }] = usage::over(MEASURED, [guard()]);
    println!("{what}: {:.2} % of a processor over {MEASURED:?}, {megabytes:.0} MB", share * 100.0);
    share
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench guard`"]
fn guard_of_ten_thousand_sockets() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    let rule =
        "version = 1\n[[rule]]\nname = \"all\"\nsplit = { reno = 50, keep = 50 }\nguard = \"retransmitted<1.2x\"\n";
    fs::write(&file, rule).unwrap();
    for talks in [false, true] {
        check(0, tccc().args(["policy", "apply"]).arg(&file));
        let crowd = SocketCrowd::gather(SOCKETS, talks.then_some(Duration::ZERO));
        poll_until(SOON, "a look at all of them", || counted_connections() >= SOCKETS as u64);
        share(&format!("{SOCKETS} sockets that {}", if talks { "talk" } else { "are idle" }));
        run(0, "policy remove");
        drop(crowd);
    }
    until_no_process();
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench guard`"]
fn guard_of_a_hundred_thousand_prefixes() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, cgroup2);
    let folder = tempfile::tempdir().unwrap();
    let (file, list) = (folder.path().join("policy.toml"), folder.path().join("list"));
    let prefixes = (0..PREFIXES).fold(String::new(), |mut text, number| {
        writeln!(text, "{}/32", Ipv4Addr::from_bits((100 << 24) + 2 * number)).unwrap();
        text
    });
    fs::write(&list, prefixes).unwrap();
    fs::write(&file, "version = 1\n[[rule]]\nname = \"there\"\nto_file = \"list\"\nuse = \"reno\"\n").unwrap();
    let begin = Instant::now();
    check(0, tccc().args(["policy", "apply", "--trial", "10m"]).arg(&file));
    println!("{PREFIXES} prefixes applied in {:?}", begin.elapsed());
    until_guard_has_looked();
    let share = share(&format!("{PREFIXES} prefixes"));
    assert!(share <= PREFIXES_MOST, "{share}");
    let begin = Instant::now();
    run(0, "policy abort");
    println!("aborted in {:?}", begin.elapsed());
    until_no_process();
}
