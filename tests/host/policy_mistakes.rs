//! Messages about wrong policies: each names file, line and field, the value, the allowed values, and the next step.

use tccc::failure::{Failure, FailureKind};
use tccc::policy::file;

use crate::common::{check, tccc};
use crate::mistakes;

const GOOD: &str = include_str!("mistakes/policy.toml");
const WRONG: &str = include_str!("snapshots/host__policy_mistakes__wrong_policies.snap");
const CASES: usize = 78;

/// The message about a wrong policy, as the command line prints it.
fn mistakes_of(text: &str) -> String {
    let failure = Failure::from(file::parse("p.toml", text).expect_err("the policy is wrong"));
    assert_eq!(failure.kind, FailureKind::Usage);
    format!("{}\n  hint: {}", failure.what, failure.hint.unwrap_or_default())
}

#[test]
fn every_mistake_is_reported_with_place_allowed_values_and_next_step() {
    file::parse("p.toml", GOOD).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let cases = mistakes::each(GOOD, WRONG, CASES).map(|(change, text)| format!("{change}{}\n", mistakes_of(&text)));
    insta::assert_snapshot!("wrong_policies", cases.collect::<Vec<_>>().join("\n"));
}

/// The message needs neither privileges nor an earlier policy, and changes nothing.
#[test]
fn wrong_file_ends_every_verb_with_2_and_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let run = |code: i32, verb: &str| check(code, tccc().args(["policy", verb, "p.toml"]).current_dir(folder.path()));
    for (change, text) in mistakes::each(GOOD, WRONG, CASES) {
        std::fs::write(folder.path().join("p.toml"), &text).unwrap();
        let expected = format!("tccc: error: {}\n", mistakes_of(&text));
        for verb in ["check", "apply", "diff"] {
            let output = run(2, verb);
            assert_eq!((output.stdout(), output.stderr()), (String::new(), expected.clone()), "{verb}: {change}");
        }
    }
    std::fs::write(folder.path().join("p.toml"), GOOD).unwrap();
    assert_eq!(run(0, "check").stdout().lines().next(), Some("p.toml: 3 rules, no mistakes"));
}

/// An unknown algorithm once was reported only after all other mistakes, with the line of its rule.
#[test]
fn unknown_algorithm_is_reported_with_the_other_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let text = GOOD.replacen("{ dtcp = 5,", "{ dtpc = 5,", 1).replacen("use = \"dtcp\"", "use = \"dtpc\"", 1);
    std::fs::write(folder.path().join("p.toml"), text.replacen("deadline = \"6h\"", "deadline = 6", 1)).unwrap();
    for verb in ["check", "apply", "diff"] {
        let said = check(2, tccc().args(["policy", verb, "p.toml"]).current_dir(folder.path())).stderr();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 4, "{said}");
        let hint = "did you mean \"dtcp\"? `tccc list` shows all of them; `modprobe tcp_dtpc` if it is a kernel module";
        assert_eq!(lines[0], "tccc: error: p.toml:13: rule.split.dtpc: unknown algorithm");
        assert!(lines[1].starts_with("p.toml:17: rule.deadline = 6: "), "{said}");
        assert_eq!(lines[2], format!("p.toml:24: rule.use = \"dtpc\": unknown algorithm; {hint}"));
        assert_eq!(lines[3], format!("  hint: line 13: {hint}"));
    }
}

#[test]
fn policy_without_rules_is_refused() {
    let none = "p.toml:1: rule: expected 1 to 64 rules, [[rule]]\n  hint: `tccc policy remove` removes the policy";
    assert_eq!(mistakes_of("version = 1\n"), none);
    let single = "p.toml:2: rule: expected [[rule]], in two pairs of brackets";
    assert!(mistakes_of("version = 1\n[rule]\nname = \"a\"\nuse = \"dtcp\"\n").starts_with(single));
    assert!(mistakes_of("version = 1\nrule = 3\n").starts_with(single));
    assert!(mistakes_of("version = 1\nrule = [3]\n").starts_with("p.toml:2: rule = 3: expected a table of fields"));
}

/// A misspelt name of a required field is one mistake, not two.
#[test]
fn misspelt_field_is_not_missing_as_well() {
    for (good, bad) in
        [("version", "verison"), ("name = \"rest\"", "nmae = \"rest\""), ("use = \"keep\"", "usee = \"keep\"")]
    {
        let said = mistakes_of(&GOOD.replacen(good, bad, 1));
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}

#[test]
fn readme_shows_the_messages_about_its_wrong_policies() {
    let readme = include_str!("../../scenarios/policy/README.md");
    let (_, section) = readme.split_once("\n## Mistakes").expect("a section of mistakes");
    let blocks: Vec<&str> = section.split("```").skip(1).step_by(2).collect();
    assert_eq!(blocks.len(), 4, "two policies, each with its message");
    for pair in blocks.chunks(2) {
        let policy = pair[0].strip_prefix("toml\n").expect("a policy");
        let error = file::parse("policy.toml", policy).expect_err("it is wrong");
        let failure = Failure::from(error);
        let said = format!("text\ntccc: error: {}\n  hint: {}\n", failure.what, failure.hint.expect("a next step"));
        assert_eq!(pair[1], said);
    }
}
