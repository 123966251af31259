//! One generation takes the place of another: between two connections, whole or not at all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tccc::policy::change;
use tccc::policy::file;
use tccc::policy::generation::GenerationRole;

use crate::common::{Owned, begin, host_has, poll_until, state, tccc};
use crate::lab::policy::pair::{address, join, listen_at};
use crate::lab::policy::traffic::Traffic;
use crate::lab::policy::{Ends, Lab, SOON, all, programs, show, with_lab};
use crate::lab::sandbox::{assert_nothing_left, available, run, stderr, stdout};

const SWAPS: u32 = 210;
/// After every sixteen connections, so that the swaps get the processors too.
const PAUSE: Duration = Duration::from_millis(8);

/// Connections one after another until told to end; how many, each with one of these algorithms at both ends.
fn connect_until(lab: &Lab, stops: &AtomicBool, allowed: &[&str]) -> u64 {
    let mut made = 0;
    lab.inside(|| {
        let listener = listen_at(address("127.0.0.1"), false, None);
        while !stops.load(Ordering::Relaxed) {
            let mut pair = join(address("127.0.0.1"), &listener);
            let names = pair.algorithms();
            assert!(names.iter().all(|name| allowed.contains(&name.as_str())), "connection {made}: {names:?}");
            if made % 16 == 0 {
                pair.exchange(1000);
                std::thread::sleep(PAUSE); // the pace of the load, not a wait for a condition
            }
            made += 1;
        }
    });
    made
}

#[test]
fn connections_under_two_hundred_swaps_are_all_decided_and_none_is_reset() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        let policies = ["cubic", "bbr"].map(|name| {
            let rule = format!("[[rule]]\nname = \"lab\"\nnetns = \"ldk_lab\"\nuse = \"{name}\"\n");
            file::parse("swap.toml", &format!("version = 1\n{rule}")).unwrap()
        });
        let apply = |policy| change::apply(policy, None, GenerationRole::Permanent, false).unwrap();
        apply(&policies[0]);
        let open = (0..40).map(|_| lab.pair(&Ends::new("127.0.0.1", "127.0.0.2"))).collect();
        let traffic = Traffic::begin(open);
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
        pairs.iter().for_each(|pair| assert_eq!(pair.algorithms(), ["cubic", "cubic"], "open ones keep theirs"));
        assert_eq!(show()["generation"], SWAPS + 1);
        poll_until(SOON, "only one generation is left", || programs() <= programs_before);
    });
}

#[test]
fn policy_that_cannot_be_applied_leaves_the_one_before() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply(&all("cubic"));
        let plain = Ends::new("127.0.0.1", "127.0.0.2");
        let check = |code: i32, rules: &str, says: &str| {
            let before = state::lines();
            lab.policy(code, "apply", rules).stderr_has(says);
            assert_eq!(state::lines(), before);
            assert_eq!(lab.pair(&plain).algorithms(), ["cubic", "cubic"]);
            assert_eq!(show()["generation"], 1);
        };
        let with = |text: &str| format!("{}[[rule]]\nname = \"last\"\nuse = \"dtcp\"\n", text);
        check(
            2,
            &with("[[rule]]\nname = \"a\"\nnetns = \"ldk_none\"\nuse = \"bbr\"\n"),
            "no network namespace \"ldk_none\"",
        );
        check(2, &with("[[rule]]\nname = \"a\"\nremote_port = 1\nuse = \"dtcq\"\n"), "unknown algorithm \"dtcq\"");
        check(2, &with("[[rule]]\nname = \"a\"\nremote_port = 0\nuse = \"bbr\"\n"), "expected a port from 1 to 65535");
        check(2, "", "expected 1 to 64 rules");
        assert!(!available().contains(&"dtcp".to_owned()), "what was loaded for a refused file is unloaded");
    });
}

fn start(lab: &Lab, name: &str, algorithm: &str) -> Owned {
    let file = lab.file(name, &format!("version = 1\n{}", all(algorithm)));
    begin(tccc().args(["policy", "apply", "--accept-risk"]).arg(file))
}

/// Both load what they name, and one of them loads what the other names as well.
#[test]
fn two_that_apply_at_once_come_one_after_another() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for (round, [one, other]) in
            [["dtcp", "dtcp"], ["dtcp", "tahoe"], ["cubic", "tahoe"]].into_iter().cycle().take(9).enumerate()
        {
            let both = [start(lab, "one.toml", one), start(lab, "other.toml", other)];
            for child in both {
                let output = child.output();
                assert!(output.status.success(), "{one} and {other}: {}", stderr(&output));
            }
            let shown = show();
            let winner = if shown["file"].as_str().unwrap().contains("other.toml") { other } else { one };
            assert_eq!(lab.algorithms("127.0.0.1", "127.0.0.2"), [winner, winner], "round {round}");
            assert_eq!(shown["drift"].as_array().map(Vec::len), Some(0), "{shown}");
            let unneeded: Vec<String> =
                available().into_iter().filter(|name| (name == "dtcp" || name == "tahoe") && name != winner).collect();
            assert!(unneeded.is_empty(), "round {round}: {unneeded:?} is named by no rule");
        }
    });
}

/// Whoever comes last decides; what was loaded for a policy that is gone goes with it.
#[test]
fn apply_and_remove_at_once_leave_one_of_both() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        for round in 0..6 {
            lab.apply(&all("cubic"));
            let applying = start(lab, "one.toml", "dtcp");
            let removing = begin(tccc().args(["policy", "remove"]));
            for child in [applying, removing] {
                let output = child.output();
                assert!(output.status.success(), "round {round}: {}", stderr(&output));
            }
            let decides = show()["generation"].is_u64();
            let expected = if decides { "dtcp" } else { "reno" };
            assert_eq!(lab.algorithms("127.0.0.1", "127.0.0.2"), [expected, expected], "round {round}");
            assert_eq!(available().contains(&"dtcp".to_owned()), decides, "round {round}");
        }
    });
}

#[test]
fn dry_runs_and_looks_change_nothing() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let nothing = state::lines();
        let said = stdout(&lab.policy(0, "apply --dry-run --live", &all("dtcp")));
        let expected =
            ["load \"dtcp\"", "write the record /run/tccc/policy/record.json", "attach a policy at the cgroup "];
        assert!(expected.iter().all(|line| said.contains(&format!("\n  {line}"))), "{said}");
        assert!(said.ends_with("\n  change the algorithm of open connections\n"), "{said}");
        lab.policy(0, "check", &all("dtcp"));
        lab.policy(2, "apply --dry-run", &format!("{}netns = \"ldk_none\"\n", all("cubic")))
            .stderr_has("no network namespace \"ldk_none\"");
        assert_eq!(stdout(&run(0, "policy show")), "there is no policy\n");
        assert_eq!(stdout(&run(0, "policy show -o toml")), "");
        assert!(show()["policy"].is_null());
        assert_eq!(stdout(&run(0, "policy remove --dry-run")), "there is no policy\n");
        assert_eq!(stdout(&run(0, "policy remove")), "there is no policy\n");
        assert_eq!(state::lines(), nothing);
        assert_nothing_left();

        lab.apply(&all("dtcp"));
        let applied = state::lines();
        lab.policy(0, "apply --dry-run", &all("bbr"))
            .stdout_has("\n  replace generation 1 of the policy at the cgroup ");
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
    });
}
