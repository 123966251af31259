//! `tccc link`: the user-space link on its own, between any two namespaces.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::stop::Stop;
use super::trace::DURATIONS;
use crate::cli::effect::Effect;
use crate::cli::output::{OutputFormat, note, results, warn};
use lab::emulate::tunlink::TunLink;
use lab::emulate::{Link, LinkDriver, LinkEnd, LinkNotice};
use lab::path::{Direction, LinkConfig};
use shared::failure::Failure;
use shared::kernel::netlink::{check_interface_name, has_interface};
use shared::kernel::netns::Netns;
use shared::kernel::privilege;
use shared::model::run::LinkCounters;
use shared::units::{Share, format_duration, time_within};

mod directions;

use directions::{config_of, parse_change};

const DEFAULT_INTERFACE: &str = "tccc0";
/// How often it looks for a signal, and whether the link still works.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Join two network namespaces by a link with rate, delay and loss
///
/// Creates an interface in each namespace (a name of `ip netns`, a process id or a path; `:IF` names the interface). Carries
/// packets until Ctrl-C, SIGTERM or `--duration`. Then prints what it carried and dropped, and how late it was. You add
/// addresses and routes yourself. The same seed drops the same packets, counted from the first. Both interfaces disappear
/// with the process, however it ends.
///
/// Example: `tccc link --between left right --rate 10mbit --delay 50ms --queue 50pkts --loss 1% --seed 7`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The two namespaces, each with an interface name after `:`
    #[arg(long, num_args = 2, required = true, value_names = ["NS1[:IF]", "NS2[:IF]"])]
    between: Vec<String>,
    #[command(flatten)]
    fields: LinkFields,
    /// Rate of both directions from a file of delivery times
    ///
    /// In mahimahi's format: each line is a time in milliseconds at which 1500 bytes can be delivered. The file repeats.
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    trace: Option<String>,
    /// Seed of the random losses; the reverse direction uses the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Largest IP packet, bytes
    #[arg(long, default_value_t = 1500)]
    mtu: u32,
    /// Change the link after a time, such as "30s rate=5mbit delay=80ms"; may be repeated
    ///
    /// Both directions: rate=…, delay=…, loss=…, up or down. Only the reverse direction: reverse-rate=…, reverse-delay=…,
    /// reverse-loss=…. A link that is down drops what enters it.
    #[arg(long, value_name = "CHANGE", value_parser = parse_change)]
    change: Vec<toml::Table>,
    /// Stop after this time, such as 10s
    #[arg(long, value_parser = time_within(DURATIONS))]
    duration: Option<Duration>,
    /// Print what would be created without creating it
    #[arg(long)]
    dry_run: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    reverse: ReverseFields,
}

/// Options named like the fields of a `[[link]]`, for both directions.
#[derive(Debug, clap::Args, Serialize)]
struct LinkFields {
    /// Rate of both directions, such as 10mbit; unlimited by default
    ///
    /// trace:FILE delivers at the times in a file, as --trace does. cellular:mean=10mbit,seed=1 delivers as a synthetic
    /// cellular link, drawn from the seed.
    #[arg(long)]
    rate: Option<String>,
    /// One-way delay of both directions, such as 50ms
    #[arg(long)]
    delay: String,
    /// Largest random addition to the delay, uniformly distributed; packets keep their order
    ///
    /// wifi:mean=7ms is the jitter of a Wi-Fi with busy neighbours, by the formula of draft-huitema-ccwg-c4-test-04.
    #[arg(long, default_value = "0ms")]
    jitter: String,
    /// Drop-tail queue: 50pkts, 64kB or 1bdp
    #[arg(long, default_value = "50pkts")]
    queue: String,
    /// Mark packets that find this much in the queue: 20pkts, 16kB or 0.2bdp
    ///
    /// Marks only packets that allow explicit congestion notification (ECN).
    #[arg(long, value_name = "QUEUE")]
    mark: Option<String>,
    /// Loss of both directions, such as 1%
    ///
    /// 1% loses each packet independently. gilbert:p=1%,r=25%,1-h=100%,1-k=0% has two states, named as in tc-netem.
    /// bursts:loss=1%,mean=4 has runs of losses. positions:3,17 loses the packets with these numbers, counted from 1.
    /// trace:FILE reads the numbers from a file, one a line.
    #[arg(long, default_value = "0%")]
    loss: String,
    /// Drop packets above a rate, except for bursts, such as rate=5mbit,burst=50kB
    #[arg(long)]
    policer: Option<String>,
    /// Change the IP header of every packet, such as ecn=bleached, ecn=ect0, ecn=ect1 or dscp=0
    #[arg(long)]
    remark: Option<String>,
    /// Delay a share of the packets, such as share=1%,by=5ms
    ///
    /// Later packets overtake the delayed ones.
    #[arg(long)]
    reorder: Option<String>,
    /// Share of packets to send twice, such as 1%
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    duplicate: String,
    /// Hold all packets and release them together, such as aggregated:time=4ms,pkts=32
    ///
    /// aggregated releases all after this time, or when this many wait. compressed:time=40ms,share=0.1% holds them only at
    /// times: this share of the packets begins a hold.
    #[arg(long)]
    hold: Option<String>,
    /// Hold pure TCP ACKs and release them together, such as aggregated:time=5ms,pkts=16
    ///
    /// aggregated releases all after this time, or when this many wait. thinned:time=5ms,pkts=4 releases only the newest of
    /// each connection. compressed:time=20ms,share=1% holds them only at times: this share of the ACKs begins a hold.
    #[arg(long)]
    acks: Option<String>,
    /// Share of pure TCP ACKs to drop, such as 1%
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    ack_loss: String,
}

#[derive(Debug, clap::Args, Serialize)]
#[command(next_help_heading = "From the second namespace to the first, if different")]
struct ReverseFields {
    /// Rate in the reverse direction
    #[arg(long, value_name = "RATE")]
    reverse_rate: Option<String>,
    /// One-way delay in the reverse direction
    #[arg(long, value_name = "DELAY")]
    reverse_delay: Option<String>,
    /// Jitter in the reverse direction
    #[arg(long, value_name = "JITTER")]
    reverse_jitter: Option<String>,
    /// Queue of the reverse direction
    #[arg(long, value_name = "QUEUE")]
    reverse_queue: Option<String>,
    /// Marking threshold in the reverse direction
    #[arg(long, value_name = "QUEUE")]
    reverse_mark: Option<String>,
    /// Loss in the reverse direction
    #[arg(long, value_name = "LOSS")]
    reverse_loss: Option<String>,
    /// Policer in the reverse direction
    #[arg(long, value_name = "POLICER")]
    reverse_policer: Option<String>,
    /// Changes of the IP header in the reverse direction
    #[arg(long, value_name = "REMARK")]
    reverse_remark: Option<String>,
    /// Packets to delay in the reverse direction
    #[arg(long, value_name = "REORDER")]
    reverse_reorder: Option<String>,
    /// Share of packets to send twice in the reverse direction
    #[arg(long, value_name = "SHARE")]
    reverse_duplicate: Option<String>,
    /// Packets to hold in the reverse direction
    #[arg(long, value_name = "HOLD")]
    reverse_hold: Option<String>,
    /// Pure TCP ACKs to hold in the reverse direction
    #[arg(long, value_name = "ACKS")]
    reverse_acks: Option<String>,
    /// Share of pure TCP ACKs to drop in the reverse direction
    #[arg(long, value_name = "SHARE")]
    reverse_ack_loss: Option<String>,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::work(self.dry_run)
    }

    /// Side effects: two interfaces for as long as it runs.
    ///
    /// # Errors
    /// No such namespace; a value out of its range; an interface name that is taken; not permitted; an interface was
    /// removed while the link was up.
    pub fn run(&self) -> Result<()> {
        let config = config_of(self)?;
        config.check()?;
        let ends = [end_of(&self.between[0])?, end_of(&self.between[1])?];
        let names = ends.each_ref().map(|(name, _)| name.clone());
        check_free(&ends)?;
        if self.dry_run {
            return print_plan(&names, &config);
        }
        privilege::require("join namespaces by a link", &privilege::FOR_LINK)?;
        let stop = Stop::listen()?; // further signals change nothing, so that the link is always removed
        let link = TunLink.connect(&config, ends.map(|(_, end)| end))?;
        link.start();
        link.notices().iter().for_each(|notice| warn(&notice.to_string(), None));
        note(&format!("link between {} and {} is up; Ctrl-C ends it", names[0], names[1]));
        let started = Instant::now();
        self.wait_for_end(link.as_ref(), stop.flag());
        let [there, back] = link.counters();
        let [first, second] = names;
        let there = DirectionSummary { from: first.clone(), to: second.clone(), counters: there };
        let back = DirectionSummary { from: second, to: first, counters: back };
        let summary = LinkSummary {
            driver: TunLink.name(),
            duration_s: started.elapsed().as_secs_f64(),
            directions: [there, back],
            notices: link.notices().iter().map(ToString::to_string).collect(),
        };
        self.output.print(&summary, |out, summary| summary.write_table(out))?;
        let is_stopped = link.notices().into_iter().find(|notice| matches!(notice, LinkNotice::Stopped(_)));
        is_stopped.map_or(Ok(()), |notice| Err(Failure::failed(notice.to_string()).into()))
    }

    /// Waits for a signal, the end of `--duration` or a new notice of the link.
    fn wait_for_end(&self, link: &dyn Link, stop: &AtomicBool) {
        let started = Instant::now();
        let known_notices = link.notices().len();
        while !stop.load(Ordering::Relaxed) && link.notices().len() == known_notices {
            let left = self.duration.map_or(POLL_INTERVAL, |duration| duration.saturating_sub(started.elapsed()));
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}

/// Reads `NS[:IF]`; returns it with the interface's name. A path must not contain `:`.
fn end_of(text: &str) -> Result<(String, LinkEnd)> {
    let named = |why: String| format!("--between \"{text}\": {why}");
    let (namespace, interface) = text.split_once(':').unwrap_or((text, DEFAULT_INTERFACE));
    check_interface_name(interface).map_err(|error| Failure::usage(named(format!("{error:#}"))))?;
    let netns = Netns::find(namespace).map_err(|refusal| Failure { what: named(refusal.what), ..refusal })?;
    Ok((format!("{namespace}:{interface}"), LinkEnd { netns, interface: interface.to_owned() }))
}

fn check_free(ends: &[(String, LinkEnd); 2]) -> Result<()> {
    let [(_, first), (name, second)] = ends;
    if first.netns.inode() == second.netns.inode() && first.interface == second.interface {
        let clash = Failure::usage(format!("--between: both ends are \"{}\" in one namespace", first.interface));
        return Err(clash.hint(format!("name one of them, such as {name}b")).into());
    }
    for (name, end) in ends {
        if has_interface(&end.netns, &end.interface).unwrap_or(false) {
            let taken = Failure::usage(format!("--between: interface \"{name}\" already exists"));
            return Err(taken.hint("name another one after the `:`").into());
        }
    }
    Ok(())
}

fn print_plan([first, second]: &[String; 2], LinkConfig { directions, mtu }: &LinkConfig) -> Result<()> {
    let mut out = results();
    for (name, other, direction) in [(first, second, &directions[0]), (second, first, &directions[1])] {
        let number = direction.rate.map_or("unlimited".to_owned(), |rate| rate.to_string());
        let rate = direction.trace.as_ref().map_or(number.clone(), |trace| format!("{trace} ({number} on average)"));
        let (delay, jitter) = (format_duration(direction.delay), direction.jitter);
        let (queue, changes, seed) = (direction.queue, direction.changes.len(), direction.seed);
        writeln!(
            out,
            "would create interface {name} (mtu {mtu}); to {other}: rate {rate}, delay {delay}, jitter {jitter}, queue \
             {queue}{}, {changes} changes, seed {seed}",
            impairments(direction)
        )?;
    }
    Ok(())
}

/// `, loss 1%, mark 20pkts`.
fn impairments(direction: &Direction) -> String {
    let share = |share: Share| (share.0 > 0.0).then(|| share.to_string());
    let parts = [
        ("loss", Some(direction.loss.to_string())),
        ("remark", direction.remark.map(|remark| remark.to_string())),
        ("policer", direction.policer.map(|policer| policer.to_string())),
        ("mark", direction.mark.map(|mark| mark.to_string())),
        ("reorder", direction.reorder.map(|reorder| reorder.to_string())),
        ("duplicate", share(direction.duplicate)),
        ("hold", direction.hold.map(|hold| hold.to_string())),
        ("acks", direction.acks.map(|acks| acks.to_string())),
        ("ack loss", share(direction.ack_loss)),
    ];
    parts.into_iter().filter_map(|(name, value)| Some(format!(", {name} {}", value?))).collect()
}

#[derive(Debug, Serialize)]
struct LinkSummary {
    driver: &'static str,
    duration_s: f64,
    directions: [DirectionSummary; 2],
    notices: Vec<String>,
}

#[derive(Debug, Serialize)]
struct DirectionSummary {
    from: String,
    to: String,
    #[serde(flatten)]
    counters: LinkCounters,
}

impl LinkSummary {
    fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        for DirectionSummary { from, to, counters } in &self.directions {
            let mbit = counters.sent_bytes as f64 * 8.0 / self.duration_s / 1e6;
            writeln!(out, "{from} to {to}, {:.1} s", self.duration_s)?;
            writeln!(out, "  received  {} pkts", counters.received_pkts)?;
            writeln!(out, "  sent      {} pkts, {} bytes, {mbit:.3} Mbit/s", counters.sent_pkts, counters.sent_bytes)?;
            let runs = counters.loss_runs.map_or(String::new(), |runs| format!(" in {runs} runs"));
            writeln!(out, "  lost      {} pkts by the loss model{runs}", counters.lost_pkts)?;
            let waited = counters.max_queue_pkts.map_or(String::new(), |most| format!(" (at most {most} waited)"));
            if counters.policed_pkts > 0 {
                writeln!(out, "  policed   {} pkts", counters.policed_pkts)?;
            }
            if counters.down_pkts > 0 {
                writeln!(out, "  down      {} pkts while the link was down", counters.down_pkts)?;
            }
            let reordered = counters.reordered_pkts.unwrap_or(0);
            if counters.duplicated_pkts + reordered + counters.marked_pkts > 0 {
                let (twice, marked) = (counters.duplicated_pkts, counters.marked_pkts);
                writeln!(out, "  changed   {twice} pkts sent twice, {reordered} overtaken, {marked} marked")?;
            }
            if counters.held_pkts > 0 {
                writeln!(out, "  held      {} pkts in batches", counters.held_pkts)?;
            }
            let acks = [counters.acks_lost_pkts, counters.acks_held_pkts, counters.acks_thinned_pkts];
            if acks != [0; 3] {
                let [lost, held, thinned] = acks;
                writeln!(out, "  acks      {lost} lost, {held} held, {thinned} of these dropped for a newer one")?;
            }
            writeln!(out, "  overflow  {} pkts by the full queue{waited}", counters.overflow_pkts)?;
            writeln!(out, "  failed    {} pkts by the emulator itself", counters.failed_pkts)?;
            if let Some(late) = counters.lateness_us {
                let (p50, p99, p999, max) = (late.p50, late.p99, late.p999, late.max);
                writeln!(out, "  late      p50 {p50:.0} us, p99 {p99:.0} us, p99.9 {p999:.0} us, max {max:.0} us")?;
            }
        }
        Ok(())
    }
}
