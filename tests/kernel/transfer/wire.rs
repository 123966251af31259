//! A wire that loses, marks and delays data packets as the test demands. It can also drop or hold back everything.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::*;

const DELAY: Duration = Duration::from_millis(5);
/// Extra delay of a late packet. So many packets overtake it that the sender considers it lost.
const LATE: Duration = Duration::from_millis(15);
/// Longer packets carry data. Handshakes and ACKs are always carried.
const DATA_BYTES: usize = 200;

/// What the wire does to packets from its first end. At first, it only delays them.
#[derive(Default)]
pub struct WireConditions {
    /// Share of data packets lost, 1/1000.
    pub lost_permille: AtomicU32,
    /// Every n-th data packet arrives late.
    pub late_every: AtomicU32,
    /// Every n-th data packet gets a congestion mark, if it can carry one.
    pub marked_every: AtomicU32,
    /// All packets from the first end are lost. Packets on their way arrive and are acknowledged.
    pub is_dark: AtomicBool,
    /// While this is set, no packet arrives at either end.
    pub is_held: AtomicBool,
}

pub struct AdjustableWire {
    pub conditions: Arc<WireConditions>,
    _wire: Wire,
}

impl AdjustableWire {
    pub fn between(sides: &[Netns; 2], prefix: &str) -> Self {
        let conditions = Arc::new(WireConditions::default());
        let [handled, held] = [(); 2].map(|()| Arc::clone(&conditions));
        let wire = Wire::between(sides, prefix, handle(handled), move || held.is_held.load(Relaxed));
        AdjustableWire { conditions, _wire: wire }
    }
}

fn handle(conditions: Arc<WireConditions>) -> Handle {
    let (mut data_packets, mut dice) = (0_u32, Pcg32::new(1, 0));
    Box::new(move |from, mut packet| {
        let mut delay = DELAY;
        let mut is_lost = from == 0 && conditions.is_dark.load(Relaxed);
        if from == 0 && packet.len() > DATA_BYTES {
            data_packets += 1;
            let is_turn = |every: &AtomicU32| data_packets.checked_rem(every.load(Relaxed)) == Some(0);
            if is_turn(&conditions.marked_every) {
                mark(&mut packet);
            }
            if is_turn(&conditions.late_every) {
                delay += LATE;
            }
            is_lost |= dice.next_u32() % 1000 < conditions.lost_permille.load(Relaxed);
        }
        if is_lost { Vec::new() } else { vec![(delay, packet)] }
    })
}

/// Sets Congestion Experienced in an IPv4 header if the sender supports ECN: RFC 3168, section 5.
fn mark(packet: &mut [u8]) {
    const ECN: u8 = 0b11;
    let header = usize::from(packet[0] & 15) * 4;
    if packet[0] >> 4 != 4 || packet[1] & ECN == 0 {
        return;
    }
    packet[1] |= ECN;
    set_header_checksum(&mut packet[..header]);
}
