//! Compares requests with C, and checks what a guest does not support.

use proptest::prelude::*;

use super::super::bytes::assert_same_in_c;
use super::layout::LAYOUT;
use super::*;
use crate::path::loss::LossPositions;
use crate::path::rate_trace::RateTrace;
use shared::units::BitsPerSec;

fn config(direction: Direction) -> LinkConfig {
    LinkConfig { directions: [direction, Direction::default()], mtu: 1500 }
}

fn outlet<'a>(device: &'a str, config: &'a LinkConfig) -> Outlet<'a> {
    Outlet { device, config, direction: 0, host_delay: Duration::ZERO, sample: Duration::ZERO }
}

#[test]
fn structs_and_constants_are_the_same_in_c() {
    let constants = [
        ("TCCC_DEVICE_NAME", DEVICE_NAME as u64),
        ("TCCC_LINK_REQUEST_MAX", REQUEST_BYTES_MAX),
        ("TCCC_LOSS_INDEPENDENT", layout::LOSS_INDEPENDENT),
        ("TCCC_LOSS_STATES", layout::LOSS_STATES),
        ("TCCC_LOSS_POSITIONS", layout::LOSS_POSITIONS),
        ("TCCC_LIMIT_PKTS", LIMIT_PKTS),
        ("TCCC_LIMIT_BYTES", LIMIT_BYTES),
    ];
    assert_same_in_c(&[LAYOUT, &constants.map(|(name, value)| (name, value as usize))].concat());
    let bytes = LinkRequest { loss_count: 7, opportunity_count: 9, ..LinkRequest::default() }.to_bytes();
    assert_eq!(bytes.len(), size_of::<LinkRequest>(), "no padding");
    let at = [std::mem::offset_of!(LinkRequest, loss_count), std::mem::offset_of!(LinkRequest, opportunity_count)];
    assert_eq!(at.map(|at| bytes[at]), [7, 9]);
    let mut rest = &bytes[..];
    assert_eq!(LinkRequest::take_from(&mut rest).map(|request| request.loss_count), Some(7));
    assert!(rest.is_empty() && LinkRequest::take_from(&mut &bytes[1..]).is_none());
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
    let what = "loss: its numbers take 24000000 bytes, a guest of virtual time allows 16777216";
    assert_eq!(refused(Direction { loss: loss.clone(), ..Direction::default() }), what);
    let change = DirectionChange { loss: Some(loss), ..DirectionChange::default() };
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
    /// A number is below a share if and only if it is below the share's threshold.
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
