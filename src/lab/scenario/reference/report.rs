//! What a report compares and draws: `[source]` to `[selection]`.

use std::collections::BTreeMap;
use std::time::Duration;

use Kind::{Is, Time, Words};
use host::fields;
use host::toml_reader::Kind;
use serde::Serialize;

use crate::scenario::document::report::Of;
use crate::scenario::document::shown::{Draw, Points, Together};
use shared::model::metrics::METRICS as KNOWN;
use shared::units::Share;

/// Variant or algorithm to one number per value of a variable, in its order; NaN if there is none.
pub type NumberLists = BTreeMap<String, Vec<f64>>;

const METRIC: Kind = Kind::Named("metric", metric_names);
const METRICS: Kind = Kind::Named("list of metrics", metric_names);
/// Metrics of the report, or of all.
const METRICS_OF_REPORT: Kind = Is("list of metrics");
const METRIC_OF_REPORT: Kind = Is("metric");
const POINTS: Kind = Is("variables with a value or a list");
const NUMBERS: Kind = Is("names with lists of numbers");
const TRUTH: Kind = Is("true or false");
const NONE: &str = "none";

fn metric_names() -> Vec<&'static str> {
    KNOWN.iter().map(|metric| metric.name).collect()
}

fields! {
    /// Where the published numbers come from.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct SourceSpec: SOURCE {
        /// Paper that the published numbers come from.
        /// Example: paper = "DTCP"
        paper: String = Is("text"), needed;
        /// Table or figure of the paper.
        /// Example: where = "table 2"
        r#where: String = Is("text"), needed;
    }
}

fields! {
    /// Contents of the report, as they are written.
    #[derive(Default)]
    pub struct ReportFields: REPORT {
        /// Variant or algorithm that ratios divide by.
        /// Example: baseline = "reno"
        baseline: String = Is("name"), unless "no ratios";
        /// Metrics of the report, in this order.
        /// Example: metrics = ["goodput_bps", "qdelay_p95_us"]
        metrics: Vec<String> = METRICS, unless "`delivered_pkts` and `goodput_bps`";
        /// Largest distance from a published number at which a value is `within`, as a share of that number.
        /// Example: tolerance = "5%"
        tolerance: Share = Kind::Share, unless "10%";
        /// Start of the part of each run that metrics count, from the first event of its flows, as in figures over
        /// time. Datagrams count as evenly spread; flows of several connections are left out.
        /// Example: from = "2s"
        from: Duration = Time(None), unless "the start of the run";
        /// End of this part.
        /// Example: to = "8s"
        to: Duration = Time(None), unless "the end of the run";
    }
}

fields! {
    /// Numbers of the source along one sweep variable. Ratios are shown if the source has no value of the baseline.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Published: PUBLISHED {
        /// Metric of these numbers.
        /// Example: metric = "delivered_pkts"
        metric: String = METRIC, needed;
        /// Meaning of the numbers: values, ratios to the baseline, or savings, which are the baseline's value minus the
        /// value. A published saving is subtracted from the baseline's measured mean.
        /// Example: of = "ratio"
        of: Of = Words(&["value", "ratio", "saved"]), or "value";
        /// Table, row and column of the source.
        /// Example: place = "table 2"
        place: String = Is("text"), needed;
        /// Variable of the sweep that the lists follow.
        /// Example: over = "loss"
        over: String = Is("variable"), needed;
        /// A list for each variant or algorithm, with a number per value of `over`, or nan where the source has none. A
        /// name that the scenario does not measure is shown as published only.
        /// Example: values = { reno = [15940, 6331], Vegas = [24587, nan] }
        values: NumberLists = NUMBERS, needed;
    }
}

fields! {
    /// Numbers that a faithful implementation should give.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Expected: EXPECTED {
        /// A list for each variant or algorithm, with a number per value of `over`, or nan where nothing is expected.
        /// Example: values = { reno = [15940, nan] }
        values: NumberLists = NUMBERS, needed;
        /// Allowed distance from each number of `values`: lists of the same names and lengths.
        /// Example: plus_minus = { reno = [1, 2] }
        plus_minus: NumberLists = NUMBERS, needed;
        /// Reason for these numbers, in one sentence.
        /// Example: basis = "the equation of section 3"
        basis: String = Is("text"), needed;
        from PUBLISHED [metric: String, over: String]: needed;
        from PUBLISHED [of: Of]: or "value";
    }
}

fields! {
    /// A figure of the report's page.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FigureSpec: FIGURE {
        /// Heading of the figure.
        /// Example: title = "Throughput against loss"
        title: String = Is("text"), needed;
        /// Figure of the source that this figure reproduces.
        /// Example: place = "figure 2"
        place: String = Is("text"), unless NONE;
        /// Variable of the sweep, or `time` for a figure over the time of each point's median run.
        /// Example: x = "loss"
        x: String = Is("variable or \"time\""), needed;
        /// A metric of the report; in a figure over time, a series of a flow.
        /// Example: y = "goodput_bps"
        y: String = Is("metric or series"), needed;
        /// Whether to draw values or their ratios to `report.baseline`. Only a figure over the sweep has ratios.
        /// Example: of = "ratio"
        of: Of = Words(&["value", "ratio"]), or "value";
        /// How to draw values. With `auto` they are lines if `x` is a number or `time`, else bars. `box` draws medians,
        /// quartiles and extremes, and `cdf` cumulative shares. Both draw the runs of each point. Over `time` they draw
        /// the series in the median run, weighted by time.
        /// Example: draw = "bars"
        /// Example: draw = "cdf"
        draw: Draw = Words(&["auto", "lines", "bars", "box", "cdf"]), or "auto";
        /// Whether the x axis is logarithmic. Values that include 0 are then spaced evenly.
        /// Example: log_x = true
        log_x: bool = TRUTH, or "false";
        /// Whether the y axis is logarithmic.
        /// Example: log_y = true
        log_y: bool = TRUTH, or "false";
        /// What one chart over time shows: all variants, or with "flows" all flows of a run, also those beside the
        /// compared ones. If it is false, each variant has its own chart, one above the other.
        /// Example: together = "flows"
        together: Together = Is("true, false or \"flows\""), or "false";
        /// End of a figure over time.
        /// Example: until = "10s"
        until: Duration = Time(None), unless "the whole run";
        /// Points of the sweep to draw.
        /// Example: at = { loss = ["0%", "1%"] }
        at: Points = POINTS, empty "every point";
    }
}

fields! {
    /// A known reason why numbers differ.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DifferenceSpec: DIFFERENCE {
        /// Reason why numbers differ from the source's: one sentence without its full stop.
        /// Example: cause = "the simulator's Fast Start is Tahoe on a transfer that never pauses"
        cause: String = Is("text"), needed;
        /// What this means for the reader: one sentence without its full stop.
        /// Example: advice = "read it as Tahoe"
        advice: String = Is("text"), needed;
        /// Metrics that differ.
        /// Example: metrics = ["delivered_pkts"]
        metrics: Vec<String> = METRICS, empty "all";
        /// Points of the sweep that differ.
        /// Example: at = { loss = ["0%", "1%"] }
        at: Points = POINTS, empty "the whole report";
    }
}

fields! {
    /// By how much a metric may be worse than the baseline's. `tccc evaluate` judges by it.
    #[derive(Debug, Clone, PartialEq)]
    pub struct MarginSpec: MARGIN {
        /// Metric of the report.
        /// Example: metric = "qdelay_p95_us"
        metric: String = METRIC_OF_REPORT, needed;
        /// Largest ratio to the baseline that is no worse, at least 1. Less of the metric is then better.
        /// Example: at_most = 1.25
        at_most: f64 = Is("number"), unless "`at_least` is the limit";
        /// Smallest ratio to the baseline that is no worse, above 0 and at most 1. More of the metric is then better.
        /// Example: at_least = 0.8
        at_least: f64 = Is("number"), unless "`at_most` is the limit";
        /// Value up to which nothing is worse, whatever the ratio. It is only for `at_most`, in the metric's unit.
        /// Example: negligible = 5000.0
        negligible: f64 = Is("number"), unless NONE;
        /// Reason for the limit, in one sentence.
        /// Example: why = "two flows of one algorithm differ by as much"
        why: String = Is("text"), needed;
    }
}

fields! {
    /// The choice of a value, as it is written.
    pub struct SelectionFields: SELECTION {
        /// Variable of the sweep to choose a value of. It is neither `variant` nor `algorithm`.
        /// Example: parameter = "loss"
        parameter: String = Is("variable"), needed;
        /// Metrics of the report for which more is better.
        /// Example: max = ["goodput_bps"]
        max: Vec<String> = METRICS_OF_REPORT, empty NONE;
        /// Metrics of the report for which less is better.
        /// Example: min = ["qdelay_p95_us"]
        min: Vec<String> = METRICS_OF_REPORT, empty NONE;
        /// Ratios of the report that are best at 1. The smaller of a ratio and its inverse counts.
        /// Example: near_one = ["friendliness_ratio"]
        near_one: Vec<String> = METRICS_OF_REPORT, empty NONE;
    }
}
