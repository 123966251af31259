//! `--live`: open connections get the algorithm of the rules, and get their earlier algorithm back.

use super::*;

/// A rule for the lab's namespace only, because a sweep visits all namespaces of the host.
fn rule(use_: &str) -> String {
    format!("[[rule]]\nname = \"lab\"\nnetns = \"ldk_lab\"\n{use_}\n")
}

fn pairs(lab: &PolicyLab, count: usize) -> Vec<SocketPair> {
    (0..count).map(|_| lab.plain()).collect()
}

/// Open connections that a command saw, moved, found moved already, and left alone because a program chose.
#[track_caller]
fn moves(said: &CommandOutput) -> [u64; 4] {
    let said = said.stdout();
    let line = said.lines().find(|line| line.starts_with("open connections: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(!said.contains("refused to move"), "{said}");
    let numbers: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{line}"))
}

#[track_caller]
fn assert_all_have(pairs: &[SocketPair], names: [&str; 2]) {
    pairs.iter().for_each(|pair| assert_eq!(pair.algorithms(), names));
}

#[test]
fn live_apply_moves_open_connections_once_and_live_remove_moves_them_back() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let mut pairs = pairs(lab, 50);
    let mut chosen = lab.pair(&Endpoints { client: Some("bbr"), ..Endpoints::loopback() });
    choose(&chosen.server, "reno").unwrap();
    lab.policy(0, "apply", &rule("use = \"cubic\""))
        .stderr_has("open connections keep their algorithm; `--live` moves them too");
    assert_all_have(&pairs, ["reno", "reno"]);
    let live = |rules: &str| moves(&lab.policy(0, "apply --live", rules));
    let [seen, moved, had, left] = live(&rule("use = \"cubic\""));
    assert!(seen >= 102, "{seen}");
    assert_eq!((moved, had, left), (100, 0, 2));
    assert_all_have(&pairs, ["cubic", "cubic"]);
    assert_eq!(chosen.algorithms(), ["bbr", "reno"]);
    pairs.iter_mut().take(5).for_each(|pair| pair.exchange(200_000));
    let [_, moved, had, _] = live(&rule("use = \"cubic\""));
    assert_eq!((moved, had), (0, 100), "a second sweep sets nothing");
    let [_, moved, ..] = live(&rule("use = \"bbr\""));
    assert_eq!(moved, 100);
    let [_, moved, ..] = live(&rule("use = \"keep\""));
    assert_eq!(moved, 100, "a rule that keeps restores the earlier algorithm");
    assert_all_have(&pairs, ["reno", "reno"]);
    live(&format!("{}override = true\n", rule("use = \"cubic\"")));
    assert_eq!(chosen.algorithms(), ["cubic", "cubic"]);
    choose(&chosen.client, "reno").unwrap(); // the program changes its mind
    let [_, moved, ..] = moves(&run(0, "policy remove --live"));
    assert_eq!(moved, 101);
    assert_all_have(&pairs, ["reno", "reno"]);
    assert_eq!(chosen.algorithms(), ["reno", "reno"]);
    pairs.iter_mut().take(5).for_each(|pair| pair.exchange(200_000));
    chosen.exchange(200_000);
}

/// A service with long connections once looked unused: it had 0 connections for ever.
#[test]
fn open_connections_that_are_older_than_their_rule_are_counted() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let before = pairs(lab, 10);
    let chosen = lab.pair(&Endpoints { client: Some("bbr"), listener: Some("bbr"), ..Endpoints::loopback() });
    let older = |number: u64| {
        assert_eq!(
            [&show()["older"], &crate::lab::trial::status()["policy"]["older"]],
            [&serde_json::json!({ "lab": number }); 2]
        );
        let line = format!(
            "rule \"lab\": {number} open connections are older than this policy and keep their algorithm; \
             `tccc policy apply --live` moves open connections"
        );
        for verb in ["status", "policy show"] {
            let said = run(0, verb).stdout();
            assert!(if number == 0 { !said.contains("older than") } else { said.contains(&line) }, "{said}");
        }
    };
    let use_cubic = rule("use = \"cubic\"");
    lab.apply(&use_cubic);
    older(20);
    let after = pairs(lab, 3);
    older(20);
    lab.policy(0, "apply --live", &use_cubic);
    older(0);
    assert_all_have(&before, ["cubic", "cubic"]);
    choose(&after[0].client, "reno").unwrap(); // the program's choice is not for the rule
    older(0);
    lab.policy(0, "apply", &rule("split = { bbr = 50, keep = 50 }"));
    let bbr = show()["older"]["lab"].as_u64().unwrap();
    let [_, moved, ..] = moves(&lab.policy(0, "apply --live", &rule("split = { bbr = 50, cubic = 50 }")));
    assert_eq!(bbr, moved, "those that the rule would move");
    older(0);
    drop(chosen);
    run(0, "policy remove --live");
}

/// Both new connections and moved ones get the algorithm that they would have had.
#[test]
fn live_remove_restores_the_algorithm_of_each_connection() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let route = "route add table local local 127.77.0.0/16 dev lo src 127.0.0.1 congctl bbr";
    lab.ip(route);
    let before = lab.pair(&Endpoints::new("127.0.0.1", "127.77.0.1"));
    lab.policy(0, "apply --live", &rule("use = \"cubic\""));
    let after = lab.pair(&Endpoints::new("127.0.0.1", "127.77.0.1"));
    assert_eq!([before.algorithms(), after.algorithms()], [["cubic", "cubic"]; 2]);
    let listening = lab.pair(&Endpoints { listener: Some("bbr"), ..Endpoints::new("127.0.0.1", "127.0.0.1") });
    assert_eq!(listening.algorithms(), ["cubic", "bbr"]);
    run(0, "policy remove --live");
    assert_eq!([before.algorithms(), after.algorithms()], [["bbr", "reno"]; 2]);
    assert_eq!(listening.algorithms(), ["reno", "bbr"]);
}

/// BBR's pacing rate once stayed at the socket and slowed the next algorithm down forever.
#[test]
fn connection_that_leaves_bbr_is_no_longer_paced() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.apply(&rule("use = \"bbr\""));
    let [mut free, mut limited] = [lab.plain(), lab.plain()];
    const LIMIT: u64 = 5_000_000;
    limit_pacing(&limited.client, LIMIT);
    for pair in [&mut free, &mut limited] {
        assert_eq!(pair.algorithms()[0], "bbr");
        pair.exchange(300_000);
    }
    assert!(tcp_info(&free.client).tcpi_pacing_rate < u64::MAX);
    lab.policy(0, "apply --live", &rule("use = \"cubic\""));
    assert_eq!(free.algorithms(), ["cubic", "cubic"]);
    assert_eq!(tcp_info(&free.client).tcpi_pacing_rate, u64::MAX, "bbr's rate is gone");
    let info = tcp_info(&limited.client);
    assert_eq!(info.tcpi_max_pacing_rate, LIMIT, "the program's limit stays");
    assert!(info.tcpi_pacing_rate <= LIMIT, "{}", info.tcpi_pacing_rate);
    free.exchange(1 << 20);
    limited.exchange(300_000);
}

#[test]
fn half_of_the_open_connections_move_with_a_split() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let pairs = pairs(lab, 300);
    let split = rule("split = { cubic = 50, keep = 50 }");
    let [_, moved, ..] = moves(&lab.policy(0, "apply --live", &split));
    let ends: Vec<String> = pairs.iter().flat_map(SocketPair::algorithms).collect();
    let cubic = ends.iter().filter(|name| *name == "cubic").count();
    assert_eq!(moved as usize, cubic);
    assert!((230..370).contains(&cubic), "{cubic} of 600 at 50 %");
    let [_, moved, ..] = moves(&run(0, "policy remove --live"));
    assert_eq!(moved as usize, cubic);
    assert_all_have(&pairs, ["reno", "reno"]);
}

/// A rule with `current` no longer matched the connections that it had moved. The sweep moved them back, and said "moved".
#[test]
fn rule_by_current_algorithm_moves_each_connection_once() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let pairs = pairs(lab, 20);
    for more in ["", "override = true\n"] {
        let rules = rule(&format!("current = \"reno\"\n{more}use = \"cubic\""));
        let [_, moved, had, _] = moves(&lab.policy(0, "apply --live", &rules));
        assert_eq!((moved, had), (40, 0), "{more}");
        assert_all_have(&pairs, ["cubic", "cubic"]);
        let [_, moved, had, _] = moves(&lab.policy(0, "apply --live", &rules));
        assert_eq!((moved, had), (0, 40), "{more}: a second time");
        assert_all_have(&pairs, ["cubic", "cubic"]);
        let client = &pairs[0].client;
        let words = format!("explain {}:{} -o json", std::process::id(), client.as_raw_fd());
        assert_eq!(run(0, &words).json()["connections"][0]["now"]["rule"], "lab", "explain agrees with the kernel");
        let [_, moved, ..] = moves(&run(0, "policy remove --live"));
        assert_eq!(moved, 40, "{more}");
        assert_all_have(&pairs, ["reno", "reno"]);
    }
    // The connections are Reno's without a policy, so a rule for Cubic's is not for them.
    lab.policy(0, "apply --live", &rule("use = \"cubic\""));
    let [_, moved, ..] = moves(&lab.policy(0, "apply --live", &rule("current = \"cubic\"\nuse = \"bbr\"")));
    assert_eq!(moved, 40, "they get back the algorithm that they had");
    assert_all_have(&pairs, ["reno", "reno"]);
}

/// The kernel notes a choice for each connection that a policy moves. Taken back, it counted as the choice of its program.
#[test]
fn connections_that_were_taken_back_are_moved_again() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let before = pairs(lab, 10);
    let use_cubic = rule("use = \"cubic\"");
    let live = |rules: &str| moves(&lab.policy(0, "apply --live", rules));
    let taken_back: [(&str, &dyn Fn()); 2] = [
        ("by a rule that keeps", &|| _ = live(&rule("use = \"keep\""))),
        ("by the end of the policy", &|| _ = run(0, "policy remove --live")),
    ];
    live(&use_cubic);
    let decided = pairs(lab, 10);
    let all: Vec<&SocketPair> = before.iter().chain(&decided).collect();
    let assert_have = |names: [&str; 2]| all.iter().for_each(|pair| assert_eq!(pair.algorithms(), names));
    for (how, take_back) in taken_back {
        take_back();
        assert_have(["reno", "reno"]);
        let [_, moved, had, left] = live(&use_cubic);
        assert_eq!((moved, had, left), (40, 0, 0), "{how}");
        assert_have(["cubic", "cubic"]);
    }
    run(0, "policy remove --live");
    run(0, "status").stdout_has("labels of open connections that it changed are kept for the next policy");
    run(0, "policy remove --live --dry-run").stdout_has("give open connections back the algorithm that they had");
    let again = run(0, "policy remove --live");
    again.stdout_has("there is no policy; connections that an earlier one changed get back what they had");
    assert_eq!(moves(&again)[1], 0, "they have it already");
    assert_eq!(run(0, "policy remove").stdout(), "there is no policy\n");
    assert!(!Path::new("/sys/fs/bpf/tccc/policy").exists() && !Path::new("/run/tccc/policy").exists());
    let [_, moved, _, left] = live(&use_cubic);
    assert_eq!((moved, left), (0, 40), "`policy remove` alone forgets them, as its help says");
    choose(&before[0].client, "reno").unwrap();
    run(0, "policy remove --live");
}

/// The pinned maps of another version of tccc are replaced, not read.
#[test]
fn policy_of_another_version_of_tccc_is_replaced_and_never_read() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    const OTHER: &str = "/sys/fs/bpf/tccc/policy/v1";
    let becomes_other = || fs::rename("/sys/fs/bpf/tccc/policy/v2", OTHER).unwrap();
    let use_cubic = rule("use = \"cubic\"");
    lab.apply(&use_cubic);
    let pair = lab.plain();
    becomes_other();
    run(0, "status").stdout_has("policy: another version of tccc applied it, and its maps cannot be read");
    assert!(show()["counts"].is_null());
    lab.assert_given("cubic", "its program still decides");
    let [_, moved, _, left] = moves(lab.policy(0, "apply --live", &rule("use = \"bbr\"")).stderr_has(
        "another version of tccc applied the policy before: connections that it changed now count as chosen",
    ));
    assert_eq!((moved, left), (0, 2), "{:?}", pair.algorithms());
    lab.assert_given("bbr", "the new policy decides");
    assert!(!Path::new(OTHER).exists() && !show()["counts"].is_null());
    assert_eq!(show()["drift"].as_array().unwrap().len(), 0);
    becomes_other();
    let words = format!("explain {}:{}", std::process::id(), pair.client.as_raw_fd());
    run(1, &words).stderr_has("another version of tccc applied the policy, and its maps cannot be read");
    run(0, "policy remove --live").stdout_has("the policy is removed");
    assert!(!Path::new("/sys/fs/bpf/tccc/policy").exists());
    lab.assert_given("reno", "nothing decides");
    lab.apply(&use_cubic).stderr_lacks("another version");
}
