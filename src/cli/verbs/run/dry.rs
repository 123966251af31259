//! `tccc run --dry-run`: prints the plan.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;

use super::args::Args;
use super::planned::Planned;
use super::progress;
use crate::cli::output::{results, warn};
use lab::load::{Load, Starts};
use lab::part::RunSelection;
use lab::path::change::DirectionChange;
use lab::path::loss::LossModel;
use lab::path::{Direction, LinkConfig};
use lab::results::OpenResultDir;
use lab::scenario::{BulkSender, Cell, DatagramSpec, FlowSpec, Sends};
use shared::model::run::Engine;
use shared::units::{QueueSize, Share, format_duration};

/// Prints each plan, and the expected time of all.
pub(super) fn print_plans(planned: &[Planned], part: &RunSelection, args: &Args) -> Result<()> {
    let driver = (args.engine == Engine::Kernel).then(|| args.link.driver(planned));
    if let Some(Err(lack)) = &driver {
        warn(&format!("this plan would not run here: {lack}"), None);
    }
    let delays_hosts = match driver {
        Some(driver) => driver.is_ok_and(|driver| driver.delays_hosts()),
        None => args.engine == Engine::Virtual,
    };
    let mut total = Duration::ZERO;
    for one in planned {
        OpenResultDir::check(&one.out, &one.plan, &one.scenario.text)?;
        total += print_plan(one, part, (args, delays_hosts))?;
    }
    if planned.len() > 1 {
        writeln!(results(), "{} scenarios: about {}", planned.len(), progress::seconds(total))?;
    }
    Ok(())
}

/// Returns the expected time.
fn print_plan(planned: &Planned, part: &RunSelection, (args, delays_hosts): (&Args, bool)) -> Result<Duration> {
    let Planned { scenario, plan, out } = planned;
    let runs = part.runs(scenario, plan)?;
    let forecast = args.forecast(planned, &runs)?;
    let mut text = results();
    let (profile, seed, repeats) = (plan.profile.name(), plan.seed, plan.repeats);
    writeln!(text, "{}: {}", scenario.name, scenario.title)?;
    let of_first = if plan.cells.len() > 1 { " of the first cell" } else { "" };
    writeln!(text, "links{of_first}, both ways unless said:")?;
    for line in link_lines(&plan.cells[0]) {
        writeln!(text, "  {line}")?;
    }
    for line in host_delay_lines(&plan.cells[0]).into_iter().filter(|_| delays_hosts) {
        writeln!(text, "  {line}")?;
    }
    let kernel = match plan.engine {
        Engine::Virtual => format!("Linux {}, ", plan.kernel.series()),
        Engine::Kernel | Engine::Ns2 => String::new(),
    };
    writeln!(text, "{kernel}profile {profile}, seed {seed}, {repeats} runs of {} cells:", plan.cells.len())?;
    for cell in &plan.cells {
        let at = cell.at.iter().map(|(name, value)| format!("{name} = {value}, ")).collect::<String>();
        let spec = scenario.ns2.as_ref().filter(|_| args.engine == Engine::Ns2);
        let agent = |flow: &FlowSpec| spec.and_then(|spec| spec.agent(&cell.label(flow)));
        let of_flow = |flow| flow_text(flow, agent(flow).unwrap_or(&flow.algorithm));
        let flows: Vec<String> = cell.flows.iter().map(of_flow).collect();
        writeln!(text, "  {at}{}: {}", format_duration(cell.duration), flows.join(", "))?;
    }
    if !scenario.checks.is_empty() {
        writeln!(text, "checks:")?;
    }
    for check in &scenario.checks {
        let cells = plan.cells.iter().filter(|cell| check.is_about(cell)).count();
        let of = if check.at.are_all() && cells == plan.cells.len() {
            String::new()
        } else {
            format!(" ({} of {} cells)", cells, plan.cells.len())
        };
        writeln!(text, "  {}{of}: {check}", check.name)?;
    }
    let part =
        if runs.len() < plan.runs.len() { format!(", {} of {}", runs.len(), plan.runs.len()) } else { "".into() };
    writeln!(text, "order of runs{part}:")?;
    for run in &runs {
        writeln!(text, "  {}  seed {}", run.id, run.seed)?;
    }
    let place =
        if args.out.is_some() { format!("\"{}\"", out.display()) } else { "a new directory below runs/".into() };
    writeln!(text, "to do: {}", progress::sentence(&forecast))?;
    writeln!(text, "results would go to {place}; nothing was changed")?;
    Ok(forecast.expected)
}

/// A flow, with its traffic and times unless it sends bulk data for the whole run:
/// `noise by udp (1mbit, from 2s, for 4s)`.
fn flow_text(flow: &FlowSpec, runs: &str) -> String {
    let mut details = Vec::new();
    match &flow.sends {
        Sends::Bulk => details.extend((flow.sender == BulkSender::Tccc).then(|| "sent by tccc".to_owned())),
        Sends::Datagrams(DatagramSpec { rate, frames: None, .. }) => details.push(rate.to_string()),
        Sends::Datagrams(DatagramSpec { rate, frames: Some(frames), .. }) => {
            details.push(format!("{} frames a second, {rate}", frames.per_second));
        }
        Sends::Transfers { size, count: 1, .. } => details.push(size.to_string()),
        Sends::Transfers { size, count, interval } => {
            details.push(format!("{count} times {size}, one every {}", format_duration(*interval)));
        }
        Sends::Load(load) => details.push(load_text(load)),
        Sends::Messages { size, count, interval } => {
            let every = format_duration(*interval);
            details.push(format!("{count} times {size} over one connection, one every {every}"));
        }
    }
    details.extend(flow.request.map(|size| format!("each after a request of {size}")));
    details.extend(flow.bursts.map(|bursts| format!("in bursts {bursts}")));
    details.extend((!flow.receiver.is_honest()).then(|| format!("receiver {}", <&str>::from(flow.receiver))));
    details.extend((!flow.start.is_zero()).then(|| format!("from {}", format_duration(flow.start))));
    details.extend(flow.duration.map(|time| format!("for {}", format_duration(time))));
    let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
    format!("{} by {runs}{details}", flow.name)
}

/// `lognormal:median=20000B,sigma=1.5, at random every 50ms on average`.
fn load_text(load: &Load) -> String {
    match load {
        Load::Trace(trace) => format!("{} transfers of {}", trace.count, trace.name),
        Load::Drawn { starts: Starts::Poisson { mean, .. }, sizes } => {
            format!("{sizes}, at random every {} on average", format_duration(*mean))
        }
        Load::Drawn { starts: Starts::Regular { count: 1, .. }, sizes } => sizes.to_string(),
        Load::Drawn { starts: Starts::Regular { count, interval }, sizes } => {
            format!("{count} times {sizes}, one every {}", format_duration(*interval))
        }
    }
}

/// One line for all links that are alike: ends, rate, delay and queue.
///
/// Shape: in the order of the links.
fn link_lines(cell: &Cell) -> Vec<String> {
    let mut alike: Vec<(String, Vec<String>)> = Vec::new();
    for link in &cell.links {
        let config = link.config(cell.mtu);
        let [there, back] = [0, 1].map(|side| direction_text(&config, side));
        let text = if there == back { there } else { format!("{there}; back {back}") };
        match alike.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(link.name()),
            None => alike.push((text, vec![link.name()])),
        }
    }
    alike.into_iter().map(|(text, names)| format!("{}: {text}", names.join(", "))).collect()
}

/// One line for all nodes with the same random delay: `host delay in s1, s2: up to 600us, against phase effects`.
fn host_delay_lines(cell: &Cell) -> Vec<String> {
    let mut nodes: BTreeMap<Duration, Vec<&str>> = BTreeMap::new();
    for link in &cell.links {
        for (node, direction) in link.ends.iter().zip(&link.directions).filter(|(_, one)| !one.host_delay.is_zero()) {
            let alike = nodes.entry(direction.host_delay).or_default();
            if !alike.contains(&node.as_str()) {
                alike.push(node);
            }
        }
    }
    let line = |(delay, nodes): (Duration, Vec<&str>)| {
        format!("host delay in {}: up to {}, against phase effects", nodes.join(", "), format_duration(delay))
    };
    nodes.into_iter().map(line).collect()
}

/// `20mbit, 20ms, queue 50pkts = 0.75bdp, loss 1%, from 5s on rate 5mbit`.
fn direction_text(config: &LinkConfig, side: usize) -> String {
    let direction = &config.directions[side];
    let mut parts = vec![rate_text(direction), format_duration(direction.delay)];
    parts.extend((!direction.jitter.is_none()).then(|| format!("jitter {}", direction.jitter)));
    parts.push(match &direction.discipline {
        Some(discipline) if !discipline.has_limit() => "queue by memory".to_owned(),
        _ => format!("queue {}{}", direction.queue, queue_text(config, side)),
    });
    let mut add = |name: &str, value: Option<String>| parts.extend(value.map(|value| format!("{name} {value}")));
    add("marks from", direction.mark.map(|mark| mark.to_string()));
    add("low priority up to", direction.queue_low.map(|packets| format!("{packets}pkts")));
    add("discipline", direction.discipline.as_ref().map(ToString::to_string));
    add("loss", (direction.loss != LossModel::default()).then(|| direction.loss.to_string()));
    add("policer", direction.policer.map(|policer| policer.to_string()));
    add("remark", direction.remark.map(|remark| remark.to_string()));
    add("reorder", direction.reorder.map(|reorder| reorder.to_string()));
    add("duplicate", some_share(direction.duplicate));
    add("hold", direction.hold.map(|hold| hold.to_string()));
    add("acks", direction.acks.map(|hold| hold.to_string()));
    add("ack_loss", some_share(direction.ack_loss));
    parts.extend(direction.changes.iter().map(change_text));
    parts.join(", ")
}

fn some_share(share: Share) -> Option<String> {
    (share.0 > 0.0).then(|| share.to_string())
}

fn rate_text(direction: &Direction) -> String {
    match (direction.rate, &direction.trace) {
        (None, _) => "no rate limit".to_owned(),
        (Some(rate), None) => rate.to_string(),
        (Some(mean), Some(trace)) => format!("{trace}, {mean} on average"),
    }
}

/// `from 5s on rate 5mbit and delay 40ms`.
fn change_text(change: &DirectionChange) -> String {
    let DirectionChange { at, rate, delay, jitter, queue, discipline, loss, up } = change;
    let mut parts = Vec::new();
    let mut add = |name: &str, value: Option<String>| parts.extend(value.map(|value| format!("{name} {value}")));
    add("rate", rate.map(|rate| rate.to_string()));
    add("delay", delay.map(format_duration));
    add("jitter", jitter.map(|jitter| jitter.to_string()));
    add("queue", queue.map(|queue| queue.to_string()));
    add("discipline", discipline.as_ref().map(ToString::to_string));
    add("loss", loss.as_ref().map(ToString::to_string));
    parts.extend(up.map(|up| if up { "up" } else { "down" }.to_owned()));
    format!("from {} on {}", format_duration(*at), parts.join(" and "))
}

/// A queue in the other units: packets of MTU size, and bdp.
fn queue_text(config: &LinkConfig, side: usize) -> String {
    let Direction { rate, queue, .. } = config.directions[side];
    let mtu = f64::from(config.mtu);
    let Ok(limits) = config.queue_limits() else { return String::new() };
    let bytes = limits[side].bytes(config.mtu) as f64;
    let packets = (!matches!(queue, QueueSize::Packets(_))).then(|| format!(" = {:.0}pkts", (bytes / mtu).floor()));
    let round_trip: Duration = config.directions.iter().map(|direction| direction.delay).sum();
    let bdp = rate.map(|rate| rate.0 as f64 / 8.0 * round_trip.as_secs_f64()).filter(|bdp| *bdp > 0.0);
    let of_bdp = bdp.filter(|_| !matches!(queue, QueueSize::Bdp(_))).map(|bdp| format!(" = {:.2}bdp", bytes / bdp));
    packets.into_iter().chain(of_bdp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::scenario::Scenario;

    const TEXT: &str = r#"
        title = "t"
        claim = "c"
        profile = "paper"
        duration = "8s"
        runs = 1
        seed = 1
        link = [
            { ends = ["s1", "m"], rate = "100mbit", delay = "1ms" },
            { ends = ["s2", "m"], rate = "100mbit", delay = "1ms" },
            { ends = ["m", "r"], rate = "12mbit", delay = "20ms", queue = "0.5bdp", reverse = { queue = "30kB" } },
            { ends = ["r", "x"], delay = "5ms", queue = "50pkts" },
        ]
        flow = [
            { name = "bulk", from = "s1", to = "r", algorithm = "reno" },
            { name = "part", from = "s1", to = "r", algorithm = "reno", start = "1s", duration = "3s" },
            { name = "one", from = "s1", to = "r", algorithm = "reno", size = "9kB" },
            { name = "pages", from = "s1", to = "r", algorithm = "reno", size = "9kB", count = 3, interval = "500ms" },
            { name = "noise", from = "s2", to = "r", protocol = "udp", rate = "1mbit", start = "2s", duration = "4s" },
        ]
    "#;

    /// Every flow used to be shown as sending for the whole run.
    #[test]
    fn flow_is_shown_with_what_it_sends_and_when() {
        let flows = &Scenario::parse("x.toml", TEXT).unwrap().cells[0].flows;
        let shown: Vec<String> = flows.iter().map(|flow| flow_text(flow, &flow.algorithm)).collect();
        let expected = [
            "bulk by reno",
            "part by reno (from 1s, for 3s)",
            "one by reno (9000B)",
            "pages by reno (3 times 9000B, one every 500ms)",
            "noise by udp (1mbit, from 2s, for 4s)",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn links_that_are_alike_are_one_line_and_queues_are_shown_in_packets_and_bdp() {
        let expected = [
            "s1-m, s2-m: 100mbit, 1ms, queue 1000pkts = 60.00bdp",
            "m-r: 12mbit, 20ms, queue 0.5bdp = 20pkts; back 12mbit, 20ms, queue 30000B = 20pkts = 0.50bdp",
            "r-x: no rate limit, 5ms, queue 50pkts",
        ];
        assert_eq!(link_lines(&Scenario::parse("x.toml", TEXT).unwrap().cells[0]), expected);
    }
}
