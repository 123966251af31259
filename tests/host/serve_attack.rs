//! Hostile clients of the web server: a port scanner, wrong requests, slow and greedy clients.
//!
//! The server refuses them or does not answer, uses bounded memory, and still serves others afterwards.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::common::needs;
use crate::lab::serve::{Answer, SOON, Server, TOKEN, read_answer};
use crate::serve::server_with_token;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Variable with the scanner's effort: `--version-all` uses every probe, and takes a minute.
const PROBES: &str = "TCCC_NMAP_PROBES";
/// Largest growth of memory by attackers.
const MOST_BYTES: u64 = 64 << 20;

/// A server that asks for a token.
struct AttackedServer {
    server: Server,
    before: u64,
    _folder: tempfile::TempDir,
}

impl AttackedServer {
    fn start() -> AttackedServer {
        let (server, folder) = server_with_token(&[]);
        assert_eq!(server.get("/").status, 200);
        let before = server.peak_bytes();
        AttackedServer { server, before, _folder: folder }
    }

    /// Checks that it serves a client with the token, and used little memory.
    #[track_caller]
    fn stands(&self) {
        assert_eq!(self.server.get("/").status, 200, "{}", self.server.said());
        let cookie = format!("Cookie: tccc_token={TOKEN}");
        assert_eq!(self.server.stream("/api/stream/algorithms", &[&cookie]).next().0, "algorithms");
        let cost = self.server.peak_bytes() - self.before;
        assert!(cost < MOST_BYTES, "{cost} bytes");
    }

    /// Sends bytes and the end of the stream; returns the answer, even after a reset.
    fn send(&self, bytes: &[u8]) -> String {
        let write = |mut stream: TcpStream| stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        self.server.exchange(write).1
    }
}

/// The status of every answer on a connection.
fn statuses(text: &str) -> Vec<u16> {
    let lines = text.split("HTTP/1.").skip(1);
    lines.filter_map(|line| line.get(2..5)?.parse().ok()).collect()
}

#[test]
fn a_port_scanner_learns_nothing_and_breaks_nothing() {
    needs!(nmap);
    let target = AttackedServer::start();
    let port = target.server.address.port().to_string();
    // nmap's first probes of services, and its harmless scripts for HTTP.
    let probes = std::env::var(PROBES).unwrap_or_else(|_| "--version-light".to_owned());
    let mut nmap = Command::new("nmap");
    nmap.args(["-Pn", "-n", "-sT", "-sV", &probes, "--host-timeout", "120s", "-p", &port, "127.0.0.1"]);
    nmap.args(["--script", "http-headers,http-methods,http-trace", "-oN", "-"]);
    let output = nmap.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("open"), "{said}");
    assert!(!said.contains("event: ") && !said.contains(TOKEN), "{said}");
    target.stands();
}

fn head(line: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

#[test]
fn requests_of_every_wrong_form_are_refused() {
    let target = AttackedServer::start();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let endless = format!("{bearer}Transfer-Encoding: chunked\r\n");
    let chunks = "400\r\n".to_owned() + &"x".repeat(1024) + "\r\n";
    for (what, request) in [
        ("a header of a megabyte", head("GET /", &format!("X: {}\r\n", "a".repeat(1 << 20)))),
        ("ten thousand headers", head("GET /", &"X: y\r\n".repeat(10_000))),
        ("a path of a megabyte", head(&format!("GET /{}", "a".repeat(1 << 20)), "")),
        ("two hosts", head("GET /", "Host: evil.example\r\n")),
        ("two lengths", head("POST /api/playback", &format!("{bearer}Content-Length: 2\r\nContent-Length: 3\r\n"))),
        ("a length below zero", head("POST /api/playback", &format!("{bearer}Content-Length: -1\r\n"))),
        ("a length beyond any memory", head("POST /api/playback", &format!("{bearer}Content-Length: 99999999999\r\n"))),
        ("length and chunks", head("POST /api/playback", &format!("{endless}Content-Length: 3\r\n")) + "{}\r\n"),
        ("a body of a megabyte in chunks", head("POST /api/playback", &endless) + &chunks.repeat(1024)),
        ("a chunk of no length", head("POST /api/playback", &endless) + "zz\r\n\r\n"),
        ("another protocol", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".to_owned()),
        ("HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("a proxy's request", head("CONNECT evil.example:443", "")),
        ("a file of the host", head("GET /../../../../etc/passwd", "")),
        ("the same, hidden", head("GET /%2e%2e/%2e%2e/etc/passwd%00", "")),
        ("an incident elsewhere", head("GET /api/trials/incidents/..%2f..%2fetc", &bearer)),
        ("a token too many", head("GET /metrics", &format!("Authorization: Bearer {}\r\n", "a".repeat(4096)))),
        ("a token in the query", head(&format!("GET /metrics?token={TOKEN}"), "")),
        ("half a token", head("GET /metrics", &format!("Authorization: Bearer {}\r\n", &TOKEN[..16]))),
        ("no name", "GET / HTTP/1.1\r\n\r\n".to_owned()),
    ] {
        let answer = target.send(request.as_bytes());
        assert!(statuses(&answer).iter().all(|status| (400..500).contains(status)), "{what}: {answer}");
    }
    target.stands();
}

/// Pipelined requests are answered in order. A client that reads no answer is disconnected.
#[test]
fn pipelined_requests_are_answered_in_order_and_cost_no_memory() {
    const REQUESTS: usize = 2_000;
    let target = AttackedServer::start();
    let many = (head("GET /metrics", "") + &head("GET /nothing", "")).repeat(REQUESTS / 2);
    let all = many + &head("GET /", "Connection: close\r\n");
    let (written, answers) = target.server.exchange(|mut stream| stream.write_all(all.as_bytes()));
    written.unwrap();
    let answers = statuses(&answers);
    let wrong = answers.iter().zip([401, 404].iter().cycle()).position(|(given, due)| given != due);
    assert_eq!((answers.len(), wrong, answers.last()), (REQUESTS + 1, Some(REQUESTS), Some(&200)));
    let deaf: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = target.server.connect();
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            let page = head("GET /", "").repeat(1000);
            let _ = (0..20).try_for_each(|_| stream.write_all(page.as_bytes()));
            stream
        })
        .collect();
    target.stands();
    drop(deaf);
    target.stands();
}

/// More clients than the server has room for send half a request. It refuses late clients with a reason, disconnects the
/// others after ten seconds, and then has room.
#[test]
fn thousands_of_half_requests_are_ended() {
    const CLIENTS: usize = 3_000;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let target = AttackedServer::start();
    let slow: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut stream = target.server.connect();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: local"); // a refused connection is closed
            stream
        })
        .collect();
    let mut refused = 0;
    for mut stream in slow {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told); // nothing after a reset
        if told.is_empty() {
            continue;
        }
        let Answer { status, .. } = read_answer(&String::from_utf8_lossy(&told));
        assert!(status == 503 || status == 408, "{status}");
        refused += usize::from(status == 503);
    }
    println!("{refused} of {CLIENTS} clients were refused");
    target.stands();
}
