//! Wrong policies: each message names file, line and field, shows the value, says what is allowed and what to do next.

use std::process::Command;

use tccc::failure::{Failure, Kind};
use tccc::policy::file;

const GOOD: &str = r#"version = 1

[[rule]]
name = "web"
unit = "nginx.service"
cgroup = "/system.slice/haproxy.service"
netns = ["blue", 1234]
to = ["10.0.0.0/8", "2001:db8::/32"]
local_port = [443, "8000-8099"]
remote_port = 5432
direction = "in"
current = ["cubic"]
split = { dtcp = 5, keep = 95 }
by = "connection"
override = false
guard = ["retransmitted<1.2x", "abnormal_ends<1%"]
deadline = "6h"
undecided = "revert"
on_fail = "revert"

[[rule]]
name = "rising"
netns = "red"
use = "dtcp"
guard = "goodput>0.9x"
steps = [
    { percent = 1, for = "30m" },
    { percent = 5, for = "2h" },
]

[[rule]]
name = "rest"
use = "keep"
"#;

/// A mistake: what is replaced by what, the line and the field that the message names, what it says, the next step.
struct Mistake {
    good: &'static str,
    bad: &'static str,
    at: (usize, &'static str),
    words: &'static str,
    hint: &'static str,
}

const fn mistake(
    [good, bad]: [&'static str; 2],
    at: (usize, &'static str),
    words: &'static str,
    hint: &'static str,
) -> Mistake {
    Mistake { good, bad, at, words, hint }
}

const LISTED: &str = "scenarios/policy/README.md lists every field";

const OF_FILE: &[Mistake] = &[
    mistake(["version = 1\n", "\n"], (1, "version"), "missing: expected 1", "begin the file with `version = 1`"),
    mistake(["version = 1", "version = 2"], (1, "version = 2"), "expected 1, the only version", LISTED),
    mistake(["version = 1", "version = \"1\""], (1, "version = \"1\""), "expected 1", LISTED),
    mistake(["version = 1", "version = 1\nverbose = 1"], (2, "verbose"), "expected one of version, rule", LISTED),
    mistake(["by = \"connection\"", "by = \"peer\"\nby = \"prefix\""], (15, "by"), "not TOML: duplicate key", LISTED),
    mistake(["deadline = \"6h\"", "deadline = 6h"], (17, "rule.deadline = 6h"), "a text in quotes", "write \"6h\""),
    mistake(["direction = \"in\"", "direction = in"], (11, "rule.direction = in"), "in quotes", "write \"in\""),
    mistake(["[\"10.0.0.0/8\"", "[10.0.0.0/8"], (8, "rule.to = 10.0.0.0/8"), "in quotes", "write \"10.0.0.0/8\""),
    mistake(["deadline = \"6h\"", "deadline ="], (17, "rule.deadline"), "missing: expected a value", LISTED),
    mistake(["\"web\"", "\"web"], (4, "rule.name"), "not TOML: invalid basic string", LISTED),
    mistake(["[[rule]]\nname = \"web\"", "[[rule]\nname = \"web\""], (3, ""), "not TOML: unclosed array table", LISTED),
];

const OF_RULES: &[Mistake] = &[
    mistake(["[[rule]]\nname = \"rest\"", "[[rules]]\nname = \"rest\""], (31, "rules"), "unknown field", "\"rule\"?"),
    mistake(["name = \"web\"\n", ""], (3, "rule.name"), "missing: expected a name of 1 to 32", LISTED),
    mistake(["\"web\"", "\"w e b\""], (4, "rule.name = \"w e b\""), "expected a name of 1 to 32 letters", LISTED),
    mistake(["\"web\"", "\"\""], (4, "rule.name = \"\""), "expected a name", LISTED),
    mistake(["\"web\"", "7"], (4, "rule.name = 7"), "a text in quotes: a name of", LISTED),
    mistake(["\"rising\"", "\"web\""], (22, "rule.name = \"web\""), "the rule at line 3 has the same name", LISTED),
    mistake(
        ["local_port", "lokal_port"],
        (9, "rule.lokal_port"),
        "unknown field: expected one of name",
        "\"local_port\"",
    ),
    mistake(["name = \"rest\"", "nam = \"rest\"\nname = \"x\""], (32, "rule.nam"), "unknown field", "\"name\""),
    mistake(
        ["netns = \"red\"\n", ""],
        (30, "rule"),
        "the rule \"rising\" at line 21 matches every",
        "\"rising\" to the end",
    ),
    mistake(
        ["override = false", "override = \"no\""],
        (15, "rule.override = \"no\""),
        "true or false, without",
        LISTED,
    ),
];

const OF_CONDITIONS: &[Mistake] = &[
    mistake(
        ["\"nginx.service\"", "\"nginx\""],
        (5, "rule.unit = \"nginx\""),
        ".service, .socket, .sl",
        "\"nginx.service\"",
    ),
    mistake(["nginx.service\"", "nginx.servce\""], (5, "rule.unit = "), "that ends in .service", "\"nginx.service\"?"),
    mistake(["\"nginx.service\"", "\"/system.slice\""], (5, "rule.unit = "), "not a path", "a path goes into `cgroup`"),
    mistake(["\"nginx.service\"", "[]"], (5, "rule.unit = []"), "expected at least one value", LISTED),
    mistake(
        ["\"/system.slice/haproxy.service\"", "\"/\""],
        (6, "rule.cgroup = \"/\""),
        "below the root",
        "leave `cgroup` out",
    ),
    mistake(
        ["\"/system.slice/h", "\"system.slice/h"],
        (6, "rule.cgroup = \"sys"),
        "expected an absolute path",
        "\"/system.slice/haproxy.service\"?",
    ),
    mistake(
        ["\"/system.slice/h", "\"/sys/fs/cgroup/h"],
        (6, "rule.cgroup = "),
        "without the mount",
        "\"/haproxy.service\"?",
    ),
    mistake(["\"/system.slice/h", "\"/../h"], (6, "rule.cgroup = \"/../"), "none of them . or ..", LISTED),
    mistake(
        ["haproxy.service\"", "haproxy.service/\""],
        (6, "rule.cgroup = "),
        "of 1 to 127 bytes",
        "haproxy.service\"?",
    ),
    mistake(
        ["[\"blue\", 1234]", "\"netns/blue\""],
        (7, "rule.netns = "),
        "by name, absolute path or process id",
        LISTED,
    ),
    mistake(["[\"blue\", 1234]", "[-1]"], (7, "rule.netns = -1"), "by name, absolute path or process id", LISTED),
    mistake(["[\"blue\", 1234]", "[\"1234\", 1234]"], (7, "rule.netns = 1234"), "has this value twice", LISTED),
    mistake(["10.0.0.0/8", "10.0.0.1/8"], (8, "rule.to = \"10.0.0.1/8\""), "zeros after the prefix", "\"10.0.0.0/8\"?"),
    mistake(["10.0.0.0/8", "example.org"], (8, "rule.to = \"example.org\""), "expected an address", LISTED),
    mistake(["10.0.0.0/8", "10.0.0.0/33"], (8, "rule.to = \"10.0.0.0/33\""), "at most 32 bits", LISTED),
    mistake(["\"2001:db8::/32\"", "\"10.0.0.0/8\""], (8, "rule.to = \"10.0.0.0/8\""), "this value twice", LISTED),
    mistake(["netns = \"red\"", "to_file = \"no.txt\""], (23, "rule.to_file = \"no.txt\""), "no such file or", LISTED),
    mistake(["netns = \"red\"", "to_file = \"/dev/zero\""], (23, "rule.to_file = "), "not a regular file", LISTED),
    mistake(["[443,", "[0,"], (9, "rule.local_port = 0"), "expected a port from 1 to 65535", LISTED),
    mistake(["[443,", "[65536,"], (9, "rule.local_port = 65536"), "expected a port from 1 to 65535", LISTED),
    mistake(["[443,", "[\"+443\","], (9, "rule.local_port = \"+443\""), "expected a port from 1", LISTED),
    mistake(["8000-8099", "8099-8000"], (9, "rule.local_port = \"8099-8000\""), "such as \"8000-8099\"", LISTED),
    mistake(["= 5432", "= 5432.5"], (10, "rule.remote_port = 5432.5"), "expected a port", LISTED),
    mistake(["\"in\"", "\"inn\""], (11, "rule.direction = \"inn\""), "expected \"in\" or \"out\"", "\"in\"?"),
    mistake(["[\"cubic\"]", "[\"keep\"]"], (12, "rule.current = \"keep\""), "\"keep\" is not an algorithm", LISTED),
    mistake(["[\"cubic\"]", "{ a = 1 }"], (12, "rule.current = { a = 1 }"), "in quotes: an algorithm's name", LISTED),
];

const OF_TREATMENTS: &[Mistake] = &[
    mistake(["use = \"keep\"\n", ""], (31, "rule"), "expected `use` or `split`", "`use = \"keep\"` leaves"),
    mistake(["use = \"keep\"", "use = \"d tcp\""], (33, "rule.use = \"d tcp\""), "expected \"keep\" or an alg", LISTED),
    mistake(["use = \"keep\"", "use = \"sixteen_letters_\""], (33, "rule.use = "), "1 to 15 letters", LISTED),
    mistake(["by = \"conn", "use = \"dtcp\"\nby = \"conn"], (13, "rule.split = { dtcp = 5, keep"), "not both", LISTED),
    mistake(["dtcp = 5,", "dtcp = 4,"], (13, "rule.split = { dtcp = 4, keep = 95 }"), "100; their sum is 99", LISTED),
    mistake(["dtcp = 5,", "dtcp = 5.001,"], (13, "rule.split.dtcp = 5.001"), "at most two decimals", LISTED),
    mistake(["dtcp = 5,", "dtcp = 5.000000001,"], (13, "rule.split.dtcp = 5.0"), "at most two decimals", LISTED),
    mistake(["dtcp = 5,", "dtcp = -5,"], (13, "rule.split.dtcp = -5"), "a percentage from 0 to 100", LISTED),
    mistake(["dtcp = 5,", "dtcp = \"5%\","], (13, "rule.split.dtcp = \"5%\""), "without quotes", LISTED),
    mistake(["dtcp = 5,", "\"d tcp\" = 5,"], (13, "rule.split.d tcp"), "expected \"keep\" or an algorithm", LISTED),
    mistake(
        ["{ dtcp = 5, keep = 95 }", "{ dtcp = 100 }"],
        (13, "rule.split = "),
        "2 to 16 arms",
        "`use = \"dtcp\"` is for",
    ),
    mistake(["{ dtcp = 5, keep = 95 }", "\"dtcp\""], (13, "rule.split = \"dtcp\""), "percentages such as", LISTED),
    mistake(
        ["\"connection\"", "\"port\""],
        (14, "rule.by = \"port\""),
        "\"connection\", \"peer\" or \"prefix\"",
        LISTED,
    ),
    mistake(
        ["use = \"keep\"", "use = \"keep\"\nby = \"peer\""],
        (34, "rule.by = \"peer\""),
        "`split` or `steps` in the same rule",
        LISTED,
    ),
];

const OF_TRIALS: &[Mistake] = &[
    mistake(
        ["retransmitted<1", "retransmited<1"],
        (16, "rule.guard = "),
        "timeouts, rtt_inf",
        "\"retransmitted<1.2x\"?",
    ),
    mistake(["abnormal_ends<1%", "abnormal_ends<1"], (16, "rule.guard = "), "from 0% to 100%", "\"abnormal_ends<1%\"?"),
    mistake(
        ["retransmitted<1.2x", "retransmitted<0.8x"],
        (16, "rule.guard = "),
        "equal connections would cross it",
        LISTED,
    ),
    mistake(["abnormal_ends<1%", "retransmitted<2x"], (16, "rule.guard = "), "\"retransmitted<1.2x\" already", LISTED),
    mistake(["goodput>0.9x", "goodput<0.9x"], (25, "rule.guard = "), "the sign >", "\"goodput>0.9x\"?"),
    mistake(
        ["{ dtcp = 5, keep = 95 }", "{ dtcp = 5, reno = 95 }"],
        (16, "rule.guard = "),
        "nothing is left unch",
        "an absolute",
    ),
    mistake(["\"keep\"\n", "\"keep\"\nguard = \"timeouts<1\""], (34, "rule.guard = "), "the rule keeps all", LISTED),
    mistake(["guard = [", "gaurd = ["], (16, "rule.gaurd"), "unknown field", "\"guard\"?"),
    mistake(["deadline = \"6h\"", "deadline = \"6\""], (17, "rule.deadline = \"6\""), "a time from 10s to 30d", LISTED),
    mistake(["deadline = \"6h\"", "deadline = \"6H\""], (17, "rule.deadline = \"6H\""), "a time from 10s", "\"6h\"?"),
    mistake(
        ["deadline = \"6h\"", "deadline = \"31d\""],
        (17, "rule.deadline = \"31d\""),
        "a time from 10s to 30d",
        LISTED,
    ),
    mistake(
        ["deadline = \"6h\"", "deadline = 6"],
        (17, "rule.deadline = 6"),
        "expected a text in quotes: a time",
        LISTED,
    ),
    mistake(
        ["undecided = \"rev", "undecided = \"rov"],
        (18, "rule.undecided = "),
        "\"revert\", \"proceed\" or",
        "\"revert\"?",
    ),
    mistake(
        ["on_fail = \"revert", "on_fail = \"frezze"],
        (19, "rule.on_fail = "),
        "\"revert\" or \"freeze\"",
        "\"freeze\"?",
    ),
    mistake(
        ["\"keep\"\n", "\"keep\"\ndeadline = \"6h\"\n"],
        (34, "rule.deadline = \"6h\""),
        "`guard` or `steps` in",
        LISTED,
    ),
    mistake(
        ["netns = \"red\"", "netns = \"red\"\ndeadline = \"1h\""],
        (24, "rule.deadline"),
        "no deadline beside",
        LISTED,
    ),
    mistake(
        ["use = \"dtcp\"", "use = \"keep\""],
        (24, "rule.use = \"keep\""),
        "because `steps` raises its share",
        LISTED,
    ),
    mistake(["use = \"dtcp\"", "split = { a = 5, keep = 95 }"], (26, "rule.steps"), "`use = ALGORITHM` in the", LISTED),
    mistake(
        ["percent = 5, for", "percent = 1, for"],
        (28, "rule.steps.percent = 1"),
        "more than the 1 % of the step",
        LISTED,
    ),
    mistake(["percent = 1,", "percent = 100,"], (27, "rule.steps.percent = 100"), "less than 100 in the first", LISTED),
    mistake(["percent = 1,", "percent = 0,"], (27, "rule.steps.percent = 0"), "more than 0 in the first step", LISTED),
    mistake(["for = \"30m\"", "for = \"9s\""], (27, "rule.steps.for = \"9s\""), "a time from 10s to 30d", LISTED),
    mistake(["percent = 1, for", "percent = 1, fro"], (27, "rule.steps.fro"), "one of percent, for", "\"for\"?"),
    mistake(["{ percent = 1, for = \"30m\" }", "1"], (27, "rule.steps = 1"), "1 to 16 steps such as", LISTED),
];

/// What is said of a wrong policy, as the command line prints it.
fn mistakes_of(text: &str) -> String {
    let failure = Failure::from(file::parse("p.toml", text).expect_err("the policy is wrong"));
    assert_eq!(failure.kind, Kind::Usage);
    format!("{}\n  hint: {}", failure.what, failure.hint.unwrap_or_default())
}

#[test]
fn every_mistake_is_reported_with_its_place_what_is_allowed_and_the_next_step() {
    file::parse("p.toml", GOOD).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut wrong = Vec::new();
    for mistake in [OF_FILE, OF_RULES, OF_CONDITIONS, OF_TREATMENTS, OF_TRIALS].into_iter().flatten() {
        let Mistake { good, bad, at: (line, field), words, hint } = mistake;
        assert!(GOOD.contains(good), "the good policy has {good:?}");
        let said = mistakes_of(&GOOD.replacen(good, bad, 1));
        println!("{said}");
        let (message, next) = said.split_once("\n  hint: ").unwrap_or_default();
        let is_placed = message.starts_with(&format!("p.toml:{line}: {field}"));
        if !(is_placed && message.contains(words) && next.contains(hint)) {
            wrong.push(format!("expected p.toml:{line}: {field} … {words} … {hint}\ngot {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Neither rights nor a policy before are needed to be told what is wrong with a file, and nothing is changed for it.
#[test]
fn wrong_file_ends_every_verb_with_2_and_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let run = |verb: &str| {
        let mut tccc = Command::new(env!("CARGO_BIN_EXE_tccc"));
        tccc.args(["policy", verb, "p.toml"]).current_dir(folder.path()).env("NO_COLOR", "1");
        tccc.output().unwrap()
    };
    for Mistake { good, bad, .. } in [OF_FILE, OF_RULES, OF_CONDITIONS, OF_TREATMENTS, OF_TRIALS].into_iter().flatten()
    {
        let text = GOOD.replacen(good, bad, 1);
        std::fs::write(folder.path().join("p.toml"), &text).unwrap();
        let expected = format!("tccc: error: {}\n", mistakes_of(&text));
        for verb in ["check", "apply", "diff"] {
            let output = run(verb);
            assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{verb}: {bad}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), expected, "{verb}: {bad}");
        }
    }
    std::fs::write(folder.path().join("p.toml"), GOOD).unwrap();
    let output = run("check");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().next(), Some("p.toml: 3 rules, no mistakes"));
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

/// A slip in the name of a field that must be there is one mistake, not two.
#[test]
fn misspelt_field_is_not_missing_as_well() {
    for (good, bad) in
        [("version", "verison"), ("name = \"rest\"", "nmae = \"rest\""), ("use = \"keep\"", "usee = \"keep\"")]
    {
        let said = mistakes_of(&GOOD.replacen(good, bad, 1));
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}

/// The README shows a policy and then what is said of it.
#[test]
fn readme_shows_what_is_said_of_its_wrong_policies() {
    let readme = include_str!("../../scenarios/policy/README.md");
    let (_, section) = readme.split_once("\n## Mistakes").expect("a section of mistakes");
    let blocks: Vec<&str> = section.split("```").skip(1).step_by(2).collect();
    assert_eq!(blocks.len(), 4, "two policies with what is said of each");
    for pair in blocks.chunks(2) {
        let policy = pair[0].strip_prefix("toml\n").expect("a policy");
        let error = file::parse("policy.toml", policy).expect_err("it is wrong");
        let failure = Failure::from(error);
        let said = format!("text\ntccc: error: {}\n  hint: {}\n", failure.what, failure.hint.expect("a next step"));
        assert_eq!(pair[1], said);
    }
}
