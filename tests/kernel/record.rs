//! A recording of many flows whose recorder is killed at a random moment, cut at random bytes: every whole block is
//! there, and its counts are the kernel's. `cargo xtask bench record` does the same with 300 flows for ten minutes.

use std::time::{Duration, Instant};

use crate::common::{check, needs, poll_until, tccc};
use crate::lab::record::{Flows, Recording, Verdict, Whole, cut};
use rand_pcg::rand_core::{Rng, SeedableRng};

const FLOWS: usize = 40;
/// Of the kill, after every flow is recorded.
const KILL_MS: std::ops::Range<u64> = 500..2500;
const CUTS: usize = 25;

#[test]
fn recording_killed_and_cut_anywhere_holds_every_whole_block_with_the_counts_of_the_kernel() {
    needs!(root, btf, tun);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("killed");
    let flows = Flows::begin(FLOWS);
    let witness = flows.witness();
    let mut recorder = flows.recorder(&file, "0s");
    flows.until_recorded(&file);
    let moment =
        Instant::now() + Duration::from_millis(KILL_MS.start + random.next_u64() % (KILL_MS.end - KILL_MS.start));
    poll_until(KILL_LIMIT, "the moment of the kill", || Instant::now() >= moment);
    recorder.kill();
    let testimony = witness.end();
    drop(flows);
    let bytes = std::fs::read(&file).unwrap();
    let all = Recording::of(&file).unwrap();
    assert!(all.last_of_each().len() == FLOWS && all.tail.is_none() && all.damaged_blocks == 0);
    assert!(all.events.iter().any(|event| event.retrans_pkts > 0), "the path lost nothing");
    assert!(
        all.events.iter().all(|event| testimony.judge(event, Duration::ZERO) != Verdict::Wrong),
        "a count is not the kernel's"
    );
    for _ in 0..CUTS {
        let length = random.next_u64() as usize % bytes.len();
        let Some(whole) = Whole::of(&bytes[..length]) else { continue };
        let part = Recording::of(&cut(&bytes, length, folder.path())).unwrap();
        assert!(part.events == all.events[..whole.events as usize], "cut at {length}: {} events", part.events.len());
        assert_eq!((part.rest_bytes, part.damaged_blocks), (length as u64 - whole.end, 0), "cut at {length}");
    }
    replay_and_report_show_what_is_there(&cut(&bytes, bytes.len() * 3 / 4, folder.path()));
}

const KILL_LIMIT: Duration = Duration::from_secs(60);

/// The verbs that read recordings agree with the library.
fn replay_and_report_show_what_is_there(file: &std::path::Path) {
    let part = Recording::of(file).unwrap();
    let print = |arguments: &[&str]| {
        let output = check(0, tccc().args(arguments).arg(file));
        (output.stdout(), output.stderr())
    };
    let (lines, notes) = print(&["trace", "-o", "jsonl", "--replay"]);
    assert_eq!(lines.lines().count(), part.events.len());
    assert!(notes.contains(&format!("the recording was cut: {} bytes after its last whole block", part.rest_bytes)));
    let (document, _) = print(&["report", "-o", "json"]);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let flows = document[0]["flows"].as_array().unwrap();
    let last = part.last_of_each();
    assert_eq!(flows.len(), last.len());
    for flow in flows {
        let end = |name: &str| flow[name].as_str().unwrap().parse().unwrap();
        let event = last[&(end("local"), end("remote"))];
        assert_eq!(flow["delivered_pkts"], event.delivered_pkts);
        assert_eq!(flow["retrans_pkts"], event.retrans_pkts);
    }
}
