//! The options of a queue discipline as the kernel reads them, in linux/pkt_sched.h.

use super::words::RED_ADAPTIVE;
use super::{Discipline, DisciplineKind};
use crate::path::QueueLimit;
use shared::kernel::netlink::push_attribute as push;
use shared::units::BitsPerSec;

/// What a discipline depends on.
#[derive(Debug, Clone, Copy)]
pub struct LinkFacts {
    pub rate: BitsPerSec,
    pub limit: QueueLimit,
    /// Bytes.
    pub mtu: u32,
}

const TCA_CAKE_BASE_RATE64: u16 = 2;
const TCA_CAKE_RTT: u16 = 7;
const TCA_CAKE_TARGET: u16 = 8;
const TCA_FQ_RATE_ENABLE: u16 = 5;
const TCA_FQ_FLOW_MAX_RATE: u16 = 7;
/// From this attribute on, those of dualpi2 are single bytes.
const DUALPI2_BYTES: u16 = 10;
const TCA_RED_PARMS: u16 = 1;
const TCA_RED_STAB: u16 = 2;
const TCA_RED_MAX_P: u16 = 3;
/// Bits of `tc_red_qopt.flags`, and the words that set them.
const RED_FLAGS: [(&str, u8); 3] = [("ecn", 1), ("harddrop", 2), (RED_ADAPTIVE, 4)];
/// Defaults of tc-red(8).
const RED_AVPKT: u64 = 1000;
const RED_PROBABILITY: f64 = 0.02;
/// Ticks of `tc` in a microsecond (/proc/net/psched). tc-red(8) computes the decay of an idle queue in ticks.
const TICKS_IN_US: f64 = 15.625;

/// The value of TCA_OPTIONS.
///
/// # Errors
/// Parameters of red that have no averaging weight.
pub fn attributes(discipline: &Discipline, link: &LinkFacts) -> Result<Vec<u8>, String> {
    let limit_pkts = link.limit.full_pkts(link.mtu);
    let limit = match discipline.kind {
        DisciplineKind::Pfifo => return Ok(limit_pkts.to_ne_bytes().to_vec()), // `struct tc_fifo_qopt`
        DisciplineKind::Red => return red(discipline, link),
        DisciplineKind::Cake => None,
        DisciplineKind::Codel | DisciplineKind::FqCodel | DisciplineKind::Pie => Some(2),
        DisciplineKind::FqPie | DisciplineKind::Fq | DisciplineKind::Dualpi2 => Some(1),
    };
    let mut bytes = Vec::new();
    if let Some(attribute) = limit {
        push(&mut bytes, attribute, &limit_pkts.to_ne_bytes());
    }
    for setting in &discipline.settings {
        let (attribute, value) = (setting.word.sets, setting.value);
        match (discipline.kind, attribute) {
            (DisciplineKind::Cake, TCA_CAKE_BASE_RATE64) => push(&mut bytes, attribute, &(value / 8).to_ne_bytes()),
            // As tc-cake(8) does.
            (DisciplineKind::Cake, TCA_CAKE_RTT) => {
                push(&mut bytes, attribute, &(value as u32).to_ne_bytes());
                push(&mut bytes, TCA_CAKE_TARGET, &((value / 20).max(1) as u32).to_ne_bytes());
            }
            (DisciplineKind::Fq, TCA_FQ_FLOW_MAX_RATE) => {
                push(&mut bytes, attribute, &u32::try_from(value / 8).unwrap_or(u32::MAX).to_ne_bytes());
            }
            (DisciplineKind::Dualpi2, DUALPI2_BYTES..) => push(&mut bytes, attribute, &[value as u8]),
            _ => push(&mut bytes, attribute, &(value as u32).to_ne_bytes()),
        }
    }
    Ok(bytes)
}

impl Discipline {
    /// Its options beside senders on this host. `fq` would pace their sockets and turn off their own pacing. A router does
    /// neither.
    pub fn without_pacing(&self, mut options: Vec<u8>) -> Vec<u8> {
        if self.kind == DisciplineKind::Fq {
            push(&mut options, TCA_FQ_RATE_ENABLE, &0u32.to_ne_bytes());
        }
        options
    }
}

/// What tc-red(8) computes: `struct tc_red_qopt`, a table of decays by idle time, and the largest probability.
fn red(discipline: &Discipline, link: &LinkFacts) -> Result<Vec<u8>, String> {
    let value = |name| discipline.value(name);
    let limit = link.limit.bytes(link.mtu);
    let given = value("min").map(|min| min * 3).unwrap_or(limit / 4);
    let max = value("max").unwrap_or(given);
    let min = value("min").unwrap_or(max / 3);
    let packet = value("avpkt").unwrap_or(RED_AVPKT);
    let burst = value("burst").unwrap_or((2 * min + max) / (3 * packet));
    let probability = value("probability").map_or(RED_PROBABILITY, |part| part as f64 / 2f64.powi(32));
    if !(min < max && max <= limit) {
        return Err(format!("min {min}B, max {max}B, queue {limit}B: expected each less than the next"));
    }
    let (min, max, packet, burst) = (min as f64, max as f64, packet as f64, burst as f64);
    let weight = weight(burst + 1.0 - min / packet, burst)
        .ok_or_else(|| format!("burst {burst}: no weight fits it with min {min}B and avpkt {packet}B"))?;
    // `red_check_params()` in include/net/red.h: an average is a number of 32 bits, shifted by the weight.
    let bits = |bytes: f64| 32 - (bytes as u32).leading_zeros() as i32;
    if bits(max) + weight >= 32 {
        return Err(format!(
            "max {max}B and burst {burst}: the kernel takes less than 2^{} bytes with it",
            31 - weight
        ));
    }
    let too_small = || format!("probability {probability}: too small between min {min}B and max {max}B");
    let slope = (0..32).find(|n| probability / (max - min) * 2f64.powi(*n) > 1.0).ok_or_else(too_small)?;
    let packet_ticks = (packet * 8e6 / link.rate.0 as f64 * TICKS_IN_US).ceil();
    let decay = -(1.0 - 0.5f64.powi(weight)).ln() / packet_ticks;
    const DECAY_MAX: f64 = 31.0;
    let cell = (0..32)
        .find(|n| DECAY_MAX / decay / 2f64.powi(*n) < 512.0)
        .ok_or_else(|| format!("burst {burst}: too long at this rate"))?;
    let mut table = [0u8; 256];
    for (number, shift) in table.iter_mut().enumerate().skip(1) {
        *shift = (number as f64 * 2f64.powi(cell) * decay).min(DECAY_MAX) as u8;
    }
    table[255] = DECAY_MAX as u8;
    let flags = RED_FLAGS.iter().filter(|(name, _)| value(name).is_some()).fold(0, |flags, (_, bit)| flags | bit);
    let sizes = [limit as u32, min as u32, max as u32];
    let mut fixed: Vec<u8> = sizes.iter().flat_map(|size| size.to_ne_bytes()).collect();
    fixed.extend([weight as u8, slope as u8, cell as u8, flags]);
    let mut bytes = Vec::new();
    push(&mut bytes, TCA_RED_PARMS, &fixed);
    push(&mut bytes, TCA_RED_STAB, &table);
    push(&mut bytes, TCA_RED_MAX_P, &((probability * 2f64.powi(32)) as u32).to_ne_bytes());
    Ok(bytes)
}

/// The logarithm of the averaging weight: the least that lets the burst pass. `room`: packets of the burst above `min`.
fn weight(room: f64, burst: f64) -> Option<i32> {
    let is_enough = |n: &i32| room <= (1.0 - (1.0 - 0.5f64.powi(*n)).powf(burst)) / 0.5f64.powi(*n);
    (room >= 1.0).then(|| (1..32).find(is_enough)).flatten()
}
