//! `tccc explain`: which rule decided an open connection, and which would decide another one.

use super::*;

const RULES: &str = include_str!("../../fixtures/policies/explained.toml");

#[track_caller]
fn explain(words: &str) -> Vec<Value> {
    let document: Value = run(0, &format!("explain {words} -o json")).json();
    assert_eq!(document["schema"], 1);
    document["connections"].as_array().unwrap().clone()
}

fn by<'a>(connection: &'a Value, what: &str) -> [&'a str; 2] {
    [connection[what]["rule"].as_str().unwrap_or("-"), connection[what]["arm"].as_str().unwrap_or("-")]
}

fn passed_over(connection: &Value) -> Vec<String> {
    let over = connection["now"]["passed_over"].as_array().unwrap();
    over.iter().map(|it| format!("{} {}", it["rule"].as_str().unwrap(), it["because"].as_str().unwrap())).collect()
}

#[test]
fn open_connection_is_explained_by_process_descriptor_and_ends() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let early = lab.pair(&Endpoints::new("127.0.0.1", "127.0.0.7"));
    lab.apply(RULES);
    let pair = lab.pair(&Endpoints::new("127.0.0.1", "127.0.0.2:4433"));
    let group = TestCgroup::create("/ldk_tccc.service/inner");
    let served = group.inside(|| lab.pair(&Endpoints { client: Some("reno"), ..Endpoints::new("::1", "::1") }));
    let pid = std::process::id();
    assert_eq!(explain(&pid.to_string()).len(), 6);

    let [client] = &explain(&format!("{pid}:{}", pair.client.as_raw_fd()))[..] else { panic!("one connection") };
    assert_eq!((by(client, "decided"), by(client, "now")), (["out", "cubic"], ["out", "cubic"]));
    assert_eq!((client["algorithm"].as_str(), client["decided"]["before"].as_str()), (Some("cubic"), Some("reno")));
    let why = ["service is for other cgroups", "web is for the other direction"];
    assert_eq!(passed_over(client), why);

    let (local, remote) = (pair.server.local_addr().unwrap(), pair.server.peer_addr().unwrap());
    let server = &explain(&format!("tcp {local} {remote}"))[0];
    let arm = pair.algorithms()[1].clone();
    assert_eq!(by(server, "decided"), ["web", &arm]);
    // Without a listener, the direction of the server's end is unknown.
    assert_eq!((server["direction"].as_str(), by(server, "now")), (Some("out"), ["out", "cubic"]));
    assert_eq!(explain(&format!("[::ffff:{}]:{} {remote}", local.ip(), local.port()))[0]["is_open"], true);

    // Not decided by the policy: one chose its algorithm, the other was open before.
    for (pair, now) in [(&served, ["service", "bbr"]), (&early, ["out", "cubic"])] {
        let [client] = &explain(&format!("{pid}:{}", pair.client.as_raw_fd()))[..] else { panic!("one connection") };
        assert_eq!((client["algorithm"].as_str(), client["decided"].is_null()), (Some("reno"), true), "{client}");
        assert_eq!(by(client, "now"), now);
    }
    let client = &explain(&format!("{pid}:{}", served.client.as_raw_fd()))[0];
    assert_eq!(client["cgroup"], "/ldk_tccc.service/inner");

    remove();
    let text = run(0, &format!("explain {pid}:{}", pair.server.as_raw_fd()));
    assert!(stdout(&text).starts_with("there is no policy"), "{}", stdout(&text));
}

/// A listener on the port shows which end accepted the connection.
#[test]
fn accepted_connection_of_a_service_is_explained_as_incoming() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply(RULES);
    let listener = lab.inside(|| listen_at(address("127.0.0.2:4433"), false, None));
    let pair = lab.inside(|| join(address("127.0.0.1"), &listener));
    let server = &explain(&format!("{}:{}", std::process::id(), pair.server.as_raw_fd()))[0];
    assert_eq!((server["direction"].as_str(), by(server, "now")[0]), (Some("in"), "web"));
    assert_eq!(by(server, "decided"), by(server, "now"));
    let arm = pair.algorithms()[1].clone();
    let share = if arm == "cubic" { "7 %" } else { "93 %" };
    run(0, &format!("explain {}:{}", std::process::id(), pair.server.as_raw_fd()))
        .stdout_has(format!("rule \"web\", arm {arm}; had reno before"))
        .stdout_has(format!("rule \"web\" gives arm {arm}, {share} of its connections"));
}

#[test]
fn connection_that_is_not_open_is_explained_by_its_description() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let group = TestCgroup::create("/ldk_tccc.service");
    lab.apply(RULES);
    let check = |words: &str, rule: &str, over: &[&str]| {
        let [one] = &explain(words)[..] else { panic!("one connection: {words}") };
        assert_eq!(one["is_open"], false);
        assert_eq!(
            (by(one, "now")[0], passed_over(one).iter().map(String::as_str).collect()),
            (rule, over.to_vec()),
            "{words}"
        );
    };
    let ends = "127.0.0.1:4433 192.0.2.1:5000";
    // Unknown properties may match.
    check(ends, "service", &[]);
    let other = "service is for other cgroups";
    for cgroup in ["/ldk_tccc_none", "ldk_tccc_none"] {
        run(2, &format!("explain {ends} --cgroup {cgroup}")).stderr_has("no cgroup");
    }
    check(&format!("{ends} --cgroup / --direction in"), "web", &[other]);
    check(&format!("{ends} --cgroup / --netns {NAME}"), "web", &[other]);
    let elsewhere = "web is for another network namespace";
    let far = "out is for other remote addresses";
    check(&format!("{ends} --cgroup / --netns /proc/self/ns/net"), "rest", &[other, elsewhere, far]);
    let outgoing = format!("tcp {ends} --cgroup / --direction out");
    check(&outgoing, "rest", &[other, "web is for the other direction", far]);
    check("127.0.0.1:1 127.0.0.2:5000 --cgroup /", "out", &[other, "web is for other local ports"]);
    check("127.0.0.1:1 [::ffff:127.0.0.2]:5000 --cgroup /", "out", &[other, "web is for other local ports"]);
    for cgroup in ["/ldk_tccc.service", "ldk_tccc.service", group.path().to_str().unwrap()] {
        check(&format!("{ends} --cgroup {cgroup}"), "service", &[]);
    }
}

#[test]
fn connections_are_explained_after_the_namespace_of_a_rule_is_gone() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    drop(named_netns("ldk_brief"));
    lab.apply(&format!("[[rule]]\nname = \"brief\"\nnetns = \"ldk_brief\"\nuse = \"bbr\"\n{}", all("cubic")));
    nix::mount::umount("/run/netns/ldk_brief").unwrap();
    std::fs::remove_file("/run/netns/ldk_brief").unwrap();
    let pair = lab.plain();
    assert_eq!(pair.algorithms(), ["cubic", "cubic"]);
    let drift = show()["drift"].to_string();
    assert!(drift.contains("for the network namespace \\\"ldk_brief\\\", which is gone"), "{drift}");
    let one = &explain(&format!("{}:{}", std::process::id(), pair.client.as_raw_fd()))[0];
    assert_eq!((by(one, "now")[0], passed_over(one)), ("all", vec!["brief is for another network namespace".into()]));
}

#[test]
fn words_that_name_no_connection_are_refused() {
    let _lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let check = |code, words: &str, says: &str| _ = run(code, &format!("explain {words}")).stderr_has(says);
    check(2, "nginx", "\"nginx\" is not a process, a descriptor or a connection");
    check(2, "12:x", "\"12:x\" is not a process");
    check(2, "127.0.0.1 127.0.0.1:1", "\"127.0.0.1\" is not a process");
    check(2, "tcp", "is not a process");
    check(2, "4194999", "no process 4194999");
    check(1, &format!("{}:0", std::process::id()), "descriptor 0 of process");
    check(2, "127.0.0.1:1 127.0.0.1:2 --netns ldk_none", "not listed by `ip netns`");
    check(2, "127.0.0.1:1 127.0.0.1:2 --direction up", "invalid value 'up'");
    assert_eq!(explain("127.0.0.1:1 127.0.0.1:2")[0]["now"]["rule"], Value::Null);
}
