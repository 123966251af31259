//! Recordings of every format that ever was still open, and say what they said; so do incidents.

use crate::common::{check, tccc};
use tccc::model::live::Live;
use tccc::trace::arrival::Arrival;
use tccc::trace::record::read::{Content, Damage, Reader, Want};
use tccc::trace::record::{FORMAT, Tail};

fn fixture(format: u32) -> std::path::PathBuf {
    format!("{}/tests/fixtures/recording-format-{format}.tccc", env!("CARGO_MANIFEST_DIR")).into()
}

#[test]
fn there_is_a_recording_of_every_format() {
    for format in 1..=FORMAT {
        assert!(Reader::open(&fixture(format)).is_ok(), "format {format}");
    }
}

/// Lossy transfers of three algorithms, recorded on Linux 6.18 while a loss sweep ran.
#[test]
fn recording_of_format_1_says_what_it_said() {
    let mut reader = Reader::open(&fixture(1)).unwrap();
    let mut live = Live::default();
    while let Some(content) = reader.next(Want::All).unwrap() {
        match content {
            Content::Events(events) => events.into_iter().for_each(|event| live.apply(Arrival::Event(event))),
            Content::Facts(facts) => facts.into_iter().for_each(|fact| live.apply(Arrival::Fact(fact))),
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

/// The checksums are of what the tccc that introduced the format wrote; a decoder that changes one byte changes them.
#[test]
fn every_event_of_format_1_is_what_it_was() {
    let mut reader = Reader::open(&fixture(1)).unwrap();
    let (mut bytes, mut objects) = (Vec::new(), Vec::new());
    while let Some(content) = reader.next(Want::All).unwrap() {
        let Content::Events(events) = content else { continue };
        for event in events {
            bytes.extend(event.encode());
            serde_json::to_writer(&mut objects, &event).unwrap();
            objects.push(b'\n');
        }
    }
    assert_eq!([&bytes, &objects].map(|it| crc32fast::hash(it)), [0x1b3a_9982, 0xef45_69ca]);
}

#[test]
fn replay_of_format_1_prints_what_it_printed() {
    for (format, checksum) in [("table", 0xc18e_ef98), ("jsonl", 0x3653_556f), ("csv", 0xfa10_a9ee)] {
        let output = tccc().args(["trace", "-o", format, "--replay"]).arg(fixture(1)).output().unwrap();
        assert_eq!(crc32fast::hash(&output.stdout), checksum, "{format}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "tccc: note: 1348 events of vm, Linux 6.18.44-fc-v657\n");
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
    let report = |options: &[&str]| {
        let output = tccc().arg("report").arg(fixture(1)).args(options).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text, _) = report(&[]);
    assert_eq!(code, Some(0));
    assert!(text.contains("1348 events of 25 connections in 11.997s,") && text.contains("0 dropped"), "{text}");
    let (_, json, _) = report(&["-o", "json"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((document[0]["events"].as_u64(), document[0]["was_cut"].as_bool()), (Some(1348), Some(false)));
    let flows = document[0]["flows"].as_array().unwrap();
    let lines = report(&["-o", "csv"]).1.lines().count();
    assert_eq!(lines, flows.len() + 1);
    assert!(
        flows.iter().any(|flow| flow["retrans_pkts"].as_u64() > Some(0) && flow["goodput_bps"].as_f64() > Some(1e6))
    );
    let (code, _, message) = report(&["-o", "html"]);
    assert!(code == Some(2) && message.contains("-o text"), "{message}");
}

#[test]
fn report_of_an_incident_holds_its_evidence_in_every_format() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trial/incident.json");
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(document, folder.path().join("incident.json")).unwrap();
    let report = |place: &std::path::Path, format: &str| {
        let output = tccc().arg("report").arg(place).args(["-o", format]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text, _) = report(folder.path(), "text");
    assert_eq!(code, Some(0));
    let replay = format!("tccc top --replay {}/recording.tccc", folder.path().display());
    for line in [
        "rule \"web\": \"dtcp\" crossed the limit retransmitted<1.2x",
        "Crossed: the arm is worse than the limit allows. retransmitted is 1.47 times that of keep, interval 1.07 to",
        "The e-value of harm is 0.16,",
        "dtcp    5 %         6210         1.60 %",
        "    guard = [\"retransmitted<1.2x\", \"goodput>0.9x\", \"abnormal_ends<1%\"]",
        &replay,
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    assert_eq!(report(std::path::Path::new(document), "text").1.lines().next(), Some("A limit was crossed"));
    let (_, markdown, _) = report(folder.path(), "markdown");
    assert!(markdown.starts_with("## A limit was crossed\n") && markdown.contains("| --- | ---: |"), "{markdown}");
    let (_, html, _) = report(folder.path(), "html");
    assert_eq!((html.matches("<figure").count(), html.matches("<svg").count()), (3, 3), "{html}");
    assert!(html.contains("retransmitted&lt;1.2x") && !html.contains("retransmitted<1.2x"));
    let document: serde_json::Value = serde_json::from_str(&report(folder.path(), "json").1).unwrap();
    assert_eq!((&document["schema"], document["rules"][0]["limits"].as_array().unwrap().len()), (&1.into(), 3));
    let (code, _, message) = report(folder.path(), "csv");
    assert!(code == Some(2) && message.contains("-o text"), "{message}");
}
