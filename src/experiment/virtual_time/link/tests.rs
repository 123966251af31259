//! The request's bytes against C, and what a guest cannot have.

use std::fmt::Write;

use proptest::prelude::*;

use super::layout::{FIELDS, SIZES};
use super::*;
use crate::experiment::virtual_time::compile;
use crate::path::loss::LossPositions;
use crate::path::rate_trace::RateTrace;
use crate::units::BitsPerSec;

fn config(direction: Direction) -> LinkConfig {
    LinkConfig { directions: [direction, Direction::default()], mtu: 1500 }
}

fn outlet<'a>(device: &'a str, config: &'a LinkConfig) -> Outlet<'a> {
    Outlet { device, config, direction: 0, host_delay: Duration::ZERO }
}

/// What the C compiler says: offset and size of every field, then the size of every struct, then the constants.
fn numbers_in_c() -> Vec<u64> {
    let mut source = String::from("#include <stddef.h>\n#include <stdint.h>\n");
    source += "typedef uint8_t u8;\ntypedef int32_t s32;\ntypedef uint32_t u32;\ntypedef uint64_t u64;\n";
    writeln!(source, "#include \"{}\"", compile::in_tree("bpf/guest/lab.h").display()).unwrap();
    source += "const uint64_t numbers[] = {\n";
    for (name, field, _) in FIELDS {
        writeln!(source, "offsetof(struct {name}, {field}),").unwrap();
    }
    for (name, _) in SIZES {
        writeln!(source, "sizeof(struct {name}),").unwrap();
    }
    source += "TCCC_DEVICE_NAME, TCCC_LINK_REQUEST_MAX, TCCC_LOSS_INDEPENDENT, TCCC_LOSS_STATES,\n";
    source += "TCCC_LOSS_POSITIONS, TCCC_LIMIT_PKTS, TCCC_LIMIT_BYTES};\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout.c");
    std::fs::write(&path, source).unwrap();
    let (_library_folder, library) = compile::library(&[&path]);
    // SAFETY: the library is data only.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    // SAFETY: the array has a number for each field and each struct, and seven more.
    unsafe {
        let numbers = library.get::<*const u64>("numbers").unwrap();
        std::slice::from_raw_parts(*numbers, FIELDS.len() + SIZES.len() + 7).to_vec()
    }
}

#[test]
fn structs_have_the_same_bytes_in_c_and_rust() {
    let numbers = numbers_in_c();
    let (offsets, rest) = numbers.split_at(FIELDS.len());
    for ((name, field, in_rust), in_c) in FIELDS.iter().zip(offsets) {
        assert_eq!(*in_rust as u64, *in_c, "offset of {name}.{field}");
    }
    let (sizes, constants) = rest.split_at(SIZES.len());
    for ((name, in_rust), in_c) in SIZES.iter().zip(sizes) {
        assert_eq!(*in_rust as u64, *in_c, "size of {name}");
    }
    let kinds = [layout::LOSS_INDEPENDENT, layout::LOSS_STATES, layout::LOSS_POSITIONS, LIMIT_PKTS, LIMIT_BYTES];
    assert_eq!(constants, [&[DEVICE_NAME as u64, REQUEST_BYTES_MAX][..], &kinds].concat());
}

#[test]
fn written_fields_are_where_c_reads_them() {
    let size = |wanted: &str| SIZES.iter().find(|(name, _)| *name == wanted).unwrap().1;
    let mut bytes = Vec::new();
    Request { loss_count: 7, opportunity_count: 9, ..Request::default() }.append_to(&mut bytes);
    assert_eq!(bytes.len(), size("tccc_link_request"), "no padding");
    let at = |wanted: &str| FIELDS.iter().find(|(name, field, _)| (*name, *field) == ("tccc_link_request", wanted));
    assert_eq!([bytes[at("loss_count").unwrap().2], bytes[at("opportunity_count").unwrap().2]], [7, 9]);
    let mut rest = &bytes[..];
    assert_eq!(Request::take_from(&mut rest).map(|request| request.loss_count), Some(7));
    assert!(rest.is_empty() && Request::take_from(&mut &bytes[1..]).is_none());
}

#[test]
fn counters_of_several_directions_are_read_in_order() {
    let first = Counters { received_pkts: 9, lost_pkts: 2, loss_runs: 1, first_lost_count: 2, ..Counters::default() };
    let mut bytes = Vec::new();
    first.append_to(&mut bytes);
    [5u64, 6].append_to(&mut bytes);
    Counters { sent_bytes: 40, max_queue_pkts: 3, ..Counters::default() }.append_to(&mut bytes);
    let read = counters(&bytes).unwrap();
    assert_eq!((read.len(), read[0].received_pkts, &read[0].lost_positions[..]), (2, 9, &[5, 6][..]));
    assert_eq!((read[0].loss_runs, read[1].sent_bytes, read[1].max_queue_pkts), (Some(1), 40, Some(3)));
    assert!(counters(&bytes[..bytes.len() - 1]).is_err());
}

#[test]
fn what_a_guest_cannot_have_is_refused_by_field() {
    let refused = |direction: Direction| check(&config(direction)).unwrap_err().to_string();
    let many = LossPositions::new("trace:x".into(), (1..=3_000_000).collect()).unwrap();
    let loss = LossModel::Positions(many);
    let what = "loss: its numbers take 24000000 bytes, a guest holds 16777216";
    assert_eq!(refused(Direction { loss: loss.clone(), ..Direction::default() }), what);
    let change = Change { loss: Some(loss), ..Change::default() };
    assert_eq!(refused(Direction { changes: vec![change], ..Direction::default() }), what);
    let trace = RateTrace::new("trace:x".into(), (0..5_000_000).collect()).unwrap();
    let what = refused(Direction { rate: Some(trace.mean()), trace: Some(trace), ..Direction::default() });
    assert!(what.starts_with("rate: its numbers take 20000000 bytes"), "{what}");
    let slow = Direction { rate: Some(BitsPerSec(1)), ..Direction::default() };
    assert!(refused(slow).contains("rate = "), "the ranges of every link hold too");
    assert!(check(&config(Direction::default())).is_ok());
}

#[test]
fn device_without_a_name_or_with_a_long_one_is_refused() {
    let config = config(Direction::default());
    assert!(outlet("veth0", &config).request().is_ok());
    for device in ["", "sixteen-letters-"] {
        assert!(outlet(device, &config).request().unwrap_err().to_string().contains("1 to 15 characters"));
    }
}

proptest! {
    /// A number is below a share wherever it is below the share's threshold.
    #[test]
    fn threshold_decides_as_the_share_does(share in 0.0f64..=1.0, near in -2i64..=2, scale in 0i32..60) {
        const NUMBERS: u64 = 1 << 53;
        for share in [share, share / 2f64.powi(scale), 1.0 - share / 2f64.powi(scale)] {
            let threshold = threshold(Share(share));
            let number = threshold.saturating_add_signed(near).min(NUMBERS - 1);
            prop_assert!(threshold <= NUMBERS);
            prop_assert_eq!((number as f64) * (1.0 / NUMBERS as f64) < share, number < threshold);
        }
    }
}
