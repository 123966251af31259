//! What a flow sends: bulk data, transfers, messages or datagrams.

use std::str::FromStr;
use std::time::Duration;

use super::{Around, CONNECTIONS_MAX, FRAME_PKTS_MAX, PACKET_MIN, WrittenFlow};
use crate::load::{Arrivals, Distribution, Load, Poisson, Sizes, StartRate, Starts};
use crate::path::route::shortest_path;
use crate::scenario::datagrams::DatagramSpec;
use crate::scenario::document::CellReader;
use crate::scenario::pattern::Pattern;
use crate::scenario::reference::{FlowFields, ONLY_TCP, ONLY_UDP};
use crate::scenario::spec::{FlowSpec, Sends};
use host::read_with;
use host::toml_reader::{Read, Result, Switch, Value};
use shared::units::{BitsPerSec, Bytes, format_duration};

/// How often the application of a flow with a `rate` sends, and the least that it sends.
const MESSAGE_EVERY: Duration = Duration::from_millis(10);
const MESSAGE_LEAST: u64 = 100;
/// Most messages of a flow.
const MESSAGES_MAX: u32 = 100_000;

/// Largest request: a socket takes as much at once.
const REQUEST_MAX: Bytes = Bytes(16_000);
/// Most bursts of a flow.
const BURSTS_MAX: u128 = 100_000;

/// A line of the files that `arrivals` names.
const TRANSFER_LINE: &str = "a start in seconds and a size in bytes, such as 0.25 20000";

read_with!(|value: &Value<'_>| value.parsed(FromStr::from_str) => Arrivals, Sizes);

impl WrittenFlow<'_> {
    pub(super) fn sent_by_tcp(
        &self,
        around: &Around<'_>,
        fields: &FlowFields,
        reader: &CellReader<'_>,
    ) -> Result<Sends> {
        let table = &self.table;
        if let Some(value) = ONLY_UDP.iter().find_map(|key| table.get(key)) {
            return Err(value.refuse_field("only a flow with protocol = \"udp\" has this").into());
        }
        if let Some(rate) = fields.rate {
            return self.limited_by_its_application(around, rate, fields);
        }
        if let Some(arrivals) = &fields.arrivals {
            return self.load(around, (arrivals, fields), reader).map(Sends::Load);
        }
        let needs = |beside: &str, key| Err(table.missing(key, format!("missing: {beside} needs it")).into());
        let (count, has_count) = (fields.count, table.has("count"));
        let starts_late = fields.start >= around.duration; // a mistake of `check_times`
        match (fields.size, fields.interval) {
            (None, _) if has_count => return needs("`count`", "size"),
            (Some(Sizes::Fixed(Bytes(0))), _) => return self.empty(),
            _ if !has_count && table.has("keep_alive") => return needs("`keep_alive`", "count"),
            (_, Some(_)) if !has_count => return needs("`interval`", "count"),
            (_, None) if count > 1 => return needs("`count` above 1", "interval"),
            (_, Some(interval))
                if !starts_late
                    && fields.start.saturating_add(interval.saturating_mul(count - 1)) >= around.duration =>
            {
                let expected = "the last of them would start after the end of the run";
                return Err(table.need("count")?.refuse(expected).into());
            }
            _ => {}
        }
        let interval = fields.interval.unwrap_or_default();
        match (fields.size, fields.keep_alive) {
            (None, _) => Ok(Sends::Bulk),
            (Some(Sizes::Fixed(size)), Switch(true)) => Ok(Sends::Messages { size, count, interval }),
            (Some(Sizes::Fixed(size)), _) => Ok(Sends::Transfers { size, count, interval }),
            (Some(_), Switch(true)) => {
                let what = "messages of one connection have one size: expected an amount such as 50kB";
                Err(table.need("size")?.refuse(what).into())
            }
            (Some(sizes), _) => Ok(Sends::Load(Load::Drawn { starts: Starts::Regular { count, interval }, sizes })),
        }
    }

    /// Messages at equal intervals, for as long as the flow sends.
    fn limited_by_its_application(&self, around: &Around<'_>, rate: BitsPerSec, fields: &FlowFields) -> Result<Sends> {
        for key in ["size", "arrivals", "count", "interval", "keep_alive", "request"] {
            if let Some(value) = self.table.get(key) {
                return Err(value.refuse_field("give either this or `rate`").into());
            }
        }
        let bits_per_s = rate.0 as f64;
        let size = Bytes(((bits_per_s * MESSAGE_EVERY.as_secs_f64() / 8.0).round() as u64).max(MESSAGE_LEAST));
        let interval = Duration::from_secs_f64(8.0 * size.0 as f64 / bits_per_s);
        let length = fields.duration.unwrap_or(around.duration.saturating_sub(fields.start));
        let count = length.as_nanos().div_ceil(interval.as_nanos()).max(1);
        let count = u32::try_from(count).ok().filter(|count| *count <= MESSAGES_MAX);
        let count = count.ok_or_else(|| {
            let most = format_duration(interval * MESSAGES_MAX);
            self.table.refuse_field("rate", &format!("its messages are too many: expected a flow of at most {most}"))
        })?;
        Ok(Sends::Messages { size, count, interval })
    }

    /// Checks that the flow can pause, and does so before its end.
    pub(super) fn check_bursts(&self, around: &Around<'_>, fields: &FlowFields) -> Result<()> {
        let Some(bursts) = fields.bursts else { return Ok(()) };
        for key in ["size", "arrivals", "request"] {
            if let Some(value) = self.table.get(key) {
                return Err(value.refuse_field("give either this or `bursts`").into());
            }
        }
        let length = fields.duration.unwrap_or(around.duration.saturating_sub(fields.start));
        let refuse = |what: String| Err(self.table.need("bursts")?.refuse(what).into());
        let expected = bursts.expected(length);
        if expected > BURSTS_MAX {
            return refuse(format!("{expected} bursts are expected: at most {BURSTS_MAX} are allowed"));
        }
        // A length of nothing is a mistake of another field.
        if bursts.distribution == Distribution::Fixed && bursts.on >= length && !length.is_zero() {
            let length = format_duration(length);
            return refuse(format!("the flow never pauses: expected `on` below its length, {length}"));
        }
        Ok(())
    }

    /// Checks that the flow has responses to its requests.
    pub(super) fn check_request(&self, fields: &FlowFields) -> Result<()> {
        let table = &self.table;
        // Flows without responses are refused elsewhere.
        let has_responses = self.is_tcp && !table.has("rate") && !table.has("bursts");
        let Some(request) = fields.request.filter(|_| has_responses) else { return Ok(()) };
        if !(1..=REQUEST_MAX.0).contains(&request.0) {
            let what = format!("outside 1B..{REQUEST_MAX}; more data is a flow of its own, the other way");
            return Err(table.need("request")?.refuse(what).into());
        }
        // `count` and `arrivals` need a size too, and say so themselves.
        if ["size", "arrivals", "count"].iter().any(|key| table.has(key)) {
            return Ok(());
        }
        Err(table.missing("size", "missing: `request` needs it").into())
    }

    fn empty<T>(&self) -> Result<T> {
        Err(self.table.need("size")?.refuse("expected at least 1B").into())
    }

    /// The transfers of a flow with `arrivals`. A mean that depends on the path is not known yet.
    fn load(
        &self,
        around: &Around<'_>,
        (arrivals, fields): (&Arrivals, &FlowFields),
        reader: &CellReader<'_>,
    ) -> Result<Load> {
        let table = &self.table;
        for key in ["count", "interval"] {
            if let Some(value) = table.get(key) {
                return Err(value.refuse_field("give either this or `arrivals`").into());
            }
        }
        if let (Some(value), Switch(true)) = (table.get("keep_alive"), fields.keep_alive) {
            return Err(value.refuse_field("with `arrivals`, each transfer has its own connection").into());
        }
        let Poisson { rate, stream } = match arrivals {
            Arrivals::Poisson(poisson) => *poisson,
            Arrivals::File(file) => return self.trace(around, (file, fields), reader),
        };
        let mean = match rate {
            StartRate::Mean(mean) => mean,
            StartRate::Load(_) => around.duration, // until `with_load`
        };
        match fields.size {
            None => Err(table.missing("size", "missing: `arrivals` needs it").into()),
            Some(Sizes::Fixed(Bytes(0))) => self.empty(),
            Some(sizes) => Ok(Load::Drawn { starts: Starts::Poisson { mean, stream }, sizes }),
        }
    }

    fn trace(&self, around: &Around<'_>, (file, fields): (&str, &FlowFields), reader: &CellReader<'_>) -> Result<Load> {
        if let Some(value) = self.table.get("size") {
            return Err(value.refuse_field("the file of `arrivals` has the sizes").into());
        }
        let value = self.table.need("arrivals")?;
        let trace = reader.files.transfers(file).map_err(|refused| refused.numbers(&value, TRANSFER_LINE))?;
        let starting = fields.duration.unwrap_or(around.duration.saturating_sub(fields.start));
        if trace.within(starting).is_empty() && !starting.is_zero() {
            return Err(value.refuse("no transfer of the file starts before the end of the flow").into());
        }
        Ok(Load::Trace(trace))
    }

    /// The flow with the mean time between its transfers, which may depend on its path.
    pub(super) fn with_load(&self, flow: FlowSpec, around: &Around<'_>) -> Result<FlowSpec> {
        let flow = self.with_mean(flow, around)?;
        let connections = flow.connections(around.duration);
        match self.table.get("arrivals").filter(|_| connections > CONNECTIONS_MAX) {
            Some(value) => {
                let what = format!("{connections} connections are expected: at most {CONNECTIONS_MAX} are allowed");
                Err(value.refuse(what).into())
            }
            None => Ok(flow),
        }
    }

    fn with_mean(&self, mut flow: FlowSpec, around: &Around<'_>) -> Result<FlowSpec> {
        let Sends::Load(Load::Drawn { starts: Starts::Poisson { mean, .. }, sizes }) = &mut flow.sends else {
            return Ok(flow);
        };
        let value = self.table.need("arrivals")?;
        let Arrivals::Poisson(Poisson { rate: rate @ StartRate::Load(_), .. }) = Arrivals::read(&value)? else {
            return Ok(flow);
        };
        let way = shortest_path(around.links, &flow.from, &flow.to).unwrap_or_default();
        let run = [Duration::ZERO, around.duration];
        let rates = way.iter().filter_map(|hop| hop.direction(around.links).mean_rate(run));
        let Some(slowest_bps) = rates.min_by(f64::total_cmp).filter(|rate| *rate > 0.0) else {
            let what = "no link on the path has a `rate`, of which a load is a share: expected poisson:mean=50ms";
            return Err(value.refuse(what).into());
        };
        *mean = rate.mean(sizes.mean(), slowest_bps).unwrap_or(Duration::MAX);
        Ok(flow)
    }

    pub(super) fn datagrams(&self, around: &Around<'_>, fields: &FlowFields) -> Result<Sends> {
        let table = &self.table;
        if let Some(value) = ONLY_TCP.iter().find_map(|key| table.get(key)) {
            return Err(value.refuse_field("a flow with protocol = \"udp\" does not have this").into());
        }
        let (mtu, packet) =
            (u64::from(around.mtu), fields.packet.map_or(u64::from(around.mtu), |Bytes(packet)| packet));
        if table.has("packet") && !(PACKET_MIN..=mtu).contains(&packet) {
            return Err(table.need("packet")?.refuse(format!("outside {PACKET_MIN}B..{mtu}B (the mtu)")).into());
        }
        let mut spec = DatagramSpec {
            rate: fields.rate.unwrap_or(BitsPerSec(0)),
            packet_bytes: packet as u32,
            frames: fields.frames,
            deadline: fields.deadline,
        };
        match (fields.rate, fields.frames) {
            (None, None) => {
                let what = "missing: a flow with protocol = \"udp\" sends at a rate, or has `frames`";
                return Err(table.missing("rate", what).into());
            }
            (Some(_), Some(_)) => return Err(table.refuse_field("frames", "give either rate or frames").into()),
            (Some(_), None) => {}
            (None, Some(_)) => {
                let pattern = Pattern::of(&spec);
                if pattern.shapes.iter().any(|shape| shape.pkts > FRAME_PKTS_MAX) {
                    let what = format!("a frame takes more than {FRAME_PKTS_MAX} packets of {packet}B");
                    return Err(table.need("frames")?.refuse(what).into());
                }
                spec.rate = pattern.rate();
            }
        }
        Ok(Sends::Datagrams(spec))
    }
}
