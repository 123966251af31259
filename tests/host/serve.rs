//! The web server over a recording: answers, refusals, and the cost of clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::common::{CommandOutput, TCCC, check, poll_until, tccc};
use crate::lab::serve::{RECORDING, SERVE, SOON, Server, TOKEN, read_answer};

/// Largest growth of memory by many clients.
const MANY_CLIENTS_BYTES: u64 = 48 << 20;

/// A server that asks for [`TOKEN`], with its file in a folder of its own.
pub fn server_with_token(arguments: &[&str]) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    (server(&[&["--token-file", file.to_str().unwrap()], arguments].concat()), folder)
}

fn server(arguments: &[&str]) -> Server {
    let mut command = tccc();
    command.args(SERVE).args(arguments);
    Server::start(command)
}

/// The page's bundle existed, and a package was built without it.
#[test]
fn page_is_served_if_it_was_bundled() {
    const BUNDLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/host/serve/web/bundle/page.js");
    let page = server(&[]).get("/").body;
    assert_eq!(page.contains("/page.js"), Path::new(BUNDLE).is_file(), "{page}");
}

#[test]
fn every_answer_has_the_content_security_policy_and_each_refusal_a_reason() {
    let server = server(&[]);
    for (request, headers, status, says) in [
        ("GET / HTTP/1.1", &[][..], 200, "<!doctype html>"),
        ("GET /nothing HTTP/1.1", &[], 404, "there is nothing here"),
        ("GET /metrics HTTP/1.1", &[], 404, "a recording has no metrics"),
        ("PUT / HTTP/1.1", &[], 405, "answers GET, HEAD and POST"),
        ("GET / HTTP/1.1", &["Host: evil.example"], 421, "does not answer to that name"),
        ("GET /api/stream/sockets HTTP/1.1", &["Origin: http://evil.example"], 403, "pages of other origins"),
        ("GET /api/stream/sockets HTTP/1.1", &["Sec-Fetch-Site: cross-site"], 403, "pages of other origins"),
        ("GET /api/stream/flow/x HTTP/1.1", &[], 400, "expected the number of a socket"),
        ("GET /api/past HTTP/1.1", &[], 400, "expected `quantity=cwnd|srtt|goodput`"),
        ("GET /api/past?quantity=cwnd&sockets=1,x HTTP/1.1", &[], 400, "with 1 to 200 numbers"),
        ("POST /api/playback HTTP/1.1", &[], 400, "expected an object"),
    ] {
        let answer = if request.starts_with("POST") {
            server.ask_with(request, headers, "no")
        } else {
            server.ask(request, headers)
        };
        assert_eq!(answer.status, status, "{request} {headers:?}: {answer:?}");
        assert!(answer.body.to_lowercase().contains(&says.to_lowercase()), "{request}: {answer:?}");
        assert!(answer.head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{answer:?}");
        assert!(!answer.head.contains("unsafe") && !answer.head.contains("access-control"), "{answer:?}");
    }
}

#[test]
fn stream_begins_with_everything_and_goes_on_with_changes() {
    let server = server(&["--refresh", "100ms"]);
    let mut events = server.stream("/api/stream/sockets", &[]);
    let (name, data) = events.next();
    assert_eq!(name, "sockets");
    assert!(data["status"]["title"].as_str().unwrap().contains("recording-format-1.tccc"));
    let mut sockets = data["names"].as_array().unwrap().clone();
    poll_until(SOON, "sockets of the recording", || {
        let (name, data) = events.next();
        assert_eq!(name, "changes");
        sockets.extend(data["names"].as_array().unwrap().clone());
        !sockets.is_empty()
    });
    let cookie = sockets[0][1].as_str().unwrap().to_owned();
    let (name, data) = server.stream(&format!("/api/stream/flow/{cookie}"), &[]).next();
    assert_eq!((name.as_str(), data["socket"]["id"].as_str()), ("flow", Some(cookie.as_str())));
    assert_eq!(
        data["moments"]["time_ms"].as_array().unwrap().len(),
        data["moments"]["cwnd_pkts"].as_array().unwrap().len()
    );
    assert_eq!(server.stream("/api/stream/flow/1", &[]).next().0, "unknown");
    let (name, data) = server.stream("/api/stream/algorithms", &[]).next();
    assert_eq!(name, "algorithms");
    assert!(!data["algorithms"].as_array().unwrap().is_empty());
}

/// The overview and plots of sockets once began empty.
#[test]
fn overview_and_plot_begin_with_what_the_server_saw_before() {
    let server = server(&["--refresh", "100ms"]);
    let mut events = server.stream("/api/stream/sockets", &[]);
    let mut cookie = None;
    poll_until(SOON, "some seconds of a socket that sends", || {
        let (_, data) = events.next();
        let at_ms =
            data["status"]["now_ms"].as_f64().unwrap() - data["status"]["playback"]["begin_ms"].as_f64().unwrap();
        let names = data["names"].as_array().unwrap();
        let sender = names.iter().find(|name| name[2].as_str().is_some_and(|peer| peer.ends_with(":5201")));
        cookie = cookie.take().or_else(|| sender.map(|name| name[1].as_str().unwrap().to_owned()));
        at_ms > 4000.0 && cookie.is_some()
    });
    let (name, data) = server.stream("/api/stream/overview", &[]).next();
    assert_eq!((name.as_str(), &data["slots"], &data["step_ms"]), ("overview", &361.into(), &1000.0.into()));
    let host = data["series"].as_array().unwrap().iter().find(|line| line["kind"] == "host").unwrap();
    let sent = host["goodput_bps"].as_array().unwrap().iter().filter(|value| value.as_f64() > Some(1e6)).count();
    assert!(sent >= 2, "{host}");
    let cookie = cookie.unwrap();
    let answer = server.get(&format!("/api/past?quantity=cwnd&sockets={cookie},1"));
    assert!(answer.head.contains("application/json"), "{answer:?}");
    let past: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let windows = past["curves"][&cookie].as_array().unwrap();
    assert_eq!((windows.len(), past["curves"].as_object().unwrap().len()), (120, 1));
    assert!(windows.iter().filter(|window| window.as_f64() > Some(0.0)).count() >= 2, "{past}");
}

#[test]
fn recording_is_paused_and_set_to_another_time() {
    let server = server(&["--refresh", "100ms"]);
    let mut events = server.stream("/api/stream/algorithms", &[]);
    let end = events.next().1["status"]["playback"]["end_ms"].as_f64().unwrap();
    let body = format!("{{\"speed\":0,\"seek_ms\":{end}}}");
    assert_eq!(server.ask_with("POST /api/playback HTTP/1.1", &[], &body).status, 204);
    poll_until(SOON, "the end of the recording stands still", || {
        let status = events.next().1["status"].clone();
        let at = status["now_ms"].as_f64().unwrap();
        status["playback"]["speed"].as_f64() == Some(0.0) && (at - end).abs() < 1.0
    });
}

#[test]
fn token_of_a_file_is_asked_for_and_kept_in_a_cookie() {
    let (server, _folder) = server_with_token(&[]);
    let ask = |path: &str, header: &str| server.ask(&format!("{path} HTTP/1.1"), &[header]);
    assert!(!server.said().contains(TOKEN), "a token that was given is not printed");
    assert_eq!(ask("GET /", "X: y").status, 200, "the page itself is no secret");
    for (given, says) in [("X: y", "a token is needed"), ("Authorization: Bearer no", "the token is wrong")] {
        for path in
            ["GET /api/stream/sockets", "GET /api/past", "GET /metrics", "POST /api/session", "GET /api/nothing"]
        {
            let answer = ask(path, given);
            assert_eq!(answer.status, 401, "{path}: {answer:?}");
            assert!(answer.body.contains(says) && answer.head.contains("www-authenticate: bearer"), "{answer:?}");
        }
    }
    let session = ask("POST /api/session", &format!("Authorization: Bearer {TOKEN}"));
    assert_eq!(session.status, 204);
    assert!(session.head.contains("httponly; samesite=strict"), "{session:?}");
    assert!(!session.head.contains("secure"), "plain HTTP would lose it: {session:?}");
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let proxied = server.ask("POST /api/session HTTP/1.1", &["Host: localhost", "Origin: https://localhost", &bearer]);
    assert_eq!(proxied.status, 204, "the page comes through a TLS proxy: {proxied:?}");
    assert!(proxied.head.contains("httponly; samesite=strict; path=/; secure"), "{proxied:?}");
    let cookie = format!("Cookie: tccc_token={TOKEN}");
    assert_eq!(server.stream("/api/stream/algorithms", &[&cookie]).next().0, "algorithms");
    assert_eq!(ask("GET /metrics", &cookie).status, 404, "the recording has none");
}

#[test]
fn token_that_anybody_could_guess_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "secret").unwrap();
    refused(2, &["--replay", RECORDING, "--token-file", file.to_str().unwrap()])
        .stderr_has("cannot take the token from")
        .stderr_has("expected 16 to 1024");
    refused(2, &["--replay", RECORDING, "--token-file", "/dev/zero"]); // once read until memory was full
    let missing = Path::new(RECORDING).with_file_name("no-such-file");
    refused(2, &["--replay", missing.to_str().unwrap()]);
}

#[track_caller]
fn refused(code: i32, arguments: &[&str]) -> CommandOutput {
    check(code, tccc().args(["serve", "--listen", "127.0.0.1:0"]).args(arguments))
}

#[test]
fn a_thousand_idle_connections_cost_little_and_are_closed() {
    let server = server(&[]);
    assert_eq!(server.get("/").status, 200);
    let before = server.peak_bytes();
    let mut idle: Vec<TcpStream> = (0..1000).map(|_| server.connect()).collect();
    assert_eq!(server.get("/").status, 200, "others are answered");
    let cost = server.peak_bytes() - before;
    assert!(cost < MANY_CLIENTS_BYTES, "{cost} bytes");
    let mut nothing = Vec::new();
    assert_eq!(idle[0].read_to_end(&mut nothing).unwrap(), 0, "the server wrote before it closed the connection");
    assert_eq!(server.get("/").status, 200);
}

/// With few descriptors the server keeps some for its other work, and answers the clients that it refuses.
#[test]
fn few_descriptors_make_few_connections() {
    const FILES: usize = 64;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {FILES} && exec \"$0\" \"$@\""), TCCC]).args(SERVE);
    let server = Server::start(command);
    let mut idle: Vec<TcpStream> = (0..=FILES / 2).map(|_| server.connect()).collect();
    let mut told = String::new();
    idle[FILES / 2].read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("too many connections"), "{told}");
    drop(idle);
    poll_until(SOON, "there is room again", || {
        let (mut stream, mut text) = (server.connect(), String::new());
        let asked = write!(stream, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        asked.is_ok() && stream.read_to_string(&mut text).is_ok() && read_answer(&text).status == 200
    });
}

#[test]
fn a_query_of_a_hundred_megabytes_is_refused_after_its_first_kilobytes() {
    let server = server(&[]);
    assert_eq!(server.get("/").status, 200);
    let before = server.peak_bytes();
    let (sent, answer) = server.exchange(|mut stream| {
        stream.write_all(b"GET /?").unwrap();
        let piece = vec![b'a'; 1 << 20];
        (0..100).take_while(|_| stream.write_all(&piece).is_ok()).count()
    });
    assert!(sent < 100, "all of it was taken");
    assert!(answer.is_empty() || answer.contains("431") || answer.contains("414"), "{answer}");
    assert!(server.peak_bytes() - before < 8 << 20);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn clients_that_never_read_do_not_slow_the_others() {
    let server = server(&["--refresh", "100ms"]);
    let before = server.peak_bytes();
    let _deaf: Vec<_> = (0..100).map(|_| server.stream("/api/stream/sockets", &[])).collect();
    let mut events = server.stream("/api/stream/sockets", &[]);
    for _ in 0..20 {
        assert_ne!(events.next().0, "missed");
    }
    let cost = server.peak_bytes() - before;
    assert!(cost < MANY_CLIENTS_BYTES, "{cost} bytes");
    let _more: Vec<_> = (0..40).map(|_| server.stream("/api/stream/sockets", &[])).collect();
    let refused = server.get("/api/stream/sockets");
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("try again"), "{refused:?}");
}

/// A folder of state with an incident and the end of its trial.
fn state_after_an_incident() -> tempfile::TempDir {
    let state = tempfile::tempdir().unwrap();
    let incident = state.path().join("incidents/2026-02-27T09-14-05.000Z");
    std::fs::create_dir_all(&incident).unwrap();
    let text = include_str!("../fixtures/trial/incident.json");
    std::fs::write(incident.join("incident.json"), text).unwrap();
    let mut end: serde_json::Value = serde_json::from_str(include_str!("../fixtures/trial/end.json")).unwrap();
    end["incident"] = incident.to_str().unwrap().into();
    std::fs::write(state.path().join("trials.jsonl"), format!("{end}\n")).unwrap();
    state
}

#[test]
fn trials_and_incidents_are_shown_with_the_token_only() {
    let state = state_after_an_incident();
    let file = state.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let mut command = tccc();
    command.args(SERVE).args(["--trials", "--token-file"]).arg(&file);
    command.env("STATE_DIRECTORY", state.path());
    let server = Server::start(command);
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let ask = |path: &str| server.ask(&format!("GET {path} HTTP/1.1"), &[&bearer]);
    for path in ["/api/trials", "/api/trials/incidents/2026-02-27T09-14-05.000Z"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    let document: serde_json::Value = serde_json::from_str(&ask("/api/trials").body).unwrap();
    assert_eq!((&document["schema"], &document["last"]["result"]), (&1.into(), &"reverted".into()));
    let name = document["incidents"][0]["name"].as_str().unwrap();
    assert_eq!(document["last"]["incident_name"], name);
    let incident: serde_json::Value =
        serde_json::from_str(&ask(&format!("/api/trials/incidents/{name}")).body).unwrap();
    assert_eq!(incident["incident"]["rules"][0]["limits"][0]["allowed"]["relative"], 1.2);
    for name in ["..", "%2e%2e", "..%2fincidents", "2026", ""] {
        let path = format!("/api/trials/incidents/{name}");
        assert_eq!(ask(&path).status, 404, "{path}");
    }
}

/// A recording may be shown to others, so the trials of this host are not.
#[test]
fn server_of_a_recording_shows_no_trials_by_default() {
    let server = server(&[]);
    assert_eq!(server.get("/api/trials").status, 204);
    assert_eq!(server.get("/api/trials/incidents/any").status, 404);
    refused(2, &["--trials"]); // without a recording they are shown anyway
}
