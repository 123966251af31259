//! Socket activation: the socket and the service have cgroups of their own.

use super::*;

const SOCKET: &str = "ldk_active.socket";
const SERVICE: &str = "ldk_active.service";
const PORT: u16 = 8082;

/// Starts `systemd-socket-activate` in the cgroup of the socket. What it starts moves to that of the service.
fn activate(lab: &PolicyLab, folder: TempDir, service: &TestCgroup, options: &[&str], program: &str) -> Service {
    let procs = service.path().join("cgroup.procs");
    let mut command = Command::new("systemd-socket-activate");
    command.args(["-l", &format!("127.0.0.1:{PORT}")]).args(options).args(["sh", "-c"]);
    Service::start(lab, SOCKET, PORT, folder, command.arg(format!("echo 0 > {} && exec {program}", procs.display())))
}

fn rules() -> String {
    [rule_of(SERVICE, "bbr"), rule_of(SOCKET, "cubic")].concat()
}

#[track_caller]
fn assert_in(group: &TestCgroup, what: &str) {
    let is_there = || !fs::read_to_string(group.path().join("cgroup.procs")).unwrap().is_empty();
    poll_until(SOON, &format!("{what} is in the cgroup of the service"), is_there);
}

/// The program gets the listener, as with `Accept=no`.
#[test]
fn listener_that_haproxy_inherits_follows_the_rule_of_its_socket() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, haproxy, systemd_socket_activate);
    lab.apply(&rules());
    let (folder, service) = (service_folder(), TestCgroup::create(&format!("/ldk_tccc/{SERVICE}")));
    let text = "defaults\n mode http\n timeout client 60s\n\
        listen front\n bind fd@3\n http-request return status 200 content-type text/plain string whole\n";
    let file = write(&folder, "haproxy.cfg", text);
    let program = format!("haproxy -db -f {}", file.display());
    let _socket = activate(lab, folder, &service, &[], &program);
    // The first connection starts the program.
    for _ in 0..2 {
        let client = connect(lab, PORT);
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-type: text/plain\r\n\r\nwhole";
        exchange(&client, b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n", answer.as_bytes());
        assert_in(&service, "haproxy");
        assert_eq!(at_server(lab, &client), "cubic");
    }
}

/// A program is started for each connection, as with `Accept=yes`.
#[test]
fn connection_that_a_program_inherits_follows_the_rule_of_its_socket() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, systemd_socket_activate);
    lab.apply(&rules());
    let service = TestCgroup::create(&format!("/ldk_tccc/{SERVICE}"));
    let _socket = activate(lab, service_folder(), &service, &["--accept", "--inetd"], "cat");
    let client = connect(lab, PORT);
    exchange(&client, b"whole", b"whole");
    assert_in(&service, "cat");
    assert_eq!(at_server(lab, &client), "cubic");
    lab.policy(0, "apply --live", &rules());
    assert_eq!(at_server(lab, &client), "cubic", "a sweep agrees");
    exchange(&client, b"whole", b"whole");
    drop(client);
    let is_over = || fs::read_to_string(service.path().join("cgroup.procs")).unwrap().is_empty();
    poll_until(SOON, "the program ends with its connection", is_over);
}
