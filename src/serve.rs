//! `tccc serve`: the web dashboard and `/metrics`.
//!
//! Three threads that never wait for each other: one watches sockets and encodes what pages show, one sweeps for
//! `/metrics`, and one answers connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::sync::Semaphore;

mod audience;
mod exporter;
mod flow;
mod frame;
mod gate;
mod http;
mod live;
mod metrics;
mod overview;
mod page;
mod past;
mod pulse;
mod routes;
mod table;
mod trials;

pub use exporter::{Look, Settings as ExporterSettings};
pub use gate::{TOKEN_MAX, Token};
pub use live::MakeSource;
pub use overview::{ArmShare, PolicyNow, Registered, Situation};
pub use page::is_bundled as has_page;
pub use pulse::Pulse;
pub use trials::{History, Trials};

use exporter::{Exporter, Shelf};
use gate::Gate;
use live::Watching;
use routes::Served;

pub struct Settings {
    pub listen: Listen,
    /// Names other than addresses and `localhost` by which this server may be asked for.
    pub names: Vec<String>,
    /// What whoever asks must know; none: nothing.
    pub token: Option<Token>,
    /// What is counted for `/metrics`; none: nothing.
    pub exporter: Option<ExporterSettings>,
    /// Makes what the page shows; none: there is no page.
    pub source: Option<MakeSource>,
    /// What the page shows of trials; none: nothing.
    pub trials: Option<Arc<dyn Trials>>,
    /// Time between two frames of a page.
    pub refresh: Duration,
    /// Is kept beating as long as sampling goes on.
    pub pulse: Pulse,
}

#[derive(Debug)]
pub enum Listen {
    /// An address and port; port 0 takes a free one.
    At(SocketAddr),
    /// A socket that was handed over.
    On(std::net::TcpListener),
}

/// Serves until `stop` is set; `began` gets the address once everything works, and what the exporter's numbers lack.
///
/// Errors: the address cannot be listened on; a need of the tracer is missing; the source is broken.
/// Side effects: those of the source and of the exporter, as long as it serves; more open files are allowed to this
/// process.
pub fn run(settings: Settings, stop: &AtomicBool, began: impl FnOnce(SocketAddr, &[String])) -> Result<()> {
    let listener = match settings.listen {
        Listen::At(address) => http::bind(address).with_context(|| format!("listen on {address}"))?,
        Listen::On(listener) => http::without_waiting(listener).context("use the socket that was handed over")?,
    };
    let pulse = settings.pulse;
    let address = listener.local_addr().context("read the address that was bound")?;
    let connections = http::make_room(); // before the sweeps, which open many files too
    let gate = Gate::new(address, settings.names, settings.token);
    let shelf = settings.exporter.is_some().then(Shelf::new);
    let mut notices = Vec::new();
    thread::scope(|scope| {
        let exporter = settings.exporter.zip(shelf.clone()).map(|(settings, shelf)| {
            let exporter = Exporter::start(settings, shelf, pulse.clone())?;
            notices.extend_from_slice(exporter.notices());
            let sweeps = move || {
                exporter.run(stop);
                Ok(())
            };
            Ok::<_, anyhow::Error>(scope.spawn(move || ending(stop, sweeps)))
        });
        let exporter = exporter.transpose().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        let (watching, asks) = match settings.source {
            None => (None, None),
            Some(make) => {
                let (asks, asked) = live::channel();
                let shelf = shelf.clone().unwrap_or_else(Shelf::new);
                let (tell, made) = sync_channel(1);
                let (refresh, pulse) = (settings.refresh, pulse.clone());
                let watching = scope.spawn(move || {
                    ending(stop, || {
                        let source = make()?;
                        let _ = tell.send(()); // whoever waits sees that the sender is gone otherwise
                        Watching::new(source, asked, refresh, shelf).run(stop, &pulse)
                    })
                });
                if made.recv().is_err() {
                    return join(Some(watching)).and(join(exporter));
                }
                (Some(watching), Some(asks))
            }
        };
        let trials = settings.trials.map(trials::TrialShelf::new);
        let streams = Arc::new(Semaphore::new(routes::STREAMS_MAX));
        let served = Arc::new(Served { gate, shelf, asks, trials, streams, pulse });
        began(address, &notices);
        let answered = ending(stop, || answer(listener, routes::router(served), connections, stop));
        answered.and(join(watching)).and(join(exporter))
    })
}

/// Ends everything when this ends.
fn ending(stop: &AtomicBool, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = work();
    stop.store(true, Ordering::Relaxed);
    done
}

fn join(thread: Option<ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    thread.map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the server panicked"))))
}

fn answer(listener: std::net::TcpListener, router: axum::Router, connections: usize, stop: &AtomicBool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("begin to serve")?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).context("begin to listen")?;
        http::listen(listener, router, connections, stop).await;
        Ok(())
    })
}
