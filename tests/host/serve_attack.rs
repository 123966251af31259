//! Clients that mean the web server no good: a port scanner, files that are no requests, slow and greedy clients. It answers
//! with a refusal or not at all, takes bounded memory, and still serves afterwards.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::{needs, tccc};
use crate::lab::serve::{Answer, SERVE, SOON, Server, TOKEN, read_answer};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const TREE: &str = env!("CARGO_MANIFEST_DIR");
/// Variable for how hard the scanner tries: `--version-all` has every probe it knows, and takes a minute.
const PROBES: &str = "TCCC_NMAP_PROBES";
/// What attackers may cost beside what the server takes at rest.
const MOST_BYTES: u64 = 64 << 20;

/// A server over a recording that asks for a token.
struct Target {
    server: Server,
    before: u64,
    _folder: tempfile::TempDir,
}

impl Target {
    fn start() -> Target {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let mut command = tccc();
        command.args(SERVE).arg("--token-file").arg(&token);
        let server = Server::start(command);
        assert_eq!(server.get("/").status, 200);
        let before = server.peak_bytes();
        Target { server, before, _folder: folder }
    }

    /// It serves whoever knows the token, and has taken no more than it may.
    #[track_caller]
    fn stands(&self) {
        assert_eq!(self.server.get("/").status, 200, "{}", self.server.said());
        let cookie = format!("Cookie: tccc_token={TOKEN}");
        assert_eq!(self.server.stream("/api/stream/algorithms", &[&cookie]).next().0, "algorithms");
        let cost = self.server.peak_bytes() - self.before;
        assert!(cost < MOST_BYTES, "{cost} bytes");
    }

    /// Sends bytes and the end of them; what came back, also where the connection was reset.
    fn send(&self, bytes: &[u8]) -> String {
        let write = |mut stream: TcpStream| stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        self.server.exchange(write).1
    }
}

/// Every answer of a connection.
fn statuses(text: &str) -> Vec<u16> {
    let lines = text.split("HTTP/1.").skip(1);
    lines.filter_map(|line| line.get(2..5)?.parse().ok()).collect()
}

fn is_refusal(status: &u16) -> bool {
    (400..500).contains(status)
}

#[test]
fn a_port_scanner_learns_nothing_and_breaks_nothing() {
    needs!(nmap);
    let target = Target::start();
    let port = target.server.address.port().to_string();
    // The probes of services that nmap tries first, and its own scripts for HTTP that are no attack on others.
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

fn files_below(folder: PathBuf, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(path, found) } else { found.push(path) }
    }
}

/// The files from which the fuzzer begins: policies, scenarios, recordings, records.
#[test]
fn files_that_are_no_requests_are_refused() {
    let target = Target::start();
    let mut files = Vec::new();
    ["scenarios", "tests/fixtures"].into_iter().for_each(|name| files_below(Path::new(TREE).join(name), &mut files));
    assert!(files.len() > 50, "{} files", files.len());
    for file in files {
        let answer = target.send(&std::fs::read(&file).unwrap());
        assert!(statuses(&answer).iter().all(is_refusal), "{}: {answer}", file.display());
    }
    target.stands();
}

fn head(line: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

#[test]
fn requests_of_every_wrong_form_are_refused() {
    let target = Target::start();
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
        assert!(statuses(&answer).iter().all(is_refusal), "{what}: {answer}");
    }
    target.stands();
}

/// Each of many requests in one piece is answered, in their order; a client that reads no answer is let go of.
#[test]
fn pipelined_requests_are_answered_in_order_and_cost_no_memory() {
    const REQUESTS: usize = 2_000;
    let target = Target::start();
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

/// More clients than there is room for, each of which sends half a request: late clients are refused with a reason, the others are
/// let go of after ten seconds, and then there is room.
#[test]
fn thousands_of_half_requests_are_let_go_of() {
    const CLIENTS: usize = 3_000;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let target = Target::start();
    let slow: Vec<TcpStream> = (0..CLIENTS)
        .map(|_| {
            let mut stream = target.server.connect();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: local"); // one that is refused at once is closed
            stream
        })
        .collect();
    let mut refused = 0;
    for mut stream in slow {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told); // a reset says nothing
        let Answer { status, .. } = match told.is_empty() {
            true => continue,
            false => read_answer(&String::from_utf8_lossy(&told)),
        };
        assert!(status == 503 || status == 408, "{status}");
        refused += usize::from(status == 503);
    }
    println!("{refused} of {CLIENTS} were told that there is no room");
    target.stands();
}
