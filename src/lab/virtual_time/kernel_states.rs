//! Private states of the algorithms in the guest's kernel, which has no type information.

use std::ops::Range;

use shared::catalog::{FieldKind, StateField, StateLayout};

/// Bits of the words that hold bit fields.
const WORD_BITS: u32 = 32;

/// Fields of the kernel's structs, in their order: `name:4` has 4 bytes, `name:3b` has 3 bits, and `name:2x5` is an array
/// of 5 numbers with 2 bytes each.
///
/// Source: net/ipv4/tcp_bbr.c, tcp_cubic.c, tcp_dctcp.c and tcp_vegas.h of Linux 6.12. A test compares them with the
/// types of the kernel that it runs on.
pub const STATES: [(&str, &str); 4] = [
    (
        "bbr",
        "min_rtt_us:4 min_rtt_stamp:4 probe_rtt_done_stamp:4 bw.s[0].t:4 bw.s[0].v:4 bw.s[1].t:4 bw.s[1].v:4 \
         bw.s[2].t:4 bw.s[2].v:4 rtt_cnt:4 next_rtt_delivered:4 cycle_mstamp:8 mode:3b prev_ca_state:3b \
         packet_conservation:1b round_start:1b idle_restart:1b probe_rtt_round_done:1b unused:13b lt_is_sampling:1b \
         lt_rtt_cnt:7b lt_use_bw:1b lt_bw:4 lt_last_delivered:4 lt_last_stamp:4 lt_last_lost:4 pacing_gain:10b \
         cwnd_gain:10b full_bw_reached:1b full_bw_cnt:2b cycle_idx:3b has_seen_rtt:1b unused_b:5b prior_cwnd:4 \
         full_bw:4 ack_epoch_mstamp:8 extra_acked:2x2 ack_epoch_acked:20b extra_acked_win_rtts:5b \
         extra_acked_win_idx:1b unused_c:6b",
    ),
    (
        "cubic",
        "cnt:4 last_max_cwnd:4 last_cwnd:4 last_time:4 bic_origin_point:4 bic_K:4 delay_min:4 epoch_start:4 ack_cnt:4 \
         tcp_cwnd:4 unused:2 sample_cnt:1 found:1 round_start:4 end_seq:4 last_ack:4 curr_rtt:4",
    ),
    ("dctcp", "old_delivered:4 old_delivered_ce:4 prior_rcv_nxt:4 dctcp_alpha:4 next_seq:4 ce_state:4 loss_cwnd:4"),
    ("vegas", "beg_snd_nxt:4 beg_snd_una:4 beg_snd_cwnd:4 doing_vegas_now:1 cntRTT:2 minRTT:4 baseRTT:4"),
];

/// None: the table does not have the algorithm.
pub fn layout(algorithm: &str) -> Option<StateLayout> {
    let (_, fields) = STATES.iter().find(|(name, _)| *name == algorithm)?;
    let mut bits = 0..0;
    let fields: Option<Vec<StateField>> = fields.split_whitespace().map(|field| placed(field, &mut bits)).collect();
    let fields = fields?;
    let widest = fields.iter().map(|field| element_size(field) as u32 * 8).max()?;
    Some(StateLayout { size: bits.end.next_multiple_of(widest) as usize / 8, phases: Vec::new(), fields })
}

/// The next field after `bits`, the bits of the one before it.
fn placed(field: &str, bits: &mut Range<u32>) -> Option<StateField> {
    let (name, kind) = field.split_once(':')?;
    let number = |text: &str| text.parse::<u32>().ok();
    if let Some(count) = kind.strip_suffix('b') {
        let count = number(count)?;
        let begin = bits.end;
        let is_over = begin / WORD_BITS != (begin + count - 1) / WORD_BITS;
        let begin = if is_over { begin.next_multiple_of(WORD_BITS) } else { begin };
        *bits = begin..begin + count;
        let first = begin % 8;
        let size = (first + count).div_ceil(8) as usize;
        let (offset, kind) = (begin as usize / 8, FieldKind::Unsigned);
        return Some(StateField { name: name.to_owned(), offset, size, bits: Some((first, count)), kind });
    }
    let (size, count) = match kind.split_once('x') {
        Some((size, count)) => (number(size)?, Some(number(count)?)),
        None => (number(kind)?, None),
    };
    let begin = bits.end.next_multiple_of(8 * size);
    *bits = begin..begin + 8 * size * count.unwrap_or(1);
    let kind = match count {
        Some(_) => FieldKind::Array { element_size: size as usize, element: Box::new(FieldKind::Unsigned) },
        None => FieldKind::Unsigned,
    };
    let (offset, size) = (begin as usize / 8, (size * count.unwrap_or(1)) as usize);
    Some(StateField { name: name.to_owned(), offset, size, bits: None, kind })
}

/// Alignment of a field.
fn element_size(field: &StateField) -> usize {
    match &field.kind {
        _ if field.bits.is_some() => WORD_BITS as usize / 8,
        FieldKind::Array { element_size, .. } => *element_size,
        _ => field.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_a_c_compiler_puts_them() {
        let vegas = layout("vegas").unwrap();
        let offsets: Vec<usize> = vegas.fields.iter().map(|field| field.offset).collect();
        assert_eq!((offsets, vegas.size), (vec![0, 4, 8, 12, 14, 16, 20], 24));
        let bbr = layout("bbr").unwrap();
        let of = |name: &str| bbr.fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!((of("cycle_mstamp").offset, of("mode").offset, bbr.size), (48, 56, 104));
        assert_eq!(of("lt_rtt_cnt").bits, Some((0, 7)));
        assert_eq!(layout("cdg"), None);
    }
}
