//! Recordings written, cut, damaged and made up.

use std::io::Cursor;

use proptest::prelude::*;

use super::read::{BlockContent, Damage, RecordingReader, Want};
use super::*;
use crate::catalog::{Field, FieldKind, Phase, StateLayout};
use crate::model::live::samples::{SECOND, sample};
use crate::trace::arrival::RuleArm;
use crate::trace::event::EventKind;

fn head() -> Head {
    Head {
        tccc: "0.1.0".into(),
        host: "made".into(),
        kernel: "6.18".into(),
        started: "2026-01-01T00:00:00Z".into(),
        realtime_ns: 0,
        monotonic_ns: 0,
        interval_ns: 100_000_000,
        selection: "every socket".into(),
        part: 1,
        event: Schema::own(),
    }
}

fn events(count: u64) -> Vec<Event> {
    (0..count).map(|n| Event { cwnd_pkts: n as u32, ..sample(n % 7, SECOND + n * 1_000_000) }).collect()
}

fn owner(socket: u64) -> Fact {
    Fact::Owner { socket, pid: 42, command: "nginx".into() }
}

/// A recording of these events in blocks of `each`, with a fact after each block, as bytes.
fn recorded(events: &[Event], each: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let mut recorder = Recorder::create(&path, head(), Rotation::NONE).unwrap();
    for events in events.chunks(each) {
        events.iter().for_each(|event| recorder.write(&Arrival::Event(event.clone())).unwrap());
        recorder.write(&Arrival::Fact(owner(events[0].socket))).unwrap();
        recorder.flush().unwrap();
    }
    recorder.finish().unwrap();
    std::fs::read(&path).unwrap()
}

/// What can be read of the bytes of a recording.
fn read(bytes: &[u8]) -> Result<(Vec<Event>, usize, Damage, Option<Tail>)> {
    let mut reader = RecordingReader::new(Cursor::new(bytes), "made")?;
    let (mut events, mut facts) = (Vec::new(), 0);
    while let Some(content) = reader.next(Want::All)? {
        match content {
            BlockContent::Events(more) => events.extend(more),
            BlockContent::Facts(more) => facts += more.len(),
        }
    }
    Ok((events, facts, reader.damage(), reader.tail()))
}

#[test]
fn what_is_recorded_is_read_again() {
    let events = events(10_000);
    let bytes = recorded(&events, 3000);
    let (read, facts, damage, tail) = read(&bytes).unwrap();
    assert!(read == events, "events differ");
    assert_eq!((facts, damage, tail), (4, Damage::default(), Some(Tail { events: 10_000, dropped: 0 })));
    assert!(bytes.len() < 10_000 * EVENT_BYTES / 10, "{} bytes for {} events", bytes.len(), events.len());
}

#[test]
fn a_recording_cut_anywhere_is_read_up_to_its_last_whole_block() {
    let events = events(60);
    let bytes = recorded(&events, 10);
    let mut seen = 0;
    for length in 0..bytes.len() {
        match read(&bytes[..length]) {
            Err(refusal) => assert!(seen == 0 && refusal.to_string().contains("cannot read"), "{refusal:#}"),
            Ok((read, _, damage, tail)) => {
                assert!(read == events[..read.len()] && read.len() % 10 == 0 && read.len() >= seen);
                assert_eq!((tail, damage.blocks, damage.events), (None, 0, 0));
                seen = read.len();
            }
        }
    }
    assert_eq!(seen, 60);
}

#[test]
fn a_damaged_block_is_counted_and_the_rest_is_read() {
    let events = events(60);
    let mut bytes = recorded(&events, 10);
    let second = bytes.windows(5).enumerate().filter(|(_, it)| *it == b"TCBK\x02").nth(1).unwrap().0;
    bytes[second + block::HEADER_BYTES + 5] ^= 1;
    let (read, facts, damage, tail) = read(&bytes).unwrap();
    assert_eq!((read.len(), facts, tail.unwrap().events), (50, 6, 60));
    assert_eq!(damage, Damage { blocks: 1, events: 10, ..Damage::default() });
}

#[test]
fn files_that_are_no_recording_or_a_later_one_are_refused_with_the_reason() {
    let whole = recorded(&events(1), 1);
    let mut later = whole.clone();
    later[8] = 9;
    for (bytes, says) in [
        (&b""[..], "it is not a recording"),
        (b"time_s,kind\n", "it is not a recording"),
        (&later, "format 9, and this tccc reads formats up to 1"),
        (&whole[..12], "its first block, which says what it holds, is damaged"),
    ] {
        let refusal = read(bytes).unwrap_err().to_string();
        assert!(refusal.starts_with("cannot read \"made\": ") && refusal.contains(says), "{refusal}");
    }
}

#[test]
fn facts_beyond_any_host_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let mut recorder = Recorder::create(&path, head(), Rotation::NONE).unwrap();
    recorder.write(&Arrival::Fact(Fact::Owner { socket: 1, pid: 1, command: "x".repeat(5000) })).unwrap();
    recorder.write(&Arrival::Fact(owner(1))).unwrap();
    recorder.part.facts.extend_from_slice(b"{\"fact\":\"of a later version\"}\n");
    recorder.finish().unwrap();
    let (_, facts, damage, _) = read(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((facts, damage.unknown), (1, 2));
}

/// How many of these facts are read, and how many are left out and counted.
fn kept(facts: &[Fact]) -> (usize, u64) {
    let lines: Vec<String> = facts.iter().map(|fact| serde_json::to_string(fact).unwrap()).collect();
    let mut bytes = recorded(&[], 1);
    bytes.extend(block::pack(BlockKind::Facts, lines.join("\n").as_bytes(), facts.len() as u32, [0, 0]));
    let (_, facts, damage, _) = read(&bytes).unwrap();
    (facts, damage.unknown)
}

fn name(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn values(count: usize, bytes: usize) -> FieldKind {
    FieldKind::Enum { names: (0..count).map(|value| (value as i64, name(bytes))).collect() }
}

fn array(element: FieldKind) -> FieldKind {
    FieldKind::Array { element_size: 1, element: Box::new(element) }
}

/// An algorithm's state of so many fields that are alike.
fn fields(count: usize, name: String, kind: FieldKind) -> Fact {
    let fields = vec![Field { name, offset: 0, size: 1, bits: None, kind }; count];
    Fact::Layout { algorithm: "reno".into(), layout: StateLayout { size: 1, phases: Vec::new(), fields } }
}

fn phases(count: usize, name: String) -> Fact {
    let phases = vec![Phase { value: 0, name }; count];
    Fact::Layout { algorithm: "reno".into(), layout: StateLayout { size: 1, phases, fields: Vec::new() } }
}

fn arm(socket: u64, rule: &str) -> Fact {
    Fact::Arm { socket, given: Some(RuleArm { rule: rule.into(), arm: "keep".into() }) }
}

fn cost(algorithm: String, callback: String) -> Fact {
    Fact::Cost { time_ns: 0, algorithm, callback, calls: 0, nanoseconds: 0 }
}

/// One fact for each bound, and beyond it by so many bytes or items.
fn facts_at_their_bounds(beyond: usize) -> Vec<Fact> {
    vec![
        Fact::Owner { socket: 1, pid: 1, command: name(64 + beyond) },
        Fact::Cgroup { cgroup: 1, path: name(4096 + beyond) },
        Fact::Layout { algorithm: name(256 + beyond), layout: StateLayout::default() },
        arm(1, &name(256 + beyond)),
        cost(name(256 + beyond), name(1)),
        cost(name(1), name(256 + beyond)),
        phases(256 + beyond, name(1)),
        phases(1, name(256 + beyond)),
        fields(256 + beyond, name(1), FieldKind::Bytes),
        fields(1, name(256 + beyond), FieldKind::Bytes),
        fields(1, name(1), values(256 + beyond, 1)),
        fields(1, name(1), values(1, 256 + beyond)),
        fields(1, name(1), array(values(256 + beyond, 1))),
        fields(1, name(1), array(values(1, 256 + beyond))),
    ]
}

/// Names without a bound, in a file of a few megabytes, took gigabytes.
#[test]
fn facts_are_read_up_to_each_bound_and_left_out_beyond() {
    assert_eq!(kept(&facts_at_their_bounds(0)), (facts_at_their_bounds(0).len(), 0));
    for (place, fact) in facts_at_their_bounds(1).into_iter().enumerate() {
        assert_eq!(kept(&[fact]), (0, 1), "the fact at {place}");
    }
}

#[test]
fn layouts_that_no_algorithm_has_are_left_out() {
    assert_eq!(kept(&[fields(1, name(1), array(FieldKind::Bytes))]), (1, 0));
    assert_eq!(kept(&[fields(1, name(1), array(array(FieldKind::Bytes)))]), (0, 1));
    assert_eq!(kept(&[fields(200, name(200), FieldKind::Bytes)]), (1, 0));
    assert_eq!(kept(&[fields(256, name(256), FieldKind::Bytes)]), (0, 1), "all together are long");
}

#[test]
fn files_rotate_by_size_and_each_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let rotation = Rotation { bytes: Some(20_000), age: None, keep: 2 };
    let mut recorder = Recorder::create(&path, head(), rotation).unwrap();
    let events = events(60_000);
    for (n, event) in events.iter().enumerate() {
        recorder.write(&Arrival::Event(event.clone())).unwrap();
        if n == 10 {
            recorder.write(&Arrival::Fact(owner(3))).unwrap();
        }
    }
    assert_eq!(recorder.events(), 60_000);
    recorder.finish().unwrap();
    let parts = ["a.2", "a.1", "a"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    let mut all = Vec::new();
    for part in &parts {
        let (read, facts, damage, tail) = read(part).unwrap();
        assert_eq!((facts, damage, tail.unwrap().events), (1, Damage::default(), read.len() as u64));
        all.extend(read);
    }
    assert!(all == events[events.len() - all.len()..], "events differ");
    let again = Recorder::create(&path, head(), Rotation::NONE).unwrap_err().to_string();
    assert!(again.ends_with("it exists"), "{again}");
    Recorder::create(&path, head(), rotation).unwrap();
    assert_eq!(std::fs::read(folder.path().join("a.1")).unwrap(), parts[2], "what was there is put aside");
}

/// What a file begins with that follows one in which this was seen.
fn standing_after(arrivals: impl IntoIterator<Item = Arrival>) -> Vec<Fact> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let rotation = Rotation { bytes: Some(1 << 30), age: None, keep: 1 };
    let mut recorder = Recorder::create(&path, head(), rotation).unwrap();
    arrivals.into_iter().for_each(|arrival| recorder.write(&arrival).unwrap());
    recorder.rotate().unwrap();
    recorder.finish().unwrap();
    let mut reader = RecordingReader::open(&path).unwrap();
    let mut facts = Vec::new();
    while let Some(content) = reader.next(Want::All).unwrap() {
        let BlockContent::Facts(more) = content else { panic!("events stand in the next file") };
        facts.extend(more);
    }
    assert_eq!((reader.damage(), reader.tail()), (Damage::default(), Some(Tail::default())));
    facts
}

fn event(kind: EventKind, socket: u64, time_ns: u64) -> Arrival {
    Arrival::Event(Event { kind, ..sample(socket, time_ns) })
}

fn swept(begin_ns: u64, hidden: u64, netns: &[u32]) -> Arrival {
    Arrival::Fact(Fact::Swept { begin_ns, time_ns: begin_ns + SECOND, hidden, netns: netns.to_vec() })
}

/// An owner that was told after its socket's end stood for ever: each file began with more of them, at last with so
/// many that it was full.
#[test]
fn owners_that_are_told_after_the_close_do_not_stand() {
    let life = |socket: u64| {
        let [begin, end] = [EventKind::Open, EventKind::Close].map(|kind| event(kind, socket, socket * SECOND));
        [begin, end, Arrival::Fact(owner(socket))]
    };
    assert_eq!(standing_after((1..=1000).flat_map(life)), []);
    let still_open = [event(EventKind::Open, 1001, SECOND), Arrival::Fact(owner(1001))];
    assert_eq!(standing_after((1..=1000).flat_map(life).chain(still_open)), [owner(1001)]);
}

#[test]
fn owners_stand_until_a_sweep_that_looked_does_not_find_their_socket() {
    let met = [1, 2].map(|socket| [event(EventKind::Sample, socket, SECOND), Arrival::Fact(owner(socket))]);
    let row = event(EventKind::Snapshot, 2, 5 * SECOND + 1);
    let after = |sweep| standing_after(met.clone().into_iter().flatten().chain([row.clone(), sweep]));
    assert_eq!(after(swept(SECOND, 0, &[])), [owner(1), owner(2)]);
    assert_eq!(after(swept(5 * SECOND, 0, &[])), [owner(2)]);
    assert_eq!(after(swept(5 * SECOND, 1, &[1])), [owner(2)]);
    assert_eq!(after(swept(5 * SECOND, 1, &[8, 9])), [owner(1), owner(2)], "nobody looked where it is");
}

#[test]
fn latest_arm_of_an_open_connection_stands() {
    let open = [1, 2, 3].map(|socket| event(EventKind::Open, socket, SECOND));
    let none = Fact::Arm { socket: 2, given: None };
    let told = [arm(1, "web"), arm(2, "web"), arm(3, "web"), arm(1, "mail"), none].map(Arrival::Fact);
    let end = event(EventKind::Close, 3, 2 * SECOND);
    assert_eq!(standing_after(open.into_iter().chain(told).chain([end])), [arm(1, "mail")]);
}

/// They stood for ever: each file of a host that starts many containers began with more of them.
#[test]
fn names_of_cgroups_stand_until_a_sweep_finds_no_socket_in_them() {
    let cgroup = |cgroup| Fact::Cgroup { cgroup, path: format!("/{cgroup}") };
    let met = |socket| Arrival::Event(Event { cgroup: socket, ..sample(socket, SECOND) });
    let named = (1..=3).flat_map(|id| [met(id), Arrival::Fact(cgroup(id))]);
    let row = Arrival::Event(Event { kind: EventKind::Snapshot, cgroup: 3, ..sample(3, 5 * SECOND + 1) });
    let after = |sweep| standing_after(named.clone().chain([event(EventKind::Close, 1, SECOND), row.clone(), sweep]));
    assert_eq!(after(swept(SECOND, 0, &[])), [cgroup(2), cgroup(3)]);
    assert_eq!(after(swept(5 * SECOND, 0, &[])), [cgroup(3)]);
    assert_eq!(after(swept(5 * SECOND, 1, &[8, 9])), [cgroup(2), cgroup(3)], "nobody looked where it is");
}

/// What stood went into one block, which is larger than any that is read when much stands.
#[test]
fn standing_facts_are_read_again_however_many_they_are() {
    let cgroup = |cgroup| Fact::Cgroup { cgroup, path: format!("/{cgroup}{}", name(4000)) };
    let facts = standing_after((0..2000).map(cgroup).map(Arrival::Fact));
    assert_eq!(facts.len(), 2000);
    assert!((0..2000).all(|id| facts.contains(&cgroup(id))));
}

#[test]
fn span_and_selection_of_blocks_are_by_time() {
    let bytes = recorded(&events(60), 10);
    let mut reader = RecordingReader::new(Cursor::new(&bytes), "made").unwrap();
    assert_eq!(reader.span().unwrap(), Some([SECOND, SECOND + 59_000_000]));
    let mut count = |want| {
        reader.rewind().unwrap();
        let mut counts = (0, 0);
        while let Some(content) = reader.next(want).unwrap() {
            match content {
                BlockContent::Events(events) => counts.0 += events.len(),
                BlockContent::Facts(facts) => counts.1 += facts.len(),
            }
        }
        counts
    };
    assert_eq!(count(Want::EventsFrom(SECOND + 40_000_000)), (20, 6));
    assert_eq!(count(Want::Facts), (0, 6));
}

/// The same recording for every case.
fn small() -> &'static [u8] {
    static SMALL: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    SMALL.get_or_init(|| recorded(&events(20), 5))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the bytes are: no panic, no more memory than a block, events only as written.
    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..600), keep in 0usize..700) {
        let whole = small();
        let mut mixed = whole[..keep.min(whole.len())].to_vec();
        mixed.extend(bytes);
        let _ = read(&mixed);
    }

    #[test]
    fn no_change_of_a_byte_makes_an_event_that_was_not_written(at in 0usize..4000, bit in 0u8..8) {
        let events = events(20);
        let mut bytes = small().to_vec();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok((read, ..)) = read(&bytes) {
            prop_assert!(read.iter().all(|event| events.contains(event)));
        }
    }

    /// Blocks with right checksums and any content, as someone hostile would make them.
    #[test]
    fn no_content_of_blocks_breaks_the_reader(
        payload in proptest::collection::vec(any::<u8>(), 0..2000), kind in 0u8..6, records in any::<u32>(),
        times in any::<[u64; 2]>(),
    ) {
        let kind = match kind { 0 => BlockKind::Head, 1 | 2 => BlockKind::Events, 3 => BlockKind::Facts, 4 => BlockKind::End, n => BlockKind::Unknown(n) };
        let mut bytes = small().to_vec();
        bytes.extend(block::pack(kind, &payload, records, times));
        let mut reader = RecordingReader::new(Cursor::new(&bytes), "made").unwrap();
        reader.span().unwrap();
        while reader.next(Want::All).unwrap().is_some() {}
    }
}
