//! Requests of links, and their parts.

use proptest::prelude::*;

use super::*;
use crate::path::loss::LossPositions;

#[test]
fn device_without_a_name_or_with_a_long_one_is_refused() {
    let config = LinkConfig { directions: [Direction::default(), Direction::default()], mtu: 1500 };
    let bytes = |device| {
        let (host_delay, sample) = (Duration::ZERO, Duration::ZERO);
        DirectionRequest { device, config: &config, direction: 0, host_delay, sample }.bytes()
    };
    assert!(bytes(Some("veth0")).is_ok() && bytes(None).is_ok());
    for device in ["", "sixteen-letters-"] {
        assert!(bytes(Some(device)).unwrap_err().to_string().contains("1 to 15 characters"));
    }
}

/// A link with many changes that named a large file once had the file in its request for each of them.
#[test]
fn losses_that_share_a_file_have_its_positions_once() {
    let list = |positions: &[u64]| {
        LossModel::Positions(LossPositions {
            name: "x".into(),
            count: 0,
            sha256: String::new(),
            positions: positions.into(),
        })
    };
    let (shared, other) = (list(&[3, 5, 8]), list(&[4]));
    let again = shared.clone();
    let mut positions = PositionLists::default();
    let places = [&shared, &other, &again, &shared].map(|model| {
        let Loss { first_position, positions, .. } = loss(model, &mut positions);
        (first_position, positions)
    });
    assert_eq!(places, [(0, 3), (3, 1), (0, 3), (0, 3)]);
    assert_eq!(positions.all, [3, 5, 8, 4]);
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
