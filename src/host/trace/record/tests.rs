//! Recordings that are whole, cut, damaged and hostile.

use std::io::Cursor;

use proptest::prelude::*;

use super::read::{BlockContent, Damage, RecordingReader, Want};
use super::*;
use shared::arrival::RuleArm;
use shared::catalog::{FieldKind, Phase, StateField, StateLayout};
use shared::event::{Event, EventKind};
use shared::model::live::samples::{SECOND, sample};

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

/// The bytes of a recording with these events in blocks of `each`, and a fact after each block.
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

/// Events, number of facts, damage, tail.
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
        (&whole[..12], "its first block, which describes it, is damaged"),
    ] {
        let refusal = read(bytes).unwrap_err().to_string();
        assert!(refusal.starts_with("cannot read \"made\": ") && refusal.contains(says), "{refusal}");
    }
}

/// Numbers of facts that are read, and that are left out and counted.
fn kept(lines: &[String]) -> (usize, u64) {
    let mut bytes = recorded(&[], 1);
    bytes.extend(block::pack(BlockKind::Facts as u8, lines.join("\n").as_bytes(), lines.len() as u32, [0, 0]));
    let (_, facts, damage, _) = read(&bytes).unwrap();
    (facts, damage.unknown)
}

fn json(fact: Fact) -> String {
    serde_json::to_string(&fact).unwrap()
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

/// A layout with equal fields.
fn fields(count: usize, name: String, kind: FieldKind) -> Fact {
    let fields = vec![StateField { name, offset: 0, size: 1, bits: None, kind }; count];
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

/// One fact for each limit, which exceeds it by this many bytes or items.
fn facts_at_their_limits(beyond: usize) -> Vec<String> {
    let facts = [
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
    ];
    facts.map(json).to_vec()
}

/// Regression: names without a limit, in a file of a few megabytes, took gigabytes.
#[test]
fn facts_are_read_up_to_each_limit_and_left_out_beyond() {
    assert_eq!(kept(&facts_at_their_limits(0)), (facts_at_their_limits(0).len(), 0));
    for fact in facts_at_their_limits(1) {
        assert_eq!(kept(std::slice::from_ref(&fact)), (0, 1), "{fact}");
    }
}

#[test]
fn implausible_and_unknown_facts_are_left_out() {
    let check = |fact, is_kept| assert_eq!(kept(&[fact]), if is_kept { (1, 0) } else { (0, 1) });
    check(json(fields(1, name(1), array(FieldKind::Bytes))), true);
    check(json(fields(1, name(1), array(array(FieldKind::Bytes)))), false);
    check(json(fields(200, name(200), FieldKind::Bytes)), true);
    check(json(fields(256, name(256), FieldKind::Bytes)), false); // too long together
    check("{\"fact\":\"of a later version\"}".to_owned(), false);
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

/// The facts at the beginning of the next file after these arrivals.
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

/// Regression: an owner that arrived after its socket's end was kept forever, and each file started with more of them.
#[test]
fn owners_that_arrive_after_the_close_do_not_stand() {
    let life = |socket: u64| {
        let [begin, end] = [EventKind::Open, EventKind::Close].map(|kind| event(kind, socket, socket * SECOND));
        [begin, end, Arrival::Fact(owner(socket))]
    };
    let still_open = [event(EventKind::Open, 1001, SECOND), Arrival::Fact(owner(1001))];
    assert_eq!(standing_after((1..=1000).flat_map(life).chain(still_open)), [owner(1001)]);
}

#[test]
fn latest_arm_of_an_open_connection_stands() {
    let open = [1, 2, 3].map(|socket| event(EventKind::Open, socket, SECOND));
    let none = Fact::Arm { socket: 2, given: None };
    let told = [arm(1, "web"), arm(2, "web"), arm(3, "web"), arm(1, "mail"), none].map(Arrival::Fact);
    let end = event(EventKind::Close, 3, 2 * SECOND);
    assert_eq!(standing_after(open.into_iter().chain(told).chain([end])), [arm(1, "mail")]);
}

/// Regression: paths were kept forever, and on a host that starts many containers each file started with more of them.
#[test]
fn paths_and_owners_stand_until_a_sweep_does_not_find_their_socket() {
    let cgroup = |cgroup| Fact::Cgroup { cgroup, path: format!("/{cgroup}") };
    let of = |kind, id, time_ns| Arrival::Event(Event { kind, cgroup: id, ..sample(id, time_ns) });
    let met = |id| [of(EventKind::Sample, id, SECOND), Arrival::Fact(cgroup(id)), Arrival::Fact(owner(id))];
    let later = [of(EventKind::Close, 1, SECOND), of(EventKind::Snapshot, 3, 5 * SECOND + 1)];
    let arrivals = (1..=3).flat_map(met).chain(later);
    let check = |sweep, standing: &[u64]| {
        let [paths, owners] = [standing, standing].map(|ids| ids.iter().copied());
        let expected: Vec<Fact> = paths.map(cgroup).chain(owners.map(owner)).collect();
        assert_eq!(standing_after(arrivals.clone().chain([sweep])), expected);
    };
    check(swept(SECOND, 0, &[]), &[2, 3]);
    check(swept(5 * SECOND, 0, &[]), &[3]);
    check(swept(5 * SECOND, 1, &[1]), &[3]);
    check(swept(5 * SECOND, 1, &[8, 9]), &[2, 3]); // the socket's namespace was not swept
}

/// Regression: many standing facts made one block that was larger than readers allow.
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

fn small() -> &'static [u8] {
    static SMALL: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    SMALL.get_or_init(|| recorded(&events(20), 5))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No panic, and no more memory than a block.
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

    /// Blocks with valid checksums and arbitrary content, as an attacker would write them.
    #[test]
    fn no_content_of_blocks_breaks_the_reader(
        payload in proptest::collection::vec(any::<u8>(), 0..2000), kind in 0u8..6, records in any::<u32>(),
        times in any::<[u64; 2]>(),
    ) {
        let mut bytes = small().to_vec();
        bytes.extend(block::pack(kind, &payload, records, times));
        let mut reader = RecordingReader::new(Cursor::new(&bytes), "made").unwrap();
        reader.span().unwrap();
        while reader.next(Want::All).unwrap().is_some() {}
    }
}
