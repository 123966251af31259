//! A link by our own user-space emulator, for kernels without netem and for runs that repeat their losses packet for packet.
//!
//! Each end is one half of a veth pair whose other half lives in a namespace of the link's own. There a thread takes
//! the packets (with the kernel's arrival times, so that taking them late costs nothing), decides on the virtual clock
//! of [`shaper`], and sends each when it is due. Nothing has a name outside: when the process ends, however it ends,
//! the private namespace goes and with it all interfaces.
//!
//! It carries IP; VLAN tags are not carried.

use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use self::engine::{End, Engine, EngineRequest};
use self::lane::Lane;
use self::port::Port;
use super::link::{Link, LinkDriver, LinkEnd, LinkNotice};
use super::wires::{OWN_NAMES, Wires};
use crate::kernel::netlink::interface_index;
use crate::model::run::LinkCounters;
use crate::path::LinkConfig;

pub(crate) mod ack;
mod clock;
mod engine;
pub(crate) mod gate;
pub(crate) mod lane;
mod mark;
mod meter;
mod moments;
pub(crate) mod pool;
pub(crate) mod port;
mod priority;
mod serialiser;
pub(crate) mod shaper;

/// Above ordinary work, below the kernel's own real-time threads.
const REAL_TIME_PRIORITY: i32 = 10;
/// Timers of the link's thread fire on time, not in groups.
const TIMER_SLACK_NANOS: libc::c_ulong = 1;

/// Builds links by the user-space emulator.
#[derive(Debug, Default, Clone, Copy)]
pub struct TunLink;

impl LinkDriver for TunLink {
    fn name(&self) -> &'static str {
        "tunlink"
    }

    fn connect(&self, config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Box<dyn Link>> {
        config.check()?;
        let wires = Wires::create(config.mtu, ends).context("create the link's interfaces")?;
        Ok(Box::new(Emulated::start(config, wires)?))
    }
}

/// A link with its running thread.
struct Emulated {
    requests: Option<Sender<EngineRequest>>,
    bell: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    end: Arc<Mutex<Option<End>>>,
    notices: Vec<LinkNotice>,
    wires: Wires,
}

impl Emulated {
    fn start(config: &LinkConfig, wires: Wires) -> Result<Self> {
        let ports = open_ports(&wires)?;
        wires.set_ends_up()?;
        let limits = config.queue_limits()?;
        let lanes = [0, 1].map(|number| Lane::new(config, number, limits[number]));
        let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
        let bell = Arc::new(bell.context("create an event descriptor")?);
        let (requests, inbox) = mpsc::channel();
        let mut engine = Engine { ports, lanes, requests: inbox, bell: Arc::clone(&bell) };
        let end = Arc::new(Mutex::new(None));
        let (told, heard) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("tunlink".into());
        let thread = thread.spawn({
            let end = Arc::clone(&end);
            move || {
                let _ = told.send(raise_priority());
                let ended = engine.run();
                // Before the engine goes: who waits for its answer finds out by the engine's end.
                *end.lock().expect("no thread panics with this lock") = Some(ended);
                drop(engine);
            }
        });
        let thread = thread.context("start the link's thread")?;
        let notices = heard.recv().context("wait for the link's thread")?.err().map(LinkNotice::Lacking);
        let notices = notices.into_iter().collect();
        Ok(Emulated { requests: Some(requests), bell, thread: Some(thread), end, notices, wires })
    }

    /// Asks the thread and waits for its answer; none when it has ended.
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> EngineRequest) -> Option<T> {
        let (answer, heard) = mpsc::sync_channel(1);
        self.requests.as_ref()?.send(request(answer)).ok()?;
        let _ = self.bell.write(1);
        heard.recv().ok()
    }

    fn end(&self) -> Option<End> {
        self.end.lock().expect("no thread panics with this lock").clone()
    }
}

impl Link for Emulated {
    fn counters(&self) -> [LinkCounters; 2] {
        let mut counters = match (self.ask(EngineRequest::Counters), self.end()) {
            (Some(counters), _) => counters,
            (None, Some(End::InterfaceGone(_, counters))) => *counters,
            (None, _) => unreachable!("the thread ends only when the link is dropped or an interface goes"),
        };
        for (counters, drops) in counters.iter_mut().zip(self.wires.end_drops()) {
            counters.failed_pkts += drops;
        }
        counters
    }

    fn restart_counters(&self) {
        self.ask(EngineRequest::RestartCounters);
        self.wires.restart_end_drops();
    }

    fn reseed(&self, seeds: [u64; 2]) {
        self.ask(|answer| EngineRequest::Reseed(seeds, answer));
    }

    fn start(&self) {
        self.ask(EngineRequest::Start);
    }

    fn notices(&self) -> Vec<LinkNotice> {
        let mut notices = self.notices.clone();
        if let Some(End::InterfaceGone(number, _)) = self.end() {
            let (interface, end) = (&self.wires.ends[number].interface, ["first", "second"][number]);
            let what = format!("interface \"{interface}\" of its {end} end was taken away");
            notices.push(LinkNotice::Stopped(what));
        }
        notices
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.bell.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Packet sockets on the link's own halves.
fn open_ports(wires: &Wires) -> Result<[Port; 2]> {
    let open = |name| {
        let interface = interface_index(&wires.own, name)?;
        wires.own.run(|| Port::open(interface))
    };
    Ok([open(OWN_NAMES[0])?, open(OWN_NAMES[1])?])
}

/// Makes the calling thread punctual; without the permission the link works, but later under load, and says so.
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
