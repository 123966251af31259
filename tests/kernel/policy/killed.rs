//! Killed between any two steps: established connections go on, `tccc status` tells the truth, the next command works.

use serde_json::Value;

use crate::common::host_has;
use crate::lab::policy::fault::{Stopped, killed_at, points};
use crate::lab::policy::{Ends, Lab, Pair, all, programs, show, with_lab};
use crate::lab::sandbox::{assert_nothing_left, registered, run, stdout};

fn plain(lab: &Lab) -> Pair {
    lab.pair(&Ends::new("127.0.0.1", "127.0.0.2"))
}

fn document() -> Value {
    run(0, "status -o json").json()
}

/// What new connections get is what the policy that is shown gives; what is registered is listed.
#[track_caller]
fn assert_status_is_true(lab: &Lab, when: &str) {
    let (status, shown) = (document(), show());
    let gives = shown["policy"]["rules"][0]["split"]["arms"][0]["treatment"]["algorithm"].as_str();
    assert_eq!(status["policy"]["generation"], shown["generation"], "{when}");
    let got = plain(lab).algorithms();
    assert_eq!(got, [gives.unwrap_or("reno"); 2], "{when}: {status}");
    let listed = status["instances"].as_array().unwrap();
    let is_listed = |name: &String| listed.iter().any(|instance| instance["name"] == name.as_str());
    assert!(registered().iter().all(is_listed), "{when}: {status}");
    let drift = shown["drift"].as_array().unwrap();
    assert!(gives.is_some() || programs() == 0 || !drift.is_empty() || shown["counts"].is_null(), "{when}: {shown}");
}

/// Kills an `apply` of another algorithm at each point, with and without a policy before.
#[test]
fn apply_killed_at_any_point_leaves_what_the_next_command_continues() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for point in points("apply.") {
            for before in [None, Some("cubic"), Some("tahoe")] {
                let when = format!("{point}, before: {before:?}");
                let mut established = plain(lab);
                before.iter().for_each(|name| drop(lab.apply(&all(name))));
                let mut decided = plain(lab);
                let names = [established.algorithms(), decided.algorithms()];
                let file = lab.policy_file(&all("dtcp"));
                killed_at(point, &["policy", "apply", "--accept-risk", file.to_str().unwrap()]);
                established.exchange(50_000);
                decided.exchange(50_000);
                assert_eq!([established.algorithms(), decided.algorithms()], names, "{when}");
                assert_status_is_true(lab, &when);
                let is_swapped = show()["policy"]["rules"][0]["split"].to_string().contains("dtcp");
                assert_eq!(is_swapped, point == "apply.attached" || point == "apply.settled", "{when}");
                if point < "apply.c" || before.is_none() {
                    // What was left is removed by `remove` as well as by the next `apply`.
                    run(0, "policy remove");
                    assert_nothing_left();
                }
                lab.apply(&all("bbr"));
                assert_eq!(plain(lab).algorithms(), ["bbr", "bbr"], "{when}");
                assert_eq!(document()["policy"]["drift"], Value::Array(Vec::new()), "{when}");
                assert_eq!(registered(), [] as [String; 0], "{when}: what no rule names any more");
                run(0, "policy remove").stdout_has("the policy is removed");
                assert_eq!(stdout(&run(0, "unload --all")), "nothing is loaded\n", "{when}");
                assert_nothing_left();
            }
        }
    });
}

#[test]
fn remove_killed_at_any_point_is_continued_by_any_command() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for point in points("remove.") {
            for next in ["policy remove", "policy apply", "unload --all"] {
                let when = format!("{point}, then {next}");
                lab.apply(&all("dtcp"));
                let mut established = plain(lab);
                killed_at(point, &["policy", "remove"]);
                established.exchange(50_000);
                assert_eq!(established.algorithms(), ["dtcp", "dtcp"], "{when}");
                assert_status_is_true(lab, &when);
                assert_eq!(plain(lab).algorithms(), ["reno", "reno"], "{when}: no rule decides any more");
                if next == "policy apply" {
                    lab.apply(&all("cubic"));
                    assert_eq!(plain(lab).algorithms(), ["cubic", "cubic"], "{when}");
                    run(0, "policy remove");
                } else {
                    let said = stdout(&run(0, next));
                    assert!(
                        said.contains("\"dtcp\" unloaded") || said.contains("\"dtcp\" unregistered"),
                        "{when}: {said}"
                    );
                }
                assert_nothing_left();
            }
        }
    });
}

#[test]
fn command_beside_one_that_is_stopped_says_so_after_ten_seconds() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply(&all("cubic"));
        let file = lab.file("other.toml", &format!("version = 1\n{}", all("bbr")));
        let stopped = Stopped::at("apply.numbered", &["policy", "apply", "--accept-risk", file.to_str().unwrap()]);
        assert_status_is_true(lab, "while it is stopped");
        lab.policy(5, "apply", &all("reno")).stderr_has(stopped.refusal("the policy"));
        assert_eq!(plain(lab).algorithms(), ["cubic", "cubic"]);
        stopped.go_on();
        assert_status_is_true(lab, "after it went on");
        assert_eq!(show()["generation"], 2);
        Stopped::at("apply.pinned", &["policy", "apply", "--accept-risk", file.to_str().unwrap()]).kill();
        assert_eq!(plain(lab).algorithms(), ["bbr", "bbr"]);
        lab.apply(&all("cubic"));
        assert_eq!(plain(lab).algorithms(), ["cubic", "cubic"]);
        run(0, "policy remove");
    });
}
