//! The parsers by name, for their program and for `cargo xtask fuzz --parsers`.

/// Names on the command line, and inputs, as in the table of tests/campaigns.md. The last parser is in C.
pub const NAMES: [(&str, &str); 14] = [
    ("policy", "policy files; what is accepted is written and read again"),
    ("declaration", "up to three files of `/etc/tccc`"),
    ("scenario", "scenarios, for a report and for each engine"),
    ("path", "rate traces, packet numbers, words for loss, reordering and ACKs"),
    ("words", "quantities, tunables, limits, ports, prefixes, filters of a page, tokens, text for a terminal"),
    ("results", "result directories, up to reports as text, HTML, JSON and CSV"),
    ("recording", "recordings, up to what `top` and `trace` make of them"),
    ("records", "records in `/run/tccc`, and incidents"),
    ("object", "object files of others: ELF, BTF, tunables, private state"),
    ("types", "type information (BTF) of kernels and modules"),
    ("ns2", "what ns-2 wrote"),
    ("iperf3", "what iperf3 printed at both ends"),
    ("http", "bytes of a client, sent to the server over loopback"),
    ("option", "TCP options in packets to `bpf/option/pair_delta.bpf.c`, with sanitizers"),
];
