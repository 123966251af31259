//! What a policy file means, and how a wrong one is refused. `tests/host/policy_mistakes.rs` tests each mistake alone.

mod policies;

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use self::policies::any_policy;
use super::*;
use crate::policy::rule::{
    Allowed, Arm, CgroupName, GuardLimit, GuardMetric, OnFail, Portion, Ports, RolloutStep, RuleTrial, Split, SplitBy,
    Undecided, Way,
};
use crate::toml_reader::Unset;
use shared::failure::{Failure, FailureKind};

const GOOD: &str = r#"version = 1

[[rule]]
name = "web"
unit = ["nginx.service", "php@8\\x2d1.service"]
cgroup = "/system.slice/haproxy.service"
netns = ["blue", "/run/netns/red", 1234]
to = ["10.0.0.0/8", "2001:db8::1"]
local_port = [443, "8000-8099"]
remote_port = "5432"
direction = "in"
current = "cubic"
split = { keep = 94.75, dtcp = 5, reno = 0.25 }
by = "peer"
override = true
guard = ["retransmitted<1.2x", "abnormal_ends<1%"]
deadline = "6h"
undecided = "hold"
on_fail = "freeze"

[[rule]]
name = "rising"
to = "::/0"
use = "dtcp"
by = "prefix"
steps = [{ percent = 1, for = "30m" }, { percent = 100, for = "2h" }]

[[rule]]
name = "rest"
use = "keep"
"#;

fn good(text: &str) -> Policy {
    parse("p.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn mistakes(text: &str) -> String {
    parse("p.toml", text).expect_err("it is wrong").to_string()
}

fn split(arms: &[(&str, u16)], by: SplitBy) -> Split {
    let arms = arms.iter().map(|&(name, portion)| Arm { treatment: name.into(), portion: Portion(portion) });
    Split { arms: arms.collect(), by }
}

#[test]
fn file_with_every_field_is_read() {
    let policy = good(GOOD);
    let rule = &policy.rules[0];
    assert_eq!((rule.name.as_str(), rule.line, rule.overrides, rule.overrides_route), ("web", 3, true, true));
    let when = Match {
        cgroups: vec![
            CgroupName::Unit("nginx.service".into()),
            CgroupName::Unit("php@8\\x2d1.service".into()),
            CgroupName::Path("/system.slice/haproxy.service".into()),
        ],
        netns: vec!["blue".into(), "/run/netns/red".into(), "1234".into()],
        to: vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::1/128".parse().unwrap()],
        local_port: vec![Ports(443..=443), Ports(8000..=8099)],
        remote_port: vec![Ports(5432..=5432)],
        direction: Some(Way::In),
        current: vec!["cubic".into()],
    };
    assert_eq!(rule.when, when);
    assert_eq!(rule.split, split(&[("dtcp", 500), ("reno", 25), ("keep", 9475)], SplitBy::Peer));
    let limit = |metric, allowed| GuardLimit { metric, allowed };
    let trial = RuleTrial {
        limits: vec![
            limit(GuardMetric::Retransmitted, Allowed::Relative(1.2)),
            limit(GuardMetric::AbnormalEnds, Allowed::Absolute(0.01)),
        ],
        deadline: Some(Duration::from_secs(6 * 3600)),
        undecided: Undecided::Hold,
        on_fail: OnFail::Freeze,
        steps: Vec::new(),
    };
    assert_eq!(rule.trial, Some(trial));
    // Steps begin with the first share.
    let rule = &policy.rules[1];
    assert_eq!(rule.split, split(&[("dtcp", 100), ("keep", 9900)], SplitBy::Prefix));
    let step = |portion, minutes: u64| RolloutStep { portion, duration: Duration::from_secs(minutes * 60) };
    let steps = vec![step(Portion(100), 30), step(Portion::ALL, 120)];
    assert_eq!(rule.trial, Some(RuleTrial { steps, ..RuleTrial::default() }));
    let rule = &policy.rules[2];
    assert_eq!(rule.split, split(&[("keep", 10_000)], SplitBy::Connection));
    assert_eq!((&rule.when, &rule.trial, rule.overrides), (&Match::default(), &None, false));
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_their_lines() {
    let text = GOOD.replace("local_port", "lokal_port").replace("by = \"peer\"", "by = \"pear\"");
    let error = parse("p.toml", &text.replace("name = \"rest\"", "name = \"web\"")).unwrap_err();
    let lines: Vec<_> = error.mistakes.iter().map(|mistake| (mistake.line, mistake.field.as_str())).collect();
    assert_eq!(lines, [(Some(9), "rule.lokal_port"), (Some(14), "rule.by"), (Some(29), "rule.name")]);
    let failure = Failure::from(error);
    let expected = "p.toml:9: rule.lokal_port: unknown field: expected one of name, unit, cgroup, netns, to, to_file, \
        local_port, remote_port, direction, current, use, split, by, override, guard, deadline, undecided, on_fail, \
        steps\n\
        p.toml:14: rule.by = \"pear\": expected \"connection\", \"peer\" or \"prefix\"; did you mean \"peer\"?\n\
        p.toml:29: rule.name = \"web\": the rule at line 3 has the same name";
    assert_eq!((failure.kind, failure.what.as_str()), (FailureKind::Usage, expected));
    assert_eq!(failure.hint.as_deref(), Some("line 9: did you mean \"local_port\"?"));
    // Without a suggestion the hint leads to the list of fields.
    let failure = Failure::from(parse("p.toml", "version = 2\nnonsense = 1\n").unwrap_err());
    assert_eq!(failure.what, "p.toml:1: version = 2: expected 1, the only version there is");
    assert_eq!(failure.hint.as_deref(), Some("scenarios/policy/README.md lists every field"));
}

#[test]
fn file_that_cannot_be_read_is_a_mistake_without_a_line() {
    let said = read(Path::new("/nowhere/p.toml")).unwrap_err().to_string();
    assert_eq!(said, "/nowhere/p.toml: cannot be read: no such file or directory");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    fs::write(&file, b"version = 1\n\xff").unwrap();
    assert_eq!(read(&file).unwrap_err().to_string(), format!("{}:2: expected text in UTF-8", file.display()));
}

/// Reads a policy whose only rule takes prefixes from a list with this text. Also returns the list's path.
fn with_list(list: &str) -> (Result<Policy, Mistakes>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("p.toml"), folder.path().join("cdn.txt"));
    let rule = "[[rule]]\nname = \"cdn\"\nto = \"10.0.0.0/8\"\nto_file = \"cdn.txt\"\nuse = \"dtcp\"\n";
    fs::write(&file, format!("version = 1\n{rule}")).unwrap();
    fs::write(&path, list).unwrap();
    (read(&file), path.display().to_string())
}

#[test]
fn prefixes_of_a_list_follow_those_of_the_file() {
    let (policy, _) = with_list("# a cache\r\n192.0.2.0/24\r\n\n  2001:db8::/32 # another\n");
    let to: Vec<String> = policy.unwrap().rules[0].when.to.iter().map(ToString::to_string).collect();
    assert_eq!(to, ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"]);
}

#[test]
fn mistakes_in_a_list_name_the_list_and_its_line() {
    let (policy, list) = with_list("192.0.2.1/24\n10.0.0.0/8\n\nexample.org\n");
    let expected = format!(
        "{list}:1: \"192.0.2.1/24\": expected zeros after the prefix, such as 10.0.0.0/8\n\
         {list}:2: \"10.0.0.0/8\": the list has this value twice\n\
         {list}:4: \"example.org\": expected an address such as 10.0.0.1, or a prefix such as 10.0.0.0/8 or fd00::/8"
    );
    let error = policy.unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.mistakes[0].hint.as_deref(), Some("did you mean \"192.0.2.0/24\"?"));
}

#[test]
fn list_without_a_prefix_or_with_too_many_or_of_nonsense_is_refused() {
    let said = with_list("# nothing\n").0.unwrap_err().to_string();
    let expected = "p.toml:5: rule.to_file = \"cdn.txt\": expected at least one prefix in this file";
    assert!(said.ends_with(expected), "{said}");
    let address = |number: u32| IpAddr::from((0x0b00_0000 + number).to_be_bytes());
    let list: String = (0..100_001).map(|number| format!("{}\n", address(number))).collect();
    let (policy, path) = with_list(&list);
    let said = policy.unwrap_err().to_string();
    assert_eq!(said, format!("{path}:100000: expected at most 100000 prefixes in the whole policy"));
    let (policy, _) = with_list(&list[..list.len() - 2 * "11.1.134.160\n".len()]);
    let policy = policy.unwrap();
    assert_eq!(policy.rules[0].when.to.len(), 100_000);
    assert_eq!(good(&write(&policy)).rules[0].when, policy.rules[0].when);
    let error = with_list(&"nonsense\n".repeat(1 << 20)).0.unwrap_err();
    assert_eq!((error.mistakes.len(), error.left_out), (100, 1));
    assert!(error.to_string().ends_with("\nand at least 1 more"));
}

#[test]
fn more_rules_arms_and_steps_than_there_may_be_are_refused() {
    let rule = |index: usize, what: &str| format!("[[rule]]\nname = \"r{index}\"\nnetns = \"n\"\n{what}\n");
    let rules = |count, what: &str| -> String {
        (0..count).map(|index| rule(index, what)).fold("version = 1\n".to_owned(), |text, rule| text + &rule)
    };
    assert_eq!(good(&rules(64, "use = \"dtcp\"")).rules.len(), 64);
    assert_eq!(mistakes(&rules(65, "use = \"dtcp\"")), "p.toml:258: rule: expected at most 64 rules");
    let arms: Vec<String> = (0..16).map(|index| format!("a{index} = 6.25")).collect();
    let split = format!("split = {{ {} }}", arms.join(", "));
    assert_eq!(good(&rules(16, &split)).rules.len(), 16);
    assert_eq!(mistakes(&rules(17, &split)), "p.toml:69: rule.split: expected at most 256 arms in the whole policy");
    let steps: Vec<String> = (1..=17).map(|percent| format!("{{ percent = {percent}, for = \"1h\" }}")).collect();
    let said = mistakes(&rules(1, &format!("use = \"dtcp\"\nsteps = [{}]", steps.join(", "))));
    assert!(said.ends_with(": expected 1 to 16 steps such as { percent = 5, for = \"2h\" }"), "{said}");
}

#[test]
fn hostile_text_is_refused() {
    let large = 5 << 18;
    let nested = ["[", "[[", "a=[", "a={b=", "a.", "[a.", "\"", "'''", "a=1\n", "[[rule]]\n", "[rule.steps]\n", "\0"];
    for text in nested.map(|text| text.repeat(large / text.len())) {
        assert!(parse("p.toml", &text).is_err());
        assert!(parse("p.toml", &text[..large / 4]).is_err());
    }
    let unquoted: String = (0..large / 16).map(|index| format!("k{index} = x\n")).collect();
    assert_eq!(parse("p.toml", &unquoted).unwrap_err().mistakes.len(), 100);
    for list in ["to = [", "local_port = [", "guard = ["] {
        let text = format!("version = 1\n[[rule]]\n{list}{}]", "0,".repeat(large / 2));
        let error = parse("p.toml", &text).unwrap_err();
        assert!(error.mistakes.len() + error.left_out < 200, "{}", error.left_out);
    }
    let said = mistakes(&" ".repeat(9 << 20));
    assert_eq!(said, "p.toml:1: expected at most 8 MiB of text");
    let said = mistakes(&GOOD.replace("\"web\"", "\"\u{9b}31m\u{202e}\""));
    assert!(said.contains("\"\u{fffd}31m\u{fffd}\": expected a name"), "{said}");
}

#[test]
fn every_example_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/policy");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    assert!(files.len() >= 3, "{files:?}");
    files.iter().for_each(|file| drop(read(file).unwrap_or_else(|mistakes| panic!("{mistakes}"))));
}

#[test]
fn readme_has_every_field_and_its_policies_are_read() {
    let readme = include_str!("../../../../scenarios/policy/README.md");
    let (before, _) = readme.split_once("\n## Mistakes").unwrap();
    let blocks: Vec<&str> = before.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty());
    blocks.into_iter().for_each(|block| drop(good(block)));
    // The table of fields has the words of the declarations.
    for (field, unset) in fields::RULE.fields() {
        let list = if readme.contains(&format!("| `{}` (list) | ", field.name)) { " (list)" } else { "" };
        let default = match unset {
            Unset::Needed => "a mistake".to_owned(),
            Unset::Is(value) => format!("`{value}`"),
            Unset::Means(words) => words.to_owned(),
        };
        let row = format!("| `{}`{list} | {} | {default} |", field.name, field.text());
        assert!(readme.contains(&row), "{row}");
    }
}

#[test]
fn policy_is_written_as_people_write_one() {
    let text = write(&good(GOOD));
    let expected = GOOD
        .replace("\"php@8\\\\x2d1.service\"", "'php@8\\x2d1.service'")
        .replace("1234", "\"1234\"")
        .replace("db8::1", "db8::1/128")
        .replace("\"5432\"", "5432")
        .replace("keep = 94.75, dtcp = 5, reno = 0.25", "dtcp = 5, reno = 0.25, keep = 94.75");
    assert_eq!(text, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn policy_reads_back_what_it_writes(policy in any_policy()) {
        let text = write(&policy);
        let mut read = parse("p.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        read.rules.iter_mut().for_each(|rule| rule.line = 0);
        prop_assert_eq!(read, policy);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(\\PC|[\\[\\]{}=\".\n#]){0,200}") {
        let _ = parse("p.toml", &text);
    }

    #[test]
    fn changed_file_is_read_or_refused(at in 0..GOOD.len(), length in 0_usize..20, put in "[ -~\n]{0,6}") {
        let end = (at + length).min(GOOD.len());
        let text = format!("{}{put}{}", &GOOD[..at], &GOOD[end..]);
        if let Err(error) = parse("p.toml", &text) {
            prop_assert!(!error.mistakes.is_empty() && !error.to_string().is_empty());
        }
    }
}
