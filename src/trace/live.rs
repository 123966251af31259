//! The live stream: one tracer follows every socket that passes its filter, while it lives.
//!
//! Everything is held by file descriptors: when the process ends, however it ends, the kernel detaches it all.

use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};

use super::event::{DecodeError, Event};
use super::filter::Filter;
use super::program::{self, OpenTcpTraceSkel, TcpTraceSkel};
pub use super::tick::ClockCost;
use super::tick::{self, Clock, INTERVAL_MIN};
use crate::failure::Failure;
use crate::kernel::btf::Types;
use crate::kernel::privilege::{self, Capability};

/// Default size of the ring between kernel and reader, bytes: 15000 events.
pub const RING_BYTES: u32 = 4 << 20;
/// Smallest ring: the kernel counts in whole pages.
pub const RING_BYTES_MIN: u32 = 4 << 10;
pub const RING_BYTES_MAX: u32 = 1 << 30;
/// Sockets that are followed at the same time: `FLOWS_MAX` of the kernel program.
pub const SOCKETS_MAX: u32 = 1 << 17;
/// Places of the counts of dropped events: `DROP_RING_FULL` and `DROP_NO_PLACE` of the kernel program.
const RING_FULL: u32 = 0;
const NO_PLACE: u32 = 1;
/// Loss events of one socket are at least this part of the sampling interval apart.
pub const LOSS_GAPS_PER_INTERVAL: u32 = 10;
/// The reader is woken when this part of the ring is unread.
const WAKE_PART: u32 = 4;
/// Samples by timer wait for the next tick when this part of the ring is unread: losses and closes find room.
const YIELD_PART: u32 = 2;
/// Events handed over before the drop count and a signal are looked at again.
const BATCH_EVENTS: usize = 4096;

/// What the ring's callback leaves for the caller of [`Tracer::poll`].
#[derive(Default)]
struct Arrivals {
    events: Vec<Event>,
    refused: Option<DecodeError>,
}

/// Follows sockets and hands their events over; detached from the kernel when dropped.
pub struct Tracer {
    ring: RingBuffer<'static>,
    arrivals: Arc<Mutex<Arrivals>>,
    watcher: Watcher,
    notices: Vec<String>,
    clock: Option<Clock>,
    _events: MapHandle,
    _links: Vec<Link>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// At the first packet after each interval; zero: at every packet. A program runs at every packet of the host.
    ByPacket(Duration),
    /// Once per interval, of every socket that moved meanwhile; nothing runs per packet. Where the kernel or the
    /// process cannot, or for intervals under a millisecond, by packet.
    ByClock(Duration),
}

impl Tracer {
    /// Begins to follow every socket that passes `filter`, one sample per socket and interval.
    ///
    /// `ring_bytes` is rounded up to a power of two between [`RING_BYTES_MIN`] and [`RING_BYTES_MAX`].
    ///
    /// Errors: a capability, the kernel's type information or the tracepoint for packets is missing.
    /// Side effects: programs on the kernel's TCP tracepoints, held by this process alone.
    pub fn start(filter: &Filter, sampling: Sampling, ring_bytes: u32) -> Result<Tracer> {
        privilege::require("trace sockets", &[Capability::Bpf, Capability::Perfmon])?;
        let kernel = Types::of_running_kernel()?;
        let has = |tracepoint: &str| program::has_tracepoint(&kernel, tracepoint);
        let can_tick = matches!(sampling, Sampling::ByClock(interval) if interval >= INTERVAL_MIN);
        let refused = match can_tick && tick::is_possible(&kernel, has) {
            true => match Tracer::load(filter, (sampling, ring_bytes), has) {
                Ok(tracer) => return Ok(tracer),
                Err(refused) => Some(format!("samples are taken by packet, which costs more: by a timer, {refused:#}")),
            },
            false => None,
        };
        let (Sampling::ByPacket(interval) | Sampling::ByClock(interval)) = sampling;
        let mut tracer = Tracer::load(filter, (Sampling::ByPacket(interval), ring_bytes), has)?;
        tracer.notices.extend(refused);
        Ok(tracer)
    }

    fn load(
        filter: &Filter,
        (sampling, ring_bytes): (Sampling, u32),
        has_tracepoint: impl Fn(&str) -> bool,
    ) -> Result<Tracer> {
        let ring_bytes = ring_bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).next_power_of_two();
        let mut object = MaybeUninit::uninit();
        let mut open = program::open(&mut object, filter)?;
        open.maps.tccc_events.set_max_entries(ring_bytes).context("size the ring")?;
        let (Sampling::ByPacket(interval) | Sampling::ByClock(interval)) = sampling;
        let is_by_clock = sampling == Sampling::ByClock(interval);
        set_times(&mut open, interval, ring_bytes)?;
        keep_sampling(&mut open, is_by_clock);
        let notices = leave_out_missing(&mut open, (has_tracepoint, is_by_clock))?;
        let skel = open.load().map_err(program::explain_refusal)?;
        program::fill_filter(&skel, filter)?;
        let watcher = Watcher::of(&skel, filter)?;
        let events = MapHandle::try_from(&skel.maps.tccc_events).context("hold the ring")?;
        let (ring, arrivals) = build_ring(&events)?;
        let links = attach(&skel)?;
        let clock = is_by_clock.then(|| start_clock(&skel, filter)).transpose()?;
        Ok(Tracer { ring, arrivals, watcher, notices, clock, _events: events, _links: links })
    }

    /// Waits up to `timeout`, less when the ring fills, and hands over what has arrived, oldest first.
    ///
    /// Returns the number of events handed over. Events wait in the ring until somebody polls, so poll again within
    /// the time in which the ring can fill.
    ///
    /// Errors: bytes in the ring that are no event.
    pub fn poll(&self, timeout: Duration, take: &mut dyn FnMut(Event)) -> Result<usize> {
        let waited = self.ring.poll_raw(timeout);
        if waited < 0 && waited != -libc::EINTR {
            bail!("wait for events: {}", std::io::Error::from_raw_os_error(-waited));
        }
        let mut count = self.hand_over(take)?;
        while self.ring.consume_raw_n(BATCH_EVENTS) > 0 {
            count += self.hand_over(take)?;
        }
        Ok(count)
    }

    fn hand_over(&self, take: &mut dyn FnMut(Event)) -> Result<usize> {
        let arrivals = std::mem::take(&mut *self.arrivals.lock().expect("no reader of events panics"));
        if let Some(refused) = arrivals.refused {
            return Err(refused).context("decode an event");
        }
        let count = arrivals.events.len();
        arrivals.events.into_iter().for_each(take);
        Ok(count)
    }

    /// What is less precise or costs more than it should on this kernel, and why.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// What the samples cost so far; nothing where they are taken by packet.
    pub fn clock_cost(&self) -> Option<ClockCost> {
        self.clock.as_ref().map(Clock::cost)
    }

    /// Which namespaces it follows and what it dropped; a clone goes to another thread.
    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }
}

/// A handle on a running tracer for other threads: which namespaces it follows, what it had to drop.
#[derive(Debug, Clone)]
pub struct Watcher {
    maps: Arc<WatchedMaps>,
}

#[derive(Debug)]
struct WatchedMaps {
    netns: Option<MapHandle>,
    generation: MapHandle,
    dropped: MapHandle,
    /// The filter's generation in the kernel; 0 is a socket that has no verdict yet.
    latest: Mutex<u32>,
}

impl Watcher {
    fn of(skel: &TcpTraceSkel<'_>, filter: &Filter) -> Result<Watcher> {
        let hold = |map| MapHandle::try_from(map).context("hold the tracer's maps");
        let netns = filter.netns.is_some().then(|| hold(&skel.maps.tccc_f_netns)).transpose()?;
        let maps = WatchedMaps {
            netns,
            generation: hold(&skel.maps.tccc_generation)?,
            dropped: hold(&skel.maps.tccc_dropped)?,
            latest: Mutex::new(0),
        };
        maps.decide_anew()?;
        Ok(Watcher { maps: Arc::new(maps) })
    }

    /// Follows one more network namespace; sockets that are open in it already are followed from their next packet.
    ///
    /// Errors: the tracer was started without a set of namespaces, or follows as many as it can.
    pub fn watch_netns(&self, inode: u32) -> Result<()> {
        let set = self.netns()?.update(&inode.to_ne_bytes(), &[1], MapFlags::ANY);
        set.with_context(|| format!("follow the network namespace {inode}"))?;
        self.maps.decide_anew()
    }

    /// Follows a network namespace no more; one that is not followed is no error.
    ///
    /// Errors: the tracer was started without a set of namespaces.
    pub fn unwatch_netns(&self, inode: u32) -> Result<()> {
        match self.netns()?.delete(&inode.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("leave the network namespace {inode}"))
            }
            _ => self.maps.decide_anew(),
        }
    }

    /// Events that could not be sent since the start.
    pub fn dropped(&self) -> u64 {
        self.drops().iter().sum()
    }

    /// The same by reason: the ring was full, or the socket is beyond [`SOCKETS_MAX`].
    pub fn drops(&self) -> [u64; 2] {
        [RING_FULL, NO_PLACE].map(|reason| {
            let count = self.maps.dropped.lookup(&reason.to_ne_bytes(), MapFlags::ANY);
            let count = count.ok().flatten().and_then(|bytes| bytes.try_into().ok());
            u64::from_ne_bytes(count.expect("a drop count is one number in a map this process holds"))
        })
    }

    fn netns(&self) -> Result<&MapHandle> {
        self.maps.netns.as_ref().context("this tracer follows every network namespace")
    }
}

impl WatchedMaps {
    /// Makes the kernel decide for every socket again.
    fn decide_anew(&self) -> Result<()> {
        let mut latest = self.latest.lock().expect("nobody panics while holding the filter");
        *latest = latest.checked_add(1).unwrap_or(1);
        let set = self.generation.update(&0u32.to_ne_bytes(), &latest.to_ne_bytes(), MapFlags::ANY);
        set.context("change the tracer's filter")
    }
}

fn set_times(open: &mut OpenTcpTraceSkel<'_>, interval: Duration, ring_bytes: u32) -> Result<()> {
    let rodata = open.maps.rodata_data.as_mut().context("find the tracer's settings")?;
    rodata.interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    rodata.interval_jiffies = rodata.interval_ns / u64::from(rodata.jiffy_ns);
    rodata.loss_gap_ns = rodata.interval_ns / u64::from(LOSS_GAPS_PER_INTERVAL);
    rodata.wake_bytes = (ring_bytes / WAKE_PART).into();
    rodata.yield_bytes = (ring_bytes / YIELD_PART).into();
    Ok(())
}

fn keep_sampling(open: &mut OpenTcpTraceSkel<'_>, is_by_clock: bool) {
    let progs = &mut open.progs;
    progs.tccc_sweep.set_autoload(false);
    progs.tccc_packet.set_autoload(!is_by_clock);
    progs.tccc_begin.set_autoload(is_by_clock);
    progs.tccc_meet.set_autoload(is_by_clock);
    progs.tccc_meet_file.set_autoload(is_by_clock);
}

/// What is open becomes known, then the clock begins; what opens meanwhile is seen by its tracepoint.
fn start_clock(skel: &TcpTraceSkel<'_>, filter: &Filter) -> Result<Clock> {
    let by_namespace = skel.progs.tccc_meet.attach().context("attach the tracer's socket iterator")?;
    let by_process = skel.progs.tccc_meet_file.attach().context("attach the tracer's file iterator")?;
    tick::meet_all(&by_namespace, &by_process, filter)?;
    Clock::begin(skel)
}

/// Keeps from loading what this kernel has no tracepoint for; what is less precise without.
///
/// Errors: the one for packets is missing, without which there is nothing to trace.
fn leave_out_missing(
    open: &mut OpenTcpTraceSkel<'_>,
    (has, is_by_clock): (impl Fn(&str) -> bool, bool),
) -> Result<Vec<String>> {
    if !is_by_clock && !has("tcp_probe") {
        let refusal = Failure::unmet("cannot trace: this kernel lacks the tracepoint tcp_probe");
        return Err(refusal.hint("`tccc doctor` lists what this host lacks").into());
    }
    let progs = &mut open.progs;
    let optional = [
        (&mut progs.tccc_tcp_state, "inet_sock_set_state", "connections have no open and close events"),
        (&mut progs.tccc_ca_state, "tcp_cong_state_set", "a state change is seen at the packet after it"),
        (&mut progs.tccc_retransmit, "tcp_retransmit_skb", "a retransmission is seen at the packet after it"),
    ];
    Ok(program::leave_out_missing(optional, has))
}

/// Attaches what was loaded; connections open before their packets are seen.
fn attach(skel: &TcpTraceSkel<'_>) -> Result<Vec<Link>> {
    let progs = &skel.progs;
    [&progs.tccc_tcp_state, &progs.tccc_ca_state, &progs.tccc_retransmit, &progs.tccc_packet]
        .into_iter()
        .filter(|program| program.autoload())
        .map(|program| program.attach().with_context(|| format!("attach the tracer's {}", program.name().display())))
        .collect()
}

fn build_ring(events: &MapHandle) -> Result<(RingBuffer<'static>, Arc<Mutex<Arrivals>>)> {
    let arrivals = Arc::new(Mutex::new(Arrivals::default()));
    let arriving = Arc::clone(&arrivals);
    let mut builder = RingBufferBuilder::new();
    builder.add(events, move |bytes| {
        let mut arrivals = arriving.lock().expect("no reader of events panics");
        match Event::decode(bytes) {
            Ok(event) => arrivals.events.push(event),
            Err(refused) => arrivals.refused = Some(refused),
        }
        0
    })?;
    Ok((builder.build().context("map the ring")?, arrivals))
}
