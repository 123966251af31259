//! `tccc serve`: the web dashboard and `/metrics`.
//!
//! Three threads that never wait for each other: one watches sockets and encodes frames for the pages, one sweeps for
//! `/metrics`, and one answers connections.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::sync::Semaphore;

mod exporter;
mod flow;
mod frame;
mod gate;
mod heartbeat;
mod http;
mod live;
mod metrics;
mod overview;
mod page;
mod past;
mod routes;
mod subscribers;
mod table;
mod trials;

pub use exporter::{ExporterSettings, ReadHostConfig};
pub use gate::{AccessToken, TOKEN_MAX};
pub use heartbeat::Heartbeat;
pub use live::MakeSource;
pub use overview::{ArmShare, HostConfig, LastTrial, LimitShown, PolicyNow, Registered};
pub use page::is_bundled as has_page;
pub use trials::{TrialHistory, Trials};

use exporter::{Exporter, SharedSnapshot};
use gate::RequestGate;
use live::Watching;
use routes::Served;

pub struct ServerSettings {
    pub listen: Listen,
    /// Accepted `Host` names besides addresses and `localhost`.
    pub names: Vec<String>,
    /// `None`: no token is needed.
    pub token: Option<AccessToken>,
    /// `None`: no `/metrics`.
    pub exporter: Option<ExporterSettings>,
    /// `None`: no page.
    pub source: Option<MakeSource>,
    /// `None`: the page shows no trials.
    pub trials: Option<Arc<dyn Trials>>,
    /// Time between two frames of a page.
    pub refresh: Duration,
    pub heartbeat: Heartbeat,
}

#[derive(Debug)]
pub enum Listen {
    /// Port 0 takes a free port.
    At(SocketAddr),
    /// A socket that systemd passed.
    On(TcpListener),
}

/// Serves until `stop` is set. Once everything works, calls `began` with the address and the exporter's notices.
///
/// Side effects: those of the source and the exporter while it serves; raises this process's limit of open files.
///
/// # Errors
/// Listening on the address fails; the tracer lacks something it needs; the source is broken.
pub fn run(settings: ServerSettings, stop: &AtomicBool, began: impl FnOnce(SocketAddr, &[String])) -> Result<()> {
    // Binds first, so that a refusal comes before the tracer starts.
    let listener = match settings.listen {
        Listen::At(address) => TcpListener::bind(address).with_context(|| format!("listen on {address}"))?,
        Listen::On(listener) => listener,
    };
    listener.set_nonblocking(true).context("use the socket")?;
    let heartbeat = settings.heartbeat;
    let address = listener.local_addr().context("read the address that was bound")?;
    let connections = http::make_room(); // before the sweeps, which also open many files
    let gate = RequestGate::new(address, settings.names, settings.token);
    let snapshot = settings.exporter.is_some().then(SharedSnapshot::new);
    let mut notices = Vec::new();
    thread::scope(|scope| {
        let exporter = settings.exporter.zip(snapshot.clone()).map(|(settings, snapshot)| {
            let exporter = Exporter::start(settings, snapshot, heartbeat.clone())?;
            notices.extend_from_slice(exporter.notices());
            let sweeps = move || {
                exporter.run(stop);
                Ok(())
            };
            Ok::<_, anyhow::Error>(scope.spawn(move || ending(stop, sweeps)))
        });
        let exporter = exporter.transpose().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        let (watching, requests) = match settings.source {
            None => (None, None),
            Some(make) => {
                let (requests, asked) = live::channel();
                let snapshot = snapshot.clone().unwrap_or_else(SharedSnapshot::new);
                let (tell, made) = sync_channel(1);
                let (refresh, heartbeat) = (settings.refresh, heartbeat.clone());
                let watching = scope.spawn(move || {
                    ending(stop, || {
                        let source = make()?;
                        let _ = tell.send(()); // if `make` fails, the receiver sees the dropped sender
                        Watching::new(source, asked, refresh, snapshot).run(stop, &heartbeat)
                    })
                });
                if made.recv().is_err() {
                    return join(Some(watching)).and(join(exporter));
                }
                (Some(watching), Some(requests))
            }
        };
        let trials = settings.trials.map(trials::TrialShelf::new);
        let streams = Arc::new(Semaphore::new(routes::STREAMS_MAX));
        let served = Arc::new(Served { gate, snapshot, requests, trials, streams, heartbeat });
        began(address, &notices);
        let answered = ending(stop, || answer(listener, routes::router(served), connections, stop));
        answered.and(join(watching)).and(join(exporter))
    })
}

/// Sets `stop` when the work ends.
fn ending(stop: &AtomicBool, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = work();
    stop.store(true, Ordering::Relaxed);
    done
}

fn join(thread: Option<ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    thread.map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the server panicked"))))
}

fn answer(listener: TcpListener, router: axum::Router, connections: usize, stop: &AtomicBool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("begin to serve")?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).context("begin to listen")?;
        http::listen(listener, router, connections, stop).await;
        Ok(())
    })
}
