//! `tccc link`: the user-space link on its own, between any two namespaces.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::trace::parse_length;
use super::{capabilities, signals};
use crate::cli::output::{Format, note, warn};
use crate::emulate::tunlink::TunLink;
use crate::emulate::{Link, LinkDriver, LinkEnd, LinkNotice};
use crate::failure::Failure;
use crate::kernel::netlink::{check_interface_name, has_interface};
use crate::kernel::netns::Netns;
use crate::kernel::privilege;
use crate::model::run::LinkCounters;
use crate::path::{Direction, LinkConfig};
use crate::units::format_duration;

mod directions;

use directions::{config_of, parse_change};

/// Name of an end's interface where none is given.
const INTERFACE: &str = "tccc0";
/// How often the link is asked whether it still works.
const HEALTH_INTERVAL: Duration = Duration::from_millis(500);

/// Join two network namespaces by a link with rate, delay and loss
///
/// Example: `tccc link --between left right --rate 10mbit --delay 50ms --queue 50pkts --loss 1% --seed 7`. Creates an
/// interface in each namespace (a name of `ip netns`, a process id or a path; `:IF` names the interface), carries
/// packets until Ctrl-C, SIGTERM or `--duration`, then prints what it carried, dropped and how late it was. Addresses
/// and routes are yours to add. The same seed drops the same packets, counted from the first. Both interfaces go with
/// the process, however it ends.
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("link", ""))]
pub struct Args {
    /// The two namespaces, each with an interface name after `:`
    #[arg(long, num_args = 2, required = true, value_names = ["NS1[:IF]", "NS2[:IF]"])]
    pub between: Vec<String>,
    #[command(flatten)]
    pub fields: LinkFields,
    /// Rate of both directions from a file of delivery times
    ///
    /// In mahimahi's format: one time in milliseconds per line, at which 1500 bytes can be delivered. The file repeats.
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    pub trace: Option<String>,
    /// Seed of the losses; the way back uses the next number
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Largest IP packet, bytes
    #[arg(long, default_value_t = 1500)]
    pub mtu: u32,
    /// What changes after a time, such as "30s rate=5mbit delay=80ms"; repeat for more
    ///
    /// Both ways: rate=…, delay=…, loss=…, up or down. The way back alone: reverse-rate=…, reverse-delay=…,
    /// reverse-loss=…. While the link is down, packets that enter are dropped.
    #[arg(long, value_name = "CHANGE", value_parser = parse_change)]
    pub change: Vec<toml::Table>,
    /// End after this time, such as 10s
    #[arg(long, value_parser = parse_length)]
    pub duration: Option<Duration>,
    /// Print what would be created, and create nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Format,
    #[command(flatten)]
    pub reverse: ReverseFields,
}

/// The options that are fields of a `[[link]]`, under the same names. They hold in both directions.
#[derive(Debug, clap::Args, Serialize)]
pub struct LinkFields {
    /// Rate of both directions, such as 10mbit; unlimited without it
    ///
    /// trace:FILE delivers at the times of a file as --trace does. cellular:mean=10mbit,seed=1 delivers at those of a
    /// synthetic cellular link, drawn from the seed.
    #[arg(long)]
    rate: Option<String>,
    /// One-way delay of both directions, such as 50ms
    #[arg(long)]
    delay: String,
    /// Uniform random addition to the delay, without reordering
    #[arg(long, default_value = "0ms")]
    jitter: String,
    /// Drop-tail queue: 50pkts, 64kB or 1bdp
    #[arg(long, default_value = "50pkts")]
    queue: String,
    /// Mark packets that find this much in the queue: 20pkts, 16kB or 0.2bdp
    ///
    /// Only packets of senders that asked for explicit congestion notification are marked.
    #[arg(long, value_name = "QUEUE")]
    mark: Option<String>,
    /// Loss of both directions, such as 1%
    ///
    /// 1% loses each packet with this probability. gilbert:p=1%,r=25%,1-h=100%,1-k=0% has two states, with the names of
    /// tc-netem. bursts:loss=1%,mean=4 loses runs of packets. positions:3,17 loses the packets with these numbers, from
    /// 1. trace:FILE has such numbers, one per line.
    #[arg(long, default_value = "0%")]
    loss: String,
    /// Packets held back, such as share=1%,by=5ms
    ///
    /// This share takes longer by this time, so later packets overtake them.
    #[arg(long)]
    reorder: Option<String>,
    /// Share of packets that are sent twice, such as 1%
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    duplicate: String,
    /// Pure TCP ACKs held to leave together, such as aggregated:time=5ms,pkts=16
    ///
    /// aggregated: all leave after this time, or when this many wait. thinned:time=5ms,pkts=4 lets only the newest of
    /// each connection leave. compressed:time=20ms,share=1% holds them now and then: this share begins a hold-up.
    #[arg(long)]
    acks: Option<String>,
    /// Share of pure TCP ACKs that is lost, such as 1%
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    ack_loss: String,
}

/// Fields that differ on the way back.
#[derive(Debug, clap::Args, Serialize)]
#[command(next_help_heading = "From the second namespace to the first, if it differs")]
pub struct ReverseFields {
    /// Rate on the way back
    #[arg(long, value_name = "RATE")]
    reverse_rate: Option<String>,
    /// One-way delay on the way back
    #[arg(long, value_name = "DELAY")]
    reverse_delay: Option<String>,
    /// Jitter on the way back
    #[arg(long, value_name = "JITTER")]
    reverse_jitter: Option<String>,
    /// Queue on the way back
    #[arg(long, value_name = "QUEUE")]
    reverse_queue: Option<String>,
    /// Marks on the way back
    #[arg(long, value_name = "QUEUE")]
    reverse_mark: Option<String>,
    /// Loss on the way back
    #[arg(long, value_name = "LOSS")]
    reverse_loss: Option<String>,
    /// Packets held back on the way back
    #[arg(long, value_name = "REORDER")]
    reverse_reorder: Option<String>,
    /// Share of packets sent twice on the way back
    #[arg(long, value_name = "SHARE")]
    reverse_duplicate: Option<String>,
    /// Pure TCP ACKs held on the way back
    #[arg(long, value_name = "ACKS")]
    reverse_acks: Option<String>,
    /// Share of pure TCP ACKs lost on the way back
    #[arg(long, value_name = "SHARE")]
    reverse_ack_loss: Option<String>,
}

impl Args {
    /// Carries packets until told to stop, then prints the counters.
    ///
    /// Errors: no such namespace; a value out of its range; an interface name that is taken; not permitted; an
    /// interface was taken away meanwhile.
    /// Side effects: two interfaces for as long as it runs.
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
        let mut stop = stop_signal()?;
        let link = TunLink.connect(&config, ends.map(|(_, end)| end))?;
        link.start();
        link.notices().iter().for_each(|notice| warn(&notice.to_string(), None));
        note(&format!("link between {} and {} is up; Ctrl-C ends it", names[0], names[1]));
        let started = Instant::now();
        wait_for_end(link.as_ref(), &mut stop, self.duration)?;
        let summary = Summary::new(names, link.as_ref(), started.elapsed());
        self.output.print(&summary, |out, summary| summary.write_table(out))?;
        let is_stopped = link.notices().into_iter().find(|notice| matches!(notice, LinkNotice::Stopped(_)));
        is_stopped.map_or(Ok(()), |notice| Err(Failure::failed(notice.to_string()).into()))
    }
}

/// `NS[:IF]` as it is shown, and the end it means; a path may hold no `:` of its own.
fn end_of(text: &str) -> Result<(String, LinkEnd)> {
    let named = |why: String| format!("--between \"{text}\": {why}");
    let (namespace, interface) = text.split_once(':').unwrap_or((text, INTERFACE));
    check_interface_name(interface).map_err(|error| Failure::usage(named(format!("{error:#}"))))?;
    let netns = Netns::find(namespace).map_err(|refusal| Failure { what: named(refusal.what), ..refusal })?;
    Ok((format!("{namespace}:{interface}"), LinkEnd { netns, interface: interface.to_owned() }))
}

/// Checks that both interface names can be created.
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

fn print_plan(names: &[String; 2], config: &LinkConfig) -> Result<()> {
    let mut out = io::stdout().lock();
    for (name, other, direction) in
        [(&names[0], &names[1], &config.directions[0]), (&names[1], &names[0], &config.directions[1])]
    {
        let number = direction.rate.map_or("unlimited".to_owned(), |rate| rate.to_string());
        let rate = direction.trace.as_ref().map_or(number.clone(), |trace| format!("{trace} ({number} on average)"));
        let (delay, jitter) = (format_duration(direction.delay), format_duration(direction.jitter));
        writeln!(
            out,
            "would create interface {name} (mtu {}); to {other}: rate {rate}, delay {delay}, jitter {jitter}, queue {}{}, \
             {} changes, seed {}",
            config.mtu,
            direction.queue,
            accidents(direction),
            direction.changes.len(),
            direction.seed
        )?;
    }
    Ok(())
}

/// What may become of a packet beside waiting: `, loss 1%, mark 20pkts`.
fn accidents(direction: &Direction) -> String {
    let mut text = format!(", loss {}", direction.loss);
    text += &direction.mark.map_or(String::new(), |mark| format!(", mark {mark}"));
    text += &direction.reorder.map_or(String::new(), |reorder| format!(", reorder {reorder}"));
    if direction.duplicate.0 > 0.0 {
        text += &format!(", duplicate {}", direction.duplicate);
    }
    text += &direction.acks.map_or(String::new(), |acks| format!(", acks {acks}"));
    if direction.ack_loss.0 > 0.0 {
        text += &format!(", ack loss {}", direction.ack_loss);
    }
    text
}

/// A stream that a byte arrives on when the process is asked to stop.
fn stop_signal() -> Result<UnixStream> {
    let (heard, told) = UnixStream::pair().context("create a pipe for signals")?;
    for signal in signals::that_end() {
        let told = told.try_clone().context("copy the pipe for signals")?;
        signal_hook::low_level::pipe::register(signal, told).context("listen for signals")?;
    }
    Ok(heard)
}

fn wait_for_end(link: &dyn Link, stop: &mut UnixStream, duration: Option<Duration>) -> Result<()> {
    let started = Instant::now();
    let healthy_notices = link.notices().len();
    while link.notices().len() == healthy_notices {
        let left = duration.map(|duration| duration.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) {
            break;
        }
        stop.set_read_timeout(Some(left.unwrap_or(HEALTH_INTERVAL).min(HEALTH_INTERVAL)))?;
        match stop.read(&mut [0]) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("wait for a signal"),
            Ok(_) => break,
        }
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Summary {
    driver: &'static str,
    duration_s: f64,
    directions: [Carried; 2],
    notices: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Carried {
    from: String,
    to: String,
    #[serde(flatten)]
    counters: LinkCounters,
}

impl Summary {
    fn new([first, second]: [String; 2], link: &dyn Link, time: Duration) -> Self {
        let [there, back] = link.counters();
        let there = Carried { from: first.clone(), to: second.clone(), counters: there };
        let back = Carried { from: second, to: first, counters: back };
        Summary {
            driver: TunLink.name(),
            duration_s: time.as_secs_f64(),
            directions: [there, back],
            notices: link.notices().iter().map(ToString::to_string).collect(),
        }
    }

    fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        for Carried { from, to, counters } in &self.directions {
            let mbit = counters.sent_bytes as f64 * 8.0 / self.duration_s / 1e6;
            writeln!(out, "{from} to {to}, {:.1} s", self.duration_s)?;
            writeln!(out, "  received  {} pkts", counters.received_pkts)?;
            writeln!(out, "  sent      {} pkts, {} bytes, {mbit:.3} Mbit/s", counters.sent_pkts, counters.sent_bytes)?;
            let runs = counters.loss_runs.map_or(String::new(), |runs| format!(" in {runs} runs"));
            writeln!(out, "  lost      {} pkts by the loss model{runs}", counters.lost_pkts)?;
            let waited = counters.max_queue_pkts.map_or(String::new(), |most| format!(" (at most {most} waited)"));
            if counters.down_pkts > 0 {
                writeln!(out, "  down      {} pkts while the link was down", counters.down_pkts)?;
            }
            let reordered = counters.reordered_pkts.unwrap_or(0);
            if counters.duplicated_pkts + reordered + counters.marked_pkts > 0 {
                let (twice, marked) = (counters.duplicated_pkts, counters.marked_pkts);
                writeln!(out, "  changed   {twice} pkts sent twice, {reordered} overtaken, {marked} marked")?;
            }
            let acks = [counters.acks_lost_pkts, counters.acks_held_pkts, counters.acks_thinned_pkts];
            if acks != [0; 3] {
                let [lost, held, thinned] = acks;
                writeln!(out, "  acks      {lost} lost, {held} held, {thinned} of these dropped for a newer one")?;
            }
            writeln!(out, "  overflow  {} pkts by the full queue{waited}", counters.overflow_pkts)?;
            writeln!(out, "  failed    {} pkts by the emulator itself", counters.failed_pkts)?;
            if let Some(late) = counters.lateness_us {
                writeln!(
                    out,
                    "  late      p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, max {:.0} us",
                    late.p50, late.p99, late.p999, late.max
                )?;
            }
        }
        Ok(())
    }
}
