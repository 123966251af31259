//! Rule and arms of a real policy appear in metrics, `sockets`, `trace` and recordings, and disappear with the policy.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use super::{Prometheus, scrape, server, sum};
use serde_json::Value;
use tccc::kernel::netns::Netns;

use super::*;

const CONNECTIONS: usize = 40;
const BYTES: usize = 10_000;
const RULE: &str = "kernel-serve";

fn write_policy(folder: &Path, netns: &Netns, port: u16) -> String {
    let file = folder.join("policy.toml");
    let text = format!(
        "version = 1\n[[rule]]\nname = \"{RULE}\"\nnetns = \"{}\"\nremote_port = {port}\ndirection = \"out\"\n\
         split = {{ reno = 50, keep = 50 }}\n",
        path_of(netns)
    );
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Number of connections with this port by rule and arm, as `tccc sockets` shows them.
fn shown(port: u16, options: &[&str]) -> BTreeMap<(Option<String>, Option<String>), usize> {
    let port = port.to_string();
    let document = check(0, tccc().args(["sockets", "-o", "json", "--port", &port]).args(options)).json();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut shown = BTreeMap::new();
    for socket in document["sockets"].as_array().unwrap() {
        *shown.entry((text(&socket["rule"]), text(&socket["arm"]))).or_insert(0) += 1;
    }
    shown
}

fn sockets_show_the_arms(port: u16) {
    let found = shown(port, &[]);
    let in_arm = |arm: &str| found.get(&(Some(RULE.to_owned()), Some(arm.to_owned()))).copied().unwrap_or(0);
    assert_eq!(in_arm("reno") + in_arm("keep"), CONNECTIONS, "{found:?}");
    assert!(in_arm("reno") > 0 && in_arm("keep") > 0 && found[&(None, None)] > CONNECTIONS, "{found:?}");
    assert_eq!(shown(port, &["--rule", RULE]).values().sum::<usize>(), CONNECTIONS);
    let table = run(0, &format!("sockets --rule {RULE}")).stdout();
    assert!(table.lines().skip(1).all(|line| line.contains(RULE)));
}

fn connect(netns: &Netns, listener: &TcpListener) -> HeldConnection {
    let address = listener.local_addr().unwrap();
    let client = netns.run(|| Ok(TcpStream::connect(address)?)).unwrap();
    HeldConnection { client, server: listener.accept().unwrap().0, address }
}

/// If a policy was applied while the server ran, its connections were once counted without the rule.
#[test]
fn rule_and_arm_appear_and_disappear_with_the_policy() {
    let _sandbox = enter!(Sandbox; root, btf, bpffs, cgroup2, prometheus);
    let netns = loopback_netns();
    let folder = tempfile::tempdir().unwrap();
    let listener = netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let open = || connect(&netns, &listener);
    let mut early = open();
    early.send(BYTES);
    let server = server(&netns, port, &["--listen", "127.0.0.1:0"]);
    early.send(BYTES);
    let acked = |text: &str, labels: &[&str]| sum(text, "tccc_acked_bytes_total", labels);
    scrape(&netns, &server, "the early connection", |text| acked(text, &["rule=\"\""]) >= BYTES as f64);
    run(0, &format!("policy apply {}", write_policy(folder.path(), &netns, port)));
    let rule = format!("rule=\"{RULE}\"");
    // The counts with labels start now. Connections opened meanwhile do not belong to the test.
    let swept = |text: &str| acked(text, &["rule=\"\""]);
    let before = swept(&scrape(&netns, &server, "a sweep after the policy", |text| swept(text) >= BYTES as f64));
    poll_until(SOON, "counts have labels", || {
        drop(open());
        let text = scrape(&netns, &server, "a scrape", |_| true);
        sum(&text, "tccc_connections_opened_total", &[&rule]) >= 1.0
    });
    let seen = |text: &str| sum(text, "tccc_connections_opened_total", &[&rule]);
    let mut sweeps = std::collections::BTreeSet::new();
    let settled = scrape(&netns, &server, "three sweeps more", |text| {
        // Two sweeps hardly ever take the same time to the nanosecond.
        sweeps.insert(sum(text, "tccc_sweep_duration_seconds", &[]).to_bits());
        sweeps.len() > 3
    });
    let first = seen(&settled);
    let mut connections: Vec<HeldConnection> = (0..CONNECTIONS).map(|_| open()).collect();
    connections.iter_mut().for_each(|connection| connection.send(BYTES));
    let all = first + CONNECTIONS as f64;
    let text = scrape(&netns, &server, "every connection", |text| seen(text) >= all);
    assert_eq!(seen(&text), all, "{text}");
    let arms = ["arm=\"reno\"", "arm=\"keep\""].map(|arm| acked(&text, &[&rule, arm]));
    assert!(arms.iter().all(|bytes| *bytes > 0.0) && arms[0] + arms[1] >= (CONNECTIONS * BYTES) as f64, "{arms:?}");
    assert!(sum(&text, "tccc_acked_bytes_total", &[&rule, "arm=\"reno\"", "algorithm=\"reno\""]) == arms[0]);
    assert!(swept(&text) >= before, "the early connection's count fell");

    assert_eq!(sum(&text, "tccc_policy_generation", &[]), 1.0);
    for arm in ["arm=\"reno\"", "arm=\"keep\""] {
        assert_eq!(sum(&text, "tccc_arm_share_ratio", &[&rule, arm]), 0.5, "{text}");
        assert!(sum(&text, "tccc_arm_sockets", &[&rule, arm]) > 0.0, "{text}");
    }
    overview_shows_the_arms(&netns, &server);
    prometheus_has_the_arms(&netns, &server, folder.path());

    sockets_show_the_arms(port);
    trace_names_the_arms(&mut connections, (folder.path(), port));
    run(0, "policy remove");
    assert_eq!(shown(port, &[]).keys().collect::<Vec<_>>(), [&(None, None)]);
    let more = before + (CONNECTIONS * BYTES) as f64 / 2.0;
    // The labels end at the next sweep. Bytes sent before it count for the rule.
    let end = scrape(&netns, &server, "the sums without a policy", |text| {
        connections.iter_mut().for_each(|connection| connection.send(BYTES));
        swept(text) >= more
    });
    assert!(acked(&end, &[&rule]) >= arms[0] + arms[1], "the counts of its arms are lost:\n{end}");
    assert_eq!(sum(&end, "tccc_failed_sweeps_total", &[]), 0.0, "{}", server.said());
    assert_eq!((sum(&end, "tccc_policy_generation", &[]), sum(&end, "tccc_arm_share_ratio", &[])), (0.0, 0.0));
}

/// Both arms are series of the overview, which also shows when the policy was applied.
fn overview_shows_the_arms(netns: &Netns, server: &Server) {
    let (_, data) = netns.run(|| Ok(server.stream("/api/stream/overview", &[]))).unwrap().next();
    for arm in ["reno", "keep"] {
        let mut lines = data["series"].as_array().unwrap().iter();
        let line = lines.find(|line| line["rule"] == RULE && line["arm"] == arm).expect(arm);
        let rates = line["goodput_bps"].as_array().unwrap();
        assert!(rates.iter().any(|rate| rate.as_u64() > Some(0)), "{arm} sent nothing: {line}");
    }
    let changes = data["changes"].as_array().unwrap();
    assert!(changes.iter().any(|change| change[1] == "a policy was applied"), "{changes:?}");
}

/// A real Prometheus has the series that the dashboard compares.
fn prometheus_has_the_arms(netns: &Netns, server: &Server, folder: &Path) {
    let prometheus = Prometheus::start(netns, server, folder);
    for metric in ["tccc_acked_bytes_total", "tccc_arm_share_ratio", "tccc_arm_sockets"] {
        let query = format!("/api/v1/query?query=sum%20by%20(rule,arm)({metric}%7Brule!=%22%22%7D)");
        poll_until(SOON, metric, || {
            let answer = prometheus.ask(netns, &query).unwrap_or_default();
            ["reno", "keep"].iter().all(|arm| answer.contains(&format!("{{\"arm\":\"{arm}\",\"rule\":\"{RULE}\"}}")))
        });
    }
}

/// The arms appear in the live stream and in a replayed recording.
fn trace_names_the_arms(connections: &mut [HeldConnection], (folder, port): (&Path, u16)) {
    let (file, port) = (folder.join("arms.tccc"), port.to_string());
    let start = |arguments: &[&str]| {
        let mut command = tccc();
        begin(command.args(["trace", "--port", &port, "--interval", "50ms", "--duration", "4s"]).args(arguments))
    };
    let live = start(&["--rule", RULE, "-o", "jsonl"]);
    let recorder = start(&["--record", file.to_str().unwrap()]);
    let started = std::time::Instant::now();
    poll_until(SOON, "traffic while they trace", || {
        connections.iter_mut().for_each(|connection| connection.send(100));
        started.elapsed() >= std::time::Duration::from_secs(4)
    });
    let [live, _] = [live, recorder].map(|child| end(0, child));
    let replay =
        |options: &[&str]| check(0, tccc().args(["trace", "-o", "jsonl", "--replay"]).arg(&file).args(options));
    for text in [live.stdout(), replay(&["--rule", RULE]).stdout()] {
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let arms: std::collections::BTreeSet<&str> = lines.iter().filter_map(|line| line["arm"].as_str()).collect();
        assert!(lines.iter().all(|line| line["rule"] == RULE), "a line of another rule");
        assert_eq!(arms.into_iter().collect::<Vec<_>>(), ["keep", "reno"], "of {} lines", lines.len());
    }
    // The accepting ends match no rule.
    replay(&[]).stdout_has("\"rule\":null,\"arm\":null");
}
