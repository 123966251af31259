//! Judges one check for one flow of one run.

use super::timeline::{Datum, Timeline, Track, Unrecorded, value_at};
use crate::report::judge::number;
use crate::scenario::check::{self, Begin, Bound, BoundOf, Check, Condition, Must, Test, Unit};

/// Relative distance by which a computed number may miss its bound.
const ROUNDING: f64 = 1e-9;

/// The outcome of a check for one flow of one run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Number of moments that were judged.
    Holds(usize),
    Broken(Break),
    Unrecorded(Unrecorded),
}

/// How a check does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Break {
    /// Seconds since the start of the run. `None`: no moment was judged.
    pub time_s: Option<f64>,
    /// The value at this time.
    pub value: Option<String>,
    /// One phrase.
    pub why: String,
}

/// A part of the run in which the condition is judged.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: f64,
    to: f64,
    /// Whether a moment at `to` counts.
    is_closed: bool,
    /// Whether the flow ends before the window does.
    is_cut: bool,
    /// When the value of `before` counted, if there was one.
    before: Option<f64>,
}

/// A condition, with the quantities that it reads over time.
struct Followed<'c> {
    condition: &'c Condition,
    track: Track,
    /// Quantities of `at_least` and `at_most`.
    references: [Track; 2],
}

/// Judges a check.
pub fn judge(check: &Check, flow: &Timeline<'_>) -> Outcome {
    match judged(check, flow) {
        Ok(Ok(moments)) => Outcome::Holds(moments),
        Ok(Err(broken)) => Outcome::Broken(broken),
        Err(unrecorded) => Outcome::Unrecorded(unrecorded),
    }
}

/// Number of judged moments, or the first break.
fn judged(check: &Check, flow: &Timeline<'_>) -> Result<Result<usize, Break>, Unrecorded> {
    let own = Followed::of(&check.condition, flow)?;
    let (until, only_while) = (Followed::all(&check.until, flow)?, Followed::all(&check.only_while, flow)?);
    let begins: Vec<(f64, Option<f64>)> = match &check.begin {
        Begin::Start => {
            let from = check.from.map(|from| from.as_secs_f64());
            vec![(from.unwrap_or(flow.begin()), from)]
        }
        Begin::After(conditions) | Begin::Each(conditions) => {
            let begins = beginnings(&Followed::all(conditions, flow)?, check, flow);
            if begins.is_empty() {
                let why = format!("nothing is judged, because never {}{}", check::all(conditions), during(check, flow));
                return Ok(Err(Break { time_s: None, value: None, why }));
            }
            begins
        }
    };
    let is_each = matches!(check.begin, Begin::Each(_));
    let mut moments = 0;
    for (from, before) in begins {
        let window = Window { before, ..window(check, flow, from, &until) };
        let judged = own.judge(check, flow, window, &only_while);
        match judged {
            Ok(count) => moments += count,
            // The end of the flow decides nothing.
            Err(_) if is_each && window.is_cut && check.must == Must::Reach => {}
            Err(broken) if is_each && broken.time_s.is_none() => {}
            Err(broken) => return Ok(Err(broken)),
        }
    }
    Ok(if moments > 0 { Ok(moments) } else { Err(nothing(check, flow, "no window holds a moment that counts")) })
}

/// The window that begins at a time.
fn window(check: &Check, flow: &Timeline<'_>, from: f64, until: &[Followed<'_>]) -> Window {
    let mut window = Window { from, to: flow.end(), is_closed: true, is_cut: false, before: None };
    if let Some(span) = check.within {
        match flow.after(from, span) {
            Some(end) => window.to = end,
            None => window.is_cut = true,
        }
    }
    if let Some(to) = check.to.map(|to| to.as_secs_f64()).filter(|to| *to < window.to || window.is_cut) {
        (window.to, window.is_cut) = (to, window.is_cut && to > flow.end());
    }
    let later = times(until, flow).into_iter().filter(|time| *time > from && *time <= window.to);
    // Without conditions there are no times.
    if let Some(stop) = later.into_iter().find(|time| all_hold(until, flow, *time) == Some(true)) {
        (window.to, window.is_closed, window.is_cut) = (stop, false, false);
    }
    window
}

/// The moments at which conditions begin to hold together, each with the moment before it.
fn beginnings(conditions: &[Followed<'_>], check: &Check, flow: &Timeline<'_>) -> Vec<(f64, Option<f64>)> {
    let from = check.from.map_or(f64::NEG_INFINITY, |from| from.as_secs_f64());
    let to = check.to.map_or(f64::INFINITY, |to| to.as_secs_f64());
    let is_each = matches!(check.begin, Begin::Each(_));
    let (mut begins, mut held, mut before) = (Vec::new(), false, None);
    for time in times(conditions, flow) {
        let holds = all_hold(conditions, flow, time) == Some(true);
        if holds && (from..=to).contains(&time) && (!held || !is_each) {
            begins.push((time, before));
            if !is_each {
                break;
            }
        }
        (held, before) = (holds, Some(time));
    }
    begins
}

/// The moments at which any of the conditions may change.
fn times(conditions: &[Followed<'_>], flow: &Timeline<'_>) -> Vec<f64> {
    let of_tracks = conditions.iter().flat_map(|one| one.track.iter().map(|(time, _)| *time));
    let mut times: Vec<f64> = of_tracks.filter(|time| (flow.begin()..=flow.end()).contains(time)).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    times
}

/// Whether all conditions hold at a time. `None`: one of their quantities has no value yet.
fn all_hold(conditions: &[Followed<'_>], flow: &Timeline<'_>, at: f64) -> Option<bool> {
    conditions.iter().try_fold(true, |all, one| Some(all && one.holds(flow, at, None)?))
}

impl<'c> Followed<'c> {
    fn all(conditions: &'c [Condition], flow: &Timeline<'_>) -> Result<Vec<Followed<'c>>, Unrecorded> {
        conditions.iter().map(|condition| Followed::of(condition, flow)).collect()
    }

    fn of(condition: &'c Condition, flow: &Timeline<'_>) -> Result<Followed<'c>, Unrecorded> {
        let mut references = [Track::new(), Track::new()];
        for (field, bound) in condition.bounds() {
            if let BoundOf::Other(other) = &bound.of {
                references[usize::from(field == "at_most")] = flow.reference(other, condition)?;
            }
        }
        Ok(Followed { condition, track: flow.track(condition)?, references })
    }

    /// Judges the moments of a window. Returns their number, or how the check is broken.
    fn judge(
        &self,
        check: &Check,
        flow: &Timeline<'_>,
        window: Window,
        only_while: &[Followed<'_>],
    ) -> Result<usize, Break> {
        let before = window.before.and_then(|at| value_at(&self.track, at));
        let is_inside = |at: f64| at >= window.from && (at < window.to || window.is_closed && at <= window.to);
        let counted = self.track.iter().filter(|(at, _)| is_inside(*at));
        let counted = counted.filter(|(at, _)| all_hold(only_while, flow, *at).unwrap_or(false));
        let (mut moments, mut last) = (0, None);
        for (at, value) in counted {
            let Some(holds) = self.is_met(flow, *at, value, before) else { continue };
            (moments, last) = (moments + 1, Some((*at, value)));
            match (check.must, holds) {
                (Must::Reach, true) => return Ok(moments),
                (Must::Always, false) | (Must::Never, true) => {
                    return Err(self.broken(check, flow, (*at, value), before));
                }
                _ => {}
            }
        }
        let Some((at, value)) = last else { return Err(nothing(check, flow, "no moment of the window counts")) };
        match check.must {
            Must::Always | Must::Never => Ok(moments),
            Must::Reach => {
                let (subject, test) = (check.condition.subject(), &check.condition.test);
                let (from, to) = (seconds(window.from), seconds(window.to));
                let limits = self.limits(flow, at, before);
                let shown = self.shown(value);
                let why =
                    format!("{subject} is never {test}{limits} from {from} to {to}; it is {shown} at {}", seconds(at));
                Err(Break { time_s: Some(window.to), value: Some(shown), why })
            }
        }
    }

    fn broken(&self, check: &Check, flow: &Timeline<'_>, (at, value): (f64, &Datum), before: Option<&Datum>) -> Break {
        let (subject, test) = (check.condition.subject(), &check.condition.test);
        let must = if check.must == Must::Never { "must never be" } else { "must be" };
        let (shown, limits) = (self.shown(value), self.limits(flow, at, before));
        let why = format!("{subject} is {shown} at {}, and {must} {test}{limits}", seconds(at));
        Break { time_s: Some(at), value: Some(shown), why }
    }

    /// `None`: a value has none yet.
    fn holds(&self, flow: &Timeline<'_>, at: f64, before: Option<&Datum>) -> Option<bool> {
        self.is_met(flow, at, value_at(&self.track, at)?, before)
    }

    fn is_met(&self, flow: &Timeline<'_>, at: f64, value: &Datum, before: Option<&Datum>) -> Option<bool> {
        match &self.condition.test {
            Test::Is { words, expected } => Some(words.iter().any(|word| is_word(value, word)) == *expected),
            Test::Range { .. } => {
                let Datum::Number(value) = value else { return None };
                let mut all = true;
                for (field, bound) in self.condition.bounds() {
                    let limit = self.limit(flow, at, (field, bound), before)?;
                    let room = ROUNDING * limit.abs();
                    all &= if field == "at_least" { *value >= limit - room } else { *value <= limit + room };
                }
                Some(all)
            }
        }
    }

    /// A bound as a number, in the unit of the condition. `None`: what it refers to has no value.
    fn limit(
        &self,
        flow: &Timeline<'_>,
        at: f64,
        (field, bound): (&str, &Bound),
        before: Option<&Datum>,
    ) -> Option<f64> {
        let number = |value: &Datum| if let Datum::Number(number) = value { Some(*number) } else { None };
        let of = match &bound.of {
            BoundOf::One(_) => 1.0,
            BoundOf::Bdp => flow.bdp_pkts(at)?,
            BoundOf::RoundTrip => flow.round_trip_us(at),
            BoundOf::Rate => flow.rate(at, self.condition.unit.unit)?,
            BoundOf::Before => number(before?)?,
            BoundOf::Other(_) => number(value_at(&self.references[usize::from(field == "at_most")], at)?)?,
        };
        Some(bound.factor * of)
    }

    /// What relative bounds are at a time: ` (33.3 pkts)`.
    fn limits(&self, flow: &Timeline<'_>, at: f64, before: Option<&Datum>) -> String {
        let relative = self.condition.bounds().filter(|(_, bound)| !matches!(bound.of, BoundOf::One(_)));
        let limits: Vec<String> = relative
            .filter_map(|place| Some(self.shown(&Datum::Number(self.limit(flow, at, place, before)?))))
            .collect();
        if limits.is_empty() { String::new() } else { format!(" ({})", limits.join(", ")) }
    }

    /// A value with its unit.
    fn shown(&self, value: &Datum) -> String {
        let number = match value {
            Datum::Number(number) => *number,
            Datum::Word(word) => return word.clone(),
        };
        if self.condition.what.unit() == Unit::Word {
            return if number == 0.0 { "false" } else { "true" }.to_owned();
        }
        let (scaled, unit) = match self.condition.unit.unit {
            Unit::Packets => (number, " pkts"),
            Unit::Time => (number / 1e3, " ms"),
            Unit::BitRate => (number / 1e6, " Mbit/s"),
            Unit::PacketRate => (number, " packets/s"),
            Unit::Plain | Unit::Word => (number, ""),
        };
        format!("{}{unit}", number::short(format!("{scaled:.3}")))
    }
}

/// Whether a value is a word of a file. A number may be one, and 0 or 1 a truth.
fn is_word(value: &Datum, word: &str) -> bool {
    match (value, word) {
        (Datum::Word(value), _) => value == word,
        (Datum::Number(number), "true") => *number != 0.0,
        (Datum::Number(number), "false") => *number == 0.0,
        (Datum::Number(number), _) => {
            word.parse::<f64>().is_ok_and(|word| (number - word).abs() <= ROUNDING * word.abs())
        }
    }
}

fn nothing(check: &Check, flow: &Timeline<'_>, why: &str) -> Break {
    let subject = check.condition.subject();
    Break { time_s: None, value: None, why: format!("nothing is judged of {subject}{}: {why}", during(check, flow)) }
}

/// The part of the run that a check looks at: ` from 10 s to 20 s, when the flow has ended`.
fn during(check: &Check, flow: &Timeline<'_>) -> String {
    let from = check.from.map_or(flow.begin(), |from| from.as_secs_f64());
    let to = check.to.map_or(flow.end(), |to| to.as_secs_f64());
    let ended = if from > flow.end() { format!("; the flow ends at {}", seconds(flow.end())) } else { String::new() };
    format!(" from {} to {}{ended}", seconds(from), seconds(to.max(from)))
}

fn seconds(time: f64) -> String {
    format!("{time:.3} s")
}
