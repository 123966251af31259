//! The tracer: follows every socket that passes its filter.
//!
//! File descriptors hold everything, so the kernel detaches the programs when the process ends, however it ends.

use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};

use super::event::{DecodeError, Event};
use super::filter::Filter;
use super::limited::{Limits, SocketLimits};
use super::program::{self, OpenTcpTraceSkel, TcpTraceSkel};
pub use super::tick::ClockCost;
use super::tick::{self, INTERVAL_MIN, SampleTimer};
use shared::failure::Failure;
use shared::kernel::btf::Types;
use shared::kernel::privilege::{self, Capability};
use shared::units::nanos;

/// Default size of the ring buffer, bytes: 15000 events.
pub const RING_BYTES: u32 = 4 << 20;
/// Smallest ring buffer: one page.
pub const RING_BYTES_MIN: u32 = 4 << 10;
pub const RING_BYTES_MAX: u32 = 1 << 30;
/// Limit of the sockets followed at the same time: `FLOWS_MAX` of the kernel program.
pub const SOCKETS_MAX: u32 = 1 << 17;
/// `DROP_RING_FULL` and `DROP_NO_PLACE` of the kernel program.
const DROP_REASONS: [u32; 2] = [0, 1];
/// The sampling interval divided by this is the shortest time between loss events of one socket.
pub const LOSS_GAPS_PER_INTERVAL: u32 = 10;
/// Divisor of the ring buffer's size: the reader wakes when this much is unread.
const WAKE_PART: u32 = 4;
/// Divisor of the ring buffer's size: when this much is unread, timer samples wait and leave room for other events.
const YIELD_PART: u32 = 2;
/// Most events consumed before the caller gets them.
const BATCH_EVENTS: usize = 4096;

/// Passes events from the ring buffer's callback to [`Tracer::poll`].
type Decoded = Arc<Mutex<Vec<Result<Event, DecodeError>>>>;

/// Follows sockets until dropped.
pub struct Tracer {
    ring: RingBuffer<'static>,
    decoded: Decoded,
    limits: Limits,
    watcher: Watcher,
    notices: Vec<String>,
    clock: Option<SampleTimer>,
    _events: MapHandle,
    _links: Vec<Link>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// At the first packet after each interval; zero: at every packet. Runs a program at every packet of the host.
    ByPacket(Duration),
    /// Once per interval, for every socket that changed. Falls back to `ByPacket` for intervals under a millisecond, or
    /// if the kernel or the process cannot use the timer.
    ByClock(Duration),
}

impl Tracer {
    /// Starts to follow every socket that passes `filter`, with one sample per socket and interval.
    ///
    /// `ring_bytes` is rounded up to a power of two between [`RING_BYTES_MIN`] and [`RING_BYTES_MAX`].
    ///
    /// Side effects: attaches programs to the kernel's TCP tracepoints until the tracer is dropped.
    ///
    /// # Errors
    /// A capability, the kernel's type information or the tracepoint for packets is missing.
    pub fn start(filter: &Filter, sampling: Sampling, ring_bytes: u32) -> Result<Tracer> {
        privilege::require("trace sockets", &[Capability::Bpf, Capability::Perfmon])?;
        let kernel = Types::of_running_kernel()?;
        let has = |tracepoint: &str| program::has_tracepoint(&kernel, tracepoint);
        let (Sampling::ByPacket(interval) | Sampling::ByClock(interval)) = sampling;
        let is_by_clock = sampling == Sampling::ByClock(interval);
        let load = |is_by_clock| Tracer::load(filter, (is_by_clock, sampling, ring_bytes), has);
        if !is_by_clock || interval < INTERVAL_MIN || !tick::is_possible(&kernel, has) {
            return load(false);
        }
        load(true).or_else(|refused| {
            let mut tracer = load(false)?;
            let notice = format!("sampling is by packet, which costs more, because the timer failed: {refused:#}");
            tracer.notices.push(notice);
            Ok(tracer)
        })
    }

    fn load(
        filter: &Filter,
        (is_by_clock, sampling, ring_bytes): (bool, Sampling, u32),
        has_tracepoint: impl Fn(&str) -> bool,
    ) -> Result<Tracer> {
        let (Sampling::ByPacket(interval) | Sampling::ByClock(interval)) = sampling;
        let ring_bytes = ring_bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).next_power_of_two();
        let mut object = MaybeUninit::uninit();
        let programs = if is_by_clock { program::BY_TIMER } else { program::BY_PACKET };
        let mut open = program::open(&mut object, filter, programs)?;
        open.maps.tccc_events.set_max_entries(ring_bytes).context("size the ring")?;
        set_times(&mut open, interval, ring_bytes)?;
        open.maps.rodata_data.as_mut().context("find the tracer's settings")?.sends_limited =
            sampling == Sampling::ByPacket(interval);
        let notices = leave_out_missing(&mut open, (has_tracepoint, is_by_clock))?;
        let skel = open.load().map_err(program::explain_refusal)?;
        program::fill_filter(&skel, filter)?;
        let watcher = Watcher::of(&skel, filter)?;
        let events = MapHandle::try_from(&skel.maps.tccc_events).context("hold the ring")?;
        let (ring, decoded, limits) = build_ring(&events)?;
        let links = attach(&skel)?;
        let start_clock = || {
            // A tracepoint registers the sockets that open meanwhile.
            let by_namespace = skel.progs.tccc_meet.attach().context("attach the tracer's socket iterator")?;
            let by_process = skel.progs.tccc_meet_file.attach().context("attach the tracer's file iterator")?;
            tick::meet_all(&by_namespace, &by_process, filter)?;
            SampleTimer::begin(&skel)
        };
        let clock = is_by_clock.then(start_clock).transpose()?;
        Ok(Tracer { ring, decoded, limits, watcher, notices, clock, _events: events, _links: links })
    }

    /// Waits up to `timeout`, or until the ring buffer fills, and calls `take` with the events, oldest first.
    ///
    /// Returns the number of events. Poll again before the ring buffer can overflow.
    ///
    /// # Errors
    /// The ring buffer holds bytes that are not an event.
    pub fn poll(&self, timeout: Duration, take: &mut dyn FnMut(Event)) -> Result<usize> {
        let waited = self.ring.poll_raw(timeout);
        if waited < 0 && waited != -libc::EINTR {
            bail!("wait for events: {}", std::io::Error::from_raw_os_error(-waited));
        }
        let mut count = 0;
        loop {
            let decoded = std::mem::take(&mut *self.decoded.lock().expect("no reader of events panics"));
            count += decoded.len();
            decoded.into_iter().try_for_each(|event| event.map(&mut *take)).context("decode an event")?;
            if self.ring.consume_raw_n(BATCH_EVENTS) <= 0 {
                return Ok(count);
            }
        }
    }

    /// What limited a socket besides its algorithm, once [`Tracer::poll`] has returned its close event.
    ///
    /// None: it was taken already, the ring buffer was full, or the tracer was not started with [`Sampling::ByPacket`].
    pub fn take_limits(&self, socket: u64) -> Option<SocketLimits> {
        self.limits.take(socket)
    }

    /// Limitations on this kernel, with reasons.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The cost of the timer so far. `None` when sampling by packet.
    pub fn clock_cost(&self) -> Option<ClockCost> {
        self.clock.as_ref().map(SampleTimer::cost)
    }

    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }
}

/// A handle on a running tracer for other threads.
#[derive(Debug, Clone)]
pub struct Watcher(Arc<WatchedMaps>);

#[derive(Debug)]
struct WatchedMaps {
    netns: Option<MapHandle>,
    generation: MapHandle,
    dropped: MapHandle,
    /// The filter's generation in the kernel. 0 marks a socket without a verdict.
    latest: Mutex<u32>,
}

impl Watcher {
    fn of(skel: &TcpTraceSkel<'_>, filter: &Filter) -> Result<Watcher> {
        let hold = |map| MapHandle::try_from(map).context("hold the tracer's maps");
        let netns = filter.netns.is_some().then(|| hold(&skel.maps.tccc_f_netns)).transpose()?;
        let (generation, dropped) = (hold(&skel.maps.tccc_generation)?, hold(&skel.maps.tccc_dropped)?);
        let watcher = Watcher(Arc::new(WatchedMaps { netns, generation, dropped, latest: Mutex::new(0) }));
        watcher.decide_anew()?;
        Ok(watcher)
    }

    /// Follows one more network namespace. Its open sockets are followed from their next packet.
    ///
    /// # Errors
    /// The tracer was started without a set of namespaces, or follows as many as it can.
    pub fn watch_netns(&self, inode: u32) -> Result<()> {
        let set = self.netns()?.update(&inode.to_ne_bytes(), &[1], MapFlags::ANY);
        set.with_context(|| format!("follow the network namespace {inode}"))?;
        self.decide_anew()
    }

    /// Stops following a network namespace; does nothing if it is not followed.
    ///
    /// # Errors
    /// The tracer was started without a set of namespaces.
    pub fn unwatch_netns(&self, inode: u32) -> Result<()> {
        match self.netns()?.delete(&inode.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("leave the network namespace {inode}"))
            }
            _ => self.decide_anew(),
        }
    }

    /// Events dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.drops().iter().sum()
    }

    /// Dropped events by reason: the ring buffer was full, or the socket is beyond [`SOCKETS_MAX`].
    pub fn drops(&self) -> [u64; 2] {
        DROP_REASONS.map(|reason| {
            let count = self.0.dropped.lookup(&reason.to_ne_bytes(), MapFlags::ANY);
            let count = count.ok().flatten().and_then(|bytes| bytes.try_into().ok());
            u64::from_ne_bytes(count.expect("a drop count is one number in a map this process holds"))
        })
    }

    fn netns(&self) -> Result<&MapHandle> {
        self.0.netns.as_ref().context("this tracer follows every network namespace")
    }

    /// Makes the kernel apply the filter to every socket again.
    fn decide_anew(&self) -> Result<()> {
        let mut latest = self.0.latest.lock().expect("nobody panics while holding the filter");
        *latest = latest.checked_add(1).unwrap_or(1);
        let set = self.0.generation.update(&0u32.to_ne_bytes(), &latest.to_ne_bytes(), MapFlags::ANY);
        set.context("change the tracer's filter")
    }
}

fn set_times(open: &mut OpenTcpTraceSkel<'_>, interval: Duration, ring_bytes: u32) -> Result<()> {
    let rodata = open.maps.rodata_data.as_mut().context("find the tracer's settings")?;
    rodata.interval_ns = nanos(interval);
    rodata.interval_jiffies = rodata.interval_ns / u64::from(rodata.jiffy_ns);
    rodata.loss_gap_ns = rodata.interval_ns / u64::from(LOSS_GAPS_PER_INTERVAL);
    rodata.wake_bytes = (ring_bytes / WAKE_PART).into();
    rodata.yield_bytes = (ring_bytes / YIELD_PART).into();
    Ok(())
}

/// Disables the programs whose tracepoint this kernel lacks; returns notices.
///
/// # Errors
/// The tracepoint for packets is missing and needed.
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
        (&mut progs.tccc_tcp_state, "inet_sock_set_state", "there are no open and close events"),
        (&mut progs.tccc_ca_state, "tcp_cong_state_set", "a state change is seen only at the next packet"),
        (&mut progs.tccc_retransmit, "tcp_retransmit_skb", "a retransmission is seen only at the next packet"),
    ];
    Ok(program::leave_out_missing(optional, has))
}

/// Attaches the loaded programs, the one for new connections first.
fn attach(skel: &TcpTraceSkel<'_>) -> Result<Vec<Link>> {
    let progs = &skel.progs;
    [&progs.tccc_tcp_state, &progs.tccc_ca_state, &progs.tccc_retransmit, &progs.tccc_packet]
        .into_iter()
        .filter(|program| program.autoload())
        .map(|program| program.attach().with_context(|| format!("attach the tracer's {}", program.name().display())))
        .collect()
}

fn build_ring(events: &MapHandle) -> Result<(RingBuffer<'static>, Decoded, Limits)> {
    let (decoded, limits) = (Decoded::default(), Limits::default());
    let (arriving, ending) = (Arc::clone(&decoded), limits.clone());
    let mut builder = RingBufferBuilder::new();
    builder.add(events, move |bytes| {
        if !ending.keep(bytes) {
            arriving.lock().expect("no reader of events panics").push(Event::decode(bytes));
        }
        0
    })?;
    Ok((builder.build().context("map the ring")?, decoded, limits))
}
