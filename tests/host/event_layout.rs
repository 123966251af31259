//! The event struct in C and in Rust: the same bytes.

use std::fmt::Write;

use tccc::trace::event::{EVENT_BYTES, EVENT_VERSION, PRIVATE_BYTES, offset};

use crate::compile;

macro_rules! fields {
    ($($field:ident $offset:ident),* $(,)?) => { [$((stringify!($field), offset::$offset)),*] };
}

/// Every field of the C struct with what Rust believes of it.
const FIELDS: [(&str, usize); 32] = fields! {
    time_ns TIME_NS, socket SOCKET, cgroup CGROUP, pacing_rate PACING_RATE, bytes_acked BYTES_ACKED,
    bytes_received BYTES_RECEIVED, netns NETNS, cwnd_pkts CWND_PKTS, ssthresh_pkts SSTHRESH_PKTS, srtt_us SRTT_US,
    min_rtt_us MIN_RTT_US, rtt_us RTT_US, rto_us RTO_US, inflight_pkts INFLIGHT_PKTS, delivered_pkts DELIVERED_PKTS,
    delivered_ce_pkts DELIVERED_CE_PKTS, lost_pkts LOST_PKTS, retrans_pkts RETRANS_PKTS, mss_bytes MSS_BYTES, uid UID,
    family FAMILY, local_port LOCAL_PORT, remote_port REMOTE_PORT, kind KIND, ca_state CA_STATE,
    prior_ca_state PRIOR_CA_STATE, tcp_state TCP_STATE, app_limited APP_LIMITED, local_addr LOCAL_ADDR,
    remote_addr REMOTE_ADDR, algorithm ALGORITHM, private_state PRIVATE_STATE,
};

/// What the C compiler says: offset and size of each field in turn, of the padding, then the struct's size, version and private bytes.
fn numbers() -> Vec<u64> {
    let mut source = String::from("#include <stddef.h>\n#include <stdint.h>\n");
    for bits in [8, 16, 32, 64] {
        writeln!(source, "typedef uint{bits}_t __u{bits};").unwrap();
    }
    source += "#include \"trace_event.h\"\nconst uint64_t numbers[] = {\n";
    for field in FIELDS.iter().map(|(field, _)| *field).chain(["pad"]) {
        let size = format!("sizeof(((struct tccc_event *)0)->{field})");
        writeln!(source, "offsetof(struct tccc_event, {field}), {size},").unwrap();
    }
    source += "sizeof(struct tccc_event), TCCC_EVENT_VERSION, TCCC_PRIVATE_BYTES};\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout.c");
    std::fs::write(&path, source).unwrap();
    let (_library_folder, library) = compile::library(&[&path]);
    // SAFETY: the library is data only.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    // SAFETY: the array has two numbers a field and two of the padding, and three more.
    unsafe {
        let numbers = library.get::<*const u64>("numbers").unwrap();
        std::slice::from_raw_parts(*numbers, 2 * FIELDS.len() + 5).to_vec()
    }
}

#[test]
fn event_has_the_same_bytes_in_c_and_rust() {
    let numbers = numbers();
    let mut ends = Vec::new();
    for (index, in_c) in numbers[..2 * FIELDS.len() + 2].chunks_exact(2).enumerate() {
        if let Some((field, in_rust)) = FIELDS.get(index) {
            assert_eq!(*in_rust as u64, in_c[0], "offset of {field}");
        }
        ends.push((in_c[0], in_c[0] + in_c[1]));
    }
    ends.sort_unstable();
    let gap = ends.windows(2).find(|pair| pair[0].1 != pair[1].0);
    assert_eq!(gap, None, "a field of struct tccc_event is missing from this test");
    let sizes = &numbers[2 * FIELDS.len() + 2..];
    assert_eq!(sizes, [EVENT_BYTES as u64, EVENT_VERSION.into(), PRIVATE_BYTES as u64]);
    assert_eq!(ends.last().unwrap().1, EVENT_BYTES as u64, "the last field ends the struct");
    assert_eq!(PRIVATE_BYTES, tccc::catalog::STATE_BYTES_MAX);
}
