//! A recording as a source: at its own speed, faster, slower, from any moment.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::arrival::{Arrival, Fact};
use super::event::Event;
use super::record::read::{Content, Reader, Want};
use super::source::{Playback, Source};
use crate::failure::Failure;

/// Before a moment that is jumped to, so much is read: sweeps show every socket more often.
const LEAD_NS: u64 = 120_000_000_000;
/// Events handed over by one poll at most, so that a viewer stays awake however fast it plays.
const BATCH_EVENTS: usize = 100_000;
/// Fastest and slowest.
pub const SPEEDS: [f64; 2] = [0.01, 10_000.0];

/// A recording that is played.
#[derive(Debug)]
pub struct Replay {
    reader: Reader<File>,
    title: String,
    span: [u64; 2],
    waiting: VecDeque<Event>,
    position_ns: u64,
    polled: Instant,
    speed: f64,
    jumped: bool,
    ended: bool,
}

impl Replay {
    /// Opens a recording to play it from its beginning.
    ///
    /// Errors: those of [`Reader::open`]; it holds no event.
    pub fn open(path: &Path) -> Result<Replay> {
        let mut reader = Reader::open(path)?;
        let Some(span) = reader.span()? else {
            return Err(Failure::usage(format!("cannot replay \"{}\": it holds no event", path.display())).into());
        };
        let head = reader.head();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let title = format!("{name}: {}, Linux {}, {}", head.host, head.kernel, head.started);
        let (waiting, polled) = (VecDeque::new(), Instant::now());
        let position_ns = span[0];
        Ok(Replay { reader, title, span, waiting, position_ns, polled, speed: 1.0, jumped: false, ended: false })
    }

    /// Whether everything was handed over.
    pub fn is_over(&self) -> bool {
        self.ended && self.waiting.is_empty()
    }

    /// Everything up to the position.
    fn hand_over(&mut self, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        let mut handed = 0;
        loop {
            while self.waiting.front().is_some_and(|event| event.time_ns <= self.position_ns) {
                if handed == BATCH_EVENTS {
                    self.position_ns = self.waiting[0].time_ns;
                    return Ok(());
                }
                take(Arrival::Event(self.waiting.pop_front().expect("there is a first")));
                handed += 1;
            }
            if !self.waiting.is_empty() || self.ended {
                return Ok(());
            }
            self.read_more(take, Want::All)?;
        }
    }

    fn read_more(&mut self, take: &mut dyn FnMut(Arrival), want: Want) -> Result<()> {
        match self.reader.next(want)? {
            Some(Content::Events(events)) => self.waiting.extend(events),
            Some(Content::Facts(facts)) => facts.into_iter().for_each(|fact| take(Arrival::Fact(fact))),
            None => self.ended = true,
        }
        Ok(())
    }

    /// Begins anew some time before the position.
    fn begin_anew(&mut self, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        self.jumped = false;
        self.reader.rewind()?;
        (self.waiting, self.ended) = (VecDeque::new(), false);
        take(Arrival::Restart);
        let from = self.position_ns.saturating_sub(LEAD_NS);
        // A sweep's end is of the time before too: nobody could have been seen by then.
        let mut unless_swept = |arrival| match arrival {
            Arrival::Fact(Fact::Swept { .. }) => {}
            other => take(other),
        };
        while self.waiting.is_empty() && !self.ended {
            self.read_more(&mut unless_swept, Want::EventsFrom(from))?;
        }
        Ok(())
    }
}

impl Source for Replay {
    fn poll(&mut self, timeout: Duration, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        std::thread::sleep(timeout);
        let now = Instant::now();
        let passed = now.duration_since(self.polled).as_nanos() as f64 * self.speed;
        self.polled = now;
        if self.jumped {
            self.begin_anew(take)?;
        } else {
            self.position_ns = self.position_ns.saturating_add(passed as u64).min(self.span[1]);
        }
        self.hand_over(take)
    }

    fn now_ns(&self) -> u64 {
        self.position_ns
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn notices(&self) -> Vec<String> {
        let damage = self.reader.damage();
        let mut notices = Vec::new();
        if damage.rest_bytes > 0 {
            notices.push(format!("the recording was cut: {} bytes after its last whole block", damage.rest_bytes));
        }
        if damage.blocks > 0 {
            notices.push(format!("{} blocks with {} events are damaged", damage.blocks, damage.events));
        }
        if damage.unknown > 0 {
            notices.push(format!("{} entries are of a later tccc and not shown", damage.unknown));
        }
        notices
    }

    fn playback(&mut self) -> Option<&mut dyn Playback> {
        Some(self)
    }
}

impl Playback for Replay {
    fn span_ns(&self) -> (u64, u64) {
        (self.span[0], self.span[1])
    }

    fn speed(&self) -> f64 {
        self.speed
    }

    fn set_speed(&mut self, speed: f64) {
        self.speed = if speed <= 0.0 { 0.0 } else { speed.clamp(SPEEDS[0], SPEEDS[1]) };
    }

    fn seek(&mut self, time_ns: u64) {
        self.position_ns = time_ns.clamp(self.span[0], self.span[1]);
        self.jumped = true;
    }
}
