//! One flow of a run over time, as checks read it.

use std::time::Duration;

use crate::path::Direction;
use crate::path::route::{Hop, RoundTrip};
use crate::report::read::directory::StoredLine;
use crate::scenario::Cell;
use crate::scenario::check::{Condition, Quantity, QuantityOf, Span, Unit};
use shared::catalog::StateValue;
use shared::event::{Event, FieldValue};
use shared::model::queue::{self, QueueSample};
use shared::model::run::FlowRecord;
use shared::model::series::{Series, SeriesOf};

/// Advice if nothing is known of a private state.
const OF_FILES: &str = "virtual time records phases and private fields of the algorithms that `tccc list` shows, not those \
                        of a file";

/// A value of a quantity.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// In the base unit of the condition; a truth is 0 or 1.
    Number(f64),
    Word(String),
}

/// A quantity over time: seconds since the start of the run, and the value from there on.
///
/// Shape: sorted by time.
pub type Track = Vec<(f64, Datum)>;

/// Why a quantity is unknown, and how to record it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrecorded {
    pub why: String,
    pub advice: String,
}

pub struct Timeline<'r> {
    /// Shape: sorted by time, each later than the one before; at least one.
    lines: Vec<&'r StoredLine>,
    /// Time of each line, seconds since the start of the run.
    pub times: Vec<f64>,
    /// Packets sent by each line, and packets delivered or lost.
    sent: Vec<f64>,
    settled: Vec<f64>,
    queues: &'r [QueueSample],
    /// What a time of the events is at the start of the run, seconds.
    zero_s: f64,
    path: Path<'r>,
}

/// The links that a flow passes, there and back.
struct Path<'r> {
    cell: &'r Cell,
    /// Each link with the number of flows that pass it this way.
    there: Vec<(Hop, f64)>,
    back: Vec<Hop>,
}

impl<'r> Timeline<'r> {
    /// `zero_s` is the start of the run on the clock of the events.
    ///
    /// # Errors
    /// The events of the flow were not recorded.
    pub fn of(
        record: &FlowRecord,
        lines: &'r [StoredLine],
        queues: &'r [QueueSample],
        zero_s: f64,
        cell: &'r Cell,
    ) -> Result<Timeline<'r>, Unrecorded> {
        let unrecorded = |why: &str, advice: &str| Unrecorded {
            why: format!("the events of flow \"{}\" {why}", record.name),
            advice: advice.to_owned(),
        };
        let Some(socket) = record.socket else {
            return Err(match record.never_connected() {
                true => unrecorded("are missing, because it never connected", "give the path time to connect it"),
                false => unrecorded("are not told apart", "check a flow of one TCP connection"),
            });
        };
        let mut own: Vec<&StoredLine> = lines.iter().filter(|line| line.event.socket == socket).collect();
        if own.is_empty() {
            let advice = "remove the run's folder, and `tccc run` on the same directory repeats it";
            return Err(unrecorded("are missing", advice));
        }
        own.sort_by_key(|line| line.event.time_ns);
        // In virtual time, several events of one ACK have the same time. The last one has all that it did.
        own.dedup_by(|later, earlier| {
            let is_same = later.event.time_ns == earlier.event.time_ns;
            *earlier = if is_same { *later } else { *earlier };
            is_same
        });
        let count = |of: fn(&Event) -> u32| own.iter().map(|line| f64::from(of(&line.event))).collect::<Vec<f64>>();
        let [delivered, lost] = [count(|event| event.delivered_pkts), count(|event| event.lost_pkts)];
        let settled: Vec<f64> = delivered.iter().zip(&lost).map(|(delivered, lost)| delivered + lost).collect();
        let inflight = count(|event| event.inflight_pkts);
        let trip = cell.flows.iter().find(|flow| flow.name == record.name);
        let trip = trip.and_then(|flow| RoundTrip::between(&cell.links, &flow.from, &flow.to));
        let RoundTrip { there, back } = trip.unwrap_or(RoundTrip { there: Vec::new(), back: Vec::new() });
        let ways = cell.ways();
        let flows = |hop: Hop| (hop, ways.iter().filter(|way| way.contains(&hop)).count() as f64);
        let there = there.into_iter().map(flows).collect();
        Ok(Timeline {
            times: own.iter().map(|line| line.event.time_ns as f64 / 1e9 - zero_s).collect(),
            sent: settled.iter().zip(&inflight).map(|(settled, inflight)| settled + inflight).collect(),
            settled,
            lines: own,
            queues,
            zero_s,
            path: Path { cell, there, back },
        })
    }

    pub fn begin(&self) -> f64 {
        self.times[0]
    }

    pub fn end(&self) -> f64 {
        self.times[self.times.len() - 1]
    }

    fn last(&self) -> &StoredLine {
        self.lines[self.lines.len() - 1]
    }

    /// The end of the round that begins with a line. `None`: the flow ends before.
    fn round_after(&self, line: usize) -> Option<usize> {
        let next = line + 1;
        let end = next + self.settled[next..].partition_point(|count| *count < self.sent[line]);
        (end < self.lines.len()).then_some(end)
    }

    /// The last line before the round that ends with a line began.
    fn round_before(&self, line: usize) -> usize {
        self.sent[..line].partition_point(|sent| *sent <= self.settled[line]).saturating_sub(1)
    }

    /// The time at which a span that begins at a time is over. `None`: the flow ends before.
    pub fn after(&self, from: f64, span: Span) -> Option<f64> {
        match span {
            Span::Time(time) => Some(from + time.as_secs_f64()).filter(|end| *end <= self.end()),
            Span::Rounds(rounds) => {
                let line = self.times.partition_point(|time| *time <= from).saturating_sub(1);
                (0..rounds).try_fold(line, |line, _| self.round_after(line)).map(|line| self.times[line])
            }
        }
    }

    /// A quantity over time, in the unit of a condition.
    ///
    /// # Errors
    /// It was not recorded.
    pub fn track(&self, condition: &Condition) -> Result<Track, Unrecorded> {
        let Condition { what, over, link, unit, .. } = condition;
        let track = self.quantity(what, link.as_ref(), *over, unit.scale)?;
        match over {
            Some(over) if what.is_count() => Ok(self.growth(&track, *over)),
            _ => Ok(track),
        }
    }

    /// A quantity that a bound refers to. A private field is measured like that of the condition.
    ///
    /// # Errors
    /// It was not recorded.
    pub fn reference(&self, other: &Quantity, condition: &Condition) -> Result<Track, Unrecorded> {
        let is_state = |quantity: &Quantity| matches!(quantity.of, QuantityOf::State { .. });
        let scale = if is_state(other) && is_state(&condition.what) { condition.unit.scale } else { 1.0 };
        self.quantity(other, condition.link.as_ref(), None, scale)
    }

    fn quantity(
        &self,
        what: &Quantity,
        link: Option<&[String; 2]>,
        over: Option<Span>,
        scale: f64,
    ) -> Result<Track, Unrecorded> {
        match &what.of {
            QuantityOf::Event => {
                let field = Event::FIELDS.iter().find(|field| field.name == what.name);
                let value = field.map_or(none as fn(&Event) -> Option<FieldValue<'_>>, |field| field.value);
                Ok(self.each(|line| Some(of_field(value(&line.event)?))))
            }
            QuantityOf::Sent => Ok(self.times.iter().zip(&self.sent).map(|(at, n)| (*at, Datum::Number(*n))).collect()),
            QuantityOf::DeliveryRate => Ok(self.delivery_rate(over.unwrap_or(Span::Rounds(1)))),
            QuantityOf::Phase => self.phases(),
            QuantityOf::NextPhase => Ok(next(&self.phases()?)),
            QuantityOf::State { field, item } => self.state(field, *item, scale),
            QuantityOf::Queue => self.queue(&what.name, link),
        }
    }

    fn each(&self, value: impl Fn(&StoredLine) -> Option<Datum>) -> Track {
        self.times.iter().zip(&self.lines).filter_map(|(at, line)| Some((*at, value(line)?))).collect()
    }

    fn phases(&self) -> Result<Track, Unrecorded> {
        let track = self.each(|line| line.phase.clone().map(Datum::Word));
        match track.is_empty() {
            true => Err(Unrecorded {
                why: format!("the events of \"{}\" have no phases", self.algorithm()),
                advice: OF_FILES.to_owned(),
            }),
            false => Ok(track),
        }
    }

    fn state(&self, field: &str, item: Option<usize>, scale: f64) -> Result<Track, Unrecorded> {
        let track = self.each(|line| {
            Some(match (line.state.get(field)?, item) {
                (StateValue::List(items), Some(item)) => of_state(items.get(item)?, scale),
                (StateValue::List(_), None) | (_, Some(_)) => return None,
                (value, None) => of_state(value, scale),
            })
        });
        if !track.is_empty() {
            return Ok(track);
        }
        let mut known: Vec<&str> = self.last().state.keys().map(String::as_str).collect();
        known.sort_unstable();
        let item = item.map_or(String::new(), |item| format!("[{item}]"));
        Err(Unrecorded {
            why: format!("the events of \"{}\" have no state.{field}{item}", self.algorithm()),
            advice: match known.is_empty() {
                true => OF_FILES.to_owned(),
                false => format!("they have {}", known.join(", ")),
            },
        })
    }

    fn algorithm(&self) -> &str {
        &self.last().event.algorithm
    }

    fn queue(&self, name: &str, link: Option<&[String; 2]>) -> Result<Track, Unrecorded> {
        let own;
        let ends = match link {
            Some(ends) => ends,
            None => {
                let links = &self.path.cell.links;
                let Some(hop) = self.path.bottleneck(0.0) else { return Ok(Track::new()) };
                own = [hop.side, 1 - hop.side].map(|side| links[hop.link].ends[side].clone());
                &own
            }
        };
        let samples = queue::of_direction(self.queues, [&ends[0], &ends[1]]);
        let Some(SeriesOf::Queue(value)) = Series::find(name).map(|series| series.of) else { return Ok(Track::new()) };
        if samples.is_empty() {
            return Err(Unrecorded {
                why: format!("the queue of {}-{} was not recorded", ends[0], ends[1]),
                advice: "`--engine virtual` and `--link tunlink` record queues".to_owned(),
            });
        }
        let of = |sample: &QueueSample| (sample.time_ns as f64 / 1e9 - self.zero_s, Datum::Number(value(sample)));
        Ok(samples.iter().map(of).collect())
    }

    /// Payload per second that was delivered over a span before each line.
    fn delivery_rate(&self, over: Span) -> Track {
        let delivered: Track = self.each(|line| Some(Datum::Number(line.event.delivered_pkts.into())));
        let rate = |line: usize| {
            let at = self.times[line];
            let from = match over {
                Span::Time(time) => at - time.as_secs_f64(),
                Span::Rounds(rounds) => self.times[(0..rounds).fold(line, |line, _| self.round_before(line))],
            };
            let growth = number_at(&delivered, at) - number_at(&delivered, from);
            let bits = 8.0 * f64::from(self.lines[line].event.mss_bytes);
            (at > from).then(|| (at, Datum::Number(growth * bits / (at - from))))
        };
        (0..self.lines.len()).filter_map(rate).collect()
    }

    /// Growth of a count over a span before each of its values.
    fn growth(&self, counts: &Track, over: Span) -> Track {
        let grown = |(at, count): &(f64, Datum)| {
            let from = match over {
                Span::Time(time) => at - time.as_secs_f64(),
                Span::Rounds(rounds) => {
                    let line = self.times.partition_point(|time| time <= at).saturating_sub(1);
                    self.times[(0..rounds).fold(line, |line, _| self.round_before(line))]
                }
            };
            let Datum::Number(count) = count else { return None };
            Some((*at, Datum::Number(count - number_at(counts, from))))
        };
        counts.iter().filter_map(grown).collect()
    }

    /// The bandwidth-delay product of the path at a time, full packets.
    pub fn bdp_pkts(&self, at: f64) -> Option<f64> {
        Some(self.path.packet_rate(at)? * self.round_trip_us(at) / 1e6)
    }

    /// The round trip of the path without queues, microseconds.
    pub fn round_trip_us(&self, at: f64) -> f64 {
        let hops = self.path.there.iter().map(|(hop, _)| hop).chain(&self.path.back);
        hops.map(|hop| delay(hop.direction(&self.path.cell.links), at).as_secs_f64() * 1e6).sum()
    }

    /// The rate of the bottleneck at a time: full packets per second, or their payload in bits per second.
    pub fn rate(&self, at: f64, unit: Unit) -> Option<f64> {
        let packets = self.path.packet_rate(at)?;
        let mss = self.last().event.mss_bytes;
        Some(if unit == Unit::BitRate { packets * 8.0 * f64::from(mss) } else { packets })
    }
}

impl Path<'_> {
    /// The first link with the lowest rate for each flow, on the way there: [`Cell::bottleneck`] at one moment.
    fn bottleneck(&self, at: f64) -> Option<Hop> {
        let rate_of = |(hop, flows): &(Hop, f64)| Some((rate(hop.direction(&self.cell.links), at)? / flows, *hop));
        let rated = self.there.iter().filter_map(rate_of);
        rated.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, hop)| hop)
    }

    /// Full packets per second of the bottleneck.
    fn packet_rate(&self, at: f64) -> Option<f64> {
        let rate = rate(self.bottleneck(at)?.direction(&self.cell.links), at)?;
        Some(rate / (8.0 * f64::from(self.cell.mtu)))
    }
}

/// The rate of a direction at a time, bits per second. The mean rate of a trace.
fn rate(direction: &Direction, at: f64) -> Option<f64> {
    let changed = direction.changes.iter().take_while(|change| change.at.as_secs_f64() <= at);
    let rate = changed.filter_map(|change| change.rate).last().or(direction.rate)?;
    Some(rate.0 as f64)
}

fn delay(direction: &Direction, at: f64) -> Duration {
    let changed = direction.changes.iter().take_while(|change| change.at.as_secs_f64() <= at);
    changed.filter_map(|change| change.delay).last().unwrap_or(direction.delay)
}

fn none(_: &Event) -> Option<FieldValue<'_>> {
    None
}

fn of_field(value: FieldValue<'_>) -> Datum {
    match value {
        FieldValue::U32(number) => Datum::Number(number.into()),
        FieldValue::U64(number) => Datum::Number(number as f64),
        FieldValue::Real(number) => Datum::Number(number),
        FieldValue::Truth(is_true) => Datum::Number(f64::from(u8::from(is_true))),
        other => Datum::Word(other.to_string()),
    }
}

fn of_state(value: &StateValue, scale: f64) -> Datum {
    match value {
        StateValue::Bool(is_true) => Datum::Number(f64::from(u8::from(*is_true))),
        StateValue::Unsigned(number) => Datum::Number(*number as f64 * scale),
        StateValue::Signed(number) => Datum::Number(*number as f64 * scale),
        other => Datum::Word(other.to_string()),
    }
}

/// Each value with the different one that follows; nothing while the last one lasts.
fn next(track: &Track) -> Track {
    let mut following: Track = Vec::new();
    let mut later: Option<&Datum> = None;
    for pair in track.windows(2).rev() {
        if pair[0].1 != pair[1].1 {
            later = Some(&pair[1].1);
        }
        following.extend(later.map(|word| (pair[0].0, word.clone())));
    }
    following.reverse();
    following
}

/// The last value by a time.
pub fn value_at(track: &Track, at: f64) -> Option<&Datum> {
    let beyond = track.partition_point(|(time, _)| *time <= at);
    track[..beyond].last().map(|(_, value)| value)
}

/// A count at a time, interpolated; the first count before it, the last one after the end.
fn number_at(track: &Track, at: f64) -> f64 {
    let number = |index: usize| match track.get(index) {
        Some((time, Datum::Number(number))) => Some((*time, *number)),
        _ => None,
    };
    let beyond = track.partition_point(|(time, _)| *time <= at);
    match (beyond.checked_sub(1).and_then(number), number(beyond)) {
        (Some((from, low)), Some((to, high))) => low + (high - low) * (at - from) / (to - from),
        (one, other) => one.or(other).map_or(0.0, |(_, number)| number),
    }
}
