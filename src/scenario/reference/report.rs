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
    /// Where published numbers come from.
    SOURCE {
        /// Paper that the published numbers come from.
        ///
        /// Example: paper = "DTCP"
        paper: Is("text"), Needed;
        /// Table or figure of the paper.
        ///
        /// Example: where = "table 2"
        where: Is("text"), Needed;
    }

    /// What the report shows.
    REPORT {
        /// Variant or algorithm that ratios are over.
        ///
        /// Example: baseline = "reno"
        baseline: Is("name"), Means("no ratios");
        /// Metrics of the report, in this order.
        ///
        /// Example: metrics = ["goodput_bps", "qdelay_p95_us"]
        metrics: METRICS, Means("`delivered_pkts` and `goodput_bps`");
        /// Distance from a published number up to which a value is `within`, as a share of the number.
        ///
        /// Example: tolerance = "5%"
        tolerance: Share, Means("10%");
    }

    /// Numbers of the source.
    PUBLISHED {
        /// Metric that the numbers are of.
        ///
        /// Example: metric = "delivered_pkts"
        metric: METRIC, Needed;
        /// What the numbers are: values, ratios to the baseline, or how much less than the baseline's. A published
        /// saving is shown as the baseline's measured mean less it.
        ///
        /// Example: of = "ratio"
        of: Words(&["value", "ratio", "saved"]), Unset::Is("value");
        /// Table, row and column of the source.
        ///
        /// Example: place = "table 2"
        place: Is("text"), Needed;
        /// Variable of the sweep that the lists go along.
        ///
        /// Example: over = "loss"
        over: Is("variable"), Needed;
        /// For each variant or algorithm a number per value of `over`, in their order; nan where there is none. A
        /// name that the file does not have is shown as published only.
        ///
        /// Example: values = { reno = [15940, 6331], Vegas = [24587, nan] }
        values: NUMBERS, Needed;
    }

    /// Numbers that a faithful implementation should give.
    EXPECTED {
        /// For each variant or algorithm a number per value of `over`, in their order; nan where nothing is expected.
        ///
        /// Example: values = { reno = [15940, nan] }
        values: NUMBERS, Needed;
        /// Allowed distance from each number of `values`, in their shape and unit.
        ///
        /// Example: plus_minus = { reno = [1, 2] }
        plus_minus: NUMBERS, Needed;
        /// Reason for these numbers, one sentence.
        ///
        /// Example: basis = "the equation of section 3"
        basis: Is("text"), Needed;
    }
    from PUBLISHED [metric, over]: Needed;
    from PUBLISHED [of]: Unset::Is("value");

    /// A figure of the report.
    FIGURE {
        /// Heading of the figure.
        ///
        /// Example: title = "Throughput against loss"
        title: Is("text"), Needed;
        /// Figure of the source that it is drawn as.
        ///
        /// Example: place = "figure 2"
        place: Is("text"), NONE;
        /// Variable of the sweep, or `time` for a figure over the time of each point's median run.
        ///
        /// Example: x = "loss"
        x: Is("variable or \"time\""), Needed;
        /// Over the sweep a metric of the report, over time a series of a flow.
        ///
        /// Example: y = "goodput_bps"
        y: Is("metric or series"), Needed;
        /// Values themselves, or divided by those of `report.baseline`. Over the sweep.
        ///
        /// Example: of = "ratio"
        of: Words(&["value", "ratio"]), Unset::Is("value");
        /// How values over the sweep are drawn. With `auto` they are lines where `x` is a number and bars elsewhere.
        ///
        /// Example: draw = "bars"
        draw: Words(&["auto", "lines", "bars"]), Unset::Is("auto");
        /// Whether x is logarithmic. Values with a 0 among them stand one step apart, as do values that span 1 to 8
        /// or more.
        ///
        /// Example: log_x = true
        log_x: TRUTH, Unset::Is("false");
        /// Whether y is logarithmic.
        ///
        /// Example: log_y = true
        log_y: TRUTH, Unset::Is("false");
        /// Whether one chart over time shows all variants. Otherwise each has its own, one above the other.
        ///
        /// Example: together = true
        together: TRUTH, Unset::Is("false");
        /// End of a figure over time.
        ///
        /// Example: until = "10s"
        until: Time(None), Means("the whole run");
        /// Points of the sweep that are drawn.
        ///
        /// Example: at = { loss = ["0%", "1%"] }
        at: POINTS, Means("every point");
    }

    /// A known reason why numbers differ.
    DIFFERENCE {
        /// Reason why numbers differ from the source's: one sentence, without its full stop.
        ///
        /// Example: cause = "the simulator's Fast Start is Tahoe on a transfer that never pauses"
        cause: Is("text"), Needed;
        /// What this means for the reader: one sentence, without its full stop.
        ///
        /// Example: advice = "read it as Tahoe"
        advice: Is("text"), Needed;
        /// Metrics that differ.
        ///
        /// Example: metrics = ["delivered_pkts"]
        metrics: METRICS, Means("all");
        /// Points of the sweep that differ.
        ///
        /// Example: at = { loss = ["0%", "1%"] }
        at: POINTS, Means("the whole report");
    }

    /// The choice of a parameter.
    SELECTION {
        /// Variable of the sweep whose values compete. It is neither `variant` nor `algorithm`.
        ///
        /// Example: parameter = "loss"
        parameter: Is("variable"), Needed;
        /// Metrics of the report of which more is better.
        ///
        /// Example: max = ["goodput_bps"]
        max: METRICS, NONE;
        /// Metrics of the report of which less is better.
        ///
        /// Example: min = ["qdelay_p95_us"]
        min: METRICS, NONE;
        /// Ratios of the report that are best at 1: the smaller of the ratio and its inverse counts.
        ///
        /// Example: near_one = ["friendliness_ratio"]
        near_one: METRICS, NONE;
    }
}
