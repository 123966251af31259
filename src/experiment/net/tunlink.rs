//! A link by our own user-space emulator, for kernels without netem and for runs that repeat their losses packet for packet.
//!
//! Each end is one half of a veth pair whose other half lives in a namespace of the link's own. There a thread takes
//! the packets (with the kernel's arrival times, so that taking them late costs nothing), decides on the virtual clock
//! of [`shaper`], and sends each when it is due. Nothing has a name outside: when the process ends, however it ends,
//! the private namespace goes and with it all interfaces.
//!
//! The ends have one common hardware address and no ARP, so that only packets the hosts meant to send meet the link.
//! It carries IP; VLAN tags are not carried.

use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use self::engine::{End, Engine, Request};
use self::lane::Lane;
use self::port::Port;
use super::{Link, LinkConfig, LinkDriver, LinkEnd};
use crate::failure::Failure;
use crate::kernel::netlink::{
    VethEnd, create_veth, delete_interface, interface_index, send_drops, set_up, stop_ipv6_autoconfiguration,
};
use crate::kernel::netns::Netns;
use crate::kernel::offload::turn_offloads_off;
use crate::model::run::LinkCounters;

mod clock;
mod engine;
mod lane;
mod meter;
mod pool;
mod port;
mod shaper;

/// Locally administered addresses: one that both ends share, one for the link's own halves.
const END_MAC: [u8; 6] = [0x02, 0x74, 0x63, 0x63, 0x63, 0x01];
const OWN_MAC: [u8; 6] = [0x02, 0x74, 0x63, 0x63, 0x63, 0x02];
/// The link's own halves, in its private namespace.
const OWN_NAMES: [&str; 2] = ["link0", "link1"];
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
        if !nix::unistd::geteuid().is_root() {
            let unmet = Failure::unmet("cannot build a link: creating interfaces needs root");
            return Err(unmet.hint("run it with `sudo`").into());
        }
        let wires = Wires::create(config, ends).context("create the link's interfaces")?;
        Ok(Box::new(Emulated::start(config, wires)?))
    }
}

/// The two veth pairs of a link, deleted when dropped.
#[derive(Debug)]
struct Wires {
    own: Netns,
    ends: [LinkEnd; 2],
    /// Packets the ends had failed to hand over when the counters were last started.
    end_drops: Mutex<[u64; 2]>,
}

impl Wires {
    fn create(config: &LinkConfig, ends: [LinkEnd; 2]) -> Result<Self> {
        let wires = Wires { own: Netns::create()?, ends, end_drops: Mutex::default() };
        for (own_name, end) in OWN_NAMES.into_iter().zip(&wires.ends) {
            let own = VethEnd { netns: &wires.own, name: own_name, mac: Some(OWN_MAC), arp: false };
            let outer = VethEnd { netns: &end.netns, name: &end.interface, mac: Some(END_MAC), arp: false };
            create_veth(&own, &outer, config.mtu)?;
            for (netns, name) in [(&wires.own, own_name), (&end.netns, end.interface.as_str())] {
                turn_offloads_off(netns, name)?;
                stop_ipv6_autoconfiguration(netns, name)?;
            }
            // A packet socket refuses an interface that is down.
            set_up(&wires.own, own_name)?;
        }
        Ok(wires)
    }

    fn open_ports(&self) -> Result<[Port; 2]> {
        let open = |name| {
            let interface = interface_index(&self.own, name)?;
            self.own.run(|| Port::open(interface))
        };
        Ok([open(OWN_NAMES[0])?, open(OWN_NAMES[1])?])
    }

    fn set_ends_up(&self) -> Result<()> {
        self.ends.iter().try_for_each(|end| set_up(&end.netns, &end.interface))
    }

    /// Packets the ends failed to hand to the link, since the interfaces exist; none that vanished.
    fn end_drops_so_far(&self) -> [u64; 2] {
        [0, 1].map(|n| send_drops(&self.ends[n].netns, &self.ends[n].interface).unwrap_or(0))
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        // An interface that somebody else deleted already is what is wanted.
        OWN_NAMES.iter().for_each(|name| drop(delete_interface(&self.own, name)));
    }
}

/// A link with its running thread.
struct Emulated {
    requests: Option<Sender<Request>>,
    bell: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    end: Arc<Mutex<Option<End>>>,
    notices: Vec<String>,
    wires: Wires,
}

impl Emulated {
    fn start(config: &LinkConfig, wires: Wires) -> Result<Self> {
        let ports = wires.open_ports()?;
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
        let notices = heard.recv().context("wait for the link's thread")?.err().into_iter().collect();
        Ok(Emulated { requests: Some(requests), bell, thread: Some(thread), end, notices, wires })
    }

    /// Asks the thread and waits for its answer; none when it has ended.
    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Option<T> {
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
        let mut counters = match (self.ask(Request::Counters), self.end()) {
            (Some(counters), _) | (None, Some(End::InterfaceGone(counters))) => counters,
            (None, _) => unreachable!("the thread ends only when the link is dropped or an interface goes"),
        };
        let before = *self.wires.end_drops.lock().expect("no thread panics with this lock");
        for ((counters, so_far), before) in counters.iter_mut().zip(self.wires.end_drops_so_far()).zip(before) {
            counters.failed_pkts += so_far.saturating_sub(before);
        }
        counters
    }

    fn restart_counters(&self) {
        self.ask(Request::RestartCounters);
        *self.wires.end_drops.lock().expect("no thread panics with this lock") = self.wires.end_drops_so_far();
    }

    fn reseed(&self, seeds: [u64; 2]) {
        self.ask(|answer| Request::Reseed(seeds, answer));
    }

    fn notices(&self) -> Vec<String> {
        let mut notices = self.notices.clone();
        if let Some(End::InterfaceGone(_)) = self.end() {
            let [first, second] = &self.wires.ends;
            notices.push(format!(
                "the link stopped: interface \"{}\" or \"{}\" was taken away",
                first.interface, second.interface
            ));
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
