//! The two directions that the options of `tccc link` mean.

use std::path::Path;

use super::Args;
use crate::path::change::DirectionChange;
use crate::path::loss::{FILE_PREFIX, LossModel, LossPositions, LossText};
use crate::path::rate_trace::{RateText, RateTrace};
use crate::path::{Direction, LinkConfig, trace_file};
use crate::plain::shown;
use crate::units::{BitsPerSec, parse_duration};

/// A rate, and the trace it is the mean of.
#[derive(Debug, Clone, PartialEq)]
pub struct RateChoice {
    rate: BitsPerSec,
    trace: Option<RateTrace>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChangeChoice {
    both: DirectionChange,
    back: DirectionChange,
}

/// The configuration that the options mean; fields are checked later.
pub fn config_of(args: &Args) -> LinkConfig {
    let rate = args.trace.as_ref().or(args.rate.as_ref());
    let reverse = &args.reverse;
    let back = reverse.reverse_rate.as_ref().or(rate);
    let number = |choice: Option<&RateChoice>| choice.map(|choice| choice.rate);
    let trace = |choice: Option<&RateChoice>| choice.and_then(|choice| choice.trace.clone());
    let there = Direction {
        rate: number(rate),
        trace: trace(rate),
        delay: args.delay,
        jitter: args.jitter,
        queue: args.queue,
        mark: args.mark,
        queue_low: None,
        loss: args.loss.clone(),
        changes: args.change.iter().map(|it| it.both.clone()).filter(|change| !change.is_empty()).collect(),
        reorder: args.reorder,
        duplicate: args.duplicate,
        acks: args.acks,
        ack_loss: args.ack_loss,
        seed: args.seed,
    };
    let back = Direction {
        rate: number(back),
        trace: trace(back),
        delay: reverse.reverse_delay.unwrap_or(args.delay),
        jitter: reverse.reverse_jitter.unwrap_or(args.jitter),
        queue: reverse.reverse_queue.unwrap_or(args.queue),
        queue_low: None,
        mark: reverse.reverse_mark.or(args.mark),
        loss: reverse.reverse_loss.clone().unwrap_or_else(|| args.loss.clone()),
        reorder: reverse.reverse_reorder.or(args.reorder),
        duplicate: reverse.reverse_duplicate.unwrap_or(args.duplicate),
        acks: reverse.reverse_acks.or(args.acks),
        ack_loss: reverse.reverse_ack_loss.unwrap_or(args.ack_loss),
        changes: changes_back(args),
        seed: args.seed.wrapping_add(1),
    };
    LinkConfig { directions: [there, back], mtu: args.mtu }
}

/// What has an option of its own for the way back changes there only when the change says so.
fn changes_back(args: &Args) -> Vec<DirectionChange> {
    let back = |ChangeChoice { both, back }: &ChangeChoice| DirectionChange {
        at: both.at,
        rate: back.rate.or(both.rate.filter(|_| args.reverse.reverse_rate.is_none())),
        delay: back.delay.or(both.delay.filter(|_| args.reverse.reverse_delay.is_none())),
        loss: back.loss.clone().or_else(|| both.loss.clone().filter(|_| args.reverse.reverse_loss.is_none())),
        up: both.up,
    };
    args.change.iter().map(back).filter(|change| !change.is_empty()).collect()
}

/// Reads a rate, with the file that it may name.
pub fn parse_rate(text: &str) -> Result<RateChoice, String> {
    Ok(match text.parse()? {
        RateText::Rate(rate) => RateChoice { rate, trace: None },
        RateText::File(file) => parse_trace(&file)?,
        RateText::Cellular(model) => with_mean(model.trace()?),
    })
}

/// Reads a file of delivery opportunities.
pub fn parse_trace(file: &str) -> Result<RateChoice, String> {
    let read = RateTrace::read(format!("{FILE_PREFIX}{file}"), &trace_file::read(Path::new(file))?);
    read.map(with_mean).map_err(|why| format!("{}: {why}", shown(file)))
}

fn with_mean(trace: RateTrace) -> RateChoice {
    RateChoice { rate: trace.mean(), trace: Some(trace) }
}

/// Reads a loss model, with the file that it may name.
pub fn parse_loss(text: &str) -> Result<LossModel, String> {
    match text.parse()? {
        LossText::Model(model) => Ok(model),
        LossText::File(file) => {
            let read = LossPositions::read(&file, &trace_file::read(Path::new(&file))?);
            read.map(LossModel::Positions).map_err(|why| format!("{}: {why}", shown(&file)))
        }
    }
}

/// Reads `10s rate=5mbit delay=20ms loss=1% reverse-rate=1mbit down`.
pub fn parse_change(text: &str) -> Result<ChangeChoice, String> {
    const EXPECTED: &str =
        "expected rate=…, delay=…, loss=…, reverse-rate=…, reverse-delay=…, reverse-loss=…, up or down";
    let mut words = text.split_whitespace();
    let at = parse_duration(words.next().unwrap_or_default()).map_err(|error| error.to_string())?;
    let (mut both, mut back) =
        (DirectionChange { at, ..DirectionChange::default() }, DirectionChange { at, ..DirectionChange::default() });
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let change = if name.starts_with("reverse-") { &mut back } else { &mut both };
        match name.trim_start_matches("reverse-") {
            "up" if word == "up" => both.up = Some(true),
            "down" if word == "down" => both.up = Some(false),
            "rate" => change.rate = Some(value.parse().map_err(|error| format!("rate = {error}"))?),
            "delay" => change.delay = Some(parse_duration(value).map_err(|error| format!("delay = {error}"))?),
            "loss" => change.loss = Some(parse_loss(value).map_err(|error| format!("loss = {error}"))?),
            _ => return Err(format!("\"{}\": {EXPECTED}", shown(word))),
        }
    }
    if both.is_empty() && back.is_empty() {
        return Err(format!("nothing changes: {EXPECTED}"));
    }
    Ok(ChangeChoice { both, back })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use std::time::Duration;

    use super::*;
    use crate::units::{QueueSize, Share};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn config(options: &[&str]) -> LinkConfig {
        let fixed = ["link", "--between", "a", "b", "--delay", "5ms"];
        config_of(&Command::try_parse_from(fixed.iter().chain(options)).map(|command| command.args).unwrap())
    }

    #[test]
    fn changes_go_both_ways_unless_the_way_back_has_its_own() {
        let options =
            ["--rate", "10mbit", "--change", "2s rate=5mbit loss=1%", "--change", "3s down reverse-rate=1mbit"];
        let [there, back] = config(&options).directions;
        assert_eq!((there.changes.len(), back.changes.len()), (2, 2));
        assert_eq!((there.changes[0].rate, back.changes[0].rate), (Some(BitsPerSec(5_000_000)), there.changes[0].rate));
        assert_eq!(
            (&there.changes[0].loss, &back.changes[0].loss),
            (&Some(Share(0.01).into()), &there.changes[0].loss)
        );
        assert_eq!((there.changes[1].up, back.changes[1].up), (Some(false), Some(false)));
        assert_eq!((there.changes[1].rate, back.changes[1].rate), (None, Some(BitsPerSec(1_000_000))));
        let [_, back] =
            config(&[&options[..], &["--reverse-rate", "2mbit", "--reverse-loss", "0%"]].concat()).directions;
        assert_eq!((back.changes.len(), back.changes[0].up), (1, Some(false)), "the first changes nothing there");
    }

    #[test]
    fn way_back_is_as_there_unless_it_has_its_own() {
        let there = ["--queue", "9pkts", "--mark", "4pkts", "--reorder", "share=1%,by=5ms"];
        let acks = ["--duplicate", "2%", "--acks", "thinned:time=5ms,pkts=4", "--ack-loss", "4%"];
        let there = [&there[..], &acks].concat();
        let [forward, backward] = config(&there).directions;
        assert_eq!(backward, Direction { seed: 2, ..forward.clone() });
        assert_eq!((forward.mark, forward.duplicate), (Some(QueueSize::Packets(4)), Share(0.02)));
        assert_eq!((forward.acks, forward.ack_loss), (Some(acks[3].parse().unwrap()), Share(0.04)));
        let back = ["--reverse-delay", "9ms", "--reverse-jitter", "1ms", "--reverse-queue", "7pkts"];
        let more = ["--reverse-mark", "3pkts", "--reverse-reorder", "share=3%,by=5ms", "--reverse-duplicate", "0%"];
        let own_acks = ["--reverse-acks", "compressed:time=5ms,share=1%", "--reverse-ack-loss", "0%"];
        let [forward_again, backward] = config(&[&there[..], &back, &more, &own_acks].concat()).directions;
        assert_eq!(forward_again, forward);
        let own = Direction {
            delay: Duration::from_millis(9),
            jitter: Duration::from_millis(1),
            queue: QueueSize::Packets(7),
            mark: Some(QueueSize::Packets(3)),
            reorder: Some("share=3%,by=5ms".parse().unwrap()),
            duplicate: Share(0.0),
            acks: Some("compressed:time=5ms,share=1%".parse().unwrap()),
            ack_loss: Share(0.0),
            seed: 2,
            ..forward
        };
        assert_eq!(backward, own);
    }

    #[test]
    fn trace_is_the_rate_of_both_directions() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lte.trace");
        std::fs::write(&file, "5\n10\n").unwrap();
        let [there, back] = config(&["--trace", file.to_str().unwrap(), "--reverse-rate", "1mbit"]).directions;
        assert_eq!((there.rate, there.trace.unwrap().opportunities), (Some(BitsPerSec(2_400_000)), 2));
        assert_eq!((back.rate, back.trace), (Some(BitsPerSec(1_000_000)), None));
        std::fs::write(&file, "5\n4\n").unwrap();
        let refusal = parse_trace(file.to_str().unwrap()).unwrap_err();
        assert!(refusal.ends_with("line 2: 4 after 5: expected times in order"), "{refusal}");
    }

    #[test]
    fn changes_that_do_not_read_name_the_word() {
        let refused = |text: &str| parse_change(text).unwrap_err();
        assert!(refused("rate=5mbit").contains("expected a time"));
        assert!(refused("2s").starts_with("nothing changes: expected rate=…"));
        assert!(refused("2s rate=5").starts_with("rate = \"5\": expected a rate"));
        assert!(refused("2s reverse-loss=2").starts_with("loss = \"2\": expected a share"));
        assert!(refused("2s off").starts_with("\"off\": expected rate=…"));
        assert!(refused("2s up=no").starts_with("\"up=no\": expected"));
    }
}
