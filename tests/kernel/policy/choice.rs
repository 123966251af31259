//! Who else chooses an algorithm: programs, listeners, routes; and algorithms that are gone.

use crate::common::{host_has, poll_until};
use crate::lab::policy::pair::choose;
use crate::lab::policy::{Ends, Lab, SOON, count, remove, show, with_lab};
use crate::lab::sandbox::{available, run, status, stdout};

const RULE: &str = "[[rule]]\nname = \"only\"\nuse = \"cubic\"\n";

/// What an arm counted, where it is not 0.
fn counted(what: &str) -> u64 {
    count(&show(), 0, 0, what)
}

fn algorithms(lab: &Lab, ends: &Ends) -> [String; 2] {
    lab.pair(ends).algorithms()
}

#[test]
fn choice_of_a_program_is_respected_unless_the_rule_overrides_it() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        let plain = Ends::new("127.0.0.1", "127.0.0.2");
        let by_client = Ends { client: Some("bbr"), ..plain.clone() };
        let by_listener = Ends { listener: Some("bbr"), ..plain.clone() };
        let by_both = Ends { client: Some("reno"), ..by_listener.clone() };
        lab.apply(RULE);
        assert_eq!(algorithms(lab, &by_client), ["bbr", "cubic"]);
        assert_eq!(algorithms(lab, &by_listener), ["cubic", "bbr"], "accepted sockets inherit the choice");
        assert_eq!(algorithms(lab, &by_both), ["reno", "bbr"], "also the choice of the default");
        assert_eq!((counted("chosen"), counted("set")), (4, 2));
        lab.apply(&format!("{RULE}override = true\n"));
        for ends in [&by_client, &by_listener, &by_both] {
            assert_eq!(algorithms(lab, ends), ["cubic", "cubic"], "{ends:?}");
        }
        assert_eq!((counted("chosen"), counted("set")), (0, 6));
        // `keep` keeps what a program chose too, and `current` sees it.
        let of_bbr = "[[rule]]\nname = \"only\"\ncurrent = \"bbr\"\noverride = true\nuse = \"cubic\"\n";
        lab.apply(of_bbr);
        assert_eq!(algorithms(lab, &by_listener), ["reno", "cubic"]);
        assert_eq!(algorithms(lab, &by_client), ["cubic", "reno"]);
    });
}

/// A choice after the connection was established is the program's last word.
#[test]
fn later_choice_of_a_program_stays() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        lab.apply(&format!("{RULE}override = true\n"));
        let mut pair = lab.pair(&Ends::new("127.0.0.1", "127.0.0.2"));
        choose(&pair.client, "bbr").unwrap();
        pair.exchange(100_000);
        assert_eq!(pair.algorithms(), ["bbr", "cubic"]);
    });
}

#[test]
fn route_is_overridden_and_reported_unless_it_locks() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        let local = "route add table local local 127.77.0.0/16 dev lo src 127.0.0.1";
        lab.ip(&format!("{local} congctl bbr"));
        lab.ip(&format!("{} congctl lock bbr", local.replace("77", "78")));
        let [routed, locked] = ["127.77.0.1", "127.78.0.1"].map(|to| Ends::new("127.0.0.1", to));
        for ends in [&routed, &locked] {
            assert_eq!(algorithms(lab, ends), ["bbr", "reno"], "what routes do without a policy");
        }
        lab.apply(RULE);
        assert_eq!(algorithms(lab, &routed), ["cubic", "cubic"]);
        assert_eq!((counted("set"), counted("over_route")), (2, 1));
        let mut pair = lab.pair(&locked);
        pair.exchange(100_000);
        assert_eq!(pair.algorithms(), ["bbr", "cubic"]);
        assert_eq!((counted("locked"), counted("set"), counted("over_route")), (1, 3, 1));
        run(0, "policy show")
            .stdout_has("\n1 connections got another algorithm than their route names")
            .stdout_has("\n1 connections were refused: their route locks the algorithm");
    });
}

/// The rule's algorithm goes while the policy decides: connections keep what they have, and are counted.
#[test]
fn missing_algorithm_is_counted_and_harms_no_connection() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        run(0, "load dtcp --as ldk_gone");
        let rule = RULE.replace("cubic", "ldk_gone");
        lab.apply(&rule);
        let plain = Ends::new("127.0.0.1", "127.0.0.2");
        assert_eq!(algorithms(lab, &plain), ["ldk_gone", "ldk_gone"]);
        run(1, "unload ldk_gone").stderr_has("cannot unload \"ldk_gone\": rule \"only\" of the policy gives it");
        run(1, "unload ldk_gone --dry-run").stderr_has("rule \"only\" of the policy gives it to connections");
        // As a crash of whoever held it, or another tool, would do it.
        std::fs::remove_file("/sys/fs/bpf/tccc/links/ldk_gone").unwrap();
        poll_until(SOON, "it is unregistered", || !available().contains(&"ldk_gone".to_owned()));
        let mut pair = lab.pair(&plain);
        pair.exchange(1 << 20);
        assert_eq!(pair.algorithms(), ["reno", "reno"]);
        assert_eq!((counted("missing"), counted("set")), (2, 2));
        run(0, "policy show")
            .stderr_has("gives \"ldk_gone\", which is no longer registered")
            .stdout_has("\n2 connections were refused: the rule's algorithm was not registered");
        run(0, "status").stdout_has("policy: a rule of the policy gives \"ldk_gone\"");
        remove();
        run(0, "unload ldk_gone");
    });
}

/// What a rule names and nobody registered is loaded with the policy and goes with it.
#[test]
fn algorithms_of_rules_come_and_go_with_the_policy() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        let two =
            "[[rule]]\nname = \"a\"\ndirection = \"in\"\nuse = \"dtcp\"\n[[rule]]\nname = \"b\"\nuse = \"tahoe\"\n";
        lab.policy(0, "check", two).stdout_has("would load \"dtcp\"").stdout_has("would load \"tahoe\"");
        let said = stdout(&lab.apply(two));
        assert!(said.starts_with("\"dtcp\" loaded\n\"tahoe\" loaded\npolicy generation 1: 2 rules at"), "{said}");
        assert_eq!(lab.algorithms("127.0.0.1", "127.0.0.2"), ["tahoe", "dtcp"]);
        lab.apply("[[rule]]\nname = \"b\"\nuse = \"tahoe\"\n").stdout_has("\"dtcp\" unloaded: no rule names it now");
        assert_eq!(lab.algorithms("127.0.0.1", "127.0.0.2"), ["tahoe", "tahoe"]);
        lab.policy(2, "apply", "[[rule]]\nname = \"b\"\nuse = \"tahoo\"\n")
            .stderr_has("policy.toml: rule \"b\", line 2: use: unknown algorithm \"tahoo\"")
            .stderr_has("did you mean \"tahoe\"?")
            .stderr_has("`modprobe tcp_tahoo`");
        lab.apply("[[rule]]\nname = \"p\"\nuse = \"fast\"\n")
            .stderr_has("note: \"fast\" is patented, for research alone: ");
        // One that a person loaded stays.
        run(0, "load bpf_veno");
        lab.apply("[[rule]]\nname = \"v\"\nuse = \"bpf_veno\"\n");
        assert_eq!(stdout(&remove()), "the policy is removed\n");
        assert_eq!(status().len(), 1);
        run(0, "unload bpf_veno");
    });
}
