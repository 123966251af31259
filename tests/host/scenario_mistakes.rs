//! Wrong scenarios: each message names file, line and field, what is allowed there, and the next step.

use std::fs;

use crate::common::tccc;

const GOOD: &str = r#"title = "Two ways"
claim = "One is better."
profile = "paper"
duration = "10s"
runs = 3
seed = 1

[sweep]
algorithm = ["reno", "cubic"]
rate = ["5mbit", "10mbit"]

[[link]]
ends = ["left", "right"]
rate = "$rate"
delay = "20ms"
queue = "50pkts"
mark = "20pkts"
loss = "bursts:loss=1%,mean=4"
reorder = "share=1%,by=5ms"
duplicate = "1%"
ack_loss = "2%"
reverse = { acks = "thinned:time=5ms,pkts=4" }
change = [{ at = "5s", delay = "40ms" }]

[[flow]]
name = "data"
from = "left"
to = "right"
algorithm = "$algorithm"
tunables = {}
ecn = 1

[[flow]]
name = "pages"
from = "left"
to = "right"
algorithm = "reno"
size = "50kB"
count = 5
interval = "500ms"
ecn = 1

[[flow]]
name = "call"
from = "right"
to = "left"
protocol = "udp"
rate = "64kbit"
packet = "200B"

[report]
baseline = "reno"
metrics = ["goodput_bps"]
"#;

/// A mistake: what is replaced by what, the field that the message names, what it says is allowed, the next step.
struct Mistake {
    good: &'static str,
    bad: &'static str,
    field: &'static str,
    allowed: &'static str,
    hint: &'static str,
}

const fn mistake(
    [good, bad]: [&'static str; 2],
    field: &'static str,
    allowed: &'static str,
    hint: &'static str,
) -> Mistake {
    Mistake { good, bad, field, allowed, hint }
}

const LISTED: &str = "`tccc run --explain";

const SWEPT: &str = "\"$rate\" takes its values from [sweep], line 10";

/// Where files come from.
const BESIDE: &str = "in its own folder, or below it";

const MISTAKES: &[Mistake] = &[
    mistake(
        ["duration = \"10s\"", "duration = \"10\""],
        "duration",
        "expected a time with us, ms, s, m, h or d",
        LISTED,
    ),
    mistake(
        ["duration = \"10s\"", "duration = 10"],
        "duration",
        "= 10: expected a time with us, ms, s, m, h or d",
        LISTED,
    ),
    mistake(["profile = \"paper\"", "profile = \"papers\""], "profile", "expected paper or native", "\"paper\""),
    mistake(["runs = 3", "runs = -3"], "runs", "= -3: expected a whole number from 1 to 10000", LISTED),
    mistake(["runs = 3", "runs = \"three\""], "runs", "= \"three\": expected a whole number from 1", LISTED),
    mistake(
        ["runs = 3", "runs = \"3\""],
        "runs",
        "= \"3\": expected a whole number from 1 to 10000, without quotes",
        LISTED,
    ),
    mistake(["duration = \"10s\"", "duration = \"2.5s\""], "duration", "= \"2.5s\": expected whole seconds", LISTED),
    mistake(["duration = \"10s\"", "duration = \"0s\""], "duration", "= \"0s\": expected whole seconds", LISTED),
    mistake(["seed = 1", "seed = 1\nseed = 2"], "seed", "duplicate key", LISTED),
    mistake(["[[link]]", "[link]"], "link", "expected [[link]]", LISTED),
    mistake(["[report]", "[[report]]"], "report", "expected [report]", LISTED),
    mistake(["seed = 1", "sede = 1"], "sede", "duration, runs, seed", "did you mean \"seed\"?"),
    mistake(["rate = \"$rate\"", "rate = \"$rtae\""], "link.rate", "$algorithm, $rate", "did you mean \"$rate\"?"),
    mistake(["rate = \"$rate\"", "rate = \"$rate bit\""], "link.rate", "bit, kbit, mbit or gbit", SWEPT),
    mistake(
        ["rate = [\"5mbit\"", "rate = [5, \"5mbit\""],
        "sweep.rate",
        "bit, kbit, mbit or gbit",
        "it is the value of link.rate, line 14",
    ),
    mistake(["delay = \"20ms\"", "delay = \"20s\""], "link.delay", "0us..10s", LISTED),
    mistake(["queue = \"50pkts\"", "queue = 50"], "link.queue", "pkts, B, kB, MB or bdp", LISTED),
    mistake(["mark = \"20pkts\"", "mark = \"60pkts\""], "link.mark", "less than the queue, \"50pkts\"", LISTED),
    mistake(["bursts:loss=1%,mean=4", "bursts:loss=1%"], "link.loss", "mean is missing, such as mean=4", LISTED),
    mistake(["bursts:loss=1%,mean=4", "gilbert:p=1%,q=2%"], "link.loss", "one of p, r, 1-h, 1-k", LISTED),
    mistake(["share=1%,by=5ms", "share=70%,by=5ms"], "link.reorder", "at most 50%", LISTED),
    mistake(["duplicate = \"1%\"", "duplicate = \"150%\""], "link.duplicate", "from 0 to 1", LISTED),
    mistake(["ack_loss = \"2%\"", "ack_loss = \"2\""], "link.ack_loss", "from 0 to 1", LISTED),
    mistake(["thinned:time=5ms,pkts=4", "thinned:pkts=4"], "link.reverse.acks", "time is missing", LISTED),
    mistake(["pkts=4\" }", "pkts=1\" }"], "link.reverse.acks", "expected a number from 2 to 1000", LISTED),
    mistake(["thinned:time=5ms,pkts=4", "thin"], "link.reverse.acks", "or compressed:time=20ms,share=1%", LISTED),
    mistake(["time=5ms,pkts", "time=50s,pkts"], "link.reverse.acks", "more than 0us and at most 10s", LISTED),
    mistake(
        ["reverse = { acks = \"thinned:time=5ms,pkts=4\" }", "acks = \"thinned:time=5ms,pkts=4\""],
        "link.acks",
        "beside reorder = \"share=1%,by=5ms\": expected one of them in a direction",
        LISTED,
    ),
    mistake(
        ["at = \"5s\"", "at = \"15s\""],
        "link.change.at",
        "= \"15s\": expected less than the 10s of a run",
        LISTED,
    ),
    mistake(
        ["at = \"5s\", delay", "at = \"5s\", dealy"],
        "link.change.dealy",
        "at, rate, delay",
        "did you mean \"delay\"?",
    ),
    mistake(["at = \"5s\", delay = \"40ms\"", "at = \"5s\", up = 1"], "link.change.up", "true or false", LISTED),
    mistake(["ends = [\"left\", \"right\"]", "ends = [\"left\"]"], "link.ends", "expected two nodes", LISTED),
    mistake(["to = \"right\"", "to = \"rigth\""], "flow.to", "left, right", LISTED),
    mistake(
        ["\"reno\", \"cubic\"]", "\"reno\", \"dtpc\"]"],
        "sweep.algorithm",
        "unknown algorithm \"dtpc\"",
        "\"dtcp\"",
    ),
    mistake(
        ["algorithm = [", "spare = [1, 2]\nalgorithm = ["],
        "sweep.spare",
        "no field has \"$spare\"",
        "write \"$spare\" in the field",
    ),
    mistake(["tunables = {}", "tunables = { keep = 3 }"], "flow.tunables", "has no tunable keep", "`tccc list`"),
    mistake(["rate = \"$rate\"", "rate = \"trace:../x\""], "link.rate", "= \"trace:../x\": expected a file in", BESIDE),
    mistake(["rate = \"$rate\"", "rate = \"trace:x\""], "link.rate", "/x\": no such file or directory", BESIDE),
    mistake(["\"bursts:loss=1%,mean=4\"", "\"trace:x\""], "link.loss", "/x\": no such file or directory", BESIDE),
    mistake(
        ["queue = \"50pkts\"", "queue = 50pkts"],
        "link.queue",
        "= 50pkts: expected a text in quotes",
        "write \"50pkts\"",
    ),
    mistake(["at = \"5s\"", "at = 5s"], "link.change.at", "= 5s: expected a text in quotes", "write \"5s\""),
    mistake(["runs = 3", "runs = three"], "runs", "= three: expected a text in quotes, a number", "write"),
    mistake(["queue = \"50pkts\"", "queue ="], "link.queue", "missing: expected a value", LISTED),
    mistake(["delay = \"20ms\"", "delay = \"-2ms\""], "link.delay", "= \"-2ms\": it must not be negative: exp", LISTED),
    mistake(["duplicate = \"1%\"", "duplicate = \"-1%\""], "link.duplicate", "\": it must not be negative", LISTED),
    mistake(["\"bursts:loss=1%,mean=4\"", "-0.010"], "link.loss", "= -0.010: it must not be negative", LISTED),
    mistake(["rate = \"$rate\"", "rate = \"0mbit\""], "link.rate", "= \"0mbit\": outside 1kbit..10gbit", LISTED),
    mistake(["[\"5mbit\"", "[\"0mbit\""], "sweep.rate", "= \"0mbit\": outside 1kbit..10gbit", "value of link.rate"),
    mistake(["rate = \"64kbit\"", "rate = \"0kbit\""], "flow.rate", "= \"0kbit\": outside", LISTED),
    mistake(["[\"5mbit\"", "[\"5MBIT\""], "sweep.rate", "\"5MBIT\": expected a rate", "did you mean \"5mbit\"?"),
    mistake(["rate = \"64kbit\"", "rate = \"64Kbps\""], "flow.rate", "\"64Kbps\"", "did you mean \"64kbit\"?"),
    mistake(["size = \"50kB\"", "size = \"50KB\""], "flow.size", "\"50KB\": expected", "did you mean \"50kB\"?"),
    mistake(["name = \"pages\"", "name = \"data\""], "flow.name", "another flow has this name", "`copies = 2`"),
    mistake(["tunables = {}", "window_cap = \"-3\""], "flow.window_cap", "= \"-3\": expected a whole number", LISTED),
    mistake(
        ["size = \"50kB\"", "start = \"10s\"\nsize = \"50kB\""],
        "flow.start",
        "= \"10s\": expected a time before",
        LISTED,
    ),
    mistake(["size = \"50kB\"", "size = \"50\""], "flow.size", "B, kB, MB", LISTED),
    mistake(["count = 5", "count = 5000"], "flow.count", "from 1 to 1000", LISTED),
    mistake(["ecn = 1", "ecn = 2"], "flow.ecn", "expected 1 or 0", LISTED),
    mistake(["packet = \"200B\"", "packet = \"2kB\""], "flow.packet", "36B..1500B", LISTED),
    mistake(["packet = \"200B\"", "window_cap = 4"], "flow.window_cap", "it sends at its rate", LISTED),
    mistake(["[\"goodput_bps\"]", "[\"goodput\"]"], "report.metrics", "goodput_bps", "\"goodput_bps\""),
];

/// It failed like a file that cannot be read, without a next step.
#[test]
fn file_that_is_no_text_is_a_wrong_scenario() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("binary.toml");
    fs::write(&file, b"title = \"t\"\n\x7fELF\xff").unwrap();
    let output = tccc().arg("run").arg(&file).arg("--dry-run").output().unwrap();
    let expected = "expected a TOML file, which is text in UTF-8\n  hint: `tccc run --explain` lists every field\n";
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said), (Some(2), format!("tccc: error: {}:2: {expected}", file.display())));
}

/// The right name below was told to be a slip of the wrong one above.
#[test]
fn misspelt_algorithm_is_told_before_the_names_of_published_and_expected_numbers() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("x.toml");
    let numbers = "values = { dtcp = [1.0, 1.0] }\n";
    let expected =
        format!("[[expected]]\nmetric = \"goodput_bps\"\nover = \"rate\"\nbasis = \"b\"\n{numbers}plus_{numbers}");
    let expected = expected.replace("plus_values", "plus_minus");
    fs::write(&file, GOOD.replacen("\"cubic\"]", "\"dtpc\"]", 1) + &expected).unwrap();
    let output = tccc().arg("run").arg(&file).arg("--dry-run").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let begin = format!("tccc: error: {}:9: sweep.algorithm: unknown algorithm \"dtpc\"\n", file.display());
    assert!(said.starts_with(&begin) && said.contains("did you mean \"dtcp\"?"), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
}

/// Number of the first line that is another one, from 1.
fn first_difference(one: &str, other: &str) -> usize {
    one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count() + 1
}

#[test]
fn every_mistake_is_told_with_its_place_what_is_allowed_and_the_next_step() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mistaken.toml");
    let dry_run = |text: &str| {
        fs::write(&file, text).unwrap();
        tccc().arg("run").arg(&file).arg("--dry-run").output().unwrap()
    };
    let good = dry_run(GOOD);
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    for &Mistake { good, bad, field, allowed, hint } in MISTAKES {
        assert!(GOOD.contains(good), "the good scenario has {good:?}");
        let wrong = GOOD.replacen(good, bad, 1);
        let output = dry_run(&wrong);
        let said = String::from_utf8(output.stderr).unwrap();
        println!("{said}");
        assert_eq!(output.status.code(), Some(2), "{bad}: {said}");
        let line = first_difference(GOOD, &wrong);
        let begin = format!("tccc: error: {}:{line}: {field}", file.display());
        assert!(said.starts_with(&begin), "{bad}: expected {begin}: {said}");
        let (message, next) = said.split_once("\n  hint: ").unwrap_or_else(|| panic!("{bad}: no next step: {said}"));
        assert!(message.contains(allowed), "{bad}: expected {allowed:?}: {said}");
        assert!(next.contains(hint), "{bad}: expected the next step {hint:?}: {said}");
    }
}
