//! The verbs by what they do to the host, and outputs that nobody reads.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::Stdio;

use clap::Parser as _;
use tccc::cli::effect::Effect;
use tccc::cli::{Cli, program};

/// A command line of each verb that changes nothing.
pub const QUERIES: [&str; 17] = [
    "list",
    "show dtcp",
    "status",
    "policy check web.toml",
    "policy show",
    "policy diff web.toml",
    "explain 127.0.0.1:1 127.0.0.1:2",
    "sockets",
    "trace",
    "top",
    "serve",
    "report runs",
    "doctor",
    "check mine.bpf.c",
    "completions bash",
    "traffic PLACE TASK",
    "ring LIBRARY OBJECT PROPERTY",
];

/// A command line of each verb that works until it is done or stopped.
pub const WORK: [&str; 5] =
    ["run tiny.toml", "evaluate dtcp", "link --between a b --delay 1ms", "guard --stand-by", "assets folder"];

/// Every verb, such as `policy apply`.
fn all() -> BTreeSet<String> {
    fn below(command: &clap::Command, path: &str) -> Vec<String> {
        let verbs = command.get_subcommands().flat_map(|verb| {
            let path = format!("{path} {}", verb.get_name()).trim_start().to_owned();
            if verb.has_subcommands() { below(verb, &path) } else { vec![path] }
        });
        verbs.collect()
    }
    below(&program(), "").into_iter().collect()
}

/// The verb of a command line.
pub fn verb_of(line: &str) -> String {
    let verb = all().into_iter().find(|verb| format!("{line} ").starts_with(&format!("{verb} ")));
    verb.unwrap_or_else(|| panic!("no verb: {line}"))
}

pub fn effect_of(line: &str) -> Effect {
    let words = ["tccc"].into_iter().chain(line.split_whitespace());
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).command.effect()
}

/// The verbs that make one change: all that are not listed above.
pub fn changing() -> BTreeSet<String> {
    let others: BTreeSet<String> = QUERIES.iter().chain(&WORK).map(|line| verb_of(line)).collect();
    all().difference(&others).cloned().collect()
}

/// A pipe whose reader went away.
pub fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

/// A file on a full disk.
pub fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}
