//! `tccc run --engine virtual`: identical results, a guest confined to one folder, users' algorithm files, refusals.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::experiment::{TEN_A_ROUND_TRIP, assert_ten_a_round_trip, finished, late_connection};
use crate::common::{check, needs, poll_until, tccc};
use crate::compile::in_tree;
use crate::lab::virtual_time::{Bench, record, scenario};
use crate::scene::{flow, link as link_of};
use nix::sys::signal::{self, Signal};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;

/// Time limit of a test's runs on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Threads that keep the processors busy.
const BUSY: usize = 4;

/// Contents of all files below a folder by path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = PathBuf::from(entry.file_name());
        if entry.path().is_dir() {
            all.extend(files(&entry.path()).into_iter().map(|(inner, bytes)| (name.join(inner), bytes)));
        } else {
            all.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    all
}

/// An algorithm's file in the tree, renamed.
fn renamed(id: &str, name: &str) -> String {
    fs::read_to_string(in_tree(&format!("bpf/cc/{id}.bpf.c"))).unwrap().replace(id, name)
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
    check(0, tccc().arg("report").arg(out).args(["-o", "json"])).json()["digest"].clone()
}

/// As on a cluster, every block is run once, one twice, and one number does not exist.
#[test]
fn blocks_published_one_by_one_are_the_whole_plan() {
    needs!(guest);
    let bench = Bench::new(include_str!("../../scenarios/smoke/loss-sweep.toml"));
    let plan = check(0, &mut bench.command("whole", "--runs 2 --dry-run -o json")).json();
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
        check(0, command.args(["--block", &number.to_string(), "--publish"]).arg(&published)).stderr()
    };
    for number in numbers.into_iter().rev() {
        publish(number);
    }
    assert!(publish(3).contains("block 3 is in"), "a finished block is not run again");
    assert!(publish(7).contains("the plan has no block 7"), "there may be more machines than blocks");
    assert_eq!(fs::read_dir(&published).unwrap().count(), 6);
    assert_eq!(digest(&published), digest(&bench.runs("whole", "--runs 2")));
}

/// The sender once waited for the ACK of its opening, as iperf3 does, and so lost a round trip.
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

/// A link that was down or lost almost everything at the end once failed every run. The kernel's iperf3 still cannot.
#[test]
fn flow_over_a_path_that_is_cut_counts_what_arrived_before() {
    let cut = |change: &str| {
        let link = format!("rate = '20mbit'\ndelay = '20ms'\nqueue = '100pkts'\nchange = [{{ at = '2s', {change} }}]");
        let head =
            "title = 'x'\nclaim = 'y'\nprofile = 'native'\nkernel = '6.12'\nduration = '5s'\nruns = 1\nseed = 1\n";
        Bench::new(&[head, &link_of(["a", "b"], &link), &flow("data", ["a", "b"], "algorithm = 'reno'")].concat())
    };
    let bench = cut("up = false");
    let refused = check(2, tccc().args(["run", "--dry-run"]).arg(bench.out("x.toml"))).stderr();
    assert!(
        refused.contains("x.toml:15: flow.sender: iperf3 cannot end this flow, because link a-b stays down from 2s on"),
        "{refused}"
    );
    needs!(guest);
    for change in ["up = false", "loss = '99%'"] {
        let flow = record(&cut(change).runs("out", ""))["flows"][0].clone();
        let pkts = flow["delivered_pkts"].as_u64().unwrap();
        assert!((2900..3400).contains(&pkts), "{change}: {flow}");
    }
}

/// The reason was once empty, and the advice was `--jobs 1`.
#[test]
fn full_disk_is_named_at_every_stage_and_finished_runs_stay() {
    needs!(guest, root);
    const STEPS: &str = "mount -t tmpfs -o size=$1 none $2 && cd $2 && {\n\
                         $3 run $4 --out out --engine virtual --jobs 1; code=$?; cat out/runs/*/run.json; exit $code; }";
    let bench = Bench::new(&scenario("reno", "1%"));
    let on_a_disk = |size: &str, code: i32| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", STEPS, "sh", size]).arg(bench.folder.path());
        let scenario = env::temp_dir().join(format!("full-{}-{size}.toml", std::process::id()));
        fs::copy(bench.out("x.toml"), &scenario).unwrap();
        let said = check(code, command.arg(tccc().get_program()).arg(&scenario));
        fs::remove_file(scenario).unwrap();
        (said.stderr(), said.stdout())
    };
    // For the plan, for the modules, for the results of the first run, and for those of the second.
    for (size, done) in [("4k", 0), ("40k", 0), ("160k", 0), ("272k", 1)] {
        let (said, records) = on_a_disk(size, 4);
        assert!(said.contains("the disk of \"out\" is full: ") && said.contains("hint: make room"), "{size}: {said}");
        assert_eq!(records.matches("\"status\": \"done\"").count(), done, "{size}: {records}");
        let named = records.matches("\"why\": \"the disk of \\\"out\\\" is full: ").count();
        assert_eq!(named, records.matches("\"status\": \"failed\"").count(), "{size}: {records}");
    }
    on_a_disk("9m", 0);
}

/// It was told as a crash of the algorithm.
#[test]
fn full_memory_of_a_guest_is_named() {
    needs!(guest, root);
    let bench = Bench::new(&scenario("reno", "1%"));
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs -o size=20m none /dev/shm && exec $1 run $2 --out $3 --engine virtual",
    ]);
    command.arg("sh").arg(tccc().get_program()).arg(bench.out("x.toml")).arg(bench.out("full"));
    check(4, &mut command)
        .stderr_has("the disk of \"/dev/shm\" is full: a guest's memory needs up to ")
        .stderr_has("hint: give it more room, or lower `--jobs`");
}

/// The guest's memory once had a random size, and with it the largest buffers.
#[test]
fn results_of_the_native_profile_are_the_same_to_the_byte() {
    needs!(guest);
    let bench = Bench::new(include_str!("../../scenarios/compare/cct-slow-start.toml"));
    let part = "--kernel 6.12 --runs 1 --only variant=bpf_cubic";
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

/// A task that goes on compiling after a cluster cancels it is killed, and leaves its scratch folders behind.
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
    let refused = bench.fails("before", 2);
    assert!(refused.contains("has runs of another text of \"mine.bpf.c\""), "nothing is left to do there: {refused}");
    assert!(
        fs::read_to_string(bench.out("before").join("mine.bpf.c")).unwrap() == text,
        "it keeps the file of its runs"
    );
    bench.write("mine.bpf.c", "int broken(\n");
    assert!(bench.fails("broken", 2).contains("mine.bpf.c:1:"), "the compiler's message names the file");
}

/// A user's file that attacks the guest's kernel and the process in which this kernel runs.
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
    assert!(failed["why"].as_str().unwrap().contains("panic"), "its last output: {failed}");
}

#[test]
fn what_virtual_time_does_not_have_is_refused_with_its_place() {
    needs!(guest);
    let refuses = |from: &str, to: &str, expected: &str| {
        let text = scenario("cubic", "1%");
        assert!(text.contains(from), "{from}");
        let bench = Bench::new(&text.replacen(from, to, 1));
        let said = bench.fails("out", 2);
        assert!(said.contains(expected), "{said}");
        assert!(!bench.out("out").exists(), "nothing was begun");
    };
    refuses("\"cubic\"", "'mswift'", "x.toml:");
    refuses("\"cubic\"", "'mswift'", "companion program");
    refuses("\"cubic\"", "'cubik'", "unknown algorithm \"cubik\"");
    refuses("\"cubic\"", "'none.bpf.c'", "none.bpf.c");
    refuses("\"cubic\"", "'../mine.bpf.c'", "expected a file in the scenario's folder");
    refuses("\"cubic\"", "'Mine.bpf.c'", "lower-case letters");
    refuses("\"cubic\"", "'cubic'\ntunables = { beta = 3 }", "no tunable beta");
    refuses("\"cubic\"", "'dtcp'\ntunables = { keep_avoidance = 999999 }", "keep_avoidance");
    refuses("sample = \"50ms\"", "sample = '50ms'\nvirtual = { start_spread = '1h' }", "start_spread");
    refuses("sample = \"50ms\"", "sample = '50ms'\nvirtual = { host_delay = '1s' }", "host_delay");
}
