//! A recording as a source that plays at any speed and from any moment.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::arrival::{Arrival, Fact};
use super::event::Event;
use super::record::read::{BlockContent, RecordingReader, Want};
use super::source::{EventSource, Playback};
use shared::failure::Failure;

/// A jump starts reading this long before its target. Sweeps, which show every socket, come more often.
const LEAD_NS: u64 = 120_000_000_000;
/// Most events per poll, so that a viewer stays responsive at any speed.
const BATCH_EVENTS: usize = 100_000;
pub const SPEEDS: [f64; 2] = [0.01, 10_000.0];

#[derive(Debug)]
pub struct Replay {
    reader: RecordingReader<File>,
    title: String,
    span: [u64; 2],
    waiting: VecDeque<Event>,
    position_ns: u64,
    polled: Instant,
    speed: f64,
    batch_events: usize,
    jumped: bool,
    /// The events before the target of a jump are not all read yet.
    catching_up: bool,
    ended: bool,
}

impl Replay {
    /// Opens a recording to play it from its beginning.
    ///
    /// # Errors
    /// Those of [`RecordingReader::open`]; it holds no event.
    pub fn open(path: &Path) -> Result<Replay> {
        let mut reader = RecordingReader::open(path)?;
        let Some(span) = reader.span()? else {
            return Err(Failure::usage(format!("cannot replay \"{}\": it holds no event", path.display())).into());
        };
        let head = reader.head();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let title = format!("{name}: {}, Linux {}, {}", head.host, head.kernel, head.started);
        let (waiting, polled) = (VecDeque::new(), Instant::now());
        Ok(Replay {
            reader,
            title,
            span,
            waiting,
            position_ns: span[0],
            polled,
            speed: 1.0,
            batch_events: BATCH_EVENTS,
            jumped: false,
            catching_up: false,
            ended: false,
        })
    }

    /// Reads events up to the position, but at most a batch. After a full batch, the position of a normal replay moves
    /// back to the batch's end. A jump continues with the next poll.
    fn hand_over(&mut self, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        let mut handed = 0;
        loop {
            while self.waiting.front().is_some_and(|event| event.time_ns <= self.position_ns) {
                if handed == self.batch_events {
                    if !self.catching_up {
                        self.position_ns = self.waiting[0].time_ns;
                    }
                    return Ok(());
                }
                take(Arrival::Event(self.waiting.pop_front().expect("there is a first")));
                handed += 1;
            }
            if !self.waiting.is_empty() || self.ended {
                self.catching_up = false;
                return Ok(());
            }
            self.read_more(take, Want::All)?;
        }
    }

    fn read_more(&mut self, take: &mut dyn FnMut(Arrival), want: Want) -> Result<()> {
        match self.reader.next(want)? {
            Some(BlockContent::Events(events)) => self.waiting.extend(events),
            Some(BlockContent::Facts(facts)) => facts.into_iter().for_each(|fact| take(Arrival::Fact(fact))),
            None => self.ended = true,
        }
        Ok(())
    }

    /// Restarts [`LEAD_NS`] before the position.
    fn begin_anew(&mut self, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        self.jumped = false;
        self.reader.rewind()?;
        (self.waiting, self.ended) = (VecDeque::new(), false);
        take(Arrival::Restart);
        let from = self.position_ns.saturating_sub(LEAD_NS);
        // Drops the ends of earlier sweeps, whose sockets were not read.
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

impl EventSource for Replay {
    fn poll(&mut self, timeout: Duration, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        std::thread::sleep(timeout);
        let now = Instant::now();
        let passed = now.duration_since(self.polled).as_nanos() as f64 * self.speed;
        self.polled = now;
        if self.jumped {
            self.begin_anew(take)?;
        } else if !self.catching_up {
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
        damage.notices(damage.rest_bytes > 0)
    }

    fn is_over(&self) -> bool {
        self.ended && self.waiting.is_empty()
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
        (self.jumped, self.catching_up) = (true, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{Head, Recorder, Rotation};
    use shared::model::live::samples::{SECOND, sample};

    /// An event at each of the first hundred seconds, handed over ten at once.
    fn replay() -> Replay {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let head = Head::of_this_host(Duration::from_secs(1), "every socket".to_owned()).unwrap();
        let mut recorder = Recorder::create(&path, head, Rotation::NONE).unwrap();
        for second in 1..=100 {
            recorder.write(&Arrival::Event(sample(1, second * SECOND))).unwrap();
        }
        recorder.finish().unwrap();
        Replay { batch_events: 10, ..Replay::open(&path).unwrap() }
    }

    /// Times of the events of one poll, and whether the replay restarted.
    fn poll(replay: &mut Replay) -> (Vec<u64>, bool) {
        let (mut times, mut is_anew) = (Vec::new(), false);
        let mut take = |arrival| match arrival {
            Arrival::Event(event) => times.push(event.time_ns),
            Arrival::Restart => is_anew = true,
            Arrival::Fact(_) => {}
        };
        replay.poll(Duration::ZERO, &mut take).unwrap();
        (times, is_anew)
    }

    /// Regression: a jump ended with its first batch, so in a dense recording each step forward led back.
    #[test]
    fn jump_over_more_events_than_a_batch_ends_at_its_target() {
        for (speed, target) in [(0.0, 61 * SECOND), (1.0, 61 * SECOND), (SPEEDS[1], 100 * SECOND)] {
            let mut replay = replay();
            replay.set_speed(speed);
            replay.seek(target);
            let mut handed = Vec::new();
            for turn in 0..target / SECOND / 10 {
                let (times, is_anew) = poll(&mut replay);
                assert_eq!((times.len(), is_anew, replay.now_ns()), (10, turn == 0, target), "turn {turn} at {speed}");
                handed.extend(times);
            }
            handed.extend(poll(&mut replay).0);
            let expected: Vec<u64> = (1..=target / SECOND).map(|second| second * SECOND).collect();
            assert_eq!((handed, replay.now_ns()), (expected, target), "at {speed}");
            let (_, is_anew) = poll(&mut replay);
            assert!(!is_anew && replay.now_ns() >= target);
            assert_eq!(replay.now_ns() == target, speed == 0.0 || target == replay.span[1], "it plays on from there");
        }
    }

    #[test]
    fn jump_from_a_jump_that_is_not_done_ends_at_the_later_target() {
        let mut replay = replay();
        replay.set_speed(0.0);
        for target in [80 * SECOND, 25 * SECOND] {
            replay.seek(target);
            assert_eq!(poll(&mut replay).0.len(), 10);
        }
        let rest = [poll(&mut replay).0, poll(&mut replay).0, poll(&mut replay).0].concat();
        assert_eq!((rest.first(), rest.last()), (Some(&(11 * SECOND)), Some(&(25 * SECOND))));
        assert_eq!(replay.now_ns(), 25 * SECOND);
    }

    #[test]
    fn playing_faster_than_a_batch_goes_as_far_as_the_batch() {
        let mut replay = replay();
        replay.set_speed(0.0);
        replay.position_ns = 61 * SECOND;
        assert_eq!((poll(&mut replay).0.len(), replay.now_ns()), (10, 11 * SECOND));
    }
}
