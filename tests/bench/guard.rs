//! Benchmark: what the guard of a trial costs while it does nothing but look.
//!
//! Ten thousand labelled sockets, idle and talking, with the recording of the latest minute; and a policy with as many
//! prefixes as there may be. `cargo xtask bench guard` prints it.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::common::{host_has, poll_until, tccc};
use crate::gathered::Crowd;
use crate::lab::sandbox::{check, in_sandbox, run};
use crate::lab::trial::{SOON, guard, on_trial, processes};

const SOCKETS: usize = 10_000;
const PREFIXES: u32 = 100_000;
/// Six looks.
const MEASURED: Duration = Duration::from_secs(60);
/// The requirement on a policy with many prefixes: share of a processor.
const PREFIXES_MOST: f64 = 0.01;

/// Processor time of a process so far, seconds, and its memory, megabytes.
fn used(pid: i32) -> (f64, f64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<u64> = stat.rsplit_once(") ").unwrap().1.split(' ').filter_map(|word| word.parse().ok()).collect();
    // Fields 14 and 15 of the line; the state, which is no number, is left out.
    let ticks = fields[10] + fields[11];
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: f64 = memory.trim().trim_end_matches(" kB").parse().unwrap();
    (ticks as f64 / nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap() as f64, kilobytes / 1024.0)
}

/// The guard's share of a processor from now on.
fn share(what: &str) -> f64 {
    let pid = guard().as_raw();
    let ((before, _), begin) = (used(pid), Instant::now());
    std::thread::sleep(MEASURED); // the time is what is measured over
    let (after, megabytes) = used(pid);
    let share = (after - before) / begin.elapsed().as_secs_f64();
    println!("{what}: {:.2} % of a processor over {MEASURED:?}, {megabytes:.0} MB", share * 100.0);
    share
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench guard`"]
fn guard_of_ten_thousand_sockets() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.toml");
        let rule =
            "version = 1\n[[rule]]\nname = \"all\"\nsplit = { reno = 50, keep = 50 }\nguard = \"retransmitted<1.2x\"\n";
        fs::write(&file, rule).unwrap();
        for talks in [false, true] {
            check(0, tccc().args(["policy", "apply"]).arg(&file));
            let crowd = Crowd::gather(SOCKETS, talks);
            poll_until(SOON, "a look at all of them", || {
                let arms = on_trial()["view"]["rules"][0]["arms"].clone();
                let seen =
                    arms.as_array().map_or(0, |arms| arms.iter().filter_map(|it| it["connections"].as_u64()).sum());
                seen >= SOCKETS as u64
            });
            share(&format!("{SOCKETS} sockets that {}", if talks { "talk" } else { "are idle" }));
            run(0, "policy remove");
            drop(crowd);
        }
        poll_until(SOON, "the guards end", || processes().is_empty());
    });
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench guard`"]
fn guard_of_a_hundred_thousand_prefixes() {
    in_sandbox(host_has!(root, struct_ops, bpffs, cgroup2), || {
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
        poll_until(SOON, "the guard has looked", || !on_trial()["view"].is_null());
        let share = share(&format!("{PREFIXES} prefixes"));
        assert!(share <= PREFIXES_MOST, "{share}");
        let begin = Instant::now();
        run(0, "policy abort");
        println!("aborted in {:?}", begin.elapsed());
        poll_until(SOON, "the guard ends", || processes().is_empty());
    });
}
