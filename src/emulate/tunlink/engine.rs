//! The thread that carries a link's packets: takes, sends what is due, waits; answers requests between packets.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::EventFd;

use super::clock::{self, Waiter};
use super::lane::Lane;
use super::port::{BATCH, Messages, Port};
use crate::model::run::LinkCounters;

/// What the holder of a link asks of its thread.
pub enum EngineRequest {
    /// Send the counters of both directions.
    Counters(SyncSender<[LinkCounters; 2]>),
    /// Start the counters at zero; answer when done.
    RestartCounters(SyncSender<()>),
    /// Begin what changes by time; answer when done.
    Start(SyncSender<()>),
    /// Start the random numbers anew; answer when done.
    Reseed([u64; 2], SyncSender<()>),
}

/// Why the thread ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// The link was dropped.
    Asked,
    /// The interface of this end (0 or 1) was taken away; the counters at that moment.
    InterfaceGone(usize, Box<[LinkCounters; 2]>),
}

/// Batches taken from a port before packets that are due get their turn.
const BATCHES_PER_LOOK: usize = 4;

/// Everything the thread works on.
pub struct Engine {
    /// Port 0 takes what direction 0 carries to port 1.
    pub ports: [Port; 2],
    pub lanes: [Lane; 2],
    /// Requests; its end is the order to stop.
    pub requests: Receiver<EngineRequest>,
    /// Wakes the thread for a request.
    pub bell: Arc<EventFd>,
}

impl Engine {
    /// Carries packets until the sender of requests is dropped or an interface is taken away.
    pub fn run(&mut self) -> End {
        let (mut taking, mut giving) = (Messages::new(), Messages::new());
        let mut waiter = Waiter::new();
        let mut is_ready = [true; 2];
        loop {
            if self.answer_requests().is_none() {
                return End::Asked;
            }
            for (number, is_ready) in is_ready.iter_mut().enumerate() {
                if let Err(_gone) = self.look(number, *is_ready, &mut taking) {
                    return End::InterfaceGone(number, Box::new(self.counters()));
                }
            }
            let [first, second] = &mut self.lanes;
            let sent_first = first.send_due(&self.ports[1], &mut giving);
            let sent_second = second.send_due(&self.ports[0], &mut giving);
            is_ready = if sent_first || sent_second { [false; 2] } else { self.wait(&mut waiter) };
        }
    }

    /// Takes the packets of a direction when they announced themselves or the time to look has come.
    fn look(&mut self, number: usize, is_ready: bool, messages: &mut Messages) -> Result<(), Errno> {
        let lane = &mut self.lanes[number];
        let now = clock::now();
        if !is_ready && lane.next_look().is_none_or(|look| look > now) {
            return Ok(());
        }
        let mut packets = 0;
        for _ in 0..BATCHES_PER_LOOK {
            let taken = lane.receive(&mut self.ports[number], messages)?;
            packets += taken;
            if taken < BATCH {
                break;
            }
        }
        lane.plan_next_look(packets, now);
        Ok(())
    }

    /// Waits for what comes first: a packet that is due, the time to look, a packet's arrival, a request.
    fn wait(&self, waiter: &mut Waiter) -> [bool; 2] {
        let moments = self.lanes.iter().flat_map(|lane| [lane.next_due(), lane.next_look()]);
        let until = moments.flatten().min();
        let listen = |number: usize| match self.lanes[number].listens() {
            true => PollFlags::POLLIN,
            false => PollFlags::empty(),
        };
        let mut descriptors = [
            PollFd::new(self.ports[0].as_fd(), listen(0)),
            PollFd::new(self.ports[1].as_fd(), listen(1)),
            PollFd::new(self.bell.as_fd(), PollFlags::POLLIN),
        ];
        if waiter.wait(&mut descriptors, until) {
            return [true; 2];
        }
        let has_news = |number: usize| descriptors[number].any().unwrap_or(false);
        if has_news(2) {
            let _ = self.bell.read();
        }
        [has_news(0), has_news(1)]
    }

    /// None: nobody holds the link any more.
    fn answer_requests(&mut self) -> Option<()> {
        loop {
            match self.requests.try_recv() {
                Ok(request) => self.answer(request),
                Err(TryRecvError::Empty) => return Some(()),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
    }

    /// An asker that went away needs no answer.
    fn answer(&mut self, request: EngineRequest) {
        match request {
            EngineRequest::Counters(asker) => {
                let _ = asker.send(self.counters());
            }
            EngineRequest::RestartCounters(asker) => {
                for (lane, port) in self.lanes.iter_mut().zip(&self.ports) {
                    lane.restart_counters(port);
                }
                let _ = asker.send(());
            }
            EngineRequest::Start(asker) => {
                let begin = clock::now();
                self.lanes.iter_mut().for_each(|lane| lane.start(begin));
                let _ = asker.send(());
            }
            EngineRequest::Reseed(seeds, asker) => {
                for (lane, seed) in self.lanes.iter_mut().zip(seeds) {
                    lane.reseed(seed);
                }
                let _ = asker.send(());
            }
        }
    }

    fn counters(&mut self) -> [LinkCounters; 2] {
        let [first, second] = &mut self.lanes;
        [first.counters(&self.ports[0]), second.counters(&self.ports[1])]
    }
}
