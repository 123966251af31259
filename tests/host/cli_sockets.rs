//! The options of `tccc sockets` and `tccc trace`: every wrong one is refused with what is allowed.

use crate::common::{check, tccc};

/// Options, and what the message must say besides naming the option.
const OF_BOTH: [(&[&str], &str); 12] = [
    (&["--port", "0"], "1 to 65535"),
    (&["--port", "http"], "1 to 65535"),
    (&["--port", "80,70000"], "1 to 65535"),
    (&["--address", "localhost"], "10.0.0.0/8"),
    (&["--address", "10.0.0.1/8"], "zeros after the prefix"),
    (&["--address", "10.0.0.0/33"], "at most 32 bits"),
    (&["--algorithm", "a_name_that_is_too_long"], "1 to 15 characters"),
    (&["--netns", "no-such-netns"], "no network namespace \"no-such-netns\""),
    (&["--netns", "/etc/passwd"], "\"/etc/passwd\" is not a network namespace"),
    (&["--netns", ""], "names no network namespace"),
    (&["--netns", "4194999"], "no such process"),
    (&["-o", "xml"], "table"),
];

const OF_TRACE: [(&[&str], &str); 13] = [
    (&["--interval", "5"], "such as 100ms"),
    (&["--interval", "48h"], "1us to 24h"),
    (&["--interval=-1ms"], "such as 100ms"),
    (&["--duration", "0s"], "1ms to 8760h"),
    (&["--duration", "forever"], "such as 100ms"),
    (&["--ring", "1kB"], "4KiB to 1GiB"),
    (&["--ring", "4"], "KiB"),
    (&["--keep", "2"], "--record"),
    (&["--record", "file", "--rotate-size", "1kB"], "1MiB or more"),
    (&["--replay", "file", "--record", "other"], "--record"),
    (&["--replay", "file", "--cgroup", "/"], "--cgroup"),
    (&["--replay", "Cargo.toml"], "cannot read \"Cargo.toml\": it is not a recording"),
    (&["extra"], "extra"),
];

#[track_caller]
fn is_refused(verb: &str, options: &[&str], says: &str) {
    let output = check(2, tccc().arg(verb).args(options));
    assert_eq!(output.stderr_has("error: ").stderr_has(says).stdout(), "", "{verb} {options:?}");
}

#[test]
fn wrong_options_of_both_verbs_are_refused() {
    for (options, says) in OF_BOTH {
        is_refused("sockets", options, says);
        is_refused("trace", options, says);
    }
    is_refused("sockets", &["extra"], "extra");
}

#[test]
fn wrong_options_of_trace_are_refused() {
    for (options, says) in OF_TRACE {
        is_refused("trace", options, says);
    }
}
