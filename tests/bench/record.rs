//! Benchmark: 300 flows recorded for ten minutes, the recorder killed, its file cut at a random byte and replayed.
//!
//! `cargo xtask bench record` prints the results. The requirement: every complete block is readable, and the counts of each
//! flow (delivered, retransmitted) are the kernel's own. `TCCC_RECORD_SECONDS` changes the length.

use rand_pcg::rand_core::{Rng, SeedableRng};
use tccc::trace::event::Event;

use super::*;
use crate::lab::record::{Agreement, LossyFlows, RecordingContent, WholeBlocks, cut};
use crate::usage::processor_s;

const FLOWS: usize = 300;
const SECONDS: u64 = 600;
const INTERVAL: &str = "100ms";
/// Longest interruption of a busy processor between an event's time stamp and its counts.
const SLACK: Duration = Duration::from_millis(50);

#[test]
#[ignore = "a benchmark: `cargo xtask bench record`"]
fn killed_recording_of_ten_minutes_has_the_counts_of_the_kernel() {
    needs!(root, btf, tun);
    let seconds = std::env::var("TCCC_RECORD_SECONDS").map_or(SECONDS, |text| text.parse().expect("a number"));
    let seed = u64::from(std::process::id());
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("killed");
    let flows = LossyFlows::begin(FLOWS);
    let witness = flows.witness();
    let recorder = flows.recorder(&file, INTERVAL);
    flows.until_recorded(&file);
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds) + Duration::from_millis(random.next_u64() % 1000);
    poll_until(Duration::from_secs(seconds + 60), "the moment of the kill", || Instant::now() >= end);
    let processor_s = processor_s(recorder.id());
    drop(recorder);
    let length_s = begin.elapsed().as_secs_f64();
    let testimony = witness.end();
    drop(flows);
    let bytes = std::fs::read(&file).unwrap();
    let cut_at = random.next_u64() as usize % bytes.len();
    println!("{FLOWS} flows for {length_s:.1} s, samples every {INTERVAL}, seed {seed}");
    println!("recorder: {processor_s:.1} s of a processor, {:.2} % of one", processor_s / length_s * 100.0);
    let all = RecordingContent::of(&file).unwrap();
    show("killed", &bytes, &all, |event| testimony.judge(event, SLACK));
    let part = cut(&bytes, cut_at, folder.path());
    show(&format!("cut at {cut_at}"), &bytes[..cut_at], &RecordingContent::of(&part).unwrap(), |event| {
        testimony.judge(event, SLACK)
    });
    let replayed = Instant::now();
    let lines = check(0, tccc().args(["trace", "-o", "csv", "--replay"]).arg(&part)).stdout().lines().count() - 1;
    println!("replayed as CSV: {lines} events in {:.1} s", replayed.elapsed().as_secs_f64());
    assert_eq!(lines, RecordingContent::of(&part).unwrap().events.len());
}

fn show(what: &str, bytes: &[u8], recording: &RecordingContent, judge: impl Fn(&Event) -> Agreement) {
    let whole = WholeBlocks::of(bytes).expect("the head of the recording is whole");
    let count = |verdict| recording.events.iter().filter(|event| judge(event) == verdict).count();
    let last = recording.last_of_each();
    let last_count = |verdict| last.values().filter(|event| judge(event) == verdict).count();
    let events = recording.events.len();
    let each = bytes.len() as f64 / events.max(1) as f64;
    println!("{what}: {} bytes, {events} events of {} flows, {each:.1} bytes each", bytes.len(), last.len());
    let rest = recording.damage.rest_bytes;
    println!("  whole blocks: {} events, read {events}; {rest} bytes after the last whole block", whole.events);
    for (name, counts) in [("every event", &count as &dyn Fn(Agreement) -> usize), ("last of each flow", &last_count)] {
        let [equal, between, wrong] = [Agreement::Equal, Agreement::Between, Agreement::Wrong].map(counts);
        println!("  {name}: {equal} equal to the kernel's counts, {between} between two of them, {wrong} wrong");
    }
    assert_eq!((whole.events, bytes.len() as u64 - whole.end), (events as u64, rest));
    assert!(recording.tail.is_none(), "the recorder was not killed");
    assert_eq!((recording.damage.blocks, recording.damage.events, count(Agreement::Wrong)), (0, 0, 0));
}
