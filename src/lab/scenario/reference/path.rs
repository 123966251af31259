//! `[[link]]`, and the topologies that are made of links.

use std::time::Duration;

use Kind::{Is, Queue, Rate, RateOrTrace, Table, Tables, Time, Whole};
use host::fields;
use host::toml_reader::{Apart, Kind};

use crate::path::discipline::Discipline;
use crate::path::hold::{Hold, PacketHold};
use crate::path::jitter::Jitter;
use crate::path::loss::LossText;
use crate::path::policer::Policer;
use crate::path::rate_trace::RateText;
use crate::path::remark::Remark;
use crate::path::reorder::Reorder;
use crate::path::{DELAY_MAX, RATE_RANGE};
use crate::scenario::document::link::PacketCount;
use shared::units::{BitsPerSec, QueueSize, Share};

/// Fields that apply to the first direction only, unless `reverse` sets them.
pub const ONE_WAY: [&str; 8] = ["queue_low", "discipline", "policer", "remark", "loss", "reorder", "duplicate", "hold"];

const UP_TO_10S: Kind = Time(Some([Duration::ZERO, DELAY_MAX]));
const AS_BEFORE: &str = "as before";

fields! {
    /// A direction of a link, as it is written.
    pub struct LinkFields: LINK {
        /// The two nodes that the link joins. A name has 1 to 8 letters, digits or hyphens. Links of a topology have no
        /// `ends`.
        /// Example: ends = ["s", "r"]
        ends: Apart = Is("two nodes"), apart;
        /// Rate at which packets leave the queue, including IP headers: a number or a trace. A trace file has at most
        /// 4000000 lines and 16 MiB, and repeats after its end. Netem does not support traces.
        /// Example: rate = "20mbit"
        /// Example: rate = "trace:lte.trace" # a file beside the scenario: times in ms, each of 1500 bytes
        /// Example: rate = "cellular:mean=10mbit,seed=7,length=60s" # a synthetic trace
        rate: RateText = RateOrTrace(RATE_RANGE), unless "unlimited";
        /// One-way delay of a packet that has left the queue.
        /// Example: delay = "20ms"
        delay: Duration = UP_TO_10S, or "0s";
        /// Random addition to the delay, uniform from 0 to this value of at most 10s. `wifi` is that of a Wi-Fi with busy
        /// neighbours, by the formula of draft-huitema-ccwg-c4-test-04. Jitter never reorders packets: those behind a
        /// late one leave in a burst. The draft's `mean` is from 1ms to 91ms and that of the draws, which are 0.3 ms less. A
        /// busy flow nearly always waits behind a late packet, for some 90 ms. Netem does not support `wifi`.
        /// Example: jitter = "2ms"
        /// Example: jitter = "wifi:mean=7ms" # 7 % of the draws are some 90 ms
        jitter: Jitter = Is("time or wifi"), or "0s";
        /// Size of the drop-tail queue in front of the rate: at most 100000pkts or 150MB. The unit `bdp` is the rate
        /// times both delays. Netem converts bytes to packets of full size.
        /// Example: queue = "1bdp"
        queue: QueueSize = Queue, or "1000pkts";
        /// Queue length from which arriving packets of flows with `ecn = 1` are marked. It is less than `queue`. Netem
        /// does not support this.
        /// Example: mark = "20pkts"
        mark: QueueSize = Queue, unless "no marks";
        /// Queue length from which arriving packets of low priority (DSCP CS1) are dropped. It is less than `queue`,
        /// and both are in packets. It applies to the first direction only. Netem does not support this.
        /// Example: queue_low = "20pkts"
        queue_low: PacketCount = Is("pkts"), unless "all packets alike";
        /// A queue discipline of the kernel instead of the drop-tail queue, in the words of `tc`. It is one of `pfifo`,
        /// `codel`, `fq_codel`, `pie`, `fq_pie`, `red`, `cake`, `fq` and `dualpi2`. The size of `queue` is its limit, in
        /// packets of full size. For `red` it is in bytes, and `cake` has `memlimit` instead. As in `tc`, `codel`, `pie`,
        /// `fq_pie` and `red` mark only with `ecn`, or `codel` above its `ce_threshold`. `fq` marks above its
        /// `ce_threshold`, and `pfifo` never. It applies to the first direction only; `reverse` sets it for the way back.
        /// Virtual time supports this, and netem if this host's kernel has the discipline. The user-space emulator does not.
        /// Example: discipline = "fq_codel"
        /// Example: discipline = "codel target 5ms interval 100ms ecn"
        /// Example: discipline = "red min 15kB max 45kB probability 10% ecn adaptive"
        discipline: Discipline = Is("words of tc"), unless "drop tail";
        /// Packet loss before the queue: an independent probability, or a model. It applies to the first direction
        /// only; `reverse` sets it for the way back. A file of packet numbers has at most 4000000 lines and 16 MiB.
        /// Netem supports probabilities, `gilbert` and `bursts`.
        /// Example: loss = "1%"
        /// Example: loss = "gilbert:p=1%,r=25%,1-h=100%,1-k=0%" # two states with tc-netem's names
        /// Example: loss = "bursts:loss=1%,mean=4" # this share of all packets, in bursts of this mean length
        /// Example: loss = [3, 17, 18] # these packets, counted from 1
        /// Example: loss = "trace:losses.txt" # the same, one number per line, in a file beside the scenario
        loss: LossText = Is("share or model"), unless "no loss";
        /// Drops packets above a rate, except for bursts of this size: a token bucket after `loss` and before the queue. It
        /// starts with the run, so calibration measures the link alone. `-o html` and `-o json` report its drops. It
        /// applies to the first direction only; `reverse` sets it for the way back. Netem does not support this.
        /// Example: policer = "rate=5mbit,burst=50kB"
        policer: Policer = Is("rate and burst"), unless "no policer";
        /// What a router writes into the IP header of every packet that enters. `ecn=bleached` makes it Not-ECT, so marks
        /// are lost, and this and later links drop instead of marking. `ecn=ect0` turns ECT(1) into ECT(0). `ecn=ect1` is
        /// the reverse, for senders such as DCTCP before `dualpi2`. `dscp=0` clears the DSCP. It applies to the first
        /// direction only; `reverse` sets it for the way back. Netem does not support this.
        /// Example: remark = "ecn=bleached"
        /// Example: remark = "ecn=ect0,dscp=0"
        remark: Remark = Is("ecn and dscp"), unless "headers stay";
        /// Share of packets that are delayed, at most half, and by how long. Later packets overtake them. Each packet
        /// is chosen independently. It applies to the first direction only; `reverse` sets it for the way back.
        /// Example: reorder = "share=1%,by=5ms"
        reorder: Reorder = Is("share and time"), unless "no reordering";
        /// Share of packets that are duplicated; the copy enters the queue right behind the packet. It applies to the
        /// first direction only; `reverse` sets it for the way back.
        /// Example: duplicate = "1%"
        duplicate: Share = Kind::Share, or "0%";
        /// Holds all packets at the end of the link so that they leave together, after `time` or when `pkts` wait, as Wi-Fi
        /// aggregates frames. A direction has `hold`, `acks` or `reorder`. It applies to the first direction only;
        /// `reverse` sets it for the way back. Netem does not support this.
        /// Example: hold = "aggregated:time=4ms,pkts=32" # all wait, and all leave
        /// Example: hold = "compressed:time=40ms,share=0.1%" # this share begins a batch, and all leave
        hold: PacketHold = Is("model"), unless "no packet waits";
        /// Holds pure TCP ACKs at the end of the link so that they leave together, after `time` or when `pkts` wait. A
        /// direction has `acks` or `reorder`, not both. ACKs with Accurate ECN count marks, so `thinned` drops none of
        /// them. Netem does not support this.
        /// Example: acks = "aggregated:time=5ms,pkts=16" # all wait, and all leave
        /// Example: acks = "thinned:time=5ms,pkts=4" # all wait, and the newest of each connection leaves
        /// Example: acks = "compressed:time=20ms,share=1%" # this share begins a batch, and all leave
        acks: Hold = Is("model"), unless "no ACK waits";
        /// Share of pure TCP ACKs that are lost independently, after `loss` and before the queue. Netem does not
        /// support this.
        /// Example: ack_loss = "1%"
        ack_loss: Share = Kind::Share, or "0%";
        /// Changes during a run, in order of time. A field that a change does not name keeps its value. Netem does not
        /// support this.
        /// Example: change = [{ at = "5s", rate = "5mbit" }, { at = "8s", rate = "20mbit" }]
        change: Apart = Tables(&CHANGE), empty "no change";
        /// Fields that differ on the way back.
        /// Example: reverse = { rate = "1mbit", loss = "0.1%" }
        reverse: Apart = Table(&REVERSE), empty "as the first direction, without loss, reordering and duplicates";
    }
}

fields! {
    pub section REVERSE {
        from LINK [rate, delay, jitter, queue, mark]: unless "as in the first direction";
        from LINK [discipline]: unless "drop tail";
        from LINK [loss, policer, remark, reorder, hold]: unless "none";
        from LINK [duplicate]: or "0%";
        from LINK [acks, ack_loss]: unless "as in the first direction";
    }
}

fields! {
    /// A change of a direction, as it is written.
    pub struct ChangeFields: CHANGE {
        /// Time of the change from the start of the run, before its end.
        /// Example: at = "5s"
        at: Duration = Time(None), needed;
        /// New rate, which is a number. It also applies to packets that wait in the queue. The way back changes too
        /// unless the link's `reverse` has a rate. A queue in bdp keeps its size.
        /// Example: rate = "5mbit"
        rate: BitsPerSec = Rate(RATE_RANGE), unless AS_BEFORE;
        /// New delay of packets that leave the queue. A shorter delay does not reorder packets. The way back changes
        /// too unless the link's `reverse` has a delay.
        /// Example: delay = "80ms"
        delay: Duration = UP_TO_10S, unless AS_BEFORE;
        /// New random addition to the delay of packets that enter. A smaller one does not reorder packets. The way back
        /// changes too unless the link's `reverse` has a jitter.
        /// Example: jitter = "10ms"
        jitter: Jitter = Is("time or wifi"), unless AS_BEFORE;
        /// New size of the drop-tail queue. Packets that wait stay, even if it holds less. The unit `bdp` is that of
        /// the link's own rate and delays. The way back changes too unless the link's `reverse` has a queue. A queue
        /// discipline keeps its limit, unless the change has a new one.
        /// Example: queue = "20pkts"
        queue: QueueSize = Queue, unless AS_BEFORE;
        /// A queue discipline that takes the place of the link's one, in the first direction only. The packets in the old
        /// one are dropped and count as its drops, as when `tc qdisc replace` gives a new handle. The change's `queue` is its
        /// limit, and without one the limit stays. A direction has at most 15 of these changes. A link that begins with drop
        /// tail has `discipline = "pfifo"`. Only virtual time supports this.
        /// Example: discipline = "fq_codel"
        discipline: Discipline = Is("words of tc"), unless AS_BEFORE;
        /// New losses of packets that enter, in the first direction only.
        /// Example: loss = "2%"
        loss: LossText = Is("share or model"), unless AS_BEFORE;
        /// Whether the link carries packets. While it is down, packets that enter are dropped, and those in the link
        /// still arrive. Without a later `up = true` it stays down to the end of the run. It applies to both directions.
        /// Example: up = false
        up: bool = Is("true or false"), unless AS_BEFORE;
        /// Fields of this change that differ on the way back.
        /// Example: reverse = { rate = "500kbit" }
        reverse: Apart = Table(&CHANGE_REVERSE), empty "as the change says";
    }
}

fields! {
    pub section CHANGE_REVERSE {
        from CHANGE [rate, delay, jitter, queue]: unless "as the change says";
        from CHANGE [discipline, loss]: unless AS_BEFORE;
        from CHANGE [up]: unless "as the change says";
    }
}

fields! {
    pub section DUMBBELL {
        /// Number of pairs: `s1` sends to `r1`, `s2` to `r2`, and so on.
        /// Example: pairs = 2
        pairs: u32 = Whole([1, 64], ""), needed;
        /// All links except the bottleneck, with the fields of `[[link]]`.
        /// Example: access = { rate = "100mbit", delay = "1ms" }
        access: Apart = Table(&LINK), empty "unlimited, without delay";
        /// The link from `left` to `right`, with the fields of `[[link]]`.
        /// Example: bottleneck = { rate = "10mbit", delay = "20ms", queue = "50pkts" }
        bottleneck: Apart = Table(&LINK), empty "unlimited, without delay";
        /// Fields that differ at one access link, which is named after its host: `s1`, `r2`.
        /// Example: s1 = { delay = "30ms" }
        HOST: Apart = Table(&LINK), empty "as `access`";
    }
}

fields! {
    pub section PARKING_LOT {
        /// Number of bottlenecks. `s0` sends to `r0` over all of them, `s1` to `r1` over the first, `s2` to `r2` over
        /// the second.
        /// Example: hops = 2
        hops: u32 = Whole([1, 16], ""), needed;
        /// All links of hosts, with the fields of `[[link]]`.
        /// Example: access = { rate = "100mbit", delay = "1ms" }
        access: Apart = Table(&LINK), empty "unlimited, without delay";
        /// The links between the routers `n0`, `n1` and so on, with the fields of `[[link]]`.
        /// Example: bottleneck = { rate = "10mbit", delay = "10ms" }
        bottleneck: Apart = Table(&LINK), empty "unlimited, without delay";
        /// Fields that differ at one link: `hop2` is the second bottleneck, `s1` the link of that host.
        /// Example: hop1 = { rate = "5mbit" }
        NAME: Apart = Table(&LINK), empty "as `bottleneck` or `access`";
    }
}
