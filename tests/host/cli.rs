//! The command line without root: lists, cards, refusals with next steps.

use serde_json::Value;

use crate::common::{check, run, tccc};
use crate::lab::pty;

#[track_caller]
fn document(arguments: &str) -> Value {
    let document = run(0, arguments).json();
    assert_eq!(document["schema"], 1);
    document
}

/// The lines of `tccc list`.
fn listed() -> Vec<Value> {
    document("list -o json")["algorithms"].as_array().unwrap().clone()
}

/// An algorithm's row in the table of `tccc list`.
fn row<'t>(table: &'t str, id: &str) -> &'t str {
    table.lines().find(|row| row.split_whitespace().next() == Some(id)).unwrap()
}

#[test]
fn list_shows_carried_and_kernel_algorithms() {
    let algorithms = listed();
    let from = |id: &str| algorithms.iter().find(|line| line["id"] == id).map(|line| line["from"].as_str().unwrap());
    assert_eq!(from("dtcp"), Some("tccc"));
    assert_eq!(from("reno"), Some("kernel"));
    let table = run(0, "list").stdout();
    assert!(table.lines().any(|line| line.starts_with("dtcp ") && line.contains("Discrete TCP")), "{table}");
}

#[test]
fn rows_of_a_table_stay_in_their_columns_on_a_narrow_terminal() {
    let mut session = pty::Session::start(80, 300, &["list"]);
    assert_eq!(session.end(), Some(0));
    // Those of the kernel come last, and may change at any time.
    let carried = listed().into_iter().filter(|line| line["from"] == "tccc");
    let ids: Vec<String> = carried.map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    let screen = session.screen();
    let beginnings: Vec<&str> =
        screen.lines().filter_map(|line| line.split(' ').next()).filter(|it| !it.is_empty()).collect();
    assert_eq!(beginnings[1..=ids.len()], ids, "{screen}");
    assert!(screen.lines().count() > ids.len() + 1, "no cell took two lines: {screen}");
    let mut session = pty::Session::start(60, 400, &["show", "dtcp"]);
    assert_eq!(session.end(), Some(0));
    let screen = session.screen();
    let criteria: Vec<&str> = screen.lines().skip_while(|line| !line.starts_with("  criterion  ")).collect();
    let table = criteria.iter().take_while(|line| !line.trim().is_empty()).collect::<Vec<_>>();
    assert!(table.len() > 3 && table.iter().all(|line| line.starts_with("  ")), "{screen}");
}

#[test]
fn list_and_show_have_one_word_for_the_risk_and_its_reason() {
    let list = listed();
    let table = run(0, "list").stdout();
    assert!(table.lines().next().unwrap().contains("risk"), "{table}");
    for line in list.iter().filter(|line| line["from"] == "tccc") {
        let (id, word) = (line["id"].as_str().unwrap(), line["risk"].as_str().unwrap());
        let row = row(&table, id);
        assert!(row.contains(&format!("  {word}  ")), "{row}");
        assert_eq!(line["code"].as_str().unwrap().len(), 16, "{id}");
    }
    let shown = document("show dtcp -o json");
    let card = run(0, "show dtcp").stdout();
    let (word, sentence) = (shown["risk"]["level"].as_str().unwrap(), shown["risk"]["sentence"].as_str().unwrap());
    let section = card.split("\nRisk\n").nth(1).unwrap().split("\n\nTunables").next().unwrap();
    assert!(section.starts_with(&format!("  {word}: ")) && section.contains(sentence), "{section}");
    let criteria = shown["risk"]["criteria"].as_array().unwrap();
    let is_criterion = |line: &&str| [" low", " medium", " high"].iter().any(|word| line.ends_with(word));
    assert_eq!(section.lines().filter(is_criterion).count(), criteria.len(), "{section}");
    assert_eq!(list.iter().find(|line| line["id"] == "reno").unwrap()["risk"], Value::Null);
}

#[test]
fn high_risk_becomes_the_default_only_with_the_operator_s_consent() {
    let refused = |arguments: &str, why: &str| {
        let output = run(2, arguments);
        let said = output.stderr();
        assert!(output.stdout.is_empty() && said.starts_with("tccc: error: cannot make \""), "{said}");
        assert!(said.contains(why) && said.contains("`--confirm 10m`") && said.contains("`--accept-risk`"), "{said}");
    };
    let unmeasured = "not measured, which counts as high: nobody has evaluated it";
    let tuned = &tccc::catalog::find("dtcp").unwrap().tunables[0];
    let setting = format!("{}={}", tuned.name, tuned.default - 1);
    refused(&format!("load dtcp --default --set {setting}"), unmeasured);
    refused(&format!("load dtcp --default --set {setting} --dry-run"), unmeasured);
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("mine.bpf.o");
    let mut object = tccc::catalog::find("dtcp").unwrap().object.to_vec();
    object.push(0);
    std::fs::write(&own, object).unwrap();
    refused(&format!("load {} --default", own.display()), unmeasured);
    let card = run(0, &format!("show {}", own.display())).stdout();
    assert!(card.contains(&format!("\nRisk\n  {unmeasured}\n")), "{card}");
    for line in listed() {
        let is_high = line["from"] == "tccc" && (line["risk"] == "high" || line["risk"] == "not measured");
        if is_high {
            refused(&format!("load {} --default", line["id"].as_str().unwrap()), ": its risk is ");
        }
        if !is_high && line["patented"] == true {
            run(2, &format!("load {} --default", line["id"].as_str().unwrap()))
                .stderr_has(" the default: it is patented")
                .stderr_has("add `--accept-risk`");
        }
    }
}

#[test]
fn policy_names_the_risk_and_needs_a_trial_where_it_is_high() {
    let list = listed();
    let high = list.iter().find(|line| line["risk"] == "high");
    let high = high.expect("one algorithm at least has a high risk")["id"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.toml");
    let policy = |more: &str| {
        let rule = format!("version = 1\n[[rule]]\nname = \"web\"\nlocal_port = 443\n{more}\n");
        std::fs::write(&file, rule).unwrap();
    };
    policy(&format!("use = \"{high}\""));
    for verb in ["check", "apply", "apply --dry-run"] {
        let said = run(2, &format!("policy {verb} {}", file.display()));
        said.stderr_has("its risk is high: ").stderr_has("`--trial 10m`").stderr_has("`--accept-risk`");
    }
    let check = |more: &str| run(0, &format!("policy check {}{more}", file.display()));
    for more in [" --accept-risk", " --trial 10m"] {
        check(more).stdout_has(format!("risk of \"{high}\": high: "));
    }
    policy(&format!("use = \"{high}\"\nguard = \"retransmitted<5%\""));
    check("").stdout_has(format!("risk of \"{high}\": high: "));
}

#[test]
fn patented_algorithm_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = crate::common::patented_object(folder.path());
    let text = run(0, &format!("show {}", path.display())).stdout();
    assert!(text.lines().next().unwrap().ends_with(" [patented]"), "{text}");
    assert!(text.contains("\nPatents\n  1. The text says"), "{text}");
    assert_eq!(document(&format!("show {} -o json", path.display()))["patented"], true);
    assert_eq!(document("show dtcp -o json")["patented"], false);
    let table = run(0, "list").stdout();
    // Those of the kernel may change at any time.
    for line in listed().into_iter().filter(|line| line["from"] == "tccc") {
        let id = line["id"].as_str().unwrap();
        let row = row(&table, id);
        assert_eq!(row.contains(" [patented]"), line["patented"].as_bool().unwrap(), "{row}");
        let carried = tccc::catalog::find(id).is_ok_and(|algorithm| algorithm.patents().is_some());
        assert_eq!(row.contains(" [patented]"), carried, "{row}");
    }
}

#[test]
fn show_prints_every_part_of_the_card() {
    let text = run(0, "show dtcp").stdout();
    for heading in ["Source", "Equations", "Differs", "Tunables", "Phases", "State", "Callbacks"] {
        assert!(text.lines().any(|line| line.starts_with(heading)), "no {heading} in {text}");
    }
    assert!(text.contains("keep_avoidance   768      1..1023 (1/1024)"), "{text}");
    let document = document("show dtcp -o json");
    assert_eq!(document["tunables"][1]["default"], 768);
    assert_eq!(document["state"]["fields"][0]["name"], "phase");
}

#[test]
fn names_of_others_do_not_steer_the_terminal() {
    for verb in ["show", "report", "run"] {
        let said = check(2, tccc().args([verb, "no\u{1b}]52;c;eA==\u{7}.tccc"])).stderr();
        assert!(said.contains("52;c;eA==") && !said.contains(['\u{1b}', '\u{7}']), "{verb}: {said:?}");
    }
}

/// A closed stderr or a full disk once ended the program with a panic and exit code 101.
#[test]
fn unwritable_stderr_changes_no_exit_code() {
    let code_of = |arguments: &str| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        let mut commands = [tccc(), tccc()];
        commands[0].stderr(full);
        commands[1].stderr(closed);
        commands.map(|mut command| command.args(arguments.split_whitespace()).output().unwrap().status.code())
    };
    assert_eq!(code_of("run nosuch.toml"), [Some(2); 2], "an error with its hint");
    assert_eq!(code_of("load"), [Some(2); 2], "a refusal of the options");
    let other_network = "run scenarios/smoke/loss-sweep.toml scenarios/smoke/loss-sweep.toml --engine ns2 --dry-run";
    run(2, other_network).stderr_has("tccc: note: ");
    assert_eq!(code_of(other_network), [Some(2); 2], "a note");
}

#[test]
fn every_help_ends_with_the_exit_codes_and_most_have_an_example() {
    const WITH_EXAMPLE: [&str; 9] =
        ["list", "show", "load", "unload", "status", "doctor", "new", "check", "completions"];
    let verbs = ", list, show, load, confirm, unload, status, apply, policy, policy apply, explain, upgrade, \
                 rollback, sockets, trace, top, serve, run, report, link, doctor, new, check, completions";
    for verb in verbs.split(", ") {
        let text = run(0, &format!("{verb} --help")).stdout();
        if WITH_EXAMPLE.contains(&verb) {
            assert!(text.contains("Example: `tccc") && text.lines().next().unwrap().chars().count() < 70, "{text}");
        }
        let (_, codes) = text.split_once("Exit codes:\n").unwrap_or_else(|| panic!("{text}"));
        let numbers: Vec<&str> = codes.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert!(["0", "1", "2", "3", "4", "5"].iter().all(|code| numbers.contains(code)), "{text}");
        let short = run(0, &format!("{verb} -h")).stdout();
        assert!(!short.contains("Exit codes"), "{short}");
    }
}

#[test]
fn completions_know_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(0, &format!("completions {shell}")).stdout();
        assert!(script.contains("unload") && script.contains("doctor"), "{shell}");
    }
}

#[test]
fn doctor_gives_a_fix_for_whatever_is_missing() {
    let output = tccc().args(["doctor", "-o", "json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let can_load = document["can_load"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(if can_load { 0 } else { 4 }));
    for line in document["checks"].as_array().unwrap() {
        assert!(line["is_met"].as_bool().unwrap() || !line["fix"].as_str().unwrap().is_empty(), "{line}");
    }
}

/// The refusal needs no root and creates no result directory.
#[test]
fn link_by_netem_is_refused_where_the_kernel_has_none() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("results");
    let arguments = format!("run scenarios/smoke/loss-sweep.toml --link netem --out {}", out.display());
    if tccc::kernel::probe::has_netem() {
        run(0, &format!("{arguments} --dry-run"));
    } else {
        let expected = "tccc: error: cannot emulate the links: this kernel has no netem qdisc\n  \
                        hint: the user-space link needs none: `--link tunlink`";
        let said = run(4, &arguments);
        assert_eq!((said.stderr().trim_end(), &*said.stdout()), (expected, ""));
    }
    assert!(!out.exists());
}
