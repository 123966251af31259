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
use crate::usage::{self, Usage};

const SOCKETS: usize = 10_000;
const PREFIXES: u32 = 100_000;
/// Six looks.
const MEASURED: Duration = Duration::from_secs(60);
/// The requirement on a policy with many prefixes: share of a processor.
const PREFIXES_MOST: f64 = 0.01;

/// The guard's share of a processor from now on.
fn share(what: &str) -> f64 {
    let [Usage { share, megabytes, .. }] = usage::over(MEASURED, [guard().as_raw() as u32]);
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
            let crowd = Crowd::gather(SOCKETS, talks.then_some(Duration::ZERO));
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
