//! nginx under load while its policy changes: every response is whole.

use super::web::{FILE, PORT, content, nginx};
use super::*;
use crate::lab::trial::{last_trial, until_no_process};

const UNIT: &str = "ldk_loaded.service";
const TRIED: &str = "ldk_wrk";
/// A variable for the seconds of the campaign.
const SECONDS: &str = "TCCC_WRK_SECONDS";
const SECONDS_USUAL: u64 = 600;
/// Longer than any load, which a signal ends.
const UNTIL_SIGNAL: &str = "720h";

/// Compares each body, and prints what wrk counted as one line of JSON.
const SCRIPT: &str = r#"
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init(arguments)
    local file = io.open(arguments[1], "rb")
    expected, seen, wrong = file:read("*a"), 0, 0
    file:close()
end
function delay() return 10 end
function response(status, headers, body)
    seen = seen + 1
    if status ~= 200 or body ~= expected then wrong = wrong + 1 end
end
function done(summary)
    local seen, wrong, errors = 0, 0, summary.errors
    for _, thread in ipairs(threads) do
        seen, wrong = seen + thread:get("seen"), wrong + thread:get("wrong")
    end
    print(string.format('{"requests":%d,"seen":%d,"wrong":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}',
        summary.requests, seen, wrong, errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
"#;

/// Requests over connections that each serve 50 of them.
fn wrk(lab: &PolicyLab, folder: &TempDir, connections: &str) -> Owned {
    let [script, expected] = [("load.lua", SCRIPT), (FILE, &content())].map(|(name, text)| write(folder, name, text));
    let mut command = Command::new("wrk");
    command.args([
        "--threads",
        "2",
        "--connections",
        connections,
        "--timeout",
        "60s",
        "--duration",
        UNTIL_SIGNAL,
        "--script",
    ]);
    command.arg(script).arg(format!("http://127.0.0.1:{PORT}/{FILE}")).arg("--").arg(expected);
    lab.inside(|| begin(&mut command))
}

/// A rule for new connections to nginx whose share rises in steps of this time.
fn steps(lab: &PolicyLab, time: &str) {
    let rule = format!(
        "{}direction = \"in\"\nguard = \"retransmitted<50%\"\nundecided = \"proceed\"\n\
        steps = [{{ percent = 20, for = \"{time}\" }}, {{ percent = 60, for = \"{time}\" }}]\n",
        rule_of(UNIT, TRIED)
    );
    lab.apply(&rule);
}

/// The share of new connections that get [`TRIED`], in percent.
fn share() -> Option<u64> {
    Some(show()["policy"]["rules"][0]["split"]["arms"][0]["portion"].as_u64()? / 100)
}

/// Waits until the rule gave new connections its algorithm.
#[track_caller]
fn gives_to_more() {
    let before = count(&show(), 0, 0, "set");
    poll_until(SOON, "new connections get the algorithm", || count(&show(), 0, 0, "set") > before + 5);
}

/// Begins and ends without a policy. `waits`: every step ends when its time is over, not by a command.
fn life_of_a_policy(lab: &PolicyLab, waits: bool) {
    let time = if waits { "10s" } else { "10m" };
    lab.apply(&rule_of(UNIT, "cubic"));
    gives_to_more();
    steps(lab, time);
    gives_to_more();
    let pass = |step: &str, is_over: &dyn Fn() -> bool| match waits {
        true => poll_until(2 * SOON, step, is_over),
        false => {
            assert!(!on_trial().is_null(), "{step}: {:?}", last_trial());
            run(0, "policy promote");
        }
    };
    pass("the first step", &|| share() == Some(60));
    gives_to_more();
    // The end is recorded after the policy has changed.
    pass("the last step", &|| on_trial().is_null() && last_trial().0 == "kept");
    assert_eq!(last_trial().0, "kept");
    for sockets in ["", " --sockets"].into_iter().skip(usize::from(!waits)) {
        run(0, &format!("upgrade {TRIED} --accept-risk --set keep_avoidance=901{sockets}"));
        gives_to_more();
        run(0, &format!("rollback {TRIED}{sockets}"));
        gives_to_more();
    }
    lab.policy(0, "apply --live", &rule_of(UNIT, "cubic"));
    steps(lab, time);
    gives_to_more();
    run(0, "policy abort");
    assert_eq!((last_trial().0.as_str(), show()["policy"]["rules"][0]["name"].as_str()), ("reverted", Some(UNIT)));
    until_no_process();
    gives_to_more();
    run(0, "policy remove --live");
}

/// Loads nginx throughout as many lives of a policy as fit into the time, one at least.
fn load(lab: &PolicyLab, time: Duration) {
    let _nginx = nginx(lab, UNIT, 2, "reuseport", "keepalive_requests 50;");
    run(0, &format!("load dtcp --as {TRIED}"));
    let folder = service_folder();
    // An emulated guest has no time for guards beside more connections.
    let connections = if time.is_zero() { "10" } else { "40" };
    let (wrk, started) = (wrk(lab, &folder, connections), Instant::now());
    let mut lives = 0;
    while lives == 0 || started.elapsed() < time {
        life_of_a_policy(lab, !time.is_zero());
        lives += 1;
    }
    signal(wrk.id(), Signal::SIGINT);
    let said = end(0, wrk).stdout();
    let counts = said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    println!("{lives} lives of a policy in {:.0?}: {counts}", started.elapsed());
    let counts: Value = serde_json::from_str(counts).unwrap();
    assert!(counts["requests"].as_u64() > Some(1000) && counts["seen"] == counts["requests"], "{counts}");
    for what in ["wrong", "connect", "read", "write", "status", "timeout"] {
        assert_eq!(counts[what], 0, "{what}: {counts}");
    }
    run(0, &format!("unload {TRIED} --drain 60s"));
}

#[test]
fn every_response_of_nginx_is_whole_while_its_policy_changes() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2, nginx, wrk);
    load(lab, Duration::ZERO);
}

#[test]
#[ignore = "a campaign: TCCC_WRK_SECONDS=600 cargo test --test kernel whole_for_minutes -- --ignored"]
fn every_response_of_nginx_is_whole_for_minutes() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2, nginx, wrk);
    let seconds = std::env::var(SECONDS).map_or(SECONDS_USUAL, |text| text.parse().unwrap());
    load(lab, Duration::from_secs(seconds));
}
