//! `[[flow]]` and `[variant.NAME]`.

use std::collections::BTreeMap;
use std::time::Duration;

use Kind::{Data, Is, Rate, Table, Time, Whole, Words};
use host::fields;
use host::toml_reader::{Apart, Kind, Switch, Text};

use crate::load::{Arrivals, BurstSpec, Sizes};
use crate::path::RATE_RANGE;
use crate::scenario::datagrams::FrameSpec;
use crate::scenario::document::flow::{BufferSize, Protocol};
use crate::scenario::spec::{BulkSender, DURATION_MAX, Ecn, Receiver};
use shared::units::{BitsPerSec, Bytes};

/// Fields that a UDP flow cannot have.
pub(in crate::scenario) const ONLY_TCP: [&str; 17] = [
    "algorithm",
    "tunables",
    "window_cap",
    "initial_ssthresh",
    "initial_cwnd",
    "tcp_sack",
    "ecn",
    "send_buffer",
    "receive_buffer",
    "receiver",
    "size",
    "arrivals",
    "count",
    "interval",
    "keep_alive",
    "request",
    "sender",
];

/// Fields that only a UDP flow has.
pub(in crate::scenario) const ONLY_UDP: [&str; 3] = ["packet", "frames", "deadline"];

/// The upper limit is far above what any emulated path holds.
const PACKETS: Kind = Whole([1, 1_000_000], " of packets");

fields! {
    /// A flow with the fields of its variant, before `copies` multiplies it.
    pub struct FlowFields: FLOW {
        /// Unique name of the flow in results: 1 to 32 letters, digits, spaces or characters from `-_.`.
        /// Example: name = "data"
        name: Apart = Is("text"), apart;
        /// Sending node. In a copy, `#` stands for the number of the copy.
        /// Example: from = "s"
        from: String = Is("node"), needed;
        /// Receiving node. Packets take the path with the fewest links. In a copy, `#` stands for the number of the
        /// copy.
        /// Example: to = "r"
        to: String = Is("node"), needed;
        /// Transport protocol. A `udp` flow sends datagrams at a constant rate, or in frames. Besides its name and nodes it
        /// has only `rate` or `frames`, `bursts`, `packet`, `deadline`, `start`, `duration` and `copies`.
        /// Example: protocol = "udp"
        protocol: Protocol = Words(&["tcp", "udp"]), or "tcp";
        /// Congestion control: an id from `tccc list`, the name of a kernel algorithm, or in virtual time a source
        /// file beside the scenario.
        /// Example: algorithm = "cubic"
        /// Example: algorithm = "mine.bpf.c" # in virtual time
        algorithm: String = Is("text"), unless "that of the variant";
        /// Tunables of a catalogue algorithm, in the units and ranges that `tccc show ID` lists. If the unit is 1/1024,
        /// write 768 for 0.75.
        /// Example: tunables = { keep_avoidance = 768 }
        tunables: BTreeMap<String, Text> = Is("names with whole numbers"), empty "the algorithm's defaults";
        /// Largest congestion window. As in the papers' simulator, it is also the initial slow-start threshold.
        /// Example: window_cap = 50
        window_cap: u32 = PACKETS, unless "no cap";
        /// Initial slow-start threshold. A flow has this or `window_cap`, not both.
        /// Example: initial_ssthresh = 50
        initial_ssthresh: u32 = PACKETS, unless "infinite";
        /// Initial congestion window.
        /// Example: initial_cwnd = 4
        initial_cwnd: u32 = PACKETS, unless "the kernel's";
        /// Whether the flow uses selective acknowledgements. Without them `reno` is NewReno. All flows that a node
        /// sends must have the same value.
        /// Example: tcp_sack = 0
        tcp_sack: Switch = Is("0 or 1"), or "1";
        /// Whether the flow uses explicit congestion notification. A link with `mark`, or with a queue discipline that has
        /// `ecn`, then marks its packets. With `accurate`, which needs Linux 7.0 or newer, the receiver counts marks (RFC
        /// 9768) instead of echoing each until the sender has answered (RFC 3168). All flows that a node sends must have
        /// the same value.
        /// Example: ecn = 1
        /// Example: ecn = "accurate"
        ecn: Ecn = Is("0, 1 or accurate"), or "0";
        /// Largest socket buffer of the sending node: the kernel grows the buffer up to this size. All flows that a
        /// node sends must have the same value.
        /// Example: send_buffer = "64MB"
        send_buffer: BufferSize = Data, unless "64MiB with the profile `paper`, else the kernel's";
        /// Largest socket buffer of the receiving node. The receive window is at most about half of it. All flows that
        /// a node receives must have the same value.
        /// Example: receive_buffer = "64MB"
        receive_buffer: BufferSize = Data, unless "64MiB with the profile `paper`, else the kernel's";
        /// What the receiver does wrong. `hides_marks` never echoes a congestion mark. `divides_acks` sends ten ACKs
        /// instead of one, each for a part of the data. After each ACK, `acks_early` sends one for ten more segments, which
        /// have not arrived. If one of these is lost, nothing arrives after it, because the sender does not retransmit it.
        /// Only virtual time supports these three. `no_sack` has no selective acknowledgements; all
        /// flows that a node receives must then have it. ns-2 supports only `honest`.
        /// Example: receiver = "divides_acks"
        receiver: Receiver = Words(&["honest", "hides_marks", "divides_acks", "acks_early", "no_sack"]), or "honest";
        /// Time from the start of the run until the flow starts, in whole seconds if iperf3 sends the flow.
        /// Example: start = "2s"
        start: Duration = Time(None), or "0s";
        /// How long the flow sends, in whole seconds if iperf3 sends the flow. A flow has `size` or `duration`, not
        /// both. With `arrivals`, no transfer starts later, and those that have started may go on until the run ends.
        /// Example: duration = "5s"
        duration: Duration = Time(None), unless "until the run ends";
        /// Payload of each connection or message. Its completion time is recorded. A distribution instead of an amount
        /// gives each connection a size of its own. `lognormal` has a median, and the standard deviation of the natural
        /// logarithm. `pareto` has a shape, and a least and a largest size.
        /// Example: size = "50kB"
        /// Example: size = "lognormal:median=20kB,sigma=1.5"
        /// Example: size = "pareto:shape=1.2,least=2kB,most=10MB"
        size: Sizes = Is("amount of data, or a distribution"), unless "no end";
        /// Random starts of connections, instead of `count` and `interval`. Each connection sends a payload of `size`.
        /// `poisson` has the mean time between two starts, or a load. A load is the payload per second as a share of the
        /// slowest link on the path. `trace:FILE` names a file beside the scenario that has starts and sizes. Each of its
        /// lines has a start in seconds after the flow's `start`, and a size in bytes. All runs of one repeat draw the
        /// same, on every engine. Flows with the same `stream` draw the same starts and sizes as each other. Ns-2 does not
        /// support it.
        /// Example: arrivals = "poisson:mean=50ms"
        /// Example: arrivals = "poisson:load=60%"
        /// Example: arrivals = "poisson:load=25%,stream=1"
        /// Example: arrivals = "trace:web.txt"
        arrivals: Arrivals = Is("random starts, or a file"), unless "those of `count` and `interval`";
        /// Number of connections, or of messages with `keep_alive`. It needs `size`, and above 1 also `interval`.
        /// Example: count = 5
        count: u32 = Whole([1, 100_000], ""), or "1";
        /// Time from the start of one connection to the start of the next, even if the first is not done.
        /// Example: interval = "500ms"
        interval: Duration = Time(None), unless "none; `count` above 1 needs it";
        /// Whether all messages use one connection, which is idle between them, like a browser's connection to a web
        /// server. It needs `count`.
        /// Example: keep_alive = 1
        keep_alive: Switch = Is("0 or 1"), or "0";
        /// Payload of a request, which the receiver sends before each transfer of a `size`. The sender answers when all of it
        /// has arrived. Completion times then count from the moment at which the request is sent, which is when the
        /// connection exists. With `keep_alive`, a request waits for the response to the one before, and `interval` counts
        /// from the first request. It is from 1B to 16000B. ns-2 does not support this.
        /// Example: request = "300B"
        request: Bytes = Data, unless "the sender begins";
        /// Program that sends a flow without a `size`. iperf3 counts in whole seconds, from its first data. `tccc`
        /// counts from the flow's `start`, even if lost packets delay the connection.
        /// Example: sender = "tccc"
        sender: BulkSender = Words(&["iperf3", "tccc"]), or "iperf3";
        /// Rate of the datagrams of a `udp` flow, including IP headers. Of a TCP flow, it is the rate at which its application
        /// sends payload. The application sends a message every 10 ms over one connection, and each has its completion time.
        /// Below 80 kbit/s, the messages have 100 bytes and come less often.
        /// Example: rate = "500kbit"
        rate: BitsPerSec = Rate(RATE_RANGE), unless "none; `udp` needs it, or `frames`";
        /// Frames of a `udp` flow instead of a rate, as of audio or video: how many a second, and their payload. With `key`,
        /// every so many frames begin with a key frame of this size. All datagrams of a frame leave at once. ns-2 does not
        /// support this.
        /// Example: frames = "per_second=50,size=160B" # audio
        /// Example: frames = "per_second=30,size=10kB,key=50kB,every=60" # video of 2.7 Mbit/s
        frames: FrameSpec = Is("text"), unless "single datagrams at `rate`";
        /// The flow sends for the time `on` and pauses for the time `off`, in turn. It may send bulk data, data at a `rate`, or
        /// datagrams. Bulk data is then sent by tccc. With `distribution=exponential`, the times are drawn by the seed, and
        /// `on` and `off` are their means. All variants of a repeat draw the same at one point of the sweep, on every engine. Each
        /// time is from 1ms to 86400s. The goodput of data at a `rate` does not count pauses before and after the data. ns-2
        /// does not support this.
        /// Example: bursts = "on=2s,off=1s"
        /// Example: bursts = "on=350ms,off=650ms,distribution=exponential"
        bursts: BurstSpec = Is("text"), unless "no pauses";
        /// Time after which a frame of a `udp` flow that has not arrived whole is late, or a datagram without frames:
        /// `late_ratio` counts them. The default is that of ITU-T G.114 for talk.
        /// Example: deadline = "100ms"
        deadline: Duration = Time(Some([Duration::ZERO, DURATION_MAX])), or "150ms";
        /// Length of each datagram including its IP header: 36B to the mtu. The last datagram of a frame may be shorter.
        /// Example: packet = "1000B"
        packet: Bytes = Data, unless "the mtu";
        /// Number of copies of the flow that run at the same time, named `name-1`, `name-2` and so on.
        /// Example: copies = 2
        copies: u64 = Whole([1, 64], ""), unless "one flow, without a number";
    }
}

fields! {
    pub section VARIANTS {
        /// Fields that the variant sets.
        /// Example: SACK = { algorithm = "reno", window_cap = 50 }
        NAME: Apart = Table(&VARIANT), empty "none";
    }
}

fields! {
    pub section VARIANT {
        /// Flows that the variant applies to and that the report compares, by name, each with all its `copies`.
        /// Example: flows = ["data"]
        flows: Vec<String> = Is("list of names"), empty "every TCP flow that no variant leaves out, if there is one, else every TCP flow";
        /// Flows that do not run in this variant, by name, each with all its `copies`. The other flows keep their start
        /// times, their ports and the random delays in their hosts. So they can be compared with and without these flows.
        /// Example: without = ["bulk"]
        without: Vec<String> = Is("list of names"), empty "none";
        from FLOW [algorithm, tunables, window_cap, initial_ssthresh, initial_cwnd, tcp_sack, ecn, send_buffer, receive_buffer, receiver]: unless "as in the flow";
    }
}
