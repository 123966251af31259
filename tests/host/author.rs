//! A user's algorithm outside the tree: `tccc new`, `make`, `tccc check`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{TCCC, check, needs, shorten_waits, tccc};
use crate::compile::in_tree;
use serde_json::Value;
use tccc::catalog;

/// A folder with the template of `mine` in it.
fn new() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    check(0, tccc().args(["new", "mine"]).current_dir(folder.path()));
    folder
}

/// The checks of a file: name, outcome and details.
fn checks(code: i32, file: &Path, options: &[&str]) -> Vec<(String, String, String)> {
    let document: Value = check(code, tccc().arg("check").arg(file).args(options).args(["-o", "json"])).json();
    assert_eq!(document["schema"], 1);
    let checks = document["checks"].as_array().unwrap().iter();
    let words = |check: &Value| {
        let details = check["details"].as_array().unwrap().iter().map(|detail| detail.as_str().unwrap());
        let word = |name: &str| check[name].as_str().unwrap().to_owned();
        (word("name"), word("outcome"), details.collect::<Vec<_>>().join("\n"))
    };
    checks.map(words).collect()
}

#[track_caller]
fn expect(checks: &[(String, String, String)], name: &str, outcome: &str, detail: &str) {
    let found = checks.iter().find(|check| check.0 == name).unwrap_or_else(|| panic!("no check {name}: {checks:?}"));
    assert_eq!(found.1, outcome, "{found:?}");
    assert!(found.2.contains(detail), "{found:?}");
}

#[test]
fn template_builds_with_make_and_describes_itself() {
    needs!(clang);
    let folder = new();
    let mine = folder.path().join("mine");
    check(0, Command::new("make").arg("-C").arg(&mine).env("CLANG", "clang"));
    let found = catalog::open(&mine.join("mine.bpf.o")).unwrap();
    assert_eq!((found.id.as_str(), found.layout.phases.len(), found.tunables.len()), ("mine", 4, 1));
    assert!(found.card.summary.starts_with("Reno that keeps a share"), "{:?}", found.card);
    assert!(found.card.section("Kernel").unwrap().contains("5.13"), "{:?}", found.card);
    // A changed file is built again, and the header may contain quotes and backslashes.
    let text = fs::read_to_string(mine.join("mine.bpf.c")).unwrap();
    fs::write(mine.join("mine.bpf.c"), text.replacen("what your algorithm", "\"what\\\" your algorithm", 1)).unwrap();
    check(0, Command::new("make").arg("-C").arg(&mine));
    let summary = catalog::open(&mine.join("mine.bpf.o")).unwrap().card.summary;
    assert!(summary.contains("\"what\\\" your"), "{summary}");
    check(0, Command::new("make").arg("-C").arg(&mine).arg("clean"));
    assert!(!mine.join("mine.bpf.o").exists());
}

#[test]
fn template_passes_every_check() {
    needs!(clang);
    let folder = new();
    let checks = checks(0, &folder.path().join("mine/mine.bpf.c"), &["--fuzz", "1s"]);
    assert!(checks.iter().all(|(_, outcome, _)| outcome != "failed"), "{checks:?}");
    for name in ["header", "name", "tunables", "phases and state", "callbacks", "windows", "init", "delivery"] {
        expect(&checks, name, "passed", "");
    }
    for (name, _, why) in checks.iter().filter(|(_, outcome, _)| outcome == "skipped") {
        let needs = ["CAP_", "frama-c", "fuzzer", "type information", "guest of virtual time"];
        assert!(needs.iter().any(|need| why.contains(need)), "{name} is skipped: {why}");
    }
}

#[test]
fn template_runs_in_virtual_time_beside_reno() {
    needs!(guest);
    let folder = new();
    let mine = folder.path().join("mine");
    let scenario = ["run", "mine.toml", "--engine", "virtual", "--runs", "1", "--out", "results"];
    check(0, tccc().args(scenario).current_dir(&mine));
    check(0, tccc().args(["report", "results", "-o", "csv"]).current_dir(&mine))
        .stdout_has("mine.bpf.c")
        .stdout_has("goodput");
}

#[test]
fn template_is_evaluated_by_make() {
    needs!(clang);
    let folder = new();
    let make = |program: &str, words: &[&str]| {
        let mut make = Command::new("make");
        make.arg("-C").arg(folder.path().join("mine")).args(words).env("TCCC", program);
        check(0, &mut make).stdout()
    };
    let flags = "FLAGS=--only 5.1.1 --runs 3 --dry-run";
    let said = make("./my-tccc", &["-n", "evaluate", flags]);
    assert!(said.contains("\n./my-tccc evaluate mine.bpf.c --only 5.1.1 --runs 3 --dry-run\n"), "{said}");
    let said = make(TCCC, &["evaluate", flags]);
    assert!(said.contains("e01-collapse-loss") && said.contains("nothing was changed"), "{said}");
    // The options of the evaluation are not the compiler's.
    let said = make("tccc", &["-B", "-n", "mine.bpf.o", flags]);
    assert!(said.contains(" -target bpf ") && !said.contains("--only"), "{said}");
}

#[test]
fn template_is_written_into_an_empty_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    check(0, tccc().args(["new", "mine", "empty"]).current_dir(folder.path()))
        .stdout_has("port a paper empty/PORTING.md, from pseudo code to a file");
    assert!(folder.path().join("empty/mine.bpf.c").is_file());
    let page = fs::read_to_string(folder.path().join("empty/PORTING.md")).unwrap();
    assert_eq!(page, fs::read_to_string(in_tree("bpf/PORTING.md")).unwrap());
}

#[test]
fn one_defect_a_callback_is_found_by_every_kind_of_check() {
    needs!(clang);
    let checks = checks(1, &in_tree("tests/fixtures/broken/each_defect.bpf.c"), &["--fuzz", "0s"]);
    expect(&checks, "header", "failed", "the header has no heading `Equations`");
    expect(&checks, "name", "passed", "");
    expect(&checks, "windows", "failed", "runtime error: shift exponent 32 is too large");
    let windows = checks.iter().find(|check| check.0 == "windows").unwrap();
    assert!(windows.2.starts_with("each_defect.bpf.c:"), "the folder of the source is left out: {windows:?}");
    expect(&checks, "reduction", "failed", "leaves a threshold of 0");
    expect(&checks, "fuzzer", "skipped", "not requested");
}

/// The fuzzer ends when it finds the defect; the limit is for busy hosts.
#[test]
fn defect_behind_four_steps_is_found_by_fuzzer_or_proof() {
    needs!(clang);
    let checks = checks(1, &in_tree("tests/fixtures/broken/deep_defect.bpf.c"), &["--fuzz", "10m"]);
    let of = |name: &str| checks.iter().find(|check| check.0 == name).unwrap();
    let (fuzzer, proof) = (of("fuzzer"), of("proof"));
    assert!(
        fuzzer.1 == "skipped" || fuzzer.2.contains("deep_defect.bpf.c:31:37: runtime error: division by zero"),
        "{fuzzer:?}"
    );
    assert!(proof.1 == "skipped" || proof.2.contains("deep_cong_avoid: division_by_zero"), "{proof:?}");
}

/// Checks that a change of the template fails one check.
#[track_caller]
fn changed(from: &str, to: &str, check: &str, why: &str) {
    let folder = new_with(from, to);
    let file = folder.path().join("mine/mine.bpf.c");
    let options = ["--only", "rules", "--only", "properties"];
    expect(&checks(1, &file, &options), check, "failed", why);
}

#[test]
fn mistakes_in_the_template_are_found() {
    needs!(clang);
    changed("return reno_undo_cwnd", "return reno_undo_cwmd", "compiles for BPF", "mine.bpf.c:76:9: error:");
    changed(" * Units\n", " *\n", "header", "no heading `Units`");
    changed("512, 1, 1023", "512, 600, 1023", "is an algorithm", "its tunable \"mine_keep\" is not well-formed");
    changed("RFC 5681 halves the window\")", "\")", "tunables", "mine_keep has no unit or no reason");
    let undo = "\t.undo_cwnd = (void *)mine_undo_cwnd,\n";
    changed(undo, "\t.release = (void *)mine_init,\n", "callbacks", "it lacks undo_cwnd");
    changed(".name = \"mine\"", ".name = \"yours\"", "name", "the file is named after its algorithm");
    let unset = "\tstruct mine *state = inet_csk_ca(sk);\n\n\tstate->reductions = 0;\n";
    changed(unset, "", "init", "before init changes the connection");
    let kept = "return kept_window(tcp_sk(sk)->snd_cwnd, mine_keep);";
    changed(kept, "return 1;", "reduction", "leaves a threshold of 1");
    changed("reno_cong_avoid(tcp_sk(sk), acked);", "tcp_sk(sk)->snd_cwnd *= acked;", "large windows", "one ACK takes");
}

#[test]
fn object_is_checked_as_far_as_it_goes() {
    needs!(clang);
    let folder = new();
    check(0, Command::new("make").arg("-C").arg(folder.path().join("mine")));
    let checks = checks(0, &folder.path().join("mine/mine.bpf.o"), &[]);
    expect(&checks, "header", "passed", "");
    expect(&checks, "callbacks", "passed", "");
    expect(&checks, "windows", "skipped", "needs the source");
    expect(&checks, "proof", "skipped", "needs the source");
}

#[test]
fn empty_file_is_no_algorithm() {
    needs!(clang);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty.bpf.c"), "").unwrap();
    check(1, tccc().args(["check", "empty.bpf.c"]).current_dir(folder.path()))
        .stdout_has("is an algorithm    FAILED  it has no")
        .stderr_has("\"empty\" fails 1 of its checks");
}

#[test]
fn missing_compilers_are_named() {
    let folder = new();
    let file = folder.path().join("mine/mine.bpf.c");
    let checking = |name: &str| {
        let mut command = tccc();
        command.args(["check", "--only", "rules", "--only", "properties"]).arg(&file).env(name, "no-such-compiler");
        command
    };
    check(4, &mut checking("CLANG")).stderr_has("`clang` does not start").stderr_has("hint: install clang");
    needs!(clang);
    check(0, &mut checking("CC"))
        .stdout_has("compiles natively  skipped cannot compile natively: `cc` does not start")
        .stdout_has("header             passed");
}

#[test]
fn unprivileged_user_gets_all_but_the_verifier() {
    needs!(root, clang);
    let folder = new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Other users may not enter the folder of the program.
    let program = folder.path().join("tccc");
    fs::copy(crate::common::TCCC, &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]);
    command.arg(&program).args(["check", "--only", "verifier", "--only", "properties"]);
    command.arg(folder.path().join("mine/mine.bpf.c"));
    check(0, &mut command)
        .stdout_has("verifier           skipped cannot ask the verifier: this process lacks CAP_BPF")
        .stdout_has("windows            passed");
}

/// A file that passed all checks once failed in virtual time, with sixty lines of the compiler.
#[test]
fn name_that_is_a_macro_of_the_kernel_is_found_before_virtual_time() {
    needs!(clang, guest);
    let folder = new();
    let mine = folder.path().join("mine");
    let file = mine.join("mine.bpf.c");
    let text = fs::read_to_string(&file).unwrap().replace("reductions", "current");
    fs::write(&file, text).unwrap();
    let found = checks(1, &file, &["--only", "rules", "--only", "virtual-time"]);
    expect(&found, "virtual time", "failed", "mine.bpf.c:");
    expect(
        &found,
        "virtual time",
        "failed",
        "\"current\" is a macro of the kernel: give your own \"current\" another name",
    );
    check(2, tccc().args(["run", "mine.toml", "--engine", "virtual", "--out", "out"]).current_dir(&mine))
        .stderr_has("cannot compile \"mine.bpf.c\" for the guest's kernel:\nmine.bpf.c:")
        .stderr_has("hint: \"current\" is a macro of the kernel");
}

/// A guest's panic once named no algorithm, and an endless loop took 30 s for each of seven checks.
#[test]
fn file_that_crashes_or_hangs_is_named_and_checked_once() {
    needs!(clang, guest);
    let (old, division) = ("reno_cong_avoid(tcp_sk(sk), acked);", "tcp_sk(sk)->snd_cwnd /= acked - acked;");
    let with = |new: &str| {
        let folder = new_with(old, new);
        let mine = folder.path().join("mine");
        (folder, mine)
    };
    let (_folder, mine) = with(division);
    check(
        1,
        tccc().args(["run", "mine.toml", "--engine", "virtual", "--runs", "1", "--out", "out"]).current_dir(&mine),
    )
    .stderr_has("run \"mine.bpf.c\" (`tccc check mine.bpf.c` finds such faults): the guest ended with");
    let (_folder, mine) = with("while (*(volatile u32 *)&acked)\n\t\t;");
    let options = ["--only", "properties", "--only", "fuzzer", "--fuzz", "10s"];
    let _short = shorten_waits("check.endless=3000");
    let found = checks(1, &mine.join("mine.bpf.c"), &options);
    let ended: Vec<&str> = found.iter().map(|(_, outcome, _)| outcome.as_str()).collect();
    assert_eq!(ended, ["passed", "passed", "failed", "skipped", "skipped", "skipped", "skipped", "skipped", "skipped"]);
    expect(&found, "windows", "failed", "it does not end within 3 s");
    expect(&found, "fuzzer", "skipped", "the algorithm did not end in the check before");
}

/// The template with a change.
fn new_with(from: &str, to: &str) -> tempfile::TempDir {
    let folder = new();
    let file = folder.path().join("mine/mine.bpf.c");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "the template has no {from}");
    fs::write(&file, text.replacen(from, to, 1)).unwrap();
    folder
}
