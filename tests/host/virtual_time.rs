//! `tccc run --engine virtual`: the same to the byte, held to one folder, any algorithm file, refused where it cannot be had.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::experiment::{TEN_A_ROUND_TRIP, assert_ten_a_round_trip, finished, late_connection};
use crate::common::{needs, poll_until, tccc};
use crate::lab::virtual_time::{Bench, record, scenario};
use nix::sys::signal::{self, Signal};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

/// How long the runs of one test may take on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Threads that keep the processors busy.
const BUSY: usize = 4;

/// Every file of a result directory, by its path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(
                files(&entry.path()).into_iter().map(|(name, bytes)| (Path::new(&entry.file_name()).join(name), bytes)),
            ),
            false => drop(all.insert(entry.file_name().into(), fs::read(entry.path()).unwrap())),
        }
    }
    all
}

/// The algorithm's file in the tree, under another name.
fn renamed(id: &str, name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("bpf/cc/{id}.bpf.c"));
    fs::read_to_string(file).unwrap().replace(id, name)
}

#[test]
fn results_are_the_same_to_the_byte_whatever_the_host_does() {
    needs!(guest);
    let bench = Bench::new(&scenario("dtcp", "gilbert:p=0.5%,r=20%"));
    let quiet = files(&bench.runs("quiet", "--jobs 1"));
    let stop = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        for _ in 0..BUSY {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let busy = files(&bench.runs("busy", "--jobs 3"));
        stop.store(true, Ordering::Relaxed);
        busy
    });
    assert_eq!(quiet.keys().collect::<Vec<_>>(), busy.keys().collect::<Vec<_>>());
    assert!(quiet.len() > 6, "{:?}", quiet.keys());
    for (name, bytes) in &quiet {
        assert!(busy[name] == *bytes, "{} differs", name.display());
    }
    let [quiet_digest, busy_digest] = ["quiet", "busy"].map(|out| digest(&bench.out(out)));
    assert!(quiet_digest.is_string());
    assert_eq!(quiet_digest, busy_digest);
    let other = bench.runs("other", "--seed 17");
    assert_ne!(finished(&other)[0].1, finished(&bench.out("quiet"))[0].1, "another seed is another experiment");
}

/// The digest of all results below a directory.
fn digest(out: &Path) -> Value {
    let report = tccc().arg("report").arg(out).args(["-o", "json"]).output().unwrap();
    serde_json::from_slice::<Value>(&report.stdout).unwrap()["digest"].clone()
}

/// What a cluster's engine does with a plan: every block somewhere, some twice, one number too many.
#[test]
fn blocks_published_one_by_one_are_the_whole_plan() {
    needs!(guest);
    let bench = Bench::new(include_str!("../../scenarios/smoke/loss-sweep.toml"));
    let plan = bench.command("whole", "--runs 2 --dry-run -o json").output().unwrap();
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let blocks = plan["blocks"].as_array().unwrap();
    let (numbers, seconds): (Vec<u64>, Vec<f64>) =
        blocks.iter().map(|block| (block["n"].as_u64().unwrap(), block["seconds"].as_f64().unwrap())).unzip();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "two repeats on each of three paths");
    assert!(seconds.is_sorted_by(|longer, shorter| longer >= shorter), "{seconds:?}");
    assert!(blocks.iter().all(|block| block["runs"].as_array().unwrap().len() == 3), "pairs stay together");
    let published = bench.out("published");
    let publish = |number: u64| {
        let mut command = tccc();
        command.args(["run", "--engine", "virtual", "--runs", "2"]).arg(bench.out("x.toml"));
        let output = command.args(["--block", &number.to_string(), "--publish"]).arg(&published).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    for number in numbers.into_iter().rev() {
        publish(number);
    }
    assert!(publish(3).contains("block 3 is in"), "it is not made again");
    assert!(publish(7).contains("the plan has no block 7"), "there may be more machines than blocks");
    assert_eq!(fs::read_dir(&published).unwrap().count(), 6);
    assert_eq!(digest(&published), digest(&bench.runs("whole", "--runs 2")));
}

/// It waited for the acknowledgement of its opening, as iperf3 does, and lost a round trip to the kernel's.
#[test]
fn own_sender_sends_what_it_sends_on_the_kernel() {
    needs!(guest);
    let bench = Bench::new(TEN_A_ROUND_TRIP);
    let flow = &record(&bench.runs("out", ""))["flows"][0];
    assert_ten_a_round_trip(flow["received_bytes"].as_u64().unwrap(), flow["mss_bytes"].as_u64().unwrap());
}

#[test]
fn own_sender_begins_to_count_before_its_connection_is_made() {
    needs!(guest);
    let flow = |sender: &str| {
        let bench = Bench::new(&late_connection(sender));
        record(&bench.runs("out", ""))["flows"][0].clone()
    };
    let of = |flow: &Value| ["begin_s", "goodput_bps"].map(|field| flow[field].as_f64().unwrap());
    let [begin_s, goodput_bps] = of(&flow("tccc"));
    assert!(begin_s == 0.0 && (4.5e6..5.8e6).contains(&goodput_bps), "{begin_s} s, {goodput_bps} bit/s");
    let [begin_s, goodput_bps] = of(&flow("iperf3"));
    assert!((1.0..1.5).contains(&begin_s) && goodput_bps > 7e6, "{begin_s} s, {goodput_bps} bit/s");
}

/// The guest's memory, and with it the largest buffers, once had a random size.
#[test]
fn results_of_the_native_profile_are_the_same_to_the_byte() {
    needs!(guest);
    let bench = Bench::new(include_str!("../../scenarios/compare/cct-slow-start.toml"));
    let part = "--runs 1 --only variant=bpf_cubic";
    let first = files(&bench.runs("first", part));
    for out in ["second", "third"] {
        assert!(first == files(&bench.runs(out, part)), "{out}");
    }
}

#[test]
fn interrupted_experiment_goes_on_where_it_was() {
    needs!(guest);
    let bench = Bench::new(&scenario("cubic", "1%"));
    let mut begun = bench.command("parts", "--runs 30 --jobs 1").stderr(Stdio::null()).spawn().unwrap();
    poll_until(PATIENCE, "a run is finished", || !finished(&bench.out("parts")).is_empty());
    signal::kill(Pid::from_raw(begun.id() as i32), Signal::SIGINT).unwrap();
    assert!(!begun.wait().unwrap().success());
    assert!(finished(&bench.out("parts")).len() < 30, "it was interrupted");
    let parts = files(&bench.runs("parts", "--runs 30"));
    assert!(parts == files(&bench.runs("whole", "--runs 30")), "in parts it is the same");
}

/// It compiled on for as long as there was something to compile, until a cluster killed it and its scratch folders stayed.
#[test]
fn interrupted_compilation_starts_no_further_compiler_and_leaves_nothing() {
    needs!(guest);
    let bench = Bench::new(&scenario("mine.bpf.c", "1%"));
    let folder = bench.folder.path();
    let never_compiled = format!("{}/* {} */\n", renamed("dtcp", "mine"), folder.display());
    bench.write("mine.bpf.c", &never_compiled);
    let gcc =
        format!("#!/bin/sh\necho >> {0}/calls\ncat {0}/gate\nPATH=${{PATH#*:}} exec gcc \"$@\"\n", folder.display());
    bench.write("gcc", &gcc);
    fs::set_permissions(folder.join("gcc"), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.join("tmp")).unwrap();
    let gate = folder.join("gate");
    mkfifo(&gate, Mode::S_IRWXU).unwrap();
    let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap());
    let mut command = bench.command("out", "");
    let mut begun = command.env("PATH", path).env("TMPDIR", folder.join("tmp")).stderr(Stdio::null()).spawn().unwrap();
    let calls = || fs::read(folder.join("calls")).unwrap_or_default().len();
    poll_until(PATIENCE, "a compiler is started", || calls() > 0);
    signal::kill(Pid::from_raw(begun.id() as i32), Signal::SIGTERM).unwrap();
    fs::write(gate, "").unwrap();
    assert_eq!(begun.wait().unwrap().code(), Some(5));
    assert_eq!(calls(), 1);
    assert_eq!(fs::read_dir(folder.join("tmp")).unwrap().count(), 0);
}

#[test]
fn own_file_runs_by_its_path_and_a_change_of_it_shows() {
    needs!(guest);
    let bench = Bench::new(&scenario("mine.bpf.c", "1%"));
    let tree = Bench::new(&scenario("dtcp", "1%"));
    let delivered = |out: &Path| record(out)["flows"][0]["delivered_pkts"].as_u64().unwrap();
    let text = renamed("dtcp", "mine");
    bench.write("mine.bpf.c", &text);
    let before = delivered(&bench.runs("before", ""));
    assert_eq!(before, delivered(&tree.runs("tree", "")), "the same file does the same");
    assert!(fs::read_to_string(bench.out("before").join("mine.bpf.c")).unwrap() == text, "results keep the file");
    let changed = text.replacen("keep_avoidance, 768", "keep_avoidance, 512", 1);
    assert_ne!(changed, text);
    bench.write("mine.bpf.c", &changed);
    assert_ne!(delivered(&bench.runs("after", "")), before);
    bench.write("mine.bpf.c", "int broken(\n");
    assert!(bench.fails("broken", 1).contains("mine.bpf.c"), "the compiler's words name the file");
}

/// A file of a user that does what it likes in the guest's kernel, and in the process that is this kernel.
const BURGLAR: &str = include_str!("../fixtures/objects/burglar.bpf.c.in");

#[test]
fn guest_reaches_its_folder_and_nothing_else() {
    needs!(guest, landlock);
    let bench = Bench::new(&scenario("mine.bpf.c", "1%"));
    let text = renamed("bpf_reno", "mine");
    let (head, rest) = text.split_once("\nCC_OP(").unwrap();
    let rest = rest.replacen("{\n", "{\n\tburgle();\n", 1);
    bench.write("mine.bpf.c", &format!("{head}\n{BURGLAR}\nCC_OP({rest}"));
    let said = bench.fails("out", 1);
    assert!(said.contains("control 1 passwd -13 create -13 kill -1 end"), "{said}");
    let failed = finished(&bench.out("out"));
    let failed: Value = serde_json::from_slice(&failed[0].1).unwrap();
    assert_eq!(failed["status"], "failed");
    assert!(failed["why"].as_str().unwrap().contains("panic"), "its last words: {failed}");
}

#[test]
fn what_virtual_time_does_not_have_is_refused_with_its_place() {
    needs!(guest);
    let check = |from: &str, to: &str, expected: &str| {
        let text = scenario("cubic", "1%");
        assert!(text.contains(from), "{from}");
        let bench = Bench::new(&text.replacen(from, to, 1));
        let said = bench.fails("out", 2);
        assert!(said.contains(expected), "{said}");
        assert!(!bench.out("out").exists(), "nothing was begun");
    };
    check("\"cubic\"", "\"mswift\"", "x.toml:");
    check("\"cubic\"", "\"mswift\"", "companion program");
    check("\"cubic\"", "\"cubik\"", "unknown algorithm \"cubik\"");
    check("\"cubic\"", "\"none.bpf.c\"", "none.bpf.c");
    check("\"cubic\"", "\"../mine.bpf.c\"", "expected a file in the scenario's folder");
    check("\"cubic\"", "\"Mine.bpf.c\"", "lower-case letters");
    check("\"cubic\"", "\"cubic\"\ntunables = { beta = 3 }", "no tunable beta");
    check("\"cubic\"", "\"dtcp\"\ntunables = { keep_avoidance = 999999 }", "keep_avoidance");
    check("sample = \"50ms\"", "sample = \"50ms\"\nvirtual = { start_spread = \"1h\" }", "start_spread");
    check("sample = \"50ms\"", "sample = \"50ms\"\nvirtual = { host_delay = \"1s\" }", "host_delay");
}
