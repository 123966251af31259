//! Sends bytes to the server over a recording.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use tccc::serve::{self, AccessToken, Heartbeat, Listen, MakeSource, ServerSettings};
use tccc::trace::replay::Replay;
use tccc::trace::source::EventSource;

use crate::{in_tree, text};

const TOKEN: &str = "0123456789abcdef";
/// Time limit after which the server counts as hung.
const PATIENCE: Duration = Duration::from_secs(5);
/// Precedes the data of an event in a stream.
const EVENT: &[u8] = b"\ndata: ";
/// Time for an answer before the client closes its side.
const ANSWERED: Duration = Duration::from_millis(2);
/// Part of an answer that is checked.
const ANSWER_BYTES: usize = 1 << 20;
/// Allowed statuses; 500 is a defect.
const STATUSES: [u16; 16] = [200, 204, 400, 401, 403, 404, 405, 408, 413, 414, 421, 431, 411, 417, 501, 503];

pub fn requests() -> Vec<Vec<u8>> {
    let request =
        |line: &str, headers: &str, body: &str| format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}");
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let cookie = format!("Cookie: a=b; tccc_token={TOKEN}\r\n");
    let pipelined = [request("GET /", "", ""), request("GET /metrics", &bearer, "")].concat();
    let play = r#"{"speed":0,"seek_ms":1}"#;
    let length = format!("{bearer}Content-Length: {}\r\n", play.len());
    let chunked = format!("{bearer}Transfer-Encoding: chunked\r\n");
    let all = [
        request("GET /", "", ""),
        request("HEAD /nothing", "Connection: close\r\n", ""),
        request("GET /metrics", "Accept: application/openmetrics-text\r\n", ""),
        request("GET /api/stream/sockets", &bearer, ""),
        request("GET /api/stream/algorithms", &cookie, ""),
        request("GET /api/stream/flow/12", &cookie, ""),
        request("GET /api/trials?seen=1&x=%20", &bearer, ""),
        request("GET /api/trials/incidents/%2e%2e%2fx", &bearer, ""),
        request("POST /api/session", &bearer, ""),
        request("POST /api/playback", &length, play),
        request("POST /api/playback", &chunked, "5\r\n{\"spe\r\n0\r\n\r\n"),
        request("GET /", "Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nUpgrade: h2c\r\n", ""),
        request("PUT /", "Expect: 100-continue\r\n", ""),
        pipelined,
        "GET http://localhost/ HTTP/1.0\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ];
    all.map(String::into_bytes).into()
}

/// The address of a server that runs as long as this process.
fn address() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    static STOP: AtomicBool = AtomicBool::new(false);
    *ADDRESS.get_or_init(|| {
        let (tell, began) = mpsc::channel();
        std::thread::spawn(move || {
            let make: MakeSource = Box::new(|| {
                let recording = in_tree("tests/fixtures/recording-format-1.tccc");
                Ok::<_, anyhow::Error>(Box::new(Replay::open(&recording)?) as Box<dyn EventSource>)
            });
            let settings = ServerSettings {
                listen: Listen::At(SocketAddr::from(([127, 0, 0, 1], 0))),
                names: vec!["tower".to_owned()],
                token: Some(AccessToken::parse(TOKEN).expect("a token")),
                exporter: None,
                source: Some(make),
                trials: None,
                refresh: Duration::from_secs(1),
                heartbeat: Heartbeat::default(),
            };
            serve::run(settings, &STOP, |address, _| tell.send(address).expect("somebody waits")).expect("it serves");
        });
        began.recv().expect("the server begins")
    })
}

pub fn read_request(bytes: &[u8], _scratch: &Path) {
    let mut client = TcpStream::connect(address()).expect("the server takes connections");
    // The server may refuse a request without reading all of it.
    let _ = client.write_all(bytes);
    // Closing at once would keep the server from answering.
    client.set_read_timeout(Some(ANSWERED)).expect("a limit of time is set");
    let _ = client.peek(&mut [0]);
    let _ = client.shutdown(Shutdown::Write);
    client.set_read_timeout(Some(PATIENCE)).expect("a limit of time is set");
    check(bytes, &answer_of(&mut client));
}

/// Reads until the server closes, or until the first event of an endless stream.
fn answer_of(client: &mut TcpStream) -> Vec<u8> {
    let (mut answer, mut piece) = (Vec::new(), [0; 16 << 10]);
    while answer.len() < ANSWER_BYTES {
        match client.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend(&piece[..count]),
            Err(why) if why.kind() == ErrorKind::Interrupted => {} // the fuzzer's clock
            Err(why) if why.kind() == ErrorKind::ConnectionReset => break,
            Err(why) => panic!("the server neither answers nor closes: {why}"),
        }
        if answer.windows(EVENT.len()).any(|part| part == EVENT) {
            break;
        }
    }
    answer
}

fn check(bytes: &[u8], answer: &[u8]) {
    let answer = text(answer);
    let Some(words) = answer.strip_prefix("HTTP/1.1 ").or_else(|| answer.strip_prefix("HTTP/1.0 ")) else {
        return assert!(answer.is_empty(), "no HTTP: {answer}");
    };
    let status: u16 = words.get(..3).and_then(|digits| digits.parse().ok()).unwrap_or_default();
    assert!(STATUSES.contains(&status) || status == 100, "status {status}:\n{answer}");
    let knows = bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
    let text_response =
        ["event: sockets", "event: algorithms", "event: flow"].iter().any(|event| answer.contains(event));
    assert!(knows || !text_response, "a client without the token gets:\n{answer}");
}
