//! Recordings written, cut, damaged and made up.

use std::io::Cursor;

use proptest::prelude::*;

use super::read::{Content, Damage, Reader, Want};
use super::*;
use crate::model::live::samples::{SECOND, sample};

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
    let mut reader = Reader::new(Cursor::new(bytes), "made")?;
    let (mut events, mut facts) = (Vec::new(), 0);
    while let Some(content) = reader.next(Want::All)? {
        match content {
            Content::Events(more) => events.extend(more),
            Content::Facts(more) => facts += more.len(),
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

#[test]
fn files_rotate_by_size_and_each_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let rotation = Rotation { bytes: Some(20_000), age: None, keep: 2 };
    let mut recorder = Recorder::create(&path, head(), rotation).unwrap();
    recorder.write(&Arrival::Fact(owner(3))).unwrap();
    let events = events(60_000);
    for event in &events {
        recorder.write(&Arrival::Event(event.clone())).unwrap();
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

#[test]
fn span_and_selection_of_blocks_are_by_time() {
    let bytes = recorded(&events(60), 10);
    let mut reader = Reader::new(Cursor::new(&bytes), "made").unwrap();
    assert_eq!(reader.span().unwrap(), Some([SECOND, SECOND + 59_000_000]));
    let mut count = |want| {
        reader.rewind().unwrap();
        let mut counts = (0, 0);
        while let Some(content) = reader.next(want).unwrap() {
            match content {
                Content::Events(events) => counts.0 += events.len(),
                Content::Facts(facts) => counts.1 += facts.len(),
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
        let kind = match kind { 0 => Kind::Head, 1 | 2 => Kind::Events, 3 => Kind::Facts, 4 => Kind::End, n => Kind::Unknown(n) };
        let mut bytes = small().to_vec();
        bytes.extend(block::pack(kind, &payload, records, times));
        let mut reader = Reader::new(Cursor::new(&bytes), "made").unwrap();
        reader.span().unwrap();
        while reader.next(Want::All).unwrap().is_some() {}
    }
}
