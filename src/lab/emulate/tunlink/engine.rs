//! The thread that carries a link's packets: it receives, sends what is due, waits, and runs requests in between.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::EventFd;

use super::clock::{self, Waiter};
use super::lane::Lane;
use super::port::{BATCH, Messages, Port};
use shared::model::run::LinkCounters;

/// Runs in the link's thread between packets.
pub type LinkRequest = Box<dyn FnOnce(&mut LinkEngine) + Send>;

/// An interface was deleted while the link was in use.
pub struct InterfaceGone {
    /// The link's end, 0 or 1.
    pub number: usize,
    pub counters: [LinkCounters; 2],
}

/// Batches received from a port before due packets are sent.
const BATCHES_PER_LOOK: usize = 4;

pub struct LinkEngine {
    /// Direction 0 carries packets from port 0 to port 1.
    pub ports: [Port; 2],
    pub lanes: [Lane; 2],
    /// The thread stops when the sender is dropped.
    pub requests: Receiver<LinkRequest>,
    /// Wakes the thread for a request.
    pub bell: Arc<EventFd>,
}

impl LinkEngine {
    /// Carries packets until the sender of requests is dropped or an interface is deleted.
    pub fn run(&mut self) -> Option<InterfaceGone> {
        let (mut taking, mut giving) = (Messages::new(), Messages::new());
        let mut waiter = Waiter::new();
        let mut is_ready = [true; 2];
        loop {
            self.answer_requests()?;
            for (number, is_ready) in is_ready.iter_mut().enumerate() {
                if let Err(_gone) = self.look(number, *is_ready, &mut taking) {
                    return Some(InterfaceGone { number, counters: self.counters() });
                }
            }
            let [first, second] = &mut self.lanes;
            let sent_first = first.send_due(&self.ports[1], &mut giving);
            let sent_second = second.send_due(&self.ports[0], &mut giving);
            is_ready = if sent_first || sent_second { [false; 2] } else { self.wait(&mut waiter) };
        }
    }

    /// Receives the packets of a direction if its port is ready or the time to look has come.
    fn look(&mut self, number: usize, is_ready: bool, messages: &mut Messages) -> Result<(), Errno> {
        let lane = &mut self.lanes[number];
        let now = clock::now();
        if !is_ready && lane.next_look.is_none_or(|look| look > now) {
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

    /// Waits for the first of: a due packet, the time to look, an arrival, a request.
    fn wait(&self, waiter: &mut Waiter) -> [bool; 2] {
        let moments = self.lanes.iter().flat_map(|lane| [lane.next_due(), lane.next_look]);
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

    /// `None` if the link was dropped.
    fn answer_requests(&mut self) -> Option<()> {
        loop {
            match self.requests.try_recv() {
                Ok(request) => request(self),
                Err(TryRecvError::Empty) => return Some(()),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
    }

    pub fn counters(&mut self) -> [LinkCounters; 2] {
        let [first, second] = &mut self.lanes;
        [first.counters(&self.ports[0]), second.counters(&self.ports[1])]
    }
}
