//! Converts a cell into a Tcl script for ns-2. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::path::{Direction, QueueLimit};
use crate::scenario::{Cell, DatagramSpec, Ecn, FlowSpec, LinkSpec, Ns2Spec, Profile, Sends};
use shared::failure::Failure;
use shared::units::{BitsPerSec, QueueSize};

/// TCP and IP headers of a segment without options, which ns-2's agents add to the payload.
pub const HEADER_BYTES: u32 = 40;
/// Bits per second of a link without a rate: a packet takes no time.
const UNLIMITED_BPS: f64 = 1e15;
/// Packets of the window of a flow without a cap: only cwnd limits it.
const UNLIMITED_WINDOW: u32 = 1_000_000;

/// This agent fails if its receiver does not send SACKs.
const ONLY_SACK: &str = "TCP/Linux";

/// The input of a run's script.
#[derive(Debug, Clone, Copy)]
pub struct Simulation<'a> {
    pub cell: &'a Cell,
    /// Agents and error models.
    pub spec: &'a Ns2Spec,
    /// Whether receivers delay acknowledgements.
    pub profile: Profile,
    /// Interval at which the script writes the state of every flow.
    pub sample: Duration,
    /// ns-2's own seed, from 1.
    pub seed: u64,
}

/// Checks that ns-2 supports a cell.
///
/// # Errors
/// A usage failure that names the link or flow and the unsupported part.
pub fn check(cell: &Cell) -> Result<(), Failure> {
    for link in &cell.links {
        let lacking = link.directions.iter().find_map(Direction::beyond_plain);
        if let Some(lacking) = lacking {
            let what = format!("cannot simulate the link {}: ns-2 does not support {lacking} here", link.name());
            return Err(Failure::usage(what).hint("leave it out, or run the scenario with `--engine kernel`"));
        }
        if link.directions.iter().any(|direction| direction.queue == QueueSize::Packets(1)) {
            let what = format!("cannot simulate the link {}: ns-2's queue of 1pkts drops every packet", link.name());
            return Err(Failure::usage(what).hint("a queue of N there holds N - 1: write 2pkts or more"));
        }
    }
    for flow in &cell.flows {
        let Some(lacking) = lacking_in_flow(flow) else { continue };
        let what = format!("cannot simulate the flow \"{}\": {lacking} here", flow.name);
        let engine = if flow.receiver.is_setting() { "kernel" } else { "virtual" };
        let hint = format!("leave it out, or run the scenario with `--engine {engine}`");
        return Err(Failure::usage(what).hint(hint));
    }
    Ok(())
}

/// Why the script does not support a flow.
fn lacking_in_flow(flow: &FlowSpec) -> Option<&'static str> {
    match flow.sends {
        _ if flow.bursts.is_some() => Some("ns-2 makes no pauses"),
        _ if flow.request.is_some() => Some("ns-2 sends no requests"),
        Sends::Transfers { count, .. } if count > 1 => Some("ns-2 repeats no transfers"),
        Sends::Load(_) => Some("ns-2 draws no transfers"),
        Sends::Datagrams(DatagramSpec { frames: Some(_), .. }) => Some("ns-2 sends no frames"),
        Sends::Messages { .. } => Some("ns-2 keeps no connection open"),
        _ if flow.ecn != Ecn::Off => Some("ns-2 marks no packets"),
        _ if !flow.receiver.is_honest() => Some("ns-2's receivers do nothing wrong"),
        _ => None,
    }
}

impl Simulation<'_> {
    /// The script, whose output [`super::output::read`] reads.
    ///
    /// Nodes, links, error models and flows are in the scenario's order. ns-2 runs events of the same moment in the
    /// order of their creation, and error models share one random stream.
    ///
    /// # Errors
    /// A flow has no agent; a queue is in BDP, but the link has no rate.
    pub fn script(&self) -> Result<String> {
        let mut text = String::new();
        let Simulation { cell, seed, .. } = self;
        let _ = writeln!(text, "ns-random {seed}\nset ns [new Simulator]"); // writing to a string does not fail
        let mut nodes: Vec<&str> = Vec::new();
        for end in cell.links.iter().flat_map(|link| &link.ends) {
            if !nodes.contains(&end.as_str()) {
                nodes.push(end);
                let _ = writeln!(text, "set node({end}) [$ns node]");
            }
        }
        self.links(&mut text)?;
        self.error_models(&mut text);
        for (index, flow) in cell.flows.iter().enumerate() {
            match flow.sends {
                Sends::Datagrams(_) => datagrams(&mut text, index, flow),
                Sends::Bulk | Sends::Transfers { .. } | Sends::Load(_) | Sends::Messages { .. } => {
                    self.flow(&mut text, index, flow)?;
                }
            }
        }
        text.push_str(SAMPLING);
        let (sample, end) = (self.sample.as_secs_f64(), cell.duration.as_secs_f64());
        let _ = writeln!(text, "$ns at 0.0 \"sample {sample}\"");
        for (index, flow) in cell.flows.iter().enumerate() {
            let _ = writeln!(text, "$ns at {:?} \"{}\"", flow.start.as_secs_f64(), self.begin(index, flow));
        }
        let _ = writeln!(text, "$ns at {end:?} finish\n$ns run");
        Ok(text)
    }

    fn links(&self, text: &mut String) -> Result<()> {
        for link in &self.cell.links {
            for (([from, to], direction), limit) in directions(link).zip(link.config(self.cell.mtu).queue_limits()?) {
                let rate = direction.rate.map_or(UNLIMITED_BPS, |rate| rate.0 as f64);
                let delay = direction.delay.as_secs_f64();
                let _ = writeln!(text, "$ns simplex-link $node({from}) $node({to}) {rate:?} {delay:?} DropTail");
                let queue = format!("[[$ns link $node({from}) $node({to})] queue]");
                let _ = match limit {
                    QueueLimit::Packets(packets) => {
                        writeln!(text, "$ns queue-limit $node({from}) $node({to}) {packets}")
                    }
                    QueueLimit::Bytes(bytes) => writeln!(
                        text,
                        "{queue} set queue_in_bytes_ true\n{queue} set mean_pktsize_ 1\n{queue} set limit_ {bytes}"
                    ),
                };
                let _ = writeln!(text, "set queue({from},{to}) [$ns monitor-queue $node({from}) $node({to}) \"\"]");
            }
        }
        Ok(())
    }

    /// Creates the error models that the scenario lists, or else one for each direction that loses packets.
    fn error_models(&self, text: &mut String) {
        let share = |one: &Direction| one.loss.independent().map_or(0.0, |share| share.0); // `check` refuses others
        let losses = || self.cell.links.iter().flat_map(directions).map(|(ends, one)| (ends, share(one)));
        let rate_of = |ends: [&String; 2]| losses().find(|(other, _)| *other == ends).map_or(0.0, |(_, rate)| rate);
        let models: Vec<([&String; 2], f64)> = match &self.spec.error_models {
            Some(listed) => listed.iter().map(|ends| (ends.0.each_ref(), rate_of(ends.0.each_ref()))).collect(),
            None => losses().filter(|(_, rate)| *rate > 0.0).collect(),
        };
        for ([from, to], rate) in models {
            let _ = write!(
                text,
                "set model [new ErrorModel]\n$model unit pkt\n$model set rate_ {rate:?}\n\
                 $ns lossmodel $model $node({from}) $node({to})\n\
                 set lost({from},{to}) [new Agent/LossMonitor]\n$model drop-target $lost({from},{to})\n"
            );
        }
    }

    fn flow(&self, text: &mut String, index: usize, flow: &FlowSpec) -> Result<()> {
        let class = self.agent(flow)?.split(' ').next().unwrap_or_default();
        let sink = match (flow.tcp_sack || class == ONLY_SACK, self.profile) {
            (true, Profile::Paper) => "TCPSink/Sack1",
            (true, Profile::Native) => "TCPSink/Sack1/DelAck",
            (false, Profile::Paper) => "TCPSink",
            (false, Profile::Native) => "TCPSink/DelAck",
        };
        let window = flow.window_cap.or(flow.initial_ssthresh).unwrap_or(UNLIMITED_WINDOW);
        let payload = payload_bytes(self.cell);
        let _ = write!(
            text,
            "set tcp({index}) [new Agent/{class}]\nset sink({index}) [new Agent/{sink}]\n\
             $tcp({index}) set window_ {window}\n$tcp({index}) set packetSize_ {payload}\n"
        );
        if let Some(packets) = flow.initial_cwnd {
            let _ = writeln!(text, "$tcp({index}) set windowInit_ {packets}");
        }
        let _ = write!(
            text,
            "$ns attach-agent $node({}) $tcp({index})\n$ns attach-agent $node({}) $sink({index})\n\
             $ns connect $tcp({index}) $sink({index})\n\
             set source({index}) [new Application/FTP]\n$source({index}) attach-agent $tcp({index})\n",
            flow.from, flow.to
        );
        Ok(())
    }

    /// The commands that start a flow.
    fn begin(&self, index: usize, flow: &FlowSpec) -> String {
        let selected = self.agent(flow).ok().and_then(|agent| agent.split_once(' '));
        let select = selected.map_or(String::new(), |(_, name)| format!("$tcp({index}) select_ca {name}; "));
        let stop = flow.duration.map_or(String::new(), |length| {
            format!("; $ns at {:?} \\\"$source({index}) stop\\\"", (flow.start + length).as_secs_f64())
        });
        match flow.sends {
            Sends::Transfers { size, .. } => {
                let packets = size.0.div_ceil(payload_bytes(self.cell).into());
                format!("{select}$source({index}) produce {packets}")
            }
            Sends::Bulk | Sends::Load(_) | Sends::Messages { .. } | Sends::Datagrams(_) => {
                format!("{select}$source({index}) start{stop}")
            }
        }
    }

    fn agent(&self, flow: &FlowSpec) -> Result<&str> {
        let label = self.cell.label(flow);
        self.spec.agent(&label).ok_or_else(|| anyhow!("[ns2] has no agent for \"{label}\""))
    }
}

/// A UDP flow at a constant rate; the simulator adds no header to its packets.
fn datagrams(text: &mut String, index: usize, flow: &FlowSpec) {
    let Sends::Datagrams(DatagramSpec { rate: BitsPerSec(rate_bps), packet_bytes, .. }) = flow.sends else { return };
    let _ = write!(
        text,
        "set udp({index}) [new Agent/UDP]\nset heard({index}) [new Agent/LossMonitor]\n\
         $udp({index}) set packetSize_ {packet_bytes}\n\
         $ns attach-agent $node({}) $udp({index})\n$ns attach-agent $node({}) $heard({index})\n\
         $ns connect $udp({index}) $heard({index})\n\
         set source({index}) [new Application/Traffic/CBR]\n$source({index}) set packetSize_ {packet_bytes}\n\
         $source({index}) set rate_ {rate_bps}\n$source({index}) attach-agent $udp({index})\n",
        flow.from, flow.to
    );
}

/// Both directions of a link: from and to, and the parameters.
fn directions(link: &LinkSpec) -> impl Iterator<Item = ([&String; 2], &Direction)> {
    let [one, other] = &link.ends;
    [[one, other], [other, one]].into_iter().zip(&link.directions)
}

/// Payload bytes of a full segment.
pub(crate) fn payload_bytes(cell: &Cell) -> u32 {
    cell.mtu.saturating_sub(HEADER_BYTES).max(1)
}

/// Writes the flows' variables at each interval, and the links' counters at the end.
const SAMPLING: &str = r#"proc states {} {
    global ns tcp
    foreach flow [lsort -integer [array names tcp]] {
        set values {}
        foreach name {cwnd_ ssthresh_ ack_ maxseq_ t_seqno_ nrexmitpack_ srtt_ rtt_ tcpTick_} {
            lappend values [$tcp($flow) set $name]
        }
        puts "flow $flow [$ns now] $values"
    }
}
proc sample {interval} {
    global ns
    states
    $ns at [expr {[$ns now] + $interval}] "sample $interval"
}
proc finish {} {
    global queue lost heard
    states
    foreach flow [lsort -integer [array names heard]] {
        set values {}
        foreach name {npkts_ nlost_ lastPktTime_} {lappend values [$heard($flow) set $name]}
        puts "datagrams $flow $values"
    }
    foreach link [lsort [array names queue]] {
        set values {}
        foreach name {parrivals_ pdepartures_ bdepartures_ pdrops_} {
            lappend values [format %.0f [$queue($link) set $name]]
        }
        set dropped 0
        if {[info exists lost($link)]} {set dropped [$lost($link) set npkts_]}
        puts "link $link $values $dropped"
    }
    puts "end"
    exit 0
}
"#;
