//! What a report compares and draws: `[source]` to `[selection]`.

use super::field::{Kind, Unset, sections};
use Kind::{Is, Share, Time, Words};
use Unset::{Means, Needed};

const METRIC: Kind = Is("metric");
const METRICS: Kind = Is("list of metrics");
const POINTS: Kind = Is("variables with a value or a list");
const NUMBERS: Kind = Is("names with lists of numbers");
const TRUTH: Kind = Is("true or false");
const NONE: Unset = Means("none");

sections! {
    SOURCE {
        /// Paper that the published numbers come from.
        /// Example: paper = "DTCP"
        paper: Is("text"), Needed;
        /// Table or figure of the paper.
        /// Example: where = "table 2"
        where: Is("text"), Needed;
    }

    REPORT {
        /// Variant or algorithm that ratios divide by.
        /// Example: baseline = "reno"
        baseline: Is("name"), Means("no ratios");
        /// Metrics of the report, in this order.
        /// Example: metrics = ["goodput_bps", "qdelay_p95_us"]
        metrics: METRICS, Means("`delivered_pkts` and `goodput_bps`");
        /// Largest distance from a published number at which a value is `within`, as a share of that number.
        /// Example: tolerance = "5%"
        tolerance: Share, Means("10%");
        /// Start of the part of each run that metrics count, from the first event of its flows, as in figures over
        /// time. Datagrams count as evenly spread; flows of several connections are left out.
        /// Example: from = "2s"
        from: Time(None), Means("the start of the run");
        /// End of this part.
        /// Example: to = "8s"
        to: Time(None), Means("the end of the run");
    }

    PUBLISHED {
        /// Metric of these numbers.
        /// Example: metric = "delivered_pkts"
        metric: METRIC, Needed;
        /// Meaning of the numbers: values, ratios to the baseline, or savings, which are the baseline's value minus the
        /// value. A published saving is subtracted from the baseline's measured mean.
        /// Example: of = "ratio"
        of: Words(&["value", "ratio", "saved"]), Unset::Is("value");
        /// Table, row and column of the source.
        /// Example: place = "table 2"
        place: Is("text"), Needed;
        /// Variable of the sweep that the lists follow.
        /// Example: over = "loss"
        over: Is("variable"), Needed;
        /// A list for each variant or algorithm, with a number per value of `over`, or nan where the source has none. A
        /// name that the scenario does not measure is shown as published only.
        /// Example: values = { reno = [15940, 6331], Vegas = [24587, nan] }
        values: NUMBERS, Needed;
    }

    EXPECTED {
        /// A list for each variant or algorithm, with a number per value of `over`, or nan where nothing is expected.
        /// Example: values = { reno = [15940, nan] }
        values: NUMBERS, Needed;
        /// Allowed distance from each number of `values`: lists of the same names and lengths.
        /// Example: plus_minus = { reno = [1, 2] }
        plus_minus: NUMBERS, Needed;
        /// Reason for these numbers, in one sentence.
        /// Example: basis = "the equation of section 3"
        basis: Is("text"), Needed;
        from PUBLISHED [metric, over]: Needed;
        from PUBLISHED [of]: Unset::Is("value");
    }

    FIGURE {
        /// Heading of the figure.
        /// Example: title = "Throughput against loss"
        title: Is("text"), Needed;
        /// Figure of the source that this figure reproduces.
        /// Example: place = "figure 2"
        place: Is("text"), NONE;
        /// Variable of the sweep, or `time` for a figure over the time of each point's median run.
        /// Example: x = "loss"
        x: Is("variable or \"time\""), Needed;
        /// A metric of the report; in a figure over time, a series of a flow.
        /// Example: y = "goodput_bps"
        y: Is("metric or series"), Needed;
        /// Whether to draw values or their ratios to `report.baseline`. Only a figure over the sweep has ratios.
        /// Example: of = "ratio"
        of: Words(&["value", "ratio"]), Unset::Is("value");
        /// How to draw values. With `auto` they are lines if `x` is a number or `time`, else bars. `box` draws medians,
        /// quartiles and extremes, and `cdf` cumulative shares. Both draw the runs of each point. Over `time` they draw
        /// the series in the median run, weighted by time.
        /// Example: draw = "bars"
        /// Example: draw = "cdf"
        draw: Words(&["auto", "lines", "bars", "box", "cdf"]), Unset::Is("auto");
        /// Whether the x axis is logarithmic. Values that include 0 are then spaced evenly.
        /// Example: log_x = true
        log_x: TRUTH, Unset::Is("false");
        /// Whether the y axis is logarithmic.
        /// Example: log_y = true
        log_y: TRUTH, Unset::Is("false");
        /// What one chart over time shows: all variants, or with "flows" all flows of a run, also those beside the
        /// compared ones. If it is false, each variant has its own chart, one above the other.
        /// Example: together = "flows"
        together: Is("true, false or \"flows\""), Unset::Is("false");
        /// End of a figure over time.
        /// Example: until = "10s"
        until: Time(None), Means("the whole run");
        /// Points of the sweep to draw.
        /// Example: at = { loss = ["0%", "1%"] }
        at: POINTS, Means("every point");
    }

    DIFFERENCE {
        /// Reason why numbers differ from the source's: one sentence without its full stop.
        /// Example: cause = "the simulator's Fast Start is Tahoe on a transfer that never pauses"
        cause: Is("text"), Needed;
        /// What this means for the reader: one sentence without its full stop.
        /// Example: advice = "read it as Tahoe"
        advice: Is("text"), Needed;
        /// Metrics that differ.
        /// Example: metrics = ["delivered_pkts"]
        metrics: METRICS, Means("all");
        /// Points of the sweep that differ.
        /// Example: at = { loss = ["0%", "1%"] }
        at: POINTS, Means("the whole report");
    }

    SELECTION {
        /// Variable of the sweep to choose a value of. It is neither `variant` nor `algorithm`.
        /// Example: parameter = "loss"
        parameter: Is("variable"), Needed;
        /// Metrics of the report for which more is better.
        /// Example: max = ["goodput_bps"]
        max: METRICS, NONE;
        /// Metrics of the report for which less is better.
        /// Example: min = ["qdelay_p95_us"]
        min: METRICS, NONE;
        /// Ratios of the report that are best at 1. The smaller of a ratio and its inverse counts.
        /// Example: near_one = ["friendliness_ratio"]
        near_one: METRICS, NONE;
    }
}
