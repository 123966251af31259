//! Private states of the algorithms in the guest's kernel, which has no type information.

use std::ops::Range;

use shared::catalog::{FieldKind, StateField, StateLayout};

/// Bits of the words that hold bit fields.
const WORD_BITS: u32 = 32;

/// Fields of the kernel's structs, in their order: `name:4` has 4 bytes, `name:3b` has 3 bits, and `name:2x5` is an array
/// of 5 numbers with 2 bytes each. `name:bool` has 1 byte.
///
/// Source: net/ipv4/tcp_NAME.c and tcp_vegas.h of Linux 6.12. A test compares them with the types of the kernel that it
/// runs on.
pub const STATES: [(&str, &str); 13] = [
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
    ("bic", "cnt:4 last_max_cwnd:4 last_cwnd:4 last_time:4 epoch_start:4 delayed_ack:4"),
    (
        "dctcp",
        "old_delivered:4 old_delivered_ce:4 prior_rcv_nxt:4 dctcp_alpha:4 next_seq:4 ce_state:4 loss_cwnd:4 \
         plb.consec_cong_rounds:5b plb.unused:3b plb.pause_until:4",
    ),
    ("highspeed", "ai:4"),
    (
        "htcp",
        "alpha:4 beta:1 modeswitch:1 pkts_acked:2 packetcount:4 minRTT:4 maxRTT:4 last_cong:4 undo_last_cong:4 \
         undo_maxRTT:4 undo_old_maxB:4 minB:4 maxB:4 old_maxB:4 Bi:4 lasttime:4",
    ),
    ("hybla", "hybla_en:bool snd_cwnd_cents:4 rho:4 rho2:4 rho_3ls:4 rho2_7ls:4 minrtt_us:4"),
    ("illinois", "sum_rtt:8 cnt_rtt:2 base_rtt:4 max_rtt:4 end_seq:4 alpha:4 beta:4 acked:2 rtt_above:1 rtt_low:1"),
    (
        "lp",
        "flag:4 sowd:4 owd_min:4 owd_max:4 owd_max_rsv:4 remote_hz:4 remote_ref_time:4 local_ref_time:4 last_drop:4 \
         inference:4",
    ),
    ("vegas", "beg_snd_nxt:4 beg_snd_una:4 beg_snd_cwnd:4 doing_vegas_now:1 cntRTT:2 minRTT:4 baseRTT:4"),
    ("veno", "doing_veno_now:1 cntrtt:2 minrtt:4 basertt:4 inc:4 diff:4"),
    (
        "westwood",
        "bw_ns_est:4 bw_est:4 rtt_win_sx:4 bk:4 snd_una:4 cumul_ack:4 accounted:4 rtt:4 rtt_min:4 first_ack:1 \
         reset_rtt_min:1",
    ),
    (
        "yeah",
        "vegas.beg_snd_nxt:4 vegas.beg_snd_una:4 vegas.beg_snd_cwnd:4 vegas.doing_vegas_now:1 vegas.cntRTT:2 \
         vegas.minRTT:4 vegas.baseRTT:4 lastQ:4 doing_reno_now:4 reno_count:4 fast_count:4",
    ),
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
        None if kind == "bool" => (1, None),
        None => (number(kind)?, None),
    };
    let begin = bits.end.next_multiple_of(8 * size);
    *bits = begin..begin + 8 * size * count.unwrap_or(1);
    let kind = match count {
        Some(_) => FieldKind::Array { element_size: size as usize, element: Box::new(FieldKind::Unsigned) },
        None if kind == "bool" => FieldKind::Bool,
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
    use shared::event::PRIVATE_BYTES;

    #[test]
    fn fields_lie_where_a_c_compiler_puts_them() {
        let vegas = layout("vegas").unwrap();
        let offsets: Vec<usize> = vegas.fields.iter().map(|field| field.offset).collect();
        assert_eq!((offsets, vegas.size), (vec![0, 4, 8, 12, 14, 16, 20], 24));
        let bbr = layout("bbr").unwrap();
        let of = |name: &str| bbr.fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!((of("cycle_mstamp").offset, of("mode").offset, bbr.size), (48, 56, 104));
        assert_eq!(of("lt_rtt_cnt").bits, Some((0, 7)));
        let sizes = ["dctcp", "htcp", "hybla", "illinois", "westwood"].map(|name| layout(name).unwrap().size);
        assert_eq!(sizes, [36, 56, 28, 40, 40]);
        assert!(STATES.iter().all(|(name, _)| layout(name).is_some_and(|it| it.size <= PRIVATE_BYTES)));
        assert_eq!(layout("cdg"), None);
    }
}
