//! Commands killed between any two steps: connections continue, `tccc status` is true, the next command works.

use super::*;

fn document() -> Value {
    run(0, "status -o json").json()
}

/// New connections get what the shown policy gives, and every registration is listed.
#[track_caller]
fn assert_status_is_true(lab: &PolicyLab, when: &str) {
    let (status, shown) = (document(), show());
    let gives = shown["policy"]["rules"][0]["split"]["arms"][0]["treatment"]["algorithm"].as_str();
    assert_eq!(status["policy"]["generation"], shown["generation"], "{when}");
    let got = lab.plain().algorithms();
    assert_eq!(got, [gives.unwrap_or("reno"); 2], "{when}: {status}");
    let listed = status["instances"].as_array().unwrap();
    let is_listed = |name: &String| listed.iter().any(|instance| instance["name"] == name.as_str());
    assert!(registered().iter().all(is_listed), "{when}: {status}");
    let drift = shown["drift"].as_array().unwrap();
    assert!(gives.is_some() || programs() == 0 || !drift.is_empty() || shown["counts"].is_null(), "{when}: {shown}");
}

/// Kills an `apply` of another algorithm at each point, with and without a policy before.
#[test]
fn apply_killed_at_any_point_is_continued_by_the_next_command() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    for point in points("apply.") {
        for before in [None, Some("cubic"), Some("tahoe")] {
            let when = format!("{point}, before: {before:?}");
            let mut established = lab.plain();
            before.iter().for_each(|name| drop(lab.apply(&all(name))));
            let mut decided = lab.plain();
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
                // `remove` cleans up as well as the next `apply`.
                run(0, "policy remove");
                assert_nothing_left();
            }
            lab.apply(&all("bbr"));
            lab.assert_given("bbr", &when);
            assert_eq!(document()["policy"]["drift"], Value::Array(Vec::new()), "{when}");
            assert_eq!(registered(), [] as [String; 0], "{when}: no rule names it any more");
            run(0, "policy remove").stdout_has("the policy is removed");
            assert_eq!(run(0, "unload --all").stdout(), "nothing is loaded\n", "{when}");
            assert_nothing_left();
        }
    }
}

#[test]
fn remove_killed_at_any_point_is_continued_by_any_command() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    for point in points("remove.") {
        for next in ["policy remove", "policy apply", "unload --all"] {
            let when = format!("{point}, then {next}");
            lab.apply(&all("dtcp"));
            let mut established = lab.plain();
            killed_at(point, &["policy", "remove"]);
            established.exchange(50_000);
            assert_eq!(established.algorithms(), ["dtcp", "dtcp"], "{when}");
            assert_status_is_true(lab, &when);
            lab.assert_given("reno", &when);
            if next == "policy apply" {
                lab.apply(&all("cubic"));
                lab.assert_given("cubic", &when);
                run(0, "policy remove");
            } else {
                let said = run(0, next).stdout();
                assert!(
                    ["unloaded", "unregistered"].iter().any(|it| said.contains(&format!("\"dtcp\" {it}"))),
                    "{said}"
                );
            }
            assert_nothing_left();
        }
    }
}

#[test]
fn apply_beside_a_stopped_one_fails_after_ten_seconds() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(&all("cubic"));
    let file = lab.file("other.toml", &format!("version = 1\n{}", all("bbr")));
    let stopped = Stopped::at("apply.numbered", &["policy", "apply", "--accept-risk", file.to_str().unwrap()]);
    assert_status_is_true(lab, "while it is stopped");
    lab.policy(5, "apply", &all("reno")).stderr_has(stopped.refusal("the policy"));
    lab.assert_given("cubic", "");
    stopped.go_on();
    assert_status_is_true(lab, "after it went on");
    assert_eq!(show()["generation"], 2);
    Stopped::at("apply.pinned", &["policy", "apply", "--accept-risk", file.to_str().unwrap()]).kill();
    lab.assert_given("bbr", "");
    lab.apply(&all("cubic"));
    lab.assert_given("cubic", "");
}
