//! One generation replaces another between two connections, completely or not at all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tccc::gate;
use tccc::policy::file;
use tccc::policy::record::PolicyOrigin;

use super::*;

const SWAPS: u32 = 210;
/// Pause after sixteen connections, so that the swaps get processor time.
const PAUSE: Duration = Duration::from_millis(8);

/// Connects repeatedly until told to stop; returns the number of connections.
///
/// Panics: an end has an algorithm that is not allowed.
fn connect_until(lab: &PolicyLab, stops: &AtomicBool, allowed: &[&str]) -> u64 {
    let mut made = 0;
    lab.inside(|| {
        let listener = listen_at(address("127.0.0.1"), false, None);
        while !stops.load(Ordering::Relaxed) {
            let mut pair = join(address("127.0.0.1"), &listener);
            let names = pair.algorithms();
            assert!(names.iter().all(|name| allowed.contains(&name.as_str())), "connection {made}: {names:?}");
            if made % 16 == 0 {
                pair.exchange(1000);
                std::thread::sleep(PAUSE); // the pace of the load
            }
            made += 1;
        }
    });
    made
}

#[test]
fn two_hundred_swaps_miss_no_connection_and_reset_none() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let policies = ["cubic", "bbr"].map(|name| {
        let rule = "[[rule]]\nname = \"lab\"\nnetns = \"ldk_lab\"";
        file::parse("swap.toml", &format!("version = 1\n{rule}\nuse = \"{name}\"\n")).unwrap()
    });
    let apply = |policy| gate::apply_policy(policy, &PolicyOrigin::command(None), false).unwrap();
    apply(&policies[0]);
    let traffic = BackgroundTraffic::begin((0..40).map(|_| lab.plain()).collect());
    let stops = AtomicBool::new(false);
    let (started, programs_before) = (std::time::Instant::now(), programs());
    let made = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| connect_until(lab, &stops, &["cubic", "bbr"]));
        for swap in 1..=SWAPS {
            assert_eq!(apply(&policies[swap as usize % 2]).generation.number, swap + 1);
        }
        stops.store(true, Ordering::Relaxed);
        connecting.join().unwrap()
    });
    let elapsed = started.elapsed();
    let (pairs, carried) = traffic.end();
    println!("{SWAPS} swaps in {elapsed:?}: {made} connections, {} MB, {:?}", carried.bytes >> 20, carried.longest);
    assert!(made > 1000);
    pairs
        .iter()
        .for_each(|pair| assert_eq!(pair.algorithms(), ["cubic", "cubic"], "open connections keep their algorithm"));
    assert_eq!(show()["generation"], SWAPS + 1);
    poll_until(SOON, "only one generation is left", || programs() <= programs_before);
}

#[test]
fn policy_that_cannot_be_applied_leaves_the_one_before() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(&all("cubic"));
    let check = |rules: &str, says: &str| {
        let before = state::lines();
        lab.policy(2, "apply", rules).stderr_has(says);
        assert_eq!(state::lines(), before);
        lab.assert_given("cubic", says);
        assert_eq!(show()["generation"], 1);
    };
    let with = |fields: &str| format!("[[rule]]\nname = \"a\"\n{fields}\n{}", all("dtcp"));
    check(&with("netns = \"ldk_none\"\nuse = \"bbr\""), "no network namespace \"ldk_none\"");
    check(&with("remote_port = 1\nuse = \"dtcq\""), "rule.use = \"dtcq\": unknown algorithm");
    check(&with("remote_port = 0\nuse = \"bbr\""), "expected a port from 1 to 65535");
    check("", "expected 1 to 64 rules");
    assert!(!is_available("dtcp"), "an algorithm that was loaded for a refused file is unloaded");
}

fn start(lab: &PolicyLab, name: &str, algorithm: &str) -> Owned {
    let file = lab.file(name, &format!("version = 1\n{}", all(algorithm)));
    begin(tccc().args(["policy", "apply", "--accept-risk"]).arg(file))
}

/// Both load algorithms. One loads an algorithm that the other needs as well.
#[test]
fn two_applies_at_once_run_one_after_another() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    for (round, [one, other]) in
        [["dtcp", "dtcp"], ["dtcp", "tahoe"], ["cubic", "tahoe"]].into_iter().cycle().take(9).enumerate()
    {
        let both = [start(lab, "one.toml", one), start(lab, "other.toml", other)];
        both.into_iter().for_each(|child| drop(end(0, child)));
        let shown = show();
        let winner = if shown["file"].as_str().unwrap().contains("other.toml") { other } else { one };
        lab.assert_given(winner, &format!("round {round}"));
        assert_eq!(shown["drift"].as_array().map(Vec::len), Some(0), "{shown}");
        let is_unneeded = |name: &&str| is_available(name) && *name != winner;
        assert!(!["dtcp", "tahoe"].iter().any(is_unneeded), "round {round}: an algorithm that no rule names is left");
    }
}

/// The last command wins. An algorithm that was loaded for a removed policy is unloaded.
#[test]
fn apply_and_remove_at_once_leave_the_result_of_one() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    for round in 0..6 {
        lab.apply(&all("cubic"));
        let applying = start(lab, "one.toml", "dtcp");
        let removing = begin(tccc().args(["policy", "remove"]));
        [applying, removing].into_iter().for_each(|child| drop(end(0, child)));
        let decides = show()["generation"].is_u64();
        let expected = if decides { "dtcp" } else { "reno" };
        lab.assert_given(expected, &format!("round {round}"));
        assert_eq!(is_available("dtcp"), decides, "round {round}");
    }
}

#[test]
fn dry_runs_and_queries_change_nothing() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let nothing = state::lines();
    let said = stdout(&lab.policy(0, "apply --dry-run --live", &all("dtcp")));
    let expected = ["load \"dtcp\"", "write the record /run/tccc/policy/record.json", "attach a policy at the cgroup "];
    assert!(expected.iter().all(|line| said.contains(&format!("\n  {line}"))), "{said}");
    assert!(said.ends_with("\n  change the algorithm of open connections\n"), "{said}");
    lab.policy(0, "check", &all("dtcp"));
    lab.policy(2, "apply --dry-run", &format!("{}netns = \"ldk_none\"\n", all("cubic")))
        .stderr_has("no network namespace \"ldk_none\"");
    for verb in ["policy show", "policy remove --dry-run", "policy remove"] {
        assert_eq!(run(0, verb).stdout(), "there is no policy\n");
    }
    assert_eq!(run(0, "policy show -o toml").stdout(), "");
    assert!(show()["policy"].is_null());
    assert_eq!(state::lines(), nothing);
    assert_nothing_left();

    lab.apply(&all("dtcp"));
    let applied = state::lines();
    lab.policy(0, "apply --dry-run", &all("bbr")).stdout_has("\n  replace generation 1 of the policy at the cgroup ");
    let said = stdout(&run(0, "policy remove --dry-run --live"));
    for line in ["give open connections back", "detach the policy and remove the pins in", "unload \"dtcp\""] {
        assert!(said.contains(&format!("\n  {line}")), "{said}");
    }
    run(0, "unload --all --dry-run").stdout_has("detach the policy");
    assert_eq!(lab.policy(0, "diff", &all("dtcp")).stdout, b"");
    lab.policy(1, "diff --exit-code", &all("bbr")).stdout_has("\n-use = \"dtcp\"\n+use = \"bbr\"\n");
    let toml = stdout(&run(0, "policy show -o toml"));
    assert_eq!(lab.policy(0, "diff", toml.strip_prefix("version = 1\n").unwrap()).stdout, b"");
    assert_eq!(state::lines(), applied);
    assert_eq!(show()["generation"], 1);
    run(0, "unload --all");
    assert_eq!(state::lines(), nothing);
}
