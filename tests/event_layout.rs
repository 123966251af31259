//! The event's bytes: `src/trace/event.rs` and `bpf/include/trace_event.h` say the same.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use common::needs;
use tccc::trace::event::{EVENT_BYTES, EVENT_VERSION, PRIVATE_BYTES, offset};

/// Every field's name in C with its offset in Rust.
macro_rules! offsets {
    ($($field:ident $constant:ident),+ $(,)?) => { [$((stringify!($field), offset::$constant)),+] };
}

#[test]
fn event_layout_is_that_of_the_header() {
    needs!(clang);
    let fields = offsets!(
        time_ns TIME_NS, socket SOCKET, cgroup CGROUP, pacing_rate PACING_RATE, bytes_acked BYTES_ACKED,
        bytes_received BYTES_RECEIVED, netns NETNS, cwnd_pkts CWND_PKTS, ssthresh_pkts SSTHRESH_PKTS, srtt_us SRTT_US,
        min_rtt_us MIN_RTT_US, rtt_us RTT_US, rto_us RTO_US, inflight_pkts INFLIGHT_PKTS, delivered_pkts DELIVERED_PKTS,
        delivered_ce_pkts DELIVERED_CE_PKTS, lost_pkts LOST_PKTS, retrans_pkts RETRANS_PKTS, mss_bytes MSS_BYTES,
        uid UID, family FAMILY, local_port LOCAL_PORT, remote_port REMOTE_PORT, kind KIND, ca_state CA_STATE,
        prior_ca_state PRIOR_CA_STATE, tcp_state TCP_STATE, app_limited APP_LIMITED, local_addr LOCAL_ADDR,
        remote_addr REMOTE_ADDR, algorithm ALGORITHM, private_state PRIVATE_STATE,
    );
    let mut expected: BTreeMap<String, usize> = fields.map(|(name, at)| (name.to_owned(), at)).into();
    expected.insert("whole".to_owned(), EVENT_BYTES);
    expected.insert("version".to_owned(), EVENT_VERSION as usize);
    expected.insert("private".to_owned(), PRIVATE_BYTES);
    assert_eq!(layout_in_c(&fields.map(|(name, _)| name)), expected);
}

/// Compiles and runs a program that prints what the header says.
fn layout_in_c(fields: &[&str]) -> BTreeMap<String, usize> {
    let mut program = String::from("#include <stddef.h>\n#include <stdio.h>\n#include <linux/types.h>\n");
    program += "#include \"trace_event.h\"\nint main(void) {\n";
    for field in fields {
        writeln!(program, "printf(\"{field} %zu\\n\", offsetof(struct tccc_event, {field}));").unwrap();
    }
    for (name, value) in [
        ("whole", "sizeof(struct tccc_event)"),
        ("version", "(size_t)TCCC_EVENT_VERSION"),
        ("private", "(size_t)TCCC_PRIVATE_BYTES"),
    ] {
        writeln!(program, "printf(\"{name} %zu\\n\", {value});").unwrap();
    }
    program += "return 0; }\n";
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/bpf/include");
    let compiled = Command::new("clang").args([include, "-o"]).arg(&binary).arg(&source).status().unwrap();
    assert!(compiled.success());
    let printed = String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap();
    let pair = |line: &str| line.split_once(' ').map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    printed.lines().filter_map(pair).collect()
}
