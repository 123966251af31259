//! Accepts connections, with limits on their number, idle time and request size.

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

/// Limit of simultaneous connections; an idle connection costs about ten kilobytes.
const CONNECTIONS_MAX: u64 = 2048;
const CONNECTIONS_MIN: u64 = 16;
/// Descriptors reserved for other files of this process, but at most half of all.
const OTHER_FILES: u64 = 256;
/// Time limit for the head of a request, and for the pause between two requests.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Size limit for the head of a request, including path and query.
const HEAD_BYTES: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// A connection ends when sent data stays unacknowledged for this long: the client does not read.
const UNREAD_TIME: Duration = Duration::from_secs(30);
/// Time for a refused client to read the reason.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Pause after a failed accept, usually because no descriptors are left.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(100);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\n\
                        Retry-After: 10\r\nContent-Length: 44\r\n\r\ntoo many connections: try again in a moment\n";

/// Serves at most `connections` at a time until `stop` is set.
pub(super) async fn listen(listener: TcpListener, router: Router, connections: usize, stop: &AtomicBool) {
    let room = Arc::new(Semaphore::new(connections));
    while !stop.load(Ordering::Relaxed) {
        match timeout(POLL_INTERVAL, listener.accept()).await {
            Ok(Ok((stream, _))) => admit(stream, &router, &room),
            Ok(Err(_)) => sleep(ACCEPT_INTERVAL).await,
            Err(_) => {}
        }
    }
}

fn admit(stream: TcpStream, router: &Router, room: &Arc<Semaphore>) {
    match Arc::clone(room).try_acquire_owned() {
        Ok(place) => drop(tokio::spawn(converse(stream, router.clone(), place))),
        Err(_) => drop(tokio::spawn(timeout(REFUSAL_TIME, refuse(stream)))),
    }
}

async fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(TOO_MANY.as_bytes()).await?;
    stream.shutdown().await
}

/// Serves one connection; ignores its errors.
async fn converse(stream: TcpStream, router: Router, _place: OwnedSemaphorePermit) {
    // A failure here only delays the end of a dead connection.
    let _ = setsockopt(&stream, sockopt::TcpUserTimeout, &(UNREAD_TIME.as_millis() as u32));
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES).max_headers(HEADERS_MAX);
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}

/// Raises the limit of open files if possible; returns the number of connections that fit.
pub(super) fn make_room() -> usize {
    let wanted = CONNECTIONS_MAX + OTHER_FILES;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard); // if it fails, fewer connections fit
    }
    connections_within(getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft))
}

fn connections_within(files: u64) -> usize {
    let others = OTHER_FILES.min(files / 2);
    (files - others).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_has_the_length_of_its_body() {
        let (head, body) = TOO_MANY.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "the body has {} bytes", body.len());
    }

    /// Regression: connections used up all descriptors, and sweeps failed.
    #[test]
    fn connections_leave_files_for_the_rest() {
        let check = |files, connections| assert_eq!(connections_within(files), connections, "of {files} files");
        check(31, 16);
        check(64, 32);
        check(511, 256);
        check(1024, 768);
        check(2303, 2047);
        check(u64::MAX, 2048);
    }
}
