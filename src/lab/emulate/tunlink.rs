//! A link that a user-space emulator carries, for kernels without netem and for runs that repeat the same losses.
//!
//! Each end is half of a veth pair whose other half is in a private namespace. A thread receives the packets there,
//! computes on the virtual clock of [`link`] when each is due, and sends it then. The kernel stamps arrivals, so
//! receiving late does no harm. The private namespace and all interfaces disappear with the process, however it ends.
//!
//! The link carries IP without VLAN tags.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use self::engine::{InterfaceGone, LinkEngine, LinkRequest};
use self::lane::Lane;
use self::port::Port;
use super::wires::{OWN_NAMES, Wires};
use crate::emulate::{Link, LinkDriver, LinkEnd, LinkNotice, check_drop_tail};
use crate::path::LinkConfig;
use shared::kernel::netlink::interface_index;
use shared::model::queue::QueueState;
use shared::model::run::LinkCounters;
use shared::units::nanos;

mod clock;
mod engine;
mod header;
mod lane;
mod link;
mod meter;
mod pool;
mod port;

/// Above ordinary work, below the kernel's own real-time threads.
const REAL_TIME_PRIORITY: i32 = 10;
/// Timers of the link's thread fire on time instead of in groups.
const TIMER_SLACK_NANOS: libc::c_ulong = 1;

#[derive(Debug, Default, Clone, Copy)]
pub struct TunLink;

impl LinkDriver for TunLink {
    fn name(&self) -> &'static str {
        "tunlink"
    }

    fn delays_hosts(&self) -> bool {
        true
    }

    fn connect(&self, config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Box<dyn Link>> {
        config.check()?;
        check_drop_tail(&config.directions)?;
        let wires = Wires::create(config.mtu, ends).context("create the link's interfaces")?;
        Ok(Box::new(EmulatedLink::start(config, wires)?))
    }
}

struct EmulatedLink {
    requests: Option<Sender<LinkRequest>>,
    /// Wakes the thread for a request.
    bell: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    gone: Arc<OnceLock<InterfaceGone>>,
    notices: Vec<LinkNotice>,
    wires: Wires,
}

impl EmulatedLink {
    fn start(config: &LinkConfig, wires: Wires) -> Result<Self> {
        let open = |name| {
            let interface = interface_index(&wires.own, name)?;
            wires.own.run(|| Port::open(interface))
        };
        let ports = [open(OWN_NAMES[0])?, open(OWN_NAMES[1])?];
        wires.set_ends_up()?;
        let lanes = [Lane::new(config, 0)?, Lane::new(config, 1)?];
        let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
        let bell = Arc::new(bell.context("create an event descriptor")?);
        let (requests, inbox) = mpsc::channel();
        let mut engine = LinkEngine { ports, lanes, requests: inbox, bell: Arc::clone(&bell) };
        let gone = Arc::new(OnceLock::new());
        let (told, heard) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("tunlink".into());
        let thread = thread.spawn({
            let gone = Arc::clone(&gone);
            move || {
                let _ = told.send(raise_priority());
                // Set before the engine is dropped, which ends the wait of an unanswered request.
                if let Some(is_gone) = engine.run() {
                    let _ = gone.set(is_gone);
                }
                drop(engine);
            }
        });
        let thread = thread.context("start the link's thread")?;
        let notices = heard.recv().context("wait for the link's thread")?.err().map(LinkNotice::Lacking);
        let notices = notices.into_iter().collect();
        Ok(EmulatedLink { requests: Some(requests), bell, thread: Some(thread), gone, notices, wires })
    }

    /// Runs a request in the link's thread and waits for its result; `None` if the thread has ended.
    fn ask<T: Send + 'static>(&self, request: impl FnOnce(&mut LinkEngine) -> T + Send + 'static) -> Option<T> {
        let (answer, heard) = mpsc::sync_channel(1);
        let request: LinkRequest = Box::new(move |engine| drop(answer.send(request(engine))));
        self.requests.as_ref()?.send(request).ok()?;
        let _ = self.bell.write(1);
        heard.recv().ok()
    }
}

impl Link for EmulatedLink {
    fn counters(&self) -> [LinkCounters; 2] {
        let at_end = || self.gone.get().map(|gone| gone.counters.clone());
        let counters = self.ask(LinkEngine::counters).or_else(at_end);
        let mut counters = counters.expect("the thread ends only when the link is dropped or an interface goes");
        self.wires.add_end_drops(&mut counters);
        counters
    }

    fn restart_counters(&self) {
        self.ask(|engine| {
            engine.lanes.iter_mut().zip(&engine.ports).for_each(|(lane, port)| lane.restart_counters(port));
        });
        self.wires.restart_end_drops();
    }

    fn delays_hosts(&self) -> bool {
        true
    }

    fn reseed(&self, seeds: [u64; 2]) {
        self.ask(move |engine| engine.lanes.iter_mut().zip(seeds).for_each(|(lane, seed)| lane.path.link.reseed(seed)));
    }

    fn sample(&self, interval: Duration, length: Duration) {
        let interval = interval.max(Duration::from_nanos(1));
        let room = (length.as_nanos() / interval.as_nanos()) as usize + 1;
        self.ask(move |engine| {
            let paths = engine.lanes.iter_mut().map(|lane| &mut lane.path);
            paths.for_each(|path| path.sample_every(nanos(interval), room));
        });
    }

    fn queues(&self) -> [Vec<QueueState>; 2] {
        let taken = self.ask(|engine| {
            let now = clock::now();
            engine.lanes.each_mut().map(|lane| lane.path.link.samples(now))
        });
        taken.unwrap_or_default() // an interface was deleted, which a notice says
    }

    fn start(&self) {
        self.ask(|engine| {
            let begin = clock::now();
            engine.lanes.iter_mut().for_each(|lane| lane.path.link.start(begin));
        });
    }

    fn notices(&self) -> Vec<LinkNotice> {
        let mut notices = self.notices.clone();
        if let Some(InterfaceGone { number, .. }) = self.gone.get() {
            let (interface, end) = (&self.wires.ends[*number].interface, ["first", "second"][*number]);
            let what = format!("interface \"{interface}\" of its {end} end was deleted");
            notices.push(LinkNotice::Stopped(what));
        }
        notices
    }
}

impl Drop for EmulatedLink {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.bell.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Makes the calling thread punctual. Without the permission the link still works, but is late under load.
fn raise_priority() -> Result<(), String> {
    // SAFETY: plain system calls on the calling thread; the parameter struct outlives the call.
    let answer = unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NANOS);
        let parameters = libc::sched_param { sched_priority: REAL_TIME_PRIORITY };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters)
    };
    let why = |error: Errno| {
        format!(
            "the link has no real-time priority ({}): it will be late when the host is busy",
            error.desc().to_lowercase()
        )
    };
    Errno::result(answer).map(drop).map_err(why)
}
