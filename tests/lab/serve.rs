//! A running `tccc serve`, and requests over plain sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;

pub use crate::common::SOON;
use crate::common::{Owned, poll_until, signal};

pub const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recording-format-1.tccc");
/// Serves the recording on a free port.
pub const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--replay", RECORDING];
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A running server, killed when dropped.
pub struct Server {
    pub process: Owned,
    pub address: SocketAddr,
    said: Arc<Mutex<String>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// In lower case.
    pub head: String,
    pub body: String,
}

impl Server {
    /// Starts the server and waits until it reports its address.
    pub fn start(mut command: Command) -> Server {
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut process = Owned::from(process);
        let said = Arc::new(Mutex::new(String::new()));
        collect(process.stderr.take().unwrap(), Arc::clone(&said));
        let mut address = None;
        poll_until(SOON, "the server reports its address", || {
            let said = said.lock().unwrap().clone();
            assert!(process.try_wait().unwrap().is_none(), "it ended: {said}");
            let line =
                said.lines().find_map(|line| line.split_once("serving http://")).map(|(_, rest)| rest.to_owned());
            let found = line.and_then(|rest| rest.split([',', '/']).next()?.parse().ok());
            address = address.or(found);
            address.is_some()
        });
        Server { process, address: address.unwrap(), said }
    }

    /// Standard error so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn signal(&self, number: Signal) {
        signal(self.process.id(), number);
    }

    /// Writes to a connection while another thread reads. Returns the value of `write` and what was read, even if the
    /// server resets the connection.
    pub fn exchange<R>(&self, write: impl FnOnce(TcpStream) -> R) -> (R, String) {
        let stream = self.connect();
        let mut reader = stream.try_clone().unwrap();
        let answer = std::thread::spawn(move || {
            let mut answer = Vec::new();
            let _ = reader.read_to_end(&mut answer); // fails if the server closes before it has read the whole request
            String::from_utf8_lossy(&answer).into_owned()
        });
        (write(stream), answer.join().unwrap())
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.address.port())).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    /// Sends a request without a body. Adds a `Host` line if `headers` has none.
    pub fn ask(&self, request: &str, headers: &[&str]) -> Answer {
        self.ask_with(request, headers, "")
    }

    pub fn ask_with(&self, request: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = self.connect();
        let length = format!("Content-Length: {}", body.len());
        let own = (!body.is_empty()).then_some(length.as_str());
        send(&mut stream, request, &[headers, own.as_slice()].concat());
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        read_answer(&String::from_utf8(answer).unwrap())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1"), &[])
    }

    pub fn stream(&self, path: &str, headers: &[&str]) -> Events {
        let mut stream = self.connect();
        send(&mut stream, &format!("GET {path} HTTP/1.1"), headers);
        Events { reader: BufReader::new(stream) }
    }

    /// The server's highest resident memory so far, bytes.
    pub fn peak_bytes(&self) -> u64 {
        let process = procfs::process::Process::new(self.process.id() as i32);
        process.and_then(|process| process.status()).unwrap().vmhwm.unwrap() << 10
    }
}

fn collect(stderr: ChildStderr, said: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            *said.lock().unwrap() += &(line + "\n");
        }
    });
}

fn send(stream: &mut TcpStream, request: &str, headers: &[&str]) {
    let mut text = format!("{request}\r\nConnection: close\r\n");
    if !headers.iter().any(|line| line.to_lowercase().starts_with("host:")) {
        text += "Host: localhost\r\n";
    }
    headers.iter().for_each(|line| text += &format!("{line}\r\n"));
    stream.write_all((text + "\r\n").as_bytes()).unwrap();
}

pub fn read_answer(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

pub struct Events {
    reader: BufReader<TcpStream>,
}

impl Events {
    /// Name and data of the next event. Skips the heads of HTTP chunks.
    pub fn next(&mut self) -> (String, serde_json::Value) {
        self.try_next().expect("the stream continues")
    }

    /// Like [`Events::next`].
    ///
    /// None: the stream has ended.
    pub fn try_next(&mut self) -> Option<(String, serde_json::Value)> {
        let (mut name, mut text) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(given) = line.strip_prefix("event: ") {
                name = given.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                text = data.to_owned();
            }
            if !text.is_empty() {
                return Some((name, serde_json::from_str(&text).unwrap()));
            }
        }
    }
}
