//! Checks that a packaged program serves its web page, which a build without the bundle lacks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A recording that any program can serve without privilege.
pub const RECORDING: &str = "tests/fixtures/recording-format-1.tccc";
/// What the program writes to stderr before its address.
const SERVING: &str = "serving http://";
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `tccc serve`, killed when dropped.
pub struct RunningServer {
    child: Child,
    address: SocketAddr,
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RunningServer {
    /// # Errors
    /// The program ends before it reports its address.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn().context("start `tccc serve`")?;
        let mut stderr = BufReader::new(child.stderr.take().context("stderr is piped")?);
        let mut said = String::new();
        while !said.contains(SERVING) && stderr.read_line(&mut said).context("read what `tccc serve` says")? > 0 {}
        let place = said.split_once(SERVING).and_then(|(_, rest)| rest.split([',', '/', '\n']).next());
        let Some(address) = place.and_then(|place| place.parse().ok()) else {
            let ended = child.wait().context("wait for `tccc serve`")?;
            anyhow::bail!("`tccc serve` ended with {ended}: {said}");
        };
        // Without a reader, the server would stop when the pipe is full.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Ok(RunningServer { child, address })
    }

    /// # Errors
    /// The answer's status is not 200.
    pub fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.address).with_context(|| format!("connect to {}", self.address))?;
        stream.set_read_timeout(Some(PATIENCE)).context("limit the wait for an answer")?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").context("ask")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).with_context(|| format!("read the answer to {path}"))?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        ensure!(answer.starts_with("HTTP/1.1 200 "), "`tccc serve` answers {path} with {answer}");
        Ok(answer)
    }
}

/// Starts the program and asks for its page. `command` is the program, or what starts it elsewhere.
pub fn check(command: &mut Command, recording: &str) -> Result<()> {
    command.args(["serve", "--listen", "127.0.0.1:0", "--replay", recording]);
    let server = RunningServer::start(command)?;
    let page = server.get("/")?;
    ensure!(page.contains("/page.js"), "the program was built without its web page: {page}");
    server.get("/page.js").map(drop)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Asks a program that answers each request with this page.
    fn check_page(page: &'static str) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut request = BufReader::new(&stream);
                let mut line = String::from("begin");
                while !line.trim().is_empty() {
                    line.clear();
                    request.read_line(&mut line).unwrap();
                }
                write!(&stream, "HTTP/1.1 200 OK\r\n\r\n{page}").unwrap();
            }
        });
        let script = format!("echo 'tccc: note: serving http://{address}, until Ctrl-C' >&2; exec sleep 60");
        check(Command::new("sh").args(["-c", &script]), "recording")
    }

    /// Packages were built without the page, and nothing said so.
    #[test]
    fn program_without_its_page_is_refused() {
        check_page("<script type=module src=/page.js></script>").unwrap();
        let error = check_page("<p>built without its web page</p>").unwrap_err().to_string();
        assert!(error.starts_with("the program was built without its web page: "), "{error}");
    }

    #[test]
    fn program_that_ends_is_quoted() {
        let script = "echo 'tccc: error: cannot count sockets: this process lacks CAP_SYS_ADMIN' >&2; exit 4";
        let error = check(Command::new("sh").args(["-c", script]), "recording").unwrap_err().to_string();
        assert!(error.contains("exit status: 4") && error.contains("lacks CAP_SYS_ADMIN"), "{error}");
    }
}
