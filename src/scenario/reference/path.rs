//! `[[link]]`, and the topologies that are made of links.

use std::time::Duration;

use super::field::{Kind, Unset, sections};
use Kind::{Is, Queue, Rate, Share, Table, Tables, Time, Whole};
use Unset::{Means, Needed};

use crate::path::{DELAY_MAX, RATE_RANGE};

/// What a link says of the first direction alone.
pub(crate) const ONE_WAY: [&str; 4] = ["queue_low", "loss", "reorder", "duplicate"];

const UP_TO_10S: Kind = Time(Some([Duration::ZERO, DELAY_MAX]));
const AS_BEFORE: Unset = Means("as before");

sections! {
    /// A link between two nodes.
    LINK {
        /// The two nodes that the link joins. A name has 1 to 8 letters, digits or hyphens. The links of a topology
        /// have no `ends`.
        ///
        /// Example: ends = ["s", "r"]
        ends: Is("two nodes"), Needed;
        /// Rate at which packets leave the queue, counted in whole IP packets: a number or a trace. Netem has no
        /// traces.
        ///
        /// Example: rate = "20mbit"
        /// Example: rate = "trace:lte.trace" # a file beside the scenario: times in ms, each of 1500 bytes
        /// Example: rate = "cellular:mean=10mbit,seed=7,length=60s" # a synthetic trace
        rate: Rate(RATE_RANGE), Means("unlimited");
        /// One-way delay of a packet that has left the queue.
        ///
        /// Example: delay = "20ms"
        delay: UP_TO_10S, Unset::Is("0s");
        /// Random addition to the delay, uniform from 0 to this. It never reorders packets.
        ///
        /// Example: jitter = "2ms"
        jitter: UP_TO_10S, Unset::Is("0s");
        /// Size of the drop-tail queue in front of the rate. The unit `bdp` is the rate times both delays. At most
        /// 100000pkts or 150MB. Netem counts bytes as full packets.
        ///
        /// Example: queue = "1bdp"
        queue: Queue, Unset::Is("1000pkts");
        /// A packet that finds this much in the queue, or more, is marked if its flow has `ecn = 1`. It is less than
        /// `queue`. Netem cannot do this.
        ///
        /// Example: mark = "20pkts"
        mark: Queue, Means("no marks");
        /// Packets of DSCP CS1 find the queue full from here on. `queue` is larger, and in packets too. It holds in
        /// the first direction alone. Netem cannot do this.
        ///
        /// Example: queue_low = "20pkts"
        queue_low: Is("pkts"), Means("all packets alike");
        /// Packets that are lost before the queue: a share, each packet by itself, or a model. It applies to the
        /// first direction only; `reverse` sets it for the way back. Netem has shares, `gilbert` and `bursts`.
        ///
        /// Example: loss = "1%"
        /// Example: loss = "gilbert:p=1%,r=25%,1-h=100%,1-k=0%" # two states with tc-netem's names
        /// Example: loss = "bursts:loss=1%,mean=4" # this share of all packets, in runs of this mean length
        /// Example: loss = [3, 17, 18] # these packets, counted from 1
        /// Example: loss = "trace:losses.txt" # the same, one number a line, in a file beside the scenario
        loss: Is("share or model"), Means("no loss");
        /// This share of packets, at most half, takes this much longer after the delay, each packet by itself.
        /// Whatever leaves the queue meanwhile overtakes it. It applies to the first direction only; `reverse` sets
        /// it for the way back.
        ///
        /// Example: reorder = "share=1%,by=5ms"
        reorder: Is("share and time"), Means("no reordering");
        /// Share of packets of which a copy enters the queue right behind. It applies to the first direction only;
        /// `reverse` sets it for the way back.
        ///
        /// Example: duplicate = "1%"
        duplicate: Share, Unset::Is("0%");
        /// Holds pure TCP ACKs at the end of the link so that they leave together, after `time` or when `pkts` wait.
        /// A direction has `acks` or `reorder`. Netem cannot do this.
        ///
        /// Example: acks = "aggregated:time=5ms,pkts=16" # all wait, and all leave
        /// Example: acks = "thinned:time=5ms,pkts=4" # all wait, and the newest of each connection leaves
        /// Example: acks = "compressed:time=20ms,share=1%" # this share begins a batch, and all leave
        acks: Is("model"), Means("no ACK waits");
        /// Share of pure TCP ACKs that is lost, each by itself, after `loss` and before the queue. Netem cannot do
        /// this.
        ///
        /// Example: ack_loss = "1%"
        ack_loss: Share, Unset::Is("0%");
        /// What changes during a run, in the order of time. What a change does not name stays as it is. Netem cannot
        /// do this.
        ///
        /// Example: change = [{ at = "5s", rate = "5mbit" }, { at = "8s", rate = "20mbit" }]
        change: Tables(&CHANGE), Means("no change");
        /// What differs on the way back.
        ///
        /// Example: reverse = { rate = "1mbit", loss = "0.1%" }
        reverse: Table(&REVERSE), Means("as the first direction, without loss, reordering and copies");
    }

    /// The way back over a link.
    REVERSE {}
    from LINK [rate, delay, jitter, queue, mark]: Means("as in the first direction");
    from LINK [loss, reorder]: Means("none");
    from LINK [duplicate]: Unset::Is("0%");
    from LINK [acks, ack_loss]: Means("as in the first direction");

    /// A change of a link.
    CHANGE {
        /// Time of the change from the start of the run, before its end.
        ///
        /// Example: at = "5s"
        at: Time(None), Needed;
        /// Rate from then on, also for packets that wait in the queue. The way back changes too unless the link's
        /// `reverse` has a rate. It is a number; a queue in bdp keeps its size.
        ///
        /// Example: rate = "5mbit"
        rate: Rate(RATE_RANGE), AS_BEFORE;
        /// Delay of packets that leave the queue from then on. A shorter delay does not reorder packets. The way back
        /// changes too unless the link's `reverse` has a delay.
        ///
        /// Example: delay = "80ms"
        delay: UP_TO_10S, AS_BEFORE;
        /// Losses of packets that enter from then on, in the first direction.
        ///
        /// Example: loss = "2%"
        loss: Is("share or model"), AS_BEFORE;
        /// Whether the link carries packets. If it does not, packets that enter are dropped, and those in the link
        /// arrive. It holds in both directions.
        ///
        /// Example: up = false
        up: Is("true or false"), AS_BEFORE;
        /// What this change does otherwise on the way back.
        ///
        /// Example: reverse = { rate = "500kbit" }
        reverse: Table(&CHANGE_REVERSE), Means("as the change says");
    }

    /// A change on the way back.
    CHANGE_REVERSE {}
    from CHANGE [rate, delay]: Means("as the change says");
    from CHANGE [loss]: AS_BEFORE;
    from CHANGE [up]: Means("as the change says");

    /// Pairs of hosts around one bottleneck.
    DUMBBELL {
        /// Number of pairs: `s1` sends to `r1`, `s2` to `r2`, and so on.
        ///
        /// Example: pairs = 2
        pairs: Whole([1, 64], ""), Needed;
        /// Every link but the bottleneck, with the fields of `[[link]]`.
        ///
        /// Example: access = { rate = "100mbit", delay = "1ms" }
        access: Table(&LINK), Means("unlimited, without delay");
        /// The link from `left` to `right`, with the fields of `[[link]]`.
        ///
        /// Example: bottleneck = { rate = "10mbit", delay = "20ms", queue = "50pkts" }
        bottleneck: Table(&LINK), Means("unlimited, without delay");
        /// What differs at one access link, which its host names: `s1`, `r2`.
        ///
        /// Example: s1 = { delay = "30ms" }
        HOST: Table(&LINK), Means("as `access`");
    }

    /// Bottlenecks in a row.
    PARKING_LOT {
        /// Number of bottlenecks. `s0` sends to `r0` over all of them, `s1` to `r1` over the first, `s2` to `r2` over
        /// the second.
        ///
        /// Example: hops = 2
        hops: Whole([1, 16], ""), Needed;
        /// Every link of a host, with the fields of `[[link]]`.
        ///
        /// Example: access = { rate = "100mbit", delay = "1ms" }
        access: Table(&LINK), Means("unlimited, without delay");
        /// The links between the routers `n0`, `n1` and so on, with the fields of `[[link]]`.
        ///
        /// Example: bottleneck = { rate = "10mbit", delay = "10ms" }
        bottleneck: Table(&LINK), Means("unlimited, without delay");
        /// What differs at one link: `hop2` is the second bottleneck, `s1` the link of that host.
        ///
        /// Example: hop1 = { rate = "5mbit" }
        NAME: Table(&LINK), Means("as `bottleneck` or `access`");
    }
}
