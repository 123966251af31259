//! Connections: how many, how long they may say nothing, how much a request may be.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Connections at the same time, at most and at least; each that does nothing costs about ten kilobytes.
const CONNECTIONS_MAX: u64 = 2048;
const CONNECTIONS_MIN: u64 = 16;
/// Descriptors for what this process does beside connections; half of all when there are less than twice as many.
const OTHER_FILES: u64 = 256;
/// A client has so long to send the head of a request, and may rest so long between two.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Head of a request, path and query included.
const HEAD_BYTES: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// What is sent and not acknowledged for so long ends the connection: its client does not read.
const UNREAD_TIME: Duration = Duration::from_secs(30);
/// How long a client that is too many may take to read why.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Rest after the kernel could not hand over a connection: no descriptors are left.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// How soon a request to stop is seen.
const STOP_LOOK: Duration = Duration::from_millis(100);

const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\n\
                        Retry-After: 10\r\nContent-Length: 44\r\n\r\ntoo many connections: try again in a moment\n";

/// Answers so many connections at the same time, until `stop` is set.
pub(super) async fn listen(listener: TcpListener, router: Router, connections: usize, stop: &AtomicBool) {
    let room = Arc::new(Semaphore::new(connections));
    while !stop.load(Ordering::Relaxed) {
        match timeout(STOP_LOOK, listener.accept()).await {
            Ok(Ok((stream, _))) => admit(stream, &router, &room),
            Ok(Err(_)) => sleep(ACCEPT_REST).await,
            Err(_) => {}
        }
    }
}

fn admit(stream: TcpStream, router: &Router, room: &Arc<Semaphore>) {
    match Arc::clone(room).try_acquire_owned() {
        Ok(place) => drop(tokio::spawn(converse(stream, router.clone(), place))),
        // What does not fit into the kernel's buffer at once is not worth a task.
        Err(_) => drop(tokio::spawn(timeout(REFUSAL_TIME, refuse(stream)))),
    }
}

async fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(TOO_MANY.as_bytes()).await?;
    stream.shutdown().await
}

/// One connection; whatever ends it is the client's own affair.
async fn converse(stream: TcpStream, router: Router, _place: OwnedSemaphorePermit) {
    // Without these a connection only lasts longer than it should.
    let _ = setsockopt(&stream, sockopt::TcpUserTimeout, &(UNREAD_TIME.as_millis() as u32));
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES).max_headers(HEADERS_MAX);
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}

/// Connections that fit beside the other files of this process, which may have a thousand by default.
///
/// Side effects: more open files are allowed to this process, if it may allow them to itself.
pub(super) fn make_room() -> usize {
    let wanted = CONNECTIONS_MAX + OTHER_FILES;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard); // fewer connections then
    }
    connections_within(getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft))
}

fn connections_within(files: u64) -> usize {
    let others = OTHER_FILES.min(files / 2);
    (files - others).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX) as usize
}

/// Binds before anything else is begun, so that a refusal comes first.
///
/// Errors: the address is in use, or not this host's.
pub(super) fn bind(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    without_waiting(std::net::TcpListener::bind(address)?)
}

/// Makes a socket one that the runtime can wait for.
pub(super) fn without_waiting(listener: std::net::TcpListener) -> std::io::Result<std::net::TcpListener> {
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn a_connection_that_finds_no_room_is_told_so() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let told = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            admit(stream, &Router::new(), &Arc::new(Semaphore::new(0)));
            let mut told = String::new();
            client.read_to_string(&mut told).await.unwrap();
            told
        });
        assert_eq!(told, TOO_MANY);
    }

    /// More connections than files ended what else needs files: sweeps.
    #[test]
    fn connections_leave_files_for_the_rest() {
        let check = |files, connections| assert_eq!(connections_within(files), connections, "of {files} files");
        check(0, 16);
        check(31, 16);
        check(64, 32);
        check(511, 256);
        check(512, 256);
        check(1024, 768);
        check(2303, 2047);
        check(2304, 2048);
        check(u64::MAX, 2048);
    }

    #[test]
    fn refusal_says_how_long_it_is() {
        let (head, body) = TOO_MANY.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "the body has {} bytes", body.len());
    }
}
