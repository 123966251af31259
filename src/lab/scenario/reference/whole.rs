//! The whole file, and the sections of its engines.

use std::time::Duration;

use super::field::{Kind, Unset, sections};
use super::flow::{FLOW, VARIANTS};
use super::path::{DUMBBELL, LINK, PARKING_LOT};
use super::report::{DIFFERENCE, EXPECTED, FIGURE, PUBLISHED, REPORT, SELECTION, SOURCE};
use Kind::{Is, Table, Tables, Time, Whole, Words};
use Unset::{Means, Needed};

use crate::path::MTU_RANGE;
use crate::scenario::spec::{DURATION_MAX, RUNS_MAX, VIRTUAL_MAX};

const NONE: Unset = Means("none");
const HOST_DELAY: Unset =
    Means("flows that share a link: the time of a full packet at their slowest link; others: `10us` in virtual time");

sections! {
    DOCUMENT {
        /// Heading of reports, one line.
        /// Example: title = "Reno and Discrete TCP under random loss"
        title: Is("text"), Needed;
        /// What the scenario shows, one sentence.
        /// Example: claim = "Random loss costs Discrete TCP less than Reno."
        claim: Is("text"), Needed;
        /// Socket settings: `paper` follows the papers' simulator, `native` keeps the kernel's defaults.
        /// Example: profile = "native"
        profile: Words(&["paper", "native"]), Needed;
        /// Length of a run, in whole seconds.
        /// Example: duration = "10s"
        duration: Time(Some([Duration::from_secs(1), DURATION_MAX])), Needed;
        /// Runs of each cell. A confidence interval needs at least 3 runs, a good one at least 5. All cells together
        /// have at most 100000 runs.
        /// Example: runs = 5
        runs: Whole([1, RUNS_MAX as u64], ""), Needed;
        /// Seed of everything random, such as losses, jitter and the order of runs.
        /// Example: seed = 1
        seed: Whole([0, i64::MAX as u64], ""), Needed;
        /// Interval of the traced samples: more than 0 and less than `duration`.
        /// Example: sample = "10ms"
        sample: Time(None), Unset::Is("100ms");
        /// Largest IP packet.
        /// Example: mtu = 9000
        mtu: Whole([MTU_RANGE[0] as u64, MTU_RANGE[1] as u64], " of bytes"), Unset::Is("1500");
        /// Source of the published numbers.
        /// Example: source = { paper = "DTCP", where = "table 2" }
        source: Table(&SOURCE), NONE;
        /// Variables with their values. Every combination of values is a cell; the last variable varies fastest.
        /// Elsewhere in the file, `$loss` in a text stands for the value of `loss`, and `$$` for a dollar sign.
        /// Example: sweep = { algorithm = ["reno", "dtcp"], loss = ["0%", "1%"] }
        sweep: Table(&SWEEP), Means("one cell");
        /// A link between two nodes. A packet passes its loss, queue, rate, delay with jitter, and ACK hold, in this
        /// order.
        /// Example: link = [{ ends = ["s", "r"], rate = "20mbit", delay = "20ms", queue = "1bdp" }]
        link: Tables(&LINK), Means("the links of a topology");
        /// A topology of pairs around one bottleneck: `s1`, `s2`, … - `left` - `right` - `r1`, `r2`, …
        /// Example: dumbbell = { pairs = 1, bottleneck = { rate = "10mbit", delay = "20ms" } }
        dumbbell: Table(&DUMBBELL), NONE;
        /// A topology of bottlenecks in a row: `n0` - `n1` - `n2` - …
        /// Example: parking_lot = { hops = 2, bottleneck = { rate = "10mbit", delay = "10ms" } }
        parking_lot: Table(&PARKING_LOT), NONE;
        /// A flow from one node to another. A cell has at most 256 flows, including copies, and 10000 connections.
        /// Example: flow = [{ name = "data", from = "s", to = "r", algorithm = "reno" }]
        flow: Tables(&FLOW), Needed;
        /// Named sets of flow fields, for comparisons that differ in more than the algorithm. The sweep then begins
        /// with a variable `variant` that takes all their names, unless `[sweep]` lists some.
        /// Example: variant = { SACK = { algorithm = "reno" }, NewReno = { algorithm = "reno", tcp_sack = 0 } }
        variant: Table(&VARIANTS), NONE;
        /// Contents of the report.
        /// Example: report = { baseline = "reno", metrics = ["goodput_bps"] }
        report: Table(&REPORT), Means("the defaults of its fields");
        /// Numbers that the source publishes, along one variable of the sweep.
        /// Example: published = [{ metric = "lost_pkts", place = "table 2", over = "loss", values = { reno = [0, 9] } }]
        published: Tables(&PUBLISHED), NONE;
        /// Numbers that a faithful implementation should give, along one variable of the sweep.
        /// Example: expected = []
        expected: Tables(&EXPECTED), NONE;
        /// A figure of the report's page.
        /// Example: figure = [{ title = "Goodput against loss", x = "loss", y = "goodput_bps" }]
        figure: Tables(&FIGURE), Means("every metric, and the windows over time");
        /// A known reason why numbers differ from the source's. It is shown as a note and changes no verdict.
        /// Example: difference = [{ cause = "the source has no RACK", advice = "compare ratios" }]
        difference: Tables(&DIFFERENCE), NONE;
        /// Chooses the best value of one variable of the sweep.
        /// Example: selection = { parameter = "loss", max = ["goodput_bps"] }
        selection: Table(&SELECTION), Means("no choice");
        /// Random times that virtual time adds so that flows do not run in lockstep.
        /// Example: virtual = { start_spread = "10ms", host_delay = "600us" }
        virtual: Table(&VIRTUAL), Means("the defaults of its fields");
        /// Settings for the simulator ns-2.
        /// Example: ns2 = { agents = { reno = "TCP/Sack1" } }
        ns2: Table(&NS2), Means("ns-2 cannot run the scenario");
    }

    SWEEP {
        /// Values of one variable, each a text or a number. A name has letters, digits and underscores. Values that
        /// belong together are tables with the same fields, as in `path = [{ rate = "10mbit", delay = "20ms" }]`.
        /// `$path.rate` then stands for the `rate` of the value. Reports show all its fields, or its field `name`.
        /// Example: loss = ["0%", "1%"]
        VARIABLE: Is("list of values"), NONE;
    }

    VIRTUAL {
        /// Largest random delay of a flow after its `start`, uniform from 0, drawn from the seed.
        /// Example: start_spread = "0s"
        start_spread: Time(Some([Duration::ZERO, VIRTUAL_MAX[0]])), Unset::Is("10ms");
        /// Largest random delay of a packet inside every node, uniform from 0, drawn from the seed. Packets stay in
        /// order. The user-space links of the real kernel add it too.
        /// Example: host_delay = "0s"
        host_delay: Time(Some([Duration::ZERO, VIRTUAL_MAX[1]])), HOST_DELAY;
    }

    NS2 {
        /// The ns-2 agent for each variant or algorithm. A second word selects an algorithm of TCP/Linux. A name that
        /// is not a variant of the file runs in the simulator only.
        /// Example: agents = { reno = "TCP/Sack1", cubic = "TCP/Linux cubic" }
        agents: Is("names with agents"), Needed;
        /// Link directions that have an error model, in the order of creation. An error model draws a random number
        /// for every packet.
        /// Example: error_models = [["s", "r"], ["r", "s"]]
        error_models: Is("list of pairs of nodes"), Means("those that lose packets");
    }
}
