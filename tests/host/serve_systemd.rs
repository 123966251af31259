//! The server under systemd: readiness, watchdog, socket activation, `/healthz`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{TCCC, needs, poll_until, tccc};
use crate::lab::serve::{RECORDING, SERVE, SOON, Server};
use crate::lab::systemd::{Manager, with_sockets};
use nix::sys::resource::{Resource, rlim_t};
use nix::sys::signal::Signal;

fn replay(mut command: Command) -> Command {
    command.args(["serve", "--replay", RECORDING]);
    command
}

fn managed(manager: &Manager, arguments: &[&str], watchdog: Option<Duration>) -> Server {
    let mut command = tccc();
    command.args(arguments);
    manager.manage(&mut command, watchdog);
    Server::start(command)
}

#[test]
fn readiness_end_and_watchdog_are_notified() {
    const WATCHDOG: Duration = Duration::from_secs(2);
    let manager = Manager::new();
    let mut server = managed(&manager, &SERVE, Some(WATCHDOG));
    let told = manager.next(SOON).unwrap();
    let status = format!("STATUS=serving http://{}", server.address);
    assert_eq!(told.lines().collect::<Vec<_>>(), ["READY=1", &status]);
    for _ in 0..4 {
        assert_eq!(manager.next(WATCHDOG).as_deref().map(str::trim), Some("WATCHDOG=1"));
    }
    assert_eq!(server.get("/healthz").status, 200);
    server.signal(Signal::SIGSTOP);
    while manager.next(WATCHDOG).is_some() {} // notifications from before it stopped
    server.signal(Signal::SIGCONT);
    assert_eq!(manager.next(SOON).as_deref().map(str::trim), Some("WATCHDOG=1"));
    server.signal(Signal::SIGTERM);
    assert!(server.process.wait().unwrap().success());
    poll_until(SOON, "the end is announced", || manager.next(SOON).unwrap().trim() == "STOPPING=1");
}

#[test]
fn server_without_a_watchdog_notifies_readiness_only() {
    let manager = Manager::new();
    let server = managed(&manager, &SERVE, None);
    assert!(manager.next(SOON).unwrap().starts_with("READY=1\n"));
    assert_eq!(manager.next(Duration::from_secs(2)), None);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn socket_of_systemd_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A client that connects before the server starts waits for it.
    let mut early = TcpStream::connect(address).unwrap();
    write!(early, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let server = Server::start(replay(with_sockets(TCCC, &[&listener])));
    assert_eq!(server.address, address);
    let mut answer = String::new();
    early.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok: sampling is running\n"), "{answer}");
    let mut same = replay(with_sockets(TCCC, &[&listener]));
    same.args(["--listen", &address.to_string()]);
    assert_eq!(Server::start(same).address, address);
}

/// The address of the socket decides, not `--listen`.
#[test]
fn socket_for_other_hosts_asks_for_a_token_except_for_its_health() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let server = Server::start(replay(with_sockets(TCCC, &[&listener])));
    poll_until(SOON, "the token is printed", || server.said().contains("the token, shown only once"));
    assert_eq!(server.get("/api/trials").status, 401);
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.ask("GET /healthz HTTP/1.1", &["Host: evil.example"]).status, 421);
}

#[test]
fn sockets_that_cannot_be_served_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (udp, unix) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UnixListener::bind(place.path().join("s")).unwrap());
    let connected = TcpStream::connect(one.local_addr().unwrap()).unwrap();
    let cases: [(&[&dyn AsRawFd], &str, &str); 5] = [
        (&[&one, &other], "", "there is more than one"),
        (&[&udp], "", "it is not a listening TCP socket"),
        (&[&unix], "", "it is not a listening TCP socket"),
        (&[&connected], "", "it is not a listening TCP socket"),
        (&[&one], "--listen=127.0.0.1:9", "cannot listen on 127.0.0.1:9: systemd passes the socket 127.0.0.1:"),
    ];
    for (sockets, argument, why) in cases {
        let mut command = replay(with_sockets(TCCC, sockets));
        let output = command.args(Some(argument).filter(|it| !it.is_empty())).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{why}: {said}");
        assert!(said.contains(why) && said.contains("hint: "), "{said}");
    }
    // Sockets for another process are ignored.
    let mut command = replay(tccc());
    command.args(["--listen", "127.0.0.1:0"]).envs([("LISTEN_PID", "1"), ("LISTEN_FDS", "1")]);
    assert_eq!(Server::start(command).get("/healthz").status, 200);
    let output = replay(tccc()).envs([("LISTEN_PID", "x"), ("LISTEN_FDS", "1")]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("read LISTEN_FDS, which systemd sets"));
}

/// A sweep fails without descriptors. `/metrics` once continued to show old counts, and no supervisor noticed.
#[test]
fn health_is_lost_while_sweeps_fail_and_comes_back() {
    needs!(root, btf);
    let manager = Manager::new();
    let arguments = ["serve", "--metrics-only", "--sweep", "100ms", "--listen", "127.0.0.1:0"];
    let server = managed(&manager, &arguments, Some(Duration::from_secs(2)));
    let mut kept = BufReader::new(server.connect());
    let mut health = || {
        write!(kept.get_mut(), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let (mut status, mut length, mut line) = (String::new(), 0, String::from("x"));
        kept.read_line(&mut status).unwrap();
        while !line.trim().is_empty() {
            line.clear();
            kept.read_line(&mut line).unwrap();
            length =
                line.to_lowercase().strip_prefix("content-length: ").map_or(length, |it| it.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        kept.read_exact(&mut body).unwrap();
        format!("{} {}", status.split(' ').nth(1).unwrap(), String::from_utf8(body).unwrap().trim())
    };
    assert_eq!(health(), "200 ok: sampling is running");
    let before = descriptors(&server, 3);
    let begin = Instant::now();
    poll_until(SOON, "health is lost", || health().starts_with("503 sampling for /metrics has stalled: it is "));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    descriptors(&server, before);
    poll_until(SOON, "health is back", || health() == "200 ok: sampling is running");
    poll_until(SOON, "the watchdog is notified again", || manager.next(SOON).unwrap().trim() == "WATCHDOG=1");
}

/// Sets a process's limit of descriptors; returns the old limit.
fn descriptors(server: &Server, limit: rlim_t) -> rlim_t {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the calls.
    unsafe {
        let number = Resource::RLIMIT_NOFILE as libc::__rlimit_resource_t;
        let pid = server.process.id() as i32;
        assert_eq!(libc::prlimit(pid, number, std::ptr::null(), &mut before), 0);
        let wanted = libc::rlimit { rlim_cur: limit, ..before };
        assert_eq!(libc::prlimit(pid, number, &wanted, std::ptr::null_mut()), 0);
    }
    before.rlim_cur
}
