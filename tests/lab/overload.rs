//! The same arrivals at the same queue disciplines: in virtual time, and over a netem link.
//!
//! Datagrams of full size come at equal intervals, a fifth faster than the link sends them. What a discipline drops then
//! depends on its algorithm and parameters, hardly on anything else.

use std::time::Duration;

pub const RATE_MBIT: f64 = 10.0;
pub const DELAY: Duration = Duration::from_millis(10);
/// 12 Mbit/s with packets of 1500 bytes.
pub const INTERVAL: Duration = Duration::from_millis(1);
pub const ARRIVALS: u64 = 6_000;
pub const QUEUE_PKTS: u32 = 200;
/// Disciplines, and how many of these datagrams they drop at least and at most.
pub const DROPS: [(&str, [u64; 2]); 6] = [
    ("pfifo", [780, 830]),
    ("codel", [960, 1_010]),
    ("fq_codel", [915, 960]),
    ("pie", [940, 1_040]),
    ("red min 30kB max 90kB probability 10%", [910, 980]),
    ("cake besteffort", [945, 1_000]),
];
