//! `/metrics` in OpenMetrics format. Series are labelled by algorithm, cgroup, rule and arm, never by address or port.

use std::collections::BTreeMap;
use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::overview::{HostConfig, LastTrial};
use crate::trace::cost::CallbackCost;
use crate::trace::totals::{CountedGroup, CountedGroups, Powers};
use shared::event::CaState;

mod plain_text;

pub(super) use plain_text::plain_text;

pub(super) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The text format before OpenMetrics.
pub(super) const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// First and last bucket bound of each histogram, as powers of two: RTT 64 us to 16.8 s; window 1 to 16384 packets;
/// goodput 1 KiB/s to 16 GiB/s.
const TIME_POWERS: [usize; 2] = [6, 24];
const WINDOW_POWERS: [usize; 2] = [0, 14];
const RATE_POWERS: [usize; 2] = [10, 34];
const MICROS_PER_SECOND: f64 = 1e6;
const NANOS_PER_SECOND: f64 = 1e9;

#[derive(Debug, Clone)]
pub(super) struct Scrape {
    pub counted: CountedGroups,
    pub situation: HostConfig,
    pub costs: Vec<CallbackCost>,
    /// Events dropped by the page's tracer. `None` without a page.
    pub dropped: Option<u64>,
    pub sweep_s: f64,
    /// Failed sweeps since the start. The counts are from the last successful sweep.
    pub failed_sweeps: u64,
    pub own: ProcessUsage,
    pub kernel: String,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProcessUsage {
    pub cpu_s: f64,
    pub resident_bytes: u64,
}

pub(super) fn openmetrics(shown: &Scrape) -> String {
    let mut ours = Registry::with_prefix("tccc");
    ours.register_collector(Box::new(shown.clone()));
    let mut process = Registry::default();
    process.register_collector(Box::new(shown.own));
    let mut text = String::new();
    let written = encode_registry(&mut text, &ours)
        .and_then(|()| encode_registry(&mut text, &process))
        .and_then(|()| encode_eof(&mut text));
    written.expect("a string takes everything");
    text
}

type SeriesLabels = Vec<(&'static str, String)>;
type LabelledValue = (SeriesLabels, f64);

impl Collector for ProcessUsage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut to = Families(&mut encoder);
        to.counter("process_cpu_seconds", "CPU time of this process", [(vec![], self.cpu_s)])?;
        let resident = [(vec![], self.resident_bytes as f64)];
        to.gauge("process_resident_memory_bytes", "Memory of this process", resident)
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut to = Families(&mut encoder);
        let groups = merged(&self.counted.groups);
        self.encode_infos(&mut to)?;
        self.encode_arms(&mut to)?;
        encode_counts(&mut to, &groups)?;
        encode_histograms(&mut to, &groups)?;
        self.encode_costs(&mut to)?;
        self.encode_honesty(&mut to)
    }
}

impl Scrape {
    fn encode_infos(&self, to: &mut Families<'_, '_>) -> Result<(), Error> {
        let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("kernel", self.kernel.clone())];
        to.info("build", "Version of this program and of the kernel", [build])?;
        let algorithms = self.situation.registered.iter().map(|it| {
            let generation = it.generation.map(|it| it.to_string()).unwrap_or_default();
            let (name, version, source) = (it.name.clone(), it.version.clone(), it.source.to_owned());
            vec![("name", name), ("version", version), ("source", source), ("generation", generation)]
        });
        to.info("algorithm", "Algorithms that connections can choose", algorithms)?;
        let mut sockets: BTreeMap<&str, u64> =
            self.situation.registered.iter().map(|it| (it.name.as_str(), 0)).collect();
        for group in &self.counted.groups {
            *sockets.entry(&group.algorithm).or_default() += group.sockets;
        }
        let sockets = sockets.into_iter().map(|(name, count)| (vec![("name", name.to_owned())], count as f64));
        to.gauge("algorithm_sockets", "Open connections of each algorithm, by the latest sweep", sockets)
    }

    fn encode_arms(&self, to: &mut Families<'_, '_>) -> Result<(), Error> {
        let labels = |rule: &str, arm: &str| vec![("rule", rule.to_owned()), ("arm", arm.to_owned())];
        let generation = self.situation.policy.as_ref().map_or(0, |policy| policy.generation);
        let help = "Number of the active policy generation; 0 without a policy";
        to.gauge("policy_generation", help, [(SeriesLabels::new(), f64::from(generation))])?;
        if let Some(LastTrial { result, limits, each }) = &self.situation.last_trial {
            let labels = |state: &str| vec![("result", result.clone()), ("state", state.to_owned())];
            let limits = limits.iter().map(|(state, count)| (labels(state), *count as f64));
            let help = "Limits of the latest trial that ended, by its result and what was shown about them";
            to.gauge("last_trial_limits", help, limits)?;
            let each = each.iter().map(|it| {
                let mut labels = labels(it.state);
                labels.extend(
                    [("rule", &it.rule), ("arm", &it.arm), ("limit", &it.limit)]
                        .map(|(key, value)| (key, value.clone())),
                );
                (labels, 1.0)
            });
            let help = "1 for each limit of the latest trial that ended, with what was shown about it";
            to.gauge("last_trial_limit", help, each)?;
        }
        let arms = || self.situation.policy.iter().flat_map(|policy| &policy.arms);
        let shares = arms().map(|it| (labels(&it.rule, &it.arm), it.share));
        to.gauge("arm_share_ratio", "Share of a rule's connections that the policy gives an arm", shares)?;
        let trials = arms().map(|it| (labels(&it.rule, &it.arm), f64::from(u8::from(it.on_trial))));
        to.gauge("arm_on_trial", "Whether the rule of an arm is on trial", trials)?;
        let mut sockets: BTreeMap<(&str, &str), u64> = arms().map(|it| ((&*it.rule, &*it.arm), 0)).collect();
        for group in &self.counted.groups {
            if let Some(given) = &group.arm {
                *sockets.entry((&given.rule, &given.arm)).or_default() += group.sockets;
            }
        }
        let sockets = sockets.into_iter().map(|((rule, arm), count)| (labels(rule, arm), count as f64));
        to.gauge("arm_sockets", "Open connections of each arm, by the latest sweep", sockets)
    }

    fn encode_costs(&self, to: &mut Families<'_, '_>) -> Result<(), Error> {
        let labels = |it: &CallbackCost| vec![("algorithm", it.algorithm.clone()), ("op", it.callback.clone())];
        let costs = &self.costs;
        let time = costs.iter().map(|it| (labels(it), it.nanoseconds as f64 / NANOS_PER_SECOND));
        let help = "Time in callbacks of algorithms; only while kernel.bpf_stats_enabled is 1";
        to.counter("callback_duration_seconds", help, time)?;
        let calls = costs.iter().map(|it| (labels(it), it.calls as f64));
        to.counter(
            "callback_calls",
            "Calls of callbacks of algorithms; only while kernel.bpf_stats_enabled is 1",
            calls,
        )
    }

    /// Encodes what is missing from the numbers, and what they cost.
    fn encode_honesty(&self, to: &mut Families<'_, '_>) -> Result<(), Error> {
        let one = |value: f64| [(SeriesLabels::new(), value)];
        if let Some(dropped) = self.dropped {
            to.counter("events_dropped", "Events that the web page's tracer dropped", one(dropped as f64))?;
        }
        let uncounted = one(self.counted.uncounted as f64);
        to.counter("uncounted", "Times a connection could not be counted: too many groups, or no memory", uncounted)?;
        let hidden = one(self.counted.hidden as f64);
        to.gauge("hidden_processes", "Processes whose network namespace could not be inspected", hidden)?;
        let partial = one(f64::from(u8::from(self.counted.is_partial)));
        let what = "1 if connections of processes outside this PID namespace are missing, as in a container";
        to.gauge("outside_missing", what, partial)?;
        to.gauge("sweep_duration_seconds", "Time of the latest sweep over all sockets", one(self.sweep_s))?;
        let failed = one(self.failed_sweeps as f64);
        to.counter("failed_sweeps", "Sweeps that failed: the counts are from the last successful sweep", failed)
    }
}

/// Adds up groups with equal labels: a cgroup may be recreated under its old path, and some have no path.
///
/// Rule and arm are empty where no rule applied. Prometheus treats an empty label as absent.
fn merged(groups: &[CountedGroup]) -> Vec<(SeriesLabels, CountedGroup)> {
    let mut merged: BTreeMap<[String; 4], CountedGroup> = BTreeMap::new();
    for group in groups {
        let path = group.path.clone().unwrap_or_default();
        let (rule, arm) = group.arm.clone().map(|given| (given.rule, given.arm)).unwrap_or_default();
        let sum = merged.entry([group.algorithm.clone(), path, rule, arm]);
        sum.and_modify(|sum| sum.add(group)).or_insert_with(|| group.clone());
    }
    let labels = |values| ["algorithm", "cgroup", "rule", "arm"].into_iter().zip(values).collect();
    merged.into_iter().map(|(values, group)| (labels(values), group)).collect()
}

/// Name, help, value.
type GroupCounter = (&'static str, &'static str, fn(&CountedGroup) -> u64);

const COUNTS: [GroupCounter; 9] = [
    ("connections_opened", "Connections established up to the latest sweep", |it| it.opened),
    ("connections_closed", "Connections that ended", |it| it.closed),
    ("segments_sent", "Data segments sent, retransmissions included", |it| it.sent_pkts),
    ("retransmitted_segments", "Segments retransmitted", |it| it.retrans_pkts),
    ("delivered_segments", "Segments delivered", |it| it.delivered_pkts),
    ("delivered_ce_segments", "Segments delivered with a congestion mark", |it| it.delivered_ce_pkts),
    ("lost_segments", "Segments marked lost", |it| it.lost_pkts),
    ("acked_bytes", "Payload acknowledged", |it| it.bytes_acked),
    ("received_bytes", "Payload received", |it| it.bytes_received),
];

fn encode_counts(to: &mut Families<'_, '_>, groups: &[(SeriesLabels, CountedGroup)]) -> Result<(), Error> {
    for (name, help, value) in COUNTS {
        to.counter(name, help, groups.iter().map(|(labels, group)| (labels.clone(), value(group) as f64)))?;
    }
    let states = groups.iter().flat_map(|(labels, group)| {
        CaState::ALL.iter().zip(group.state_ns).map(|(state, nanoseconds)| {
            let labels = labels.iter().cloned().chain([("state", state.name().to_owned())]).collect();
            (labels, nanoseconds as f64 / NANOS_PER_SECOND)
        })
    });
    to.counter("ca_state_seconds", "Time of all connections in each congestion state", states)
}

fn encode_histograms(to: &mut Families<'_, '_>, groups: &[(SeriesLabels, CountedGroup)]) -> Result<(), Error> {
    /// Name, help, values, first and last bucket bound as powers of two, raw values per unit.
    type Family = (&'static str, &'static str, fn(&CountedGroup) -> Powers, [usize; 2], f64);
    let families: [Family; 4] = [
        (
            "connection_rtt_seconds",
            "Smoothed RTT, once per sweep for each connection that delivered data since the last sweep",
            |it| it.srtt_us.powers(),
            TIME_POWERS,
            MICROS_PER_SECOND,
        ),
        (
            "connection_min_rtt_seconds",
            "Lowest RTT, observed like connection_rtt_seconds",
            |it| it.min_rtt_us,
            TIME_POWERS,
            MICROS_PER_SECOND,
        ),
        (
            "connection_cwnd_segments",
            "Congestion window, observed like connection_rtt_seconds",
            |it| it.cwnd_pkts,
            WINDOW_POWERS,
            1.0,
        ),
        (
            "connection_goodput_bytes_per_second",
            "Payload acknowledged per second since the last sweep, of connections that sent",
            |it| it.goodput_bytes,
            RATE_POWERS,
            1.0,
        ),
    ];
    for (name, help, values, powers, scale) in families {
        let mut metric = to.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, group) in groups {
            encode_powers(metric.encode_family(labels)?, &values(group), powers, scale)?;
        }
    }
    Ok(())
}

fn encode_powers(mut to: MetricEncoder<'_>, values: &Powers, [low, high]: [usize; 2], scale: f64) -> Result<(), Error> {
    let below: u64 = values.bins[..low].iter().sum();
    let between = values.bins[low..=high].iter().enumerate();
    let mut buckets: Vec<(f64, u64)> =
        between.map(|(place, count)| ((1u64 << (low + place)) as f64 / scale, *count)).collect();
    buckets[0].1 += below;
    buckets.push((f64::INFINITY, values.bins[high + 1..].iter().sum()));
    to.encode_histogram::<NoLabelSet>(values.sum as f64 / scale, values.bins.iter().sum(), &buckets, None)
}

struct Families<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Families<'_, '_> {
    fn counter(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = LabelledValue>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        values.into_iter().try_for_each(|(labels, value)| match labels.is_empty() {
            true => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            false => metric.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None),
        })
    }

    fn gauge(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = LabelledValue>) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(labels, value)| match labels.is_empty() {
            true => metric.encode_gauge(&value),
            false => metric.encode_family(&labels)?.encode_gauge(&value),
        })
    }

    fn info(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = SeriesLabels>) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Info)?;
        values.into_iter().try_for_each(|labels| metric.encode_info(&labels))
    }
}

#[cfg(test)]
mod tests;
