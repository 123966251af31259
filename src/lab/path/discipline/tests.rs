//! Reading and showing disciplines, mistakes, and the kernel's options.

use super::*;
use crate::path::QueueLimit;
use shared::units::BitsPerSec;

const LINK: LinkFacts = LinkFacts { rate: BitsPerSec(20_000_000), limit: QueueLimit::Packets(1000), mtu: 1500 };

fn options(text: &str) -> Vec<u8> {
    attributes(&text.parse().unwrap(), &LINK).unwrap()
}

#[test]
fn words_of_tc_are_read_and_shown() {
    for text in [
        "pfifo",
        "codel target 5ms interval 100ms ecn ce_threshold 1ms",
        "fq_codel flows 64 quantum 300B noecn",
        "pie target 15ms tupdate 15ms alpha 2 beta 20 bytemode",
        "fq_pie ecn ecn_prob 10",
        "red min 30000B max 90000B avpkt 1500B probability 0.125 ecn adaptive",
        "cake bandwidth 18mbit besteffort dual-dsthost rtt 50ms ack-filter",
        "fq flow_limit 100 maxrate 2mbit",
        "dualpi2 target 15ms step_thresh 1ms coupling_factor 2 l4s_ect",
    ] {
        assert_eq!(text.parse::<Discipline>().unwrap().to_string(), text);
    }
    let spaced: Discipline = " codel  target 5000us ".parse().unwrap();
    assert_eq!(spaced.to_string(), "codel target 5ms");
}

#[test]
fn mistakes_name_the_word_and_what_is_allowed() {
    let check = |text: &str, expected: &str| {
        let refused = text.parse::<Discipline>().unwrap_err();
        assert_eq!(refused.to_string(), format!("\"{text}\": {expected}"));
    };
    let kinds = "expected one of pfifo, codel, fq_codel, pie, fq_pie, red, cake, fq, dualpi2";
    check("", kinds);
    check("fq-codel", &format!("{kinds}; did you mean fq_codel?"));
    check("sfq", &format!("{kinds}; did you mean fq?"));
    check("codel limit 100", "limit: the link's `queue` is its limit");
    check("codel tarjet 5ms", "\"tarjet\": codel has target, interval, ecn, noecn, ce_threshold");
    check("pfifo ecn", "\"ecn\": pfifo has no parameter but the link's `queue`");
    check("codel target", "target needs a time, such as 5ms");
    check("codel target 5", "target \"5\": expected a time with us, ms, s, m, h or d, such as 100ms");
    check("codel target 0ms", "target \"0ms\": expected more than 0us and at most 10s");
    check("codel target 0.5us", "target \"0.5us\": expected whole microseconds");
    check("codel target 5ms target 6ms", "target and target set the same");
    check("codel ecn noecn", "ecn and noecn set the same");
    check("pie alpha 33", "alpha \"33\": expected 0 to 32");
    check("fq_codel quantum 10B", "quantum \"10B\": expected 256B to 1048576B");
    check("fq_codel flows none", "flows \"none\": expected 1 to 65536");
    check("red probability 100%", "probability \"100%\": expected more than 0% and less than 100%");
    check("cake hosts flows", "hosts and flows set the same");
    let long = format!("codel {}", "x".repeat(1 << 20)).parse::<Discipline>().unwrap_err().to_string();
    assert!(long.len() < 1000, "a long text is not repeated whole");
}

/// The bytes that `tc` of iproute2 6.1 sends, with the attributes in its order.
#[test]
#[cfg(target_endian = "little")]
fn options_are_the_bytes_that_tc_sends() {
    let check = |text: &str, sent: &str| {
        let bytes: String = options(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes, sent, "{text}");
    };
    check("pfifo", "e8030000");
    check("codel", "08000200e8030000");
    check(
        "codel interval 100ms target 5ms ecn ce_threshold 1ms",
        "08000200e803000008000300a08601000800010088130000080004000100000008000500e8030000",
    );
    check(
        "fq_codel flows 64 quantum 300B target 5ms noecn memory_limit 1MB drop_batch 32",
        "08000200e80300000800050040000000080006002c0100000800010088130000080004000000000008000900\
         40420f000800080020000000",
    );
    check(
        "pie tupdate 15ms target 15ms alpha 2 beta 20 bytemode",
        "08000200e803000008000300983a000008000100983a0000080004000200000008000500140000000800070001000000",
    );
    check("fq_pie flows 64 ecn_prob 10 ecn", "08000100e80300000800020040000000080009000a00000008000a0001000000");
    check("fq_pie quantum 300B memory_limit 1MB", "08000100e8030000080007002c0100000800080040420f00");
    check("cake rtt 20ms", "08000700204e000008000800e8030000");
    check(
        "cake bandwidth 8mbit besteffort dual-dsthost rtt 20ms",
        "0c00020040420f000000000008000300030000000800050006000000\
         08000700204e000008000800e8030000",
    );
    check("fq flow_limit 100 maxrate 2mbit", "08000100e803000008000200640000000800070090d00300");
    let in_bytes = LinkFacts { limit: QueueLimit::Bytes(7_000), ..LINK };
    assert_eq!(attributes(&"pfifo".parse().unwrap(), &in_bytes).unwrap(), 4u32.to_le_bytes(), "whole packets");
}

/// As [`options_are_the_bytes_that_tc_sends`], with `limit 1500000 bandwidth 20mbit`.
#[test]
#[cfg(target_endian = "little")]
fn red_is_computed_as_tc_does() {
    // 1500000, 30000 and 90000 bytes, then the logarithms of weight, slope and idle time, and the flags.
    let fixed = [20, 0, 1, 0, 0x60, 0xe3, 0x16, 0, 0x30, 0x75, 0, 0, 0x90, 0x5f, 1, 0, 4, 0x14, 0x0e, 0];
    // The table of decays: how often it has 0, 1, 2 and so on.
    let runs: [usize; 29] = [9, 9, 9, 9, 9, 9, 9, 8, 9, 9, 9, 9, 9, 9, 8, 9, 9, 9, 9, 9, 9, 9, 8, 9, 9, 9, 9, 9, 6];
    let table = (0u8..).zip(runs).flat_map(|(value, length)| std::iter::repeat_n(value, length)).chain([31]);
    let part = [8, 0, 3, 0, 0x99, 0x99, 0x99, 0x19];
    let sent: Vec<u8> = fixed.into_iter().chain([4, 1, 2, 0]).chain(table).chain(part).collect();
    assert_eq!(options("red min 30kB max 90kB avpkt 1500B probability 10%"), sent);
    assert_eq!(options("red min 30kB max 90kB adaptive ecn")[19], 1 | 4, "flags");
    let refused = |text: &str| attributes(&text.parse().unwrap(), &LINK).unwrap_err();
    assert_eq!(refused("red max 2MB"), "min 666666B, max 2000000B, queue 1500000B: expected each less than the next");
    let turned = "min 90000B, max 30000B, queue 1500000B: expected each less than the next";
    assert_eq!(refused("red min 90kB max 30kB"), turned);
    let long = LinkFacts { limit: QueueLimit::Packets(100_000), ..LINK };
    let refused_there = attributes(&"red".parse().unwrap(), &long).unwrap_err();
    assert!(refused_there.ends_with("the kernel takes less than 2^17 bytes with it"), "{refused_there}");
    assert_eq!(refused("red min 30kB burst 1"), "burst 1: no weight fits it with min 30000B and avpkt 1000B");
}

#[test]
fn reference_has_every_word() {
    let reference = include_str!("../../../../scenarios/REFERENCE.md");
    for kind in DisciplineKind::VARIANTS {
        let listed: Vec<String> = words(kind.parse().unwrap()).iter().map(|word| format!("`{}`", word.name)).collect();
        let listed = if listed.is_empty() { "-".to_owned() } else { listed.join(", ") };
        let row = format!("\n| `{kind}` | {listed} |\n");
        assert!(reference.contains(&row), "{row}");
    }
}

/// `tccc doctor` names the disciplines that a kernel has.
#[test]
fn kernels_are_asked_for_every_discipline() {
    assert_eq!(DisciplineKind::VARIANTS, shared::kernel::probe::QUEUE_DISCIPLINES);
}
