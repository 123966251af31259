//! How many packets a queue discipline marked, from its own statistics in linux/pkt_sched.h.

use rtnetlink::packet_core::NlasIterator;

use crate::path::discipline::DisciplineKind;

/// Attributes of cake's statistics, and of each of its tins.
const TCA_CAKE_STATS_TIN_STATS: u16 = 10;
const TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS: u16 = 8;
/// Attributes hold attributes, or have the sender's byte order.
const FLAGS: u16 = 0xc000;
/// `struct tc_fq_qd_stats`: packets above `ce_threshold`, a 64-bit number.
const FQ_MARKS_AT: usize = 80;

/// The packets that it marked since it was created.
pub fn marked_pkts(kind: DisciplineKind, statistics: &[u8]) -> u64 {
    // The places of 32-bit counters.
    let places: &[usize] = match kind {
        DisciplineKind::Pfifo => &[],
        DisciplineKind::Codel => &[24, 32],   // tc_codel_xstats: ecn_mark, ce_mark
        DisciplineKind::FqCodel => &[12, 28], // tc_fq_codel_xstats, after its type: ecn_mark, ce_mark
        DisciplineKind::Pie => &[36],         // tc_pie_xstats: ecn_mark
        DisciplineKind::FqPie => &[16],       // tc_fq_pie_xstats: ecn_mark
        DisciplineKind::Red => &[12],         // tc_red_xstats: marked
        DisciplineKind::Dualpi2 => &[24],     // tc_dualpi2_xstats: ecn_mark, of which step_marks are a part
        DisciplineKind::Fq => return read(statistics, FQ_MARKS_AT).map_or(0, u64::from_ne_bytes),
        DisciplineKind::Cake => return marked_by_tins(statistics),
    };
    places.iter().filter_map(|at| read(statistics, *at)).map(|bytes| u64::from(u32::from_ne_bytes(bytes))).sum()
}

/// None: an older kernel's statistics end before.
fn read<const N: usize>(statistics: &[u8], at: usize) -> Option<[u8; N]> {
    statistics.get(at..at + N)?.try_into().ok()
}

fn marked_by_tins(statistics: &[u8]) -> u64 {
    let tins = inside(statistics).filter(|(kind, _)| *kind == TCA_CAKE_STATS_TIN_STATS);
    let tins: Vec<Vec<u8>> = tins.flat_map(|(_, tins)| inside(&tins).map(|(_, tin)| tin).collect::<Vec<_>>()).collect();
    let counts = tins.iter().flat_map(|tin| inside(tin).collect::<Vec<_>>());
    counts
        .filter(|(kind, _)| *kind == TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS)
        .filter_map(|(_, count)| read(&count, 0))
        .map(|bytes| u64::from(u32::from_ne_bytes(bytes)))
        .sum()
}

/// The attributes in an attribute: kind and value.
fn inside(value: &[u8]) -> impl Iterator<Item = (u16, Vec<u8>)> + '_ {
    NlasIterator::new(value).flatten().map(|attribute| {
        let kind = attribute.kind() & !FLAGS;
        (kind, attribute.value().to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::kernel::netlink::push_attribute as push;

    /// Statistics whose 32-bit words are their own numbers.
    fn words(count: u32) -> Vec<u8> {
        (0..count).flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn marks_are_at_the_places_of_the_kernels_structs() {
        for (kind, marks) in [
            (DisciplineKind::Pfifo, 0),
            (DisciplineKind::Codel, 6 + 8),
            (DisciplineKind::FqCodel, 3 + 7),
            (DisciplineKind::Pie, 9),
            (DisciplineKind::FqPie, 4),
            (DisciplineKind::Red, 3),
            (DisciplineKind::Dualpi2, 6),
        ] {
            assert_eq!(marked_pkts(kind, &words(12)), marks, "{kind}");
            assert_eq!(marked_pkts(kind, &[]), 0, "{kind} without statistics");
        }
        let counted = [vec![0; FQ_MARKS_AT], 5u64.to_ne_bytes().to_vec()].concat();
        assert_eq!(marked_pkts(DisciplineKind::Fq, &counted), 5);
        assert_eq!(marked_pkts(DisciplineKind::Fq, &counted[..FQ_MARKS_AT]), 0, "before Linux 5.7");
    }

    #[test]
    fn marks_of_cake_are_those_of_all_tins() {
        const NESTED: u16 = 0x8000;
        let mut tins = Vec::new();
        for (number, marked) in [(1, 4u32), (2, 7)] {
            let mut tin = Vec::new();
            push(&mut tin, TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS - 1, &[9; 4]);
            push(&mut tin, TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS, &marked.to_ne_bytes());
            push(&mut tins, number | NESTED, &tin);
        }
        let mut statistics = Vec::new();
        push(&mut statistics, TCA_CAKE_STATS_TIN_STATS - 1, &[1; 4]);
        push(&mut statistics, TCA_CAKE_STATS_TIN_STATS | NESTED, &tins);
        assert_eq!(marked_pkts(DisciplineKind::Cake, &statistics), 11);
        assert_eq!(marked_pkts(DisciplineKind::Cake, &[0; 27]), 0, "statistics that are cut off");
    }
}
