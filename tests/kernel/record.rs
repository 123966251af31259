//! A recording whose recorder is killed at a random moment, cut at random bytes. Every complete block is readable, and
//! its counts are the kernel's. `cargo xtask bench record` does the same with 300 flows for ten minutes.

use rand_pcg::rand_core::{Rng, SeedableRng};
use tccc::trace::record::read::Damage;

use super::*;
use crate::lab::record::{Agreement, LossyFlows, RecordingContent, WholeBlocks, cut};

const FLOWS: usize = 40;
/// Milliseconds from when every flow is recorded to the kill.
const KILL_MS: std::ops::Range<u64> = 500..2500;
const CUTS: usize = 25;

#[test]
fn recording_killed_and_cut_anywhere_has_every_whole_block_and_true_counts() {
    needs!(root, btf, tun);
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("killed");
    let flows = LossyFlows::begin(FLOWS);
    let witness = flows.witness();
    let recorder = flows.recorder(&file, "0s");
    flows.until_recorded(&file);
    let moment =
        Instant::now() + Duration::from_millis(KILL_MS.start + random.next_u64() % (KILL_MS.end - KILL_MS.start));
    poll_until(SOON, "the moment of the kill", || Instant::now() >= moment);
    drop(recorder);
    let testimony = witness.end();
    drop(flows);
    let bytes = std::fs::read(&file).unwrap();
    let all = RecordingContent::of(&file).unwrap();
    assert!(all.last_of_each().len() == FLOWS && all.tail.is_none());
    assert_eq!((all.damage.blocks, all.damage.events), (0, 0));
    assert!(all.events.iter().any(|event| event.retrans_pkts > 0), "the path lost nothing");
    assert!(
        all.events.iter().all(|event| testimony.judge(event, Duration::ZERO) != Agreement::Wrong),
        "a count is not the kernel's"
    );
    for _ in 0..CUTS {
        let length = random.next_u64() as usize % bytes.len();
        let Some(whole) = WholeBlocks::of(&bytes[..length]) else { continue };
        let part = RecordingContent::of(&cut(&bytes, length, folder.path())).unwrap();
        assert!(part.events == all.events[..whole.events as usize], "cut at {length}: {} events", part.events.len());
        let rest = Damage { rest_bytes: length as u64 - whole.end, ..Damage::default() };
        assert_eq!(part.damage, rest, "cut at {length}");
    }
    replay_and_report_show_what_is_there(&cut(&bytes, bytes.len() * 3 / 4, folder.path()));
}

/// The verbs that read recordings agree with the library.
fn replay_and_report_show_what_is_there(file: &std::path::Path) {
    let part = RecordingContent::of(file).unwrap();
    let print = |arguments: &[&str]| check(0, tccc().args(arguments).arg(file));
    let replay = print(&["trace", "-o", "jsonl", "--replay"]);
    assert_eq!(replay.stdout().lines().count(), part.events.len());
    let rest = part.damage.rest_bytes;
    replay.stderr_has(format!("the recording was cut: {rest} bytes after its last whole block"));
    let document = print(&["report", "-o", "json"]).json();
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
