//! Recordings of every format can still be read, with the same results; so can incidents.

use crate::common::{check, tccc};
use tccc::model::live::Live;
use tccc::trace::arrival::Arrival;
use tccc::trace::record::read::{BlockContent, Damage, RecordingReader, Want};
use tccc::trace::record::{FORMAT, Tail};

fn fixture(format: u32) -> std::path::PathBuf {
    format!("{}/tests/fixtures/recording-format-{format}.tccc", env!("CARGO_MANIFEST_DIR")).into()
}

#[test]
fn there_is_a_recording_of_every_format() {
    for format in 1..=FORMAT {
        assert!(RecordingReader::open(&fixture(format)).is_ok(), "format {format}");
    }
}

/// Lossy transfers of three algorithms, recorded on Linux 6.18 while a loss sweep ran.
#[test]
fn content_of_a_recording_of_format_1_is_unchanged() {
    let mut reader = RecordingReader::open(&fixture(1)).unwrap();
    let mut live = Live::default();
    while let Some(content) = reader.next(Want::All).unwrap() {
        match content {
            BlockContent::Events(events) => events.into_iter().for_each(|event| live.apply(Arrival::Event(event))),
            BlockContent::Facts(facts) => facts.into_iter().for_each(|fact| live.apply(Arrival::Fact(fact))),
        }
    }
    assert_eq!((reader.damage(), reader.tail()), (Damage::default(), Some(Tail { events: 1348, dropped: 0 })));
    assert_eq!((live.counts().events, reader.head().event.version), (1348, 1));
    let names: Vec<&str> = live.algorithms().map(|(name, _)| name).collect();
    assert_eq!(names, ["cubic", "dtcp", "dtcp_6a25_0", "reno"]);
    let named = live.sockets().find(|socket| socket.latest.algorithm == "dtcp").unwrap();
    assert!(matches!(live.phase(named), Some("avoidance" | "slow_start" | "recovery")));
    assert!(live.private_state(named).iter().any(|(name, _)| *name == "last_cwnd"));
    assert!(live.sockets().any(|socket| live.owner(socket).is_some_and(|owner| owner.command == "iperf3")));
    assert!(live.sockets().any(|socket| live.cgroup(socket).is_some_and(|path| path.starts_with("/tccc/run-"))));
}

/// The checksums come from the tccc that introduced the format.
#[test]
fn every_event_of_format_1_is_unchanged() {
    let mut reader = RecordingReader::open(&fixture(1)).unwrap();
    let (mut bytes, mut objects) = (Vec::new(), Vec::new());
    while let Some(content) = reader.next(Want::All).unwrap() {
        let BlockContent::Events(events) = content else { continue };
        for event in events {
            bytes.extend(event.encode());
            serde_json::to_writer(&mut objects, &event).unwrap();
            objects.push(b'\n');
        }
    }
    assert_eq!([&bytes, &objects].map(|it| crc32fast::hash(it)), [0x1b3a_9982, 0xef45_69ca]);
}

#[test]
fn output_of_a_replay_of_format_1_is_unchanged() {
    for (format, checksum) in [("table", 0xc18e_ef98), ("jsonl", 0x3653_556f), ("csv", 0xfa10_a9ee)] {
        let output = check(0, tccc().args(["trace", "-o", format, "--replay"]).arg(fixture(1)));
        assert_eq!(crc32fast::hash(&output.stdout), checksum, "{format}");
        assert_eq!(output.stderr(), "tccc: note: 1348 events of vm, Linux 6.18.44-fc-v657\n");
    }
}

#[test]
fn replay_prints_every_event_that_is_asked_for() {
    let lines = |options: &[&str]| {
        let output = check(0, tccc().args(["trace", "-o", "csv", "--replay"]).arg(fixture(1)).args(options));
        output.stdout().lines().count() - 1
    };
    assert_eq!(lines(&[]), 1348);
    let of_each = ["cubic", "dtcp", "dtcp_6a25_0", "reno"].map(|algorithm| lines(&["--algorithm", algorithm]));
    assert!(of_each.iter().sum::<usize>() == 1348 && of_each.iter().all(|&count| count > 0));
    assert_eq!((lines(&["--port", "1"]), lines(&["--address", "198.18.0.0/15"])), (0, 1348));
}

#[test]
fn report_of_a_recording_is_one_line_per_connection() {
    let report = |code: i32, options: &[&str]| check(code, tccc().arg("report").arg(fixture(1)).args(options));
    report(0, &[]).stdout_has("1348 events of 25 connections in 11.997s,").stdout_has("0 dropped");
    let document = report(0, &["-o", "json"]).json();
    assert_eq!((document[0]["events"].as_u64(), document[0]["was_cut"].as_bool()), (Some(1348), Some(false)));
    let flows = document[0]["flows"].as_array().unwrap();
    assert_eq!(report(0, &["-o", "csv"]).stdout().lines().count(), flows.len() + 1);
    assert!(
        flows.iter().any(|flow| flow["retrans_pkts"].as_u64() > Some(0) && flow["goodput_bps"].as_f64() > Some(1e6))
    );
    report(2, &["-o", "html"]).stderr_has("-o text");
}

#[test]
fn report_of_an_incident_holds_its_evidence_in_every_format() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trial/incident.json");
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(document, folder.path().join("incident.json")).unwrap();
    let report = |code: i32, place: &std::path::Path, format: &str| {
        check(code, tccc().arg("report").arg(place).args(["-o", format]))
    };
    let text = report(0, folder.path(), "text").stdout().replace(folder.path().to_str().unwrap(), "INCIDENT");
    insta::assert_snapshot!(text);
    let of_file = report(0, document.as_ref(), "text").stdout();
    assert_eq!(of_file.lines().next(), Some("A limit was crossed"));
    let markdown = report(0, folder.path(), "markdown");
    assert!(markdown.stdout_has("| --- | ---: |").stdout().starts_with("## A limit was crossed\n"), "{markdown:?}");
    let html = report(0, folder.path(), "html");
    html.stdout_has("retransmitted&lt;1.2x").stdout_lacks("retransmitted<1.2x");
    let html = html.stdout();
    assert_eq!((html.matches("<figure").count(), html.matches("<svg").count()), (3, 3), "{html}");
    let document = report(0, folder.path(), "json").json();
    assert_eq!((&document["schema"], document["rules"][0]["limits"].as_array().unwrap().len()), (&1.into(), 3));
    report(2, folder.path(), "csv").stderr_has("-o text");
}
