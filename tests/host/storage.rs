//! Private storage, random numbers and rate samples in every build, by a small algorithm that needs all three.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tccc::author::ring::native::{CongestionControl as _, Tcp};
use tccc::trace::event::Event;

use crate::algorithms::native;
use crate::common::experiment::finished;
use crate::common::{check, needs, tccc};
use crate::compile::in_tree;
use crate::lab::virtual_time::Bench;

const WITH_STORAGE_PKTS: u32 = 20;

fn source() -> PathBuf {
    in_tree("tests/fixtures/author/stored.bpf.c")
}

#[test]
fn algorithm_with_storage_passes_every_check() {
    needs!(clang);
    check(0, tccc().arg("check").arg(source()).args(["--fuzz", "1s"])).stdout_lacks("FAILED");
}

/// A socket that switches away and back would find the storage of its earlier life.
#[test]
fn release_that_leaves_the_storage_is_refused() {
    needs!(clang);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stored.bpf.c");
    let text = fs::read_to_string(source()).unwrap();
    fs::write(&file, text.replace("\tstored_history_delete(sk);\n", "")).unwrap();
    let said = check(1, tccc().arg("check").arg(&file).args(["--only", "properties"]));
    said.stdout_has("release leaves the private storage: call NAME_delete there");
}

#[test]
fn random_numbers_depend_on_the_seed_alone() {
    let native = native::load(&source());
    let draws = |seed: u64| -> Vec<u8> {
        let mut socket = native.socket(0);
        native.seed(seed);
        (0..20)
            .map(|_| {
                socket.init(&mut Tcp::default());
                socket.private()[1]
            })
            .collect()
    };
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
    assert!(draws(1).iter().all(|draw| *draw < 200));
}

/// Each of five connections at the same time has its own block, and a later one that reuses a socket's memory an empty one.
#[test]
fn guest_keeps_the_storage_of_each_socket() {
    needs!(guest);
    let bench = Bench::new(
        "title = \"x\"\nclaim = \"y\"\nprofile = \"paper\"\nduration = \"4s\"\nruns = 1\nseed = 1\nsample = \"5ms\"\n\n\
         [[link]]\nends = [\"a\", \"b\"]\nrate = \"50mbit\"\ndelay = \"10ms\"\nqueue = \"400pkts\"\n\n\
         [[flow]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"stored.bpf.c\"\nsize = \"300kB\"\n\
         count = 20\ninterval = \"40ms\"\n",
    );
    bench.write("stored.bpf.c", &fs::read_to_string(source()).unwrap());
    let out = bench.runs("out", "");
    let folder = out.join("runs").join(&finished(&out)[0].0);
    let mut windows: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for line in fs::read_to_string(folder.join("events.jsonl")).unwrap().lines() {
        let event: Event = serde_json::from_str(line).unwrap();
        windows.entry(event.socket).or_default().push(event.cwnd_pkts);
    }
    assert_eq!(windows.len(), 20);
    for (socket, windows) in windows {
        let first = windows.iter().position(|cwnd| *cwnd == WITH_STORAGE_PKTS);
        let first = first.unwrap_or_else(|| panic!("socket {socket} has no storage: {windows:?}"));
        assert!(windows[first..].iter().all(|cwnd| *cwnd == WITH_STORAGE_PKTS), "socket {socket}: {windows:?}");
    }
}
