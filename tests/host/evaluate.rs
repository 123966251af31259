//! `tccc evaluate`: the questions of RFC 9743 to one algorithm.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{check, needs, tccc};
use crate::compile::in_tree;

/// Runs the verb in a folder of its own.
fn evaluate(folder: &Path, arguments: &str) -> Command {
    let mut command = tccc();
    command.current_dir(folder).arg("evaluate").args(arguments.split_whitespace());
    command
}

/// A copy of `bpf_reno` under another name, with a change of its text.
fn algorithm(folder: &Path, name: &str, change: [&str; 2]) {
    let text = fs::read_to_string(in_tree("bpf/cc/bpf_reno.bpf.c")).unwrap();
    let [from, to] = change;
    assert!(text.contains(from), "{from}");
    let text = text.replace(from, to).replace("bpf_reno", name);
    fs::write(folder.join(format!("{name}.bpf.c")), text).unwrap();
}

fn report(folder: &Path, algorithm: &str) -> Value {
    let file = folder.join(format!("runs/evaluate-{algorithm}/report.json"));
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn equal_algorithm_is_no_worse_and_a_second_call_continues() {
    needs!(guest7);
    let folder = TempDir::new().unwrap();
    let only = "bpf_reno --only 7.6 --runs 3";
    let first = check(0, &mut evaluate(folder.path(), only));
    first.stdout_has("no worse").stdout_has("runs/evaluate-bpf_reno/report.html");
    let criteria = report(folder.path(), "bpf_reno")["criteria"].clone();
    for criterion in criteria.as_array().unwrap() {
        for cell in criterion["cells"].as_array().unwrap() {
            let reno = &cell["beside"][0];
            assert_eq!((reno["baseline"].as_str(), reno["ratio"].as_f64()), (Some("reno"), Some(1.0)), "{cell}");
        }
    }
    let page = folder.path().join("runs/evaluate-bpf_reno/e28-receivers.html");
    assert!(fs::read_to_string(page).unwrap().starts_with("<!DOCTYPE html>"));
    let before = fs::read_to_string(folder.path().join("runs/evaluate-bpf_reno/report.md")).unwrap();
    check(0, &mut evaluate(folder.path(), only));
    assert_eq!(before, fs::read_to_string(folder.path().join("runs/evaluate-bpf_reno/report.md")).unwrap());
}

/// An author edits the file and evaluates it again.
#[test]
fn folder_of_another_evaluation_is_refused() {
    needs!(guest7);
    let folder = TempDir::new().unwrap();
    let call = "mine.bpf.c --only 7.6 --runs 3 --out x";
    algorithm(folder.path(), "mine", ["", ""]);
    check(0, &mut evaluate(folder.path(), call));
    let report = || fs::read_to_string(folder.path().join("x/report.json")).unwrap();
    let before = report();
    let refused = |arguments: &str| {
        let said = check(2, &mut evaluate(folder.path(), arguments));
        said.stderr_has("\"x\" has an evaluation of other code, tunables or seed").stderr_has("--out");
        assert_eq!(report(), before);
    };
    refused(&format!("{call} --seed 7"));
    algorithm(folder.path(), "mine", ["return reno_ssthresh(tcp_sk(sk));", "return 2;"]);
    refused(call);
    let header = |text: &str| fs::write(folder.path().join("keep.h"), text).unwrap();
    header("#define KEPT(tp) reno_ssthresh(tp)\n");
    let with_header = ["#include \"tccc.bpf.h\"", "#include \"keep.h\"\n#include \"tccc.bpf.h\""];
    algorithm(folder.path(), "mine", with_header);
    let text = fs::read_to_string(folder.path().join("mine.bpf.c")).unwrap();
    let text = text.replace("return reno_ssthresh(tcp_sk(sk));", "return KEPT(tcp_sk(sk));");
    fs::write(folder.path().join("mine.bpf.c"), text).unwrap();
    let call = "mine.bpf.c --only 7.6 --runs 3 --out y";
    check(0, &mut evaluate(folder.path(), call));
    header("#define KEPT(tp) 2\n");
    check(2, &mut evaluate(folder.path(), call)).stderr_has("\"y\" has an evaluation of other code");
    check(0, &mut evaluate(folder.path(), "mine.bpf.c --only 7.6 --runs 3"));
    assert_eq!(fs::read_dir(folder.path().join("runs")).unwrap().count(), 1, "a folder for this version of the file");
}

#[test]
fn shares_of_several_hosts_make_one_report() {
    needs!(guest7);
    let folder = TempDir::new().unwrap();
    let run =
        |more: &str| check(0, &mut evaluate(folder.path(), &format!("bpf_reno --only 7.6 --runs 3 --out {more}")));
    run("whole");
    run("shared --shard 2/2").stderr_has("this share has none");
    run("shared --shard 1/2").stderr_has("the same command without `--shard` reports");
    assert!(!folder.path().join("shared/report.json").exists());
    run("shared");
    let report = |out: &str| fs::read_to_string(folder.path().join(out).join("report.json")).unwrap();
    assert_eq!(report("shared"), report("whole"));
}

/// Figures that the program carries are those that it would measure.
#[test]
fn shipped_baselines_say_what_measured_ones_say() {
    needs!(guest7);
    let folder = TempDir::new().unwrap();
    let of = |flags: &str| {
        check(0, &mut evaluate(folder.path(), &format!("bpf_reno --only 7.6 --runs 3 --out {flags}")));
        let out = folder.path().join(flags.split(' ').next().unwrap());
        let report: Value = serde_json::from_str(&fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
        (report["criteria"].clone(), out.join("runs/reno").exists())
    };
    let ((shipped, _), (measured, has_runs)) = (of("shipped"), of("measured --afresh"));
    assert!(has_runs, "`--afresh` measures the baselines");
    assert_eq!(shipped, measured);
}

/// Planted: a window that no loss reduces.
#[test]
fn algorithm_that_ignores_loss_is_found() {
    needs!(guest7);
    let folder = TempDir::new().unwrap();
    let returns = "return reno_ssthresh(tcp_sk(sk));";
    algorithm(folder.path(), "deaf", [returns, "return tcp_sk(sk)->snd_cwnd;"]);
    check(3, &mut evaluate(folder.path(), "deaf.bpf.c --only 5.1.1 --runs 3 --out runs/evaluate-deaf"))
        .stdout_has("worse");
    let report = report(folder.path(), "deaf");
    assert_eq!(report["criteria"][0]["word"], "worse", "{}", report["criteria"][0]["why"]);
}

#[test]
fn real_kernel_is_no_witness_of_a_file_that_nobody_loaded() {
    needs!(root, struct_ops);
    let folder = TempDir::new().unwrap();
    algorithm(folder.path(), "unloaded", ["", ""]);
    let refused = check(4, &mut evaluate(folder.path(), "unloaded.bpf.c --witness"));
    refused.stderr_has("no algorithm \"unloaded\" is loaded").stderr_has("tccc load unloaded.bpf.o");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only its source");
}

#[test]
fn wrong_arguments_are_refused_with_a_way_out() {
    let folder = TempDir::new().unwrap();
    let refused = |code: i32, arguments: &str| check(code, &mut evaluate(folder.path(), arguments));
    refused(2, "bpf_reno --only 9.9").stderr_has("no experiment answers section \"9.9\"").stderr_has("5.1.3");
    refused(2, "reno").stderr_has("\"reno\" would be compared with itself").stderr_has("--against");
    refused(2, "bpf_reno --against reno,reno").stderr_has("would be compared with itself");
    refused(2, "../bpf_reno").stderr_has("is not the name of an algorithm").stderr_has(".bpf.c");
    refused(2, "bpf_reno --against reno,x/y.bpf.c").stderr_has("\"x/y.bpf.c\" is not the name");
    refused(2, "bpf_reno --set hystart").stderr_has("not TUNABLE=VALUE");
    refused(2, "bpf_reno --runs 2").stderr_has("3..=1000");
    refused(2, "bpf_reno --quick --full").stderr_has("cannot be used with");
    refused(2, "nothing --dry-run").stderr_has("nothing");
    refused(2, "nothing").stderr_has("nothing");
    refused(2, "bpf_reno --shard 3/2").stderr_has("expected I/N");
    refused(2, "bpf_reno --shard 1/2 --witness").stderr_has("cannot be used with");
    refused(2, "missing.bpf.c --dry-run").stderr_has("missing.bpf.c");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    refused(0, "bpf_reno --only 5.1 --dry-run").stdout_has("e04-high-loss").stdout_has("nothing was changed");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
