//! The whole file, and the sections of its engines.

use std::time::Duration;

use Kind::{Is, Table, Tables, Time, Whole, Words};
use host::fields;
use host::toml_reader::{Apart, Kind, Unquoted};
use serde::{Deserialize, Serialize};

use super::check::CHECK;
use super::flow::{FLOW, VARIANTS};
use super::path::{DUMBBELL, LINK, PARKING_LOT};
use super::report::{
    DIFFERENCE, DifferenceSpec, EXPECTED, Expected, FIGURE, FigureSpec, MARGIN, MarginSpec, PUBLISHED, Published,
    REPORT, ReportFields, SELECTION, SOURCE, SelectionFields, SourceSpec,
};
use crate::path::MTU_RANGE;
use crate::scenario::check::Check;
use crate::scenario::document::link::Nodes;
use crate::scenario::document::ns2::Agents;
use crate::scenario::spec::{DURATION_MAX, GuestKernel, Profile, RUNS_MAX, VIRTUAL_MAX};
use shared::units::{duration_text, some_duration_text};

const NONE: &str = "none";
const HOST_DELAY: &str =
    "flows that share a link: the time of a full packet at their slowest link; others: `10us` in virtual time";

fields! {
    /// The fields of a scenario that are the same in every cell.
    pub struct ScenarioFields: DOCUMENT {
        /// Heading of reports, one line.
        /// Example: title = "Reno and Discrete TCP under random loss"
        title: String = Is("text"), needed;
        /// What the scenario shows, one sentence.
        /// Example: claim = "Random loss costs Discrete TCP less than Reno."
        claim: String = Is("text"), needed;
        /// Socket settings: `paper` follows the papers' simulator, `native` keeps the kernel's defaults.
        /// Example: profile = "native"
        profile: Profile = Words(&["paper", "native"]), needed;
        /// Length of a run, in whole seconds.
        /// Example: duration = "10s"
        duration: Duration = Time(Some([Duration::from_secs(1), DURATION_MAX])), needed;
        /// Runs of each cell. A confidence interval needs at least 3 runs, a good one at least 5. All cells together
        /// have at most 100000 runs.
        /// Example: runs = 5
        runs: Unquoted<u32> = Whole([1, RUNS_MAX as u64], ""), needed;
        /// Seed of everything random, such as losses, jitter and the order of runs.
        /// Example: seed = 1
        seed: Unquoted<u64> = Whole([0, i64::MAX as u64], ""), needed;
        /// Interval of the traced samples: more than 0 and less than `duration`.
        /// Example: sample = "10ms"
        sample: Duration = Time(None), or "100ms";
        /// Largest IP packet.
        /// Example: mtu = 9000
        mtu: Unquoted<u32> = Whole([MTU_RANGE[0] as u64, MTU_RANGE[1] as u64], " of bytes"), or "1500";
        /// Source of the published numbers.
        /// Example: source = { paper = "DTCP", where = "table 2" }
        source: SourceSpec = Table(&SOURCE), unless NONE;
        /// Variables with their values. Every combination of values is a cell; the last variable varies fastest.
        /// Elsewhere in the file, `$loss` in a text stands for the value of `loss`, and `$$` for a dollar sign.
        /// Example: sweep = { algorithm = ["reno", "dtcp"], loss = ["0%", "1%"] }
        sweep: Apart = Table(&SWEEP), empty "one cell";
        /// A link between two nodes. A packet passes remark, loss, policer, queue, rate, delay with jitter, and hold, in this
        /// order.
        /// Example: link = [{ ends = ["s", "r"], rate = "20mbit", delay = "20ms", queue = "1bdp" }]
        link: Apart = Tables(&LINK), empty "the links of a topology";
        /// A topology of pairs around one bottleneck: `s1`, `s2`, … - `left` - `right` - `r1`, `r2`, …
        /// Example: dumbbell = { pairs = 1, bottleneck = { rate = "10mbit", delay = "20ms" } }
        dumbbell: Apart = Table(&DUMBBELL), empty NONE;
        /// A topology of bottlenecks in a row: `n0` - `n1` - `n2` - …
        /// Example: parking_lot = { hops = 2, bottleneck = { rate = "10mbit", delay = "10ms" } }
        parking_lot: Apart = Table(&PARKING_LOT), empty NONE;
        /// A flow from one node to another. A cell has at most 256 flows, including copies, and 250000 connections, of which the real kernel runs 10000.
        /// Example: flow = [{ name = "data", from = "s", to = "r", algorithm = "reno" }]
        flow: Apart = Tables(&FLOW), apart;
        /// Named sets of flow fields, for comparisons that differ in more than the algorithm. The sweep then begins
        /// with a variable `variant` that takes all their names, unless `[sweep]` lists some.
        /// Example: variant = { SACK = { algorithm = "reno" }, NewReno = { algorithm = "reno", tcp_sack = 0 } }
        variant: Apart = Table(&VARIANTS), empty NONE;
        /// Contents of the report.
        /// Example: report = { baseline = "reno", metrics = ["goodput_bps"] }
        report: ReportFields = Table(&REPORT), empty "the defaults of its fields";
        /// Numbers that the source publishes, along one variable of the sweep.
        /// Example: published = [{ metric = "lost_pkts", place = "table 2", over = "loss", values = { reno = [0, 9] } }]
        published: Vec<Published> = Tables(&PUBLISHED), empty NONE;
        /// Numbers that a faithful implementation should give, along one variable of the sweep.
        /// Example: expected = []
        expected: Vec<Expected> = Tables(&EXPECTED), empty NONE;
        /// A property of the events of every run. A report says where it holds, and `--check` fails where it does not.
        /// What is seen are the samples of `sample`, and the moments of losses and state changes between them.
        /// Example: check = [{ name = "short queue", why = "section 2", what = "inflight_pkts", at_most = "2bdp" }]
        check: Vec<Check> = Tables(&CHECK), empty NONE;
        /// The question of RFC 9743 or another document that the scenario answers, as `tccc evaluate` shows it.
        /// Example: criterion = "RFC 9743, 5.1.3: high loss"
        criterion: String = Is("text"), unless NONE;
        /// By how much metrics may be worse than the baseline's. `tccc evaluate` judges by it.
        /// Example: margin = [{ metric = "goodput_bps", at_least = 0.8, why = "two equal flows differ by as much" }]
        margin: Vec<MarginSpec> = Tables(&MARGIN), empty NONE;
        /// A figure of the report's page.
        /// Example: figure = [{ title = "Goodput against loss", x = "loss", y = "goodput_bps" }]
        figure: Vec<FigureSpec> = Tables(&FIGURE), empty "every metric, and the windows over time";
        /// A known reason why numbers differ from the source's. It is shown as a note and changes no verdict.
        /// Example: difference = [{ cause = "the source has no RACK", advice = "compare ratios" }]
        difference: Vec<DifferenceSpec> = Tables(&DIFFERENCE), empty NONE;
        /// Chooses the best value of one variable of the sweep.
        /// Example: selection = { parameter = "loss", max = ["goodput_bps"] }
        selection: SelectionFields = Table(&SELECTION), unless "no choice";
        /// The kernel of virtual time: Linux 6.12, or Linux 7.3, which has Accurate ECN and the discipline `dualpi2`. The
        /// numbers of one differ from those of the other.
        /// Example: kernel = "7.3"
        kernel: GuestKernel = Words(&["6.12", "7.3"]), unless "6.12 with the profile `paper`, else 7.3";
        /// Random times that virtual time adds so that flows do not run in lockstep.
        /// Example: virtual = { start_spread = "10ms", host_delay = "600us" }
        r#virtual: VirtualSpec = Table(&VIRTUAL), empty "the defaults of its fields";
        /// Settings for the simulator ns-2.
        /// Example: ns2 = { agents = { reno = "TCP/Sack1" } }
        ns2: Ns2Spec = Table(&NS2), unless "ns-2 cannot run the scenario";
    }
}

fields! {
    pub section SWEEP {
        /// Values of one variable, each a text or a number. A name has letters, digits and underscores. Values that
        /// belong together are tables with the same fields, as in `path = [{ rate = "10mbit", delay = "20ms" }]`.
        /// `$path.rate` then stands for the `rate` of the value. Reports show all its fields, or its field `name`.
        /// Example: loss = ["0%", "1%"]
        VARIABLE: Apart = Is("list of values"), empty NONE;
    }
}

fields! {
    /// `[virtual]`: times that vary by themselves on a real host. In virtual time they are drawn from the seed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct VirtualSpec: VIRTUAL {
        /// Largest random delay of a flow after its `start`, uniform from 0, drawn from the seed.
        /// Example: start_spread = "0s"
        start_spread: Duration = Time(Some([Duration::ZERO, VIRTUAL_MAX[0]])),
            or "10ms", #[serde(with = "duration_text")];
        /// Largest random delay of a packet inside every node, uniform from 0, drawn from the seed. Packets stay in
        /// order. The user-space links of the real kernel add it too.
        /// Example: host_delay = "0s"
        host_delay: Duration = Time(Some([Duration::ZERO, VIRTUAL_MAX[1]])),
            unless HOST_DELAY, #[serde(with = "some_duration_text")];
    }
}

fields! {
    /// `[ns2]`: settings for the simulator ns-2.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Ns2Spec: NS2 {
        /// The ns-2 agent for each variant or algorithm. A second word selects an algorithm of TCP/Linux. A name that
        /// is not a variant of the file runs in the simulator only.
        /// Example: agents = { reno = "TCP/Sack1", cubic = "TCP/Linux cubic" }
        agents: Agents = Is("names with agents"), needed;
        /// Link directions that have an error model, in the order of creation. An error model draws a random number
        /// for every packet.
        /// Example: error_models = [["s", "r"], ["r", "s"]]
        error_models: Vec<Nodes> = Is("list of pairs of nodes"), unless "those that lose packets";
    }
}
