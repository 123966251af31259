//! Parsers of folders and of binary files.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use tccc::btf::TypeKind;
use tccc::kernel::btf::Types;
use tccc::model::live::Live;
use tccc::model::summary::RecordingSummary;
use tccc::policy::record::PolicyRecord;
use tccc::report::{self, ReportFormat};
use tccc::state::Store;
use tccc::trace::arrival::Arrival;
use tccc::trace::record::read::{BlockContent, RecordingReader, Want};
use tccc::trial::{incident, view};
use tccc::{catalog, declaration};

use crate::{content, files_below, in_tree, joined, parts};

const FIXTURES: &str = "tests/fixtures";

/// Writes the files in an input into a folder with these names, and removes the other ones.
fn lay_out(bytes: &[u8], folder: &Path, names: &[&str]) {
    let mut parts = parts(bytes);
    for name in names {
        let file = folder.join(name);
        match parts.next() {
            Some(part) => {
                fs::create_dir_all(file.parent().expect("a file is in a folder")).expect("a scratch folder is made");
                fs::write(&file, part).expect("a scratch file is written");
            }
            None => drop(fs::remove_file(&file)),
        }
    }
}

const DECLARATION: [&str; 3] = ["10-site.toml", "50-more.toml", "90-local.toml"];

pub fn declarations() -> Vec<Vec<u8>> {
    let site = content(in_tree("scenarios/policy/declared/10-site.toml"));
    let own =
        b"version = 1\ndefault = \"mine\"\n[algorithm.mine]\nuse = \"dtcp\"\ntunables = { }\naccept_risk = true\n";
    vec![site.clone(), joined([site, own.to_vec()]), own.to_vec()]
}

pub fn read_declaration(bytes: &[u8], scratch: &Path) {
    let folder = scratch.join("declared");
    lay_out(bytes, &folder, &DECLARATION);
    match declaration::file::read(&folder) {
        Ok(read) => assert!(!format!("{read:?}").is_empty()),
        Err(why) => assert!(!why.what.is_empty()),
    }
}

const RUN: &str = "runs/r000/run.json";
const EVENTS: &str = "runs/r000/events.jsonl";
const RESULTS: [&str; 5] = ["scenario.toml", "plan.json", "host.json", RUN, EVENTS];

pub fn results() -> Vec<Vec<u8>> {
    let stored = in_tree(FIXTURES).join("loss-sweep-schema-1");
    let head = ["scenario.toml", "plan.json", "host.json"].map(|name| content(stored.join(name)));
    let runs = files_below(&format!("{FIXTURES}/loss-sweep-schema-1/runs"), "run.json").into_iter();
    let of_run = |run: PathBuf| {
        let events = content(run.with_file_name("events.jsonl"));
        let few: Vec<u8> = events.split_inclusive(|&byte| byte == b'\n').take(20).flatten().copied().collect();
        let [scenario, plan, host] = head.clone();
        joined([scenario, plan, host, content(run), few])
    };
    runs.map(of_run).collect()
}

pub fn read_results(bytes: &[u8], scratch: &Path) {
    let folder = scratch.join("results");
    lay_out(bytes, &folder, &RESULTS);
    if let Ok(read) = report::load(&folder) {
        for format in [ReportFormat::Text, ReportFormat::Html, ReportFormat::Json, ReportFormat::Csv] {
            report::render(&read, format).expect("a report is written in each format");
        }
    }
}

pub fn recordings() -> Vec<Vec<u8>> {
    files_below(FIXTURES, ".tccc").into_iter().map(content).collect()
}

/// Reads a whole recording, and again from its middle as a seek does.
pub fn read_recording(bytes: &[u8], _scratch: &Path) {
    let Ok(mut reader) = RecordingReader::new(Cursor::new(bytes), "x") else { return };
    let span = reader.span();
    let (mut live, mut summary) = (Live::default(), RecordingSummary::default());
    while let Ok(Some(content)) = reader.next(Want::All) {
        match content {
            BlockContent::Events(events) => events.into_iter().for_each(|event| {
                summary.add(event.clone());
                live.apply(Arrival::Event(event));
            }),
            BlockContent::Facts(facts) => facts.into_iter().for_each(|fact| live.apply(Arrival::Fact(fact))),
        }
    }
    let _ = (summary.flows(), reader.damage(), reader.tail());
    if let Ok(Some([begin_ns, end_ns])) = span
        && reader.rewind().is_ok()
    {
        let middle = begin_ns / 2 + end_ns / 2;
        while let Ok(Some(_)) = reader.next(Want::EventsFrom(middle)) {}
    }
}

const RECORDS: [&str; 4] = ["dtcp.json", "policy/record.json", "policy/trial.json", "incident.json"];

pub fn records() -> Vec<Vec<u8>> {
    let trial = in_tree(FIXTURES).join("trial");
    let [record, seen, incident] = ["record.json", "trial.json", "incident.json"].map(|name| content(trial.join(name)));
    let algorithm =
        br#"{"schema":1,"name":"dtcp","algorithm":"dtcp","title":"","file":null,"digest":"00","tunables":{},
        "since":"2026-11-23T00:00:00Z","generation":1,"previous_default":null,"owner":"Pins","map_id":1,
        "layout":{"size":0,"fields":[],"phases":[]}}"#;
    vec![joined([algorithm.to_vec(), record, seen, incident])]
}

pub fn read_records(bytes: &[u8], scratch: &Path) {
    let folder = scratch.join("run");
    lay_out(bytes, &folder, &RECORDS);
    let store = Store::at(&folder);
    for record in store.records() {
        assert_eq!(record.code_of(record.map_id).map(|code| code.map_id), Some(record.map_id));
        let _ = record.layout.decode(&[0xff; catalog::STATE_BYTES_MAX]);
    }
    let _ = (store.names(), view::read(&store), incident::read(&folder.join("incident.json")));
    if let Ok(record) = PolicyRecord::read(&store) {
        let _ = record.clone().take_number();
    }
}

pub fn objects() -> Vec<Vec<u8>> {
    let carried = catalog::all().iter().filter(|algorithm| ["dtcp", "bpf_cubic", "mswift"].contains(&&*algorithm.id));
    carried.map(|algorithm| algorithm.object.to_vec()).collect()
}

pub fn read_object(bytes: &[u8], _scratch: &Path) {
    let Ok(algorithm) = catalog::from_bytes(bytes.to_vec()) else { return };
    for count in [0, 1, algorithm.layout.size, catalog::STATE_BYTES_MAX] {
        let state = &[0xff; catalog::STATE_BYTES_MAX][..count];
        let _ = (algorithm.layout.decode(state), algorithm.layout.phase_name(state));
    }
    for tunable in &algorithm.tunables {
        let _ = algorithm.settings(&[format!("{}=1", tunable.name)]);
    }
    let _ = format!("{:?}{:?}{:?}", algorithm.card, algorithm.patents(), algorithm.companion);
}

/// The type information of the objects, because a kernel's is too large.
pub fn types() -> Vec<Vec<u8>> {
    const MAGIC: [u8; 4] = [0x9f, 0xeb, 1, 0];
    let begins = |object: Vec<u8>| {
        let at = object.windows(MAGIC.len()).position(|bytes| bytes == MAGIC)?;
        let word = |at: usize| object.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four")));
        let length = word(at + 4)? + word(at + 16)? + word(at + 20)?;
        object.get(at..at + length as usize).map(<[u8]>::to_vec)
    };
    objects().into_iter().filter_map(begins).collect()
}

pub fn read_types(bytes: &[u8], _scratch: &Path) {
    let Ok(types) = Types::parse(bytes.to_vec()) else { return };
    for name in ["tcp_congestion_ops", "cong_control", "tcp_sock"] {
        for kind in [TypeKind::Struct, TypeKind::Function] {
            if let Some(found) = types.view().find(kind, name) {
                let _ = (found.members(), types.view().parameters(found.size_or_type));
            }
        }
    }
    let _ = types.functions_among(&["bpf_sk_storage_get", "tcp_slow_start"]);
    let _ = catalog::StateLayout::of_kernel("cubic", bytes, Some(bytes));
}
