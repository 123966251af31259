//! Turns the options of `tccc link` into a `[[link]]` table and reads it like a scenario.

use anyhow::Result;
use toml::{Table, Value};

use super::Args;
use host::toml_reader::Mistake;
use lab::path::LinkConfig;
use lab::scenario::{ONE_WAY, read_link};
use shared::failure::Failure;
use shared::sanitize::shown;
use shared::units::parse_duration;

const REVERSE: &str = "reverse";

/// Does not check ranges; [`LinkConfig::check`] does.
pub fn config_of(args: &Args) -> Result<LinkConfig> {
    let reverse = Table::try_from(&args.reverse)?.into_iter();
    let mut reverse: Table = reverse.map(|(name, value)| (name.replacen("reverse_", "", 1), value)).collect();
    let changes: Vec<Table> = args.change.iter().map(|change| both_ways(change.clone(), &reverse)).collect();
    let mut link = Table::try_from(&args.fields)?;
    if let Some(file) = &args.trace {
        link.insert("rate".to_owned(), format!("trace:{file}").into());
    }
    for field in ONE_WAY {
        if let Some(value) = link.get(field) {
            reverse.entry(field).or_insert_with(|| value.clone());
        }
    }
    link.insert(REVERSE.to_owned(), reverse.into());
    link.insert("change".to_owned(), changes.into());
    let text = toml::to_string(&Table::from_iter([("link".to_owned(), Value::from(vec![escaped(link.into())]))]))?;
    let mut config = read_link(&text, args.mtu).map_err(|mistake| refusal(&mistake))?;
    config.directions[0].seed = args.seed;
    config.directions[1].seed = args.seed.wrapping_add(1);
    Ok(config)
}

/// Applies a change of the loss to the reverse direction too, unless that has its own loss.
fn both_ways(mut change: Table, reverse: &Table) -> Table {
    let loss = change.get("loss").filter(|_| !reverse.contains_key("loss")).cloned();
    if let (Some(loss), Some(Value::Table(back))) = (loss, change.get_mut(REVERSE)) {
        back.entry("loss").or_insert(loss);
    }
    change
}

/// Escapes `$`, which begins a variable in a scenario.
fn escaped(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace('$', "$$")),
        Value::Array(items) => Value::Array(items.into_iter().map(escaped).collect()),
        Value::Table(table) => Value::Table(table.into_iter().map(|(name, value)| (name, escaped(value))).collect()),
        other => other,
    }
}

/// Names the option instead of the field: `--reverse-ack-loss` for `link.reverse.ack_loss`.
fn refusal(mistake: &Mistake) -> Failure {
    let name = mistake.field.replacen("link.", "", 1);
    let (option, field) = match name.strip_prefix("change.") {
        Some(field) => ("change", format!(" {}", field.replace('.', "-"))),
        None => (name.as_str(), String::new()),
    };
    let option = option.replace(['.', '_'], "-");
    let given = mistake.given.as_ref().map_or(String::new(), |given| format!(" = {given}"));
    let failure = Failure::usage(format!("--{option}{field}{given}: {}", mistake.expected));
    let hint = mistake.hint.clone();
    failure.hint(hint.unwrap_or_else(|| "`tccc link --help` describes every option".to_owned()))
}

/// Turns `10s rate=5mbit delay=20ms loss=1% reverse-rate=1mbit down` into a `change` of a `[[link]]`.
///
/// # Errors
/// An unknown field. [`config_of`] reads the values.
pub fn parse_change(text: &str) -> Result<Table, String> {
    const EXPECTED: &str =
        "expected rate=…, delay=…, loss=…, reverse-rate=…, reverse-delay=…, reverse-loss=…, up or down";
    let mut words = text.split_whitespace();
    let at = words.next().unwrap_or_default();
    parse_duration(at).map_err(|error| error.to_string())?;
    let (mut both, mut back) = (Table::new(), Table::new());
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let (change, name) = match name.strip_prefix("reverse-") {
            Some(name) => (&mut back, name),
            None => (&mut both, name),
        };
        match name {
            "up" | "down" if word == name => change.insert("up".to_owned(), (name == "up").into()),
            "rate" | "delay" | "loss" => change.insert(name.to_owned(), value.into()),
            _ => return Err(format!("\"{}\": {EXPECTED}", shown(word))),
        };
    }
    if both.is_empty() && back.is_empty() {
        return Err(format!("nothing changes: {EXPECTED}"));
    }
    both.insert("at".to_owned(), at.into());
    both.insert(REVERSE.to_owned(), back.into());
    Ok(both)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use lab::path::Direction;
    use shared::units::{BitsPerSec, QueueSize, Share};

    #[derive(Parser)]
    struct LinkCommand {
        #[command(flatten)]
        args: Args,
    }

    fn read(options: &[&str]) -> Result<LinkConfig> {
        let fixed = ["link", "--between", "a", "b", "--delay", "5ms"];
        let command = LinkCommand::try_parse_from(fixed.iter().chain(options)).unwrap();
        config_of(&command.args)
    }

    fn directions(options: &str) -> [Direction; 2] {
        read(&options.split_whitespace().collect::<Vec<_>>()).unwrap().directions
    }

    #[test]
    fn changes_go_both_ways_unless_the_way_back_has_its_own() {
        let options =
            ["--rate", "10mbit", "--change", "2s rate=5mbit loss=1%", "--change", "3s down reverse-rate=1mbit"];
        let [there, back] = read(&options).unwrap().directions;
        assert_eq!((there.changes.len(), back.changes.len()), (2, 2));
        assert_eq!(
            (there.changes[0].rate, &there.changes[0].loss),
            (Some(BitsPerSec(5_000_000)), &Some(Share(0.01).into()))
        );
        assert_eq!((back.changes[0].rate, &back.changes[0].loss), (there.changes[0].rate, &there.changes[0].loss));
        assert_eq!((there.changes[1].up, back.changes[1].up), (Some(false), Some(false)));
        assert_eq!((there.changes[1].rate, back.changes[1].rate), (None, Some(BitsPerSec(1_000_000))));
        let own = [&options[..], &["--reverse-rate", "2mbit", "--reverse-loss", "0%"]].concat();
        let [_, back] = read(&own).unwrap().directions;
        assert_eq!((back.changes.len(), back.changes[0].up), (1, Some(false)), "the first changes nothing there");
    }

    #[test]
    fn way_back_is_as_there_unless_it_has_its_own() {
        let there = "--queue 9pkts --mark 4pkts --reorder share=1%,by=5ms --duplicate 2% --acks thinned:time=5ms,pkts=4 \
                     --ack-loss 4%";
        let [forward, backward] = directions(there);
        assert_eq!(backward, Direction { seed: 2, ..forward.clone() });
        let values = (forward.mark, forward.duplicate, forward.ack_loss);
        assert_eq!(values, (Some(QueueSize::Packets(4)), Share(0.02), Share(0.04)));
        let own = "--rate 1mbit --jitter 1ms --queue 7pkts --mark 3pkts --loss 3% --reorder share=3%,by=5ms --duplicate 0% \
                   --acks compressed:time=5ms,share=1% --ack-loss 0%";
        let [expected, _] = directions(own);
        let [unchanged, backward] = directions(&format!("{there} {}", own.replace("--", "--reverse-")));
        assert_eq!((unchanged, backward), (forward, Direction { seed: 2, ..expected }));
    }

    #[test]
    fn trace_is_the_rate_of_both_directions() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lte.trace");
        std::fs::write(&file, "5\n10\n").unwrap();
        let [there, back] = directions(&format!("--trace {} --reverse-rate 1mbit", file.display()));
        assert_eq!((there.rate, there.trace.unwrap().opportunities), (Some(BitsPerSec(2_400_000)), 2));
        assert_eq!((back.rate, back.trace), (Some(BitsPerSec(1_000_000)), None));
        std::fs::write(&file, "5\n4\n").unwrap();
        let refusal = read(&["--trace", file.to_str().unwrap()]).unwrap_err().to_string();
        assert!(refusal.ends_with("line 2: 4 after 5: expected times in order"), "{refusal}");
    }

    #[test]
    fn wrong_values_name_their_option() {
        for (option, value, expected) in [
            ("--rate", "$5", "--rate = \"$5\": expected a rate"),
            ("--reverse-ack-loss", "2", "--reverse-ack-loss = \"2\": expected a share"),
            ("--change", "2s rate=5", "--change rate = \"5\": expected a rate"),
            ("--change", "2s reverse-loss=2", "--change reverse-loss = \"2\": expected a share"),
        ] {
            let refusal = read(&[option, value]).unwrap_err().to_string();
            assert!(refusal.starts_with(expected), "{refusal}");
        }
        for (change, expected) in [
            ("rate=5mbit", "\"rate=5mbit\": expected a time"),
            ("2s", "nothing changes: expected rate=…"),
            ("2s off", "\"off\": expected rate=…"),
            ("2s up=no", "\"up=no\": expected"),
        ] {
            let refusal = parse_change(change).unwrap_err();
            assert!(refusal.starts_with(expected), "{refusal}");
        }
    }
}
