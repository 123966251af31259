//! Programs, listeners and routes that choose an algorithm themselves, and rules whose algorithm is missing.

use super::*;

/// Other connections of this host, such as those of the host ring, would be counted too.
const RULE: &str = "[[rule]]\nname = \"only\"\nnetns = \"ldk_lab\"\nuse = \"cubic\"\n";

fn counted(what: &str) -> u64 {
    count(&show(), 0, 0, what)
}

#[test]
fn choice_of_a_program_is_respected_unless_the_rule_overrides_it() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let plain = Endpoints::loopback();
    let by_client = Endpoints { client: Some("bbr"), ..plain.clone() };
    let by_listener = Endpoints { listener: Some("bbr"), ..plain.clone() };
    let by_both = Endpoints { client: Some("reno"), ..by_listener.clone() };
    lab.apply(RULE);
    assert_eq!(lab.pair(&by_client).algorithms(), ["bbr", "cubic"]);
    assert_eq!(lab.pair(&by_listener).algorithms(), ["cubic", "bbr"], "accepted sockets inherit the listener's choice");
    assert_eq!(lab.pair(&by_both).algorithms(), ["reno", "bbr"], "even a choice of the default");
    assert_eq!((counted("chosen"), counted("set")), (4, 2));
    lab.apply(&format!("{RULE}override = true\n"));
    for ends in [&by_client, &by_listener, &by_both] {
        assert_eq!(lab.pair(ends).algorithms(), ["cubic", "cubic"], "{ends:?}");
    }
    assert_eq!((counted("chosen"), counted("set")), (0, 6));
    // A rule by `current` matches what the program chose.
    let of_bbr = "[[rule]]\nname = \"only\"\ncurrent = \"bbr\"\noverride = true\nuse = \"cubic\"\n";
    lab.apply(of_bbr);
    assert_eq!(lab.pair(&by_listener).algorithms(), ["reno", "cubic"]);
    assert_eq!(lab.pair(&by_client).algorithms(), ["cubic", "reno"]);
    // A rule does not override a choice that follows the handshake.
    lab.apply(&format!("{RULE}override = true\n"));
    let mut pair = lab.plain();
    choose(&pair.client, "bbr").unwrap();
    pair.exchange(100_000);
    assert_eq!(pair.algorithms(), ["bbr", "cubic"]);
}

#[test]
fn route_is_overridden_and_reported_unless_it_locks() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let local = "route add table local local 127.77.0.0/16 dev lo src 127.0.0.1";
    lab.ip(&format!("{local} congctl bbr"));
    lab.ip(&format!("{} congctl lock bbr", local.replace("77", "78")));
    let [routed, locked] = ["127.77.0.1", "127.78.0.1"].map(|to| Endpoints::new("127.0.0.1", to));
    for ends in [&routed, &locked] {
        assert_eq!(lab.pair(ends).algorithms(), ["bbr", "reno"], "routes without a policy");
    }
    lab.apply(RULE);
    assert_eq!(lab.pair(&routed).algorithms(), ["cubic", "cubic"]);
    assert_eq!((counted("set"), counted("over_route")), (2, 1));
    let mut pair = lab.pair(&locked);
    pair.exchange(100_000);
    assert_eq!(pair.algorithms(), ["bbr", "cubic"]);
    assert_eq!((counted("locked"), counted("set"), counted("over_route")), (1, 3, 1));
    run(0, "policy show")
        .stdout_has("\n1 connections got another algorithm than the one their route names")
        .stdout_has("\n1 connections were refused: their route locks the algorithm");
}

/// The rule's algorithm is unregistered while the policy decides. Connections keep the default and are counted.
#[test]
fn missing_algorithm_is_counted_and_harms_no_connection() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    run(0, "load dtcp --as ldk_gone");
    let rule = RULE.replace("cubic", "ldk_gone");
    lab.apply(&rule);
    lab.assert_given("ldk_gone", "");
    run(1, "unload ldk_gone").stderr_has("cannot unload \"ldk_gone\": rule \"only\" of the policy gives it");
    run(1, "unload ldk_gone --dry-run").stderr_has("rule \"only\" of the policy gives it to connections");
    // Has the effect of another tool, or of a crash of the process that holds the registration.
    std::fs::remove_file("/sys/fs/bpf/tccc/links/ldk_gone").unwrap();
    poll_until(SOON, "the name is unregistered", || !is_available("ldk_gone"));
    let mut pair = lab.plain();
    pair.exchange(1 << 20);
    assert_eq!(pair.algorithms(), ["reno", "reno"]);
    assert_eq!((counted("missing"), counted("set")), (2, 2));
    run(0, "policy show")
        .stderr_has("gives \"ldk_gone\", which is no longer registered")
        .stdout_has("\n2 connections were refused: the rule's algorithm was not registered");
    run(0, "status").stdout_has("policy: a rule of the policy gives \"ldk_gone\"");
    remove();
    run(0, "unload ldk_gone");
}

/// A policy loads the algorithms of its rules that are not registered, and unloads them again.
#[test]
fn algorithms_of_rules_are_loaded_and_unloaded_with_the_policy() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let two = "[[rule]]\nname = \"a\"\ndirection = \"in\"\nuse = \"dtcp\"\n[[rule]]\nname = \"b\"\nuse = \"tahoe\"\n";
    lab.policy(0, "check", two).stdout_has("would load \"dtcp\"").stdout_has("would load \"tahoe\"");
    let said = stdout(&lab.apply(two));
    assert!(said.starts_with("\"dtcp\" loaded\n\"tahoe\" loaded\npolicy generation 1: 2 rules at"), "{said}");
    assert_eq!(lab.plain().algorithms(), ["tahoe", "dtcp"]);
    lab.apply("[[rule]]\nname = \"b\"\nuse = \"tahoe\"\n").stdout_has("\"dtcp\" unloaded: no rule names it now");
    lab.assert_given("tahoe", "after the swap");
    lab.policy(2, "apply", "[[rule]]\nname = \"b\"\nuse = \"tahoo\"\n")
        .stderr_has("policy.toml:4: rule.use = \"tahoo\": unknown algorithm")
        .stderr_has("did you mean \"tahoe\"?")
        .stderr_has("`modprobe tcp_tahoo`");
    lab.apply("[[rule]]\nname = \"p\"\nuse = \"fast\"\n").stderr_has("note: \"fast\" is patented, for research only: ");
    // An algorithm that was loaded before the policy stays.
    run(0, "load bpf_veno");
    lab.apply("[[rule]]\nname = \"v\"\nuse = \"bpf_veno\"\n");
    assert_eq!(stdout(&remove()), "the policy is removed\n");
    assert_eq!(status().len(), 1);
    run(0, "unload bpf_veno");
}
