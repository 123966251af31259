//! nginx and haproxy.

use super::*;

const UNIT: &str = "ldk_nginx.service";
const BALANCER: &str = "ldk_haproxy.service";
pub const PORT: u16 = 8080;
const FRONT: u16 = 8081;
pub const FILE: &str = "file.txt";

/// What nginx serves. It does not fit into one segment.
pub fn content() -> String {
    (0..8000).map(|line| format!("line {line}\n")).collect()
}

/// Starts nginx with so many workers, and with these options of `listen` and of its server.
pub fn nginx(lab: &PolicyLab, unit: &str, workers: u32, listen: &str, server: &str) -> Service {
    let folder = service_folder();
    write(&folder, FILE, content());
    let place = folder.path().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {place}/{what};\n"))
        .concat();
    let text = format!(
        "daemon off; user root; worker_processes {workers}; pid {place}/pid; error_log stderr;\n\
        events {{ worker_connections 512; }}\n\
        http {{ access_log off; {temporary}\
        server {{ listen 127.0.0.1:{PORT} {listen}; root {place}; add_header X-Worker $pid; {server} }} }}\n"
    );
    let file = write(&folder, "nginx.conf", text);
    Service::start(lab, unit, PORT, folder, Command::new("nginx").args(["-e", "stderr", "-c"]).arg(file))
}

/// Requests the file on a connection that stays open. Returns the header of the answer.
#[track_caller]
fn get(mut client: &TcpStream) -> String {
    client.write_all(format!("GET /{FILE} HTTP/1.1\r\nHost: lab\r\n\r\n").as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let mut body = vec![0; content().len()];
    client.read_exact(&mut body).unwrap();
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 200 ") && body == content().as_bytes(), "{head}");
    head
}

#[test]
fn kept_alive_connection_of_nginx_is_moved_only_by_live() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, nginx);
    let _nginx = nginx(lab, UNIT, 1, "", "");
    let before = connect(lab, PORT);
    get(&before);
    lab.apply(&rule_of(UNIT, "cubic"));
    let after = connect(lab, PORT);
    let check = |expected: [&str; 2]| {
        [&before, &after].into_iter().for_each(|client| drop(get(client)));
        assert_eq!([&before, &after].map(|client| at_server(lab, client)), expected);
    };
    check(["reno", "cubic"]);
    assert_eq!(algorithm_of(&after), "reno", "the client is not in the unit");
    lab.policy(0, "apply --live", &rule_of(UNIT, "cubic"));
    check(["cubic", "cubic"]);
    run(0, "policy remove --live");
    check(["reno", "reno"]);
}

/// Each worker has a listener of its own. nginx opened them before the policy, and keeps them when it is reloaded.
#[test]
fn every_reuseport_worker_of_nginx_is_reached_also_after_a_reload() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, nginx);
    let nginx = nginx(lab, UNIT, 2, "reuseport", "");
    assert_eq!(listeners(lab, PORT), 2);
    lab.apply(&rule_of(UNIT, "cubic"));
    let serving = || -> BTreeSet<String> {
        let worker = |_| {
            let client = connect(lab, PORT);
            let head = get(&client);
            assert_eq!(at_server(lab, &client), "cubic");
            head.lines().find_map(|line| line.strip_prefix("x-worker: ").map(str::to_owned)).expect("its worker")
        };
        (0..20).map(worker).collect()
    };
    let first = serving();
    nginx.signal(Signal::SIGHUP);
    let is_replaced = || !nginx.processes().iter().any(|pid| first.contains(&pid.to_string()));
    poll_until(SOON, "the old workers end", is_replaced);
    let second = serving();
    assert!(first.is_disjoint(&second) && first.len() == 2 && second.len() == 2, "{first:?} {second:?}");
}

#[test]
fn both_sides_of_haproxy_are_reached_each_by_its_direction() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, nginx, haproxy);
    let _nginx = nginx(lab, UNIT, 1, "", "");
    let text = format!(
        "defaults\n mode http\n timeout connect 60s\n timeout client 60s\n timeout server 60s\n\
        listen front\n bind 127.0.0.1:{FRONT}\n server one 127.0.0.1:{PORT}\n"
    );
    let folder = service_folder();
    let file = write(&folder, "haproxy.cfg", text);
    // A master with one worker, as Debian's unit starts it.
    let mut command = Command::new("haproxy");
    let _haproxy = Service::start(lab, BALANCER, FRONT, folder, command.args(["-W", "-db", "-f"]).arg(file));
    let rule = |direction: &str, algorithm: &str| {
        let rule = rule_of(BALANCER, algorithm).replace("name = \"", &format!("name = \"{direction}-"));
        format!("{rule}direction = \"{direction}\"\n")
    };
    lab.apply(&[rule("in", "cubic"), rule("out", "bbr")].concat());
    let client = connect(lab, FRONT);
    get(&client);
    let servers_end = algorithms_of(lab, &format!("sport = :{PORT}"));
    let balancers_end = algorithms_of(lab, &format!("dport = :{PORT}"));
    let all = [algorithm_of(&client), at_server(lab, &client), balancers_end.concat(), servers_end.concat()];
    assert_eq!(all, ["reno", "cubic", "bbr", "reno"]);
    get(&client);
}
