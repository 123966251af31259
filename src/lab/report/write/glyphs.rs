//! Helvetica's glyphs: their codes and their widths.

/// Code of a character that the encoding lacks.
const UNKNOWN: u8 = b'?';
/// Width of a glyph beyond ASCII, thousandths of the size: that of most letters and digits.
const USUAL: u16 = 556;
/// Widths of the glyphs from the space to the tilde, thousandths of the size.
///
/// Source: Adobe Core 14 AFM files, Helvetica.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
];

/// A text in WinAnsiEncoding, whose codes from 0xa0 are those of Latin-1.
pub fn encoded(text: &str) -> Vec<u8> {
    text.chars().flat_map(code).collect()
}

fn code(character: char) -> Vec<u8> {
    match character {
        ' '..='~' => vec![character as u8],
        '\u{2009}' | '\u{202f}' | '\u{a0}' => vec![b' '],
        '\u{a1}'..='\u{ff}' => vec![u32::from(character) as u8],
        '\u{2212}' => vec![b'-'],
        '–' => vec![0x96],
        '—' => vec![0x97],
        '‘' => vec![0x91],
        '’' => vec![0x92],
        '“' => vec![0x93],
        '”' => vec![0x94],
        '…' => vec![0x85],
        'μ' => vec![0xb5], // the letter has the look of the sign
        '≤' => b"<=".to_vec(),
        '≥' => b">=".to_vec(),
        '→' => b"->".to_vec(),
        _ => vec![UNKNOWN],
    }
}

/// Width of a text.
pub fn width(text: &str, size: f64) -> f64 {
    let of = |code: u8| WIDTHS.get(usize::from(code).wrapping_sub(32)).copied().unwrap_or(USUAL);
    encoded(text).into_iter().map(|code| f64::from(of(code))).sum::<f64>() * size / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_the_width_of_helvetica() {
        assert_eq!(
            width("cwnd [pkts]", 1000.0),
            500.0 + 722.0 + 3.0 * 556.0 + 278.0 + 2.0 * 278.0 + 500.0 + 278.0 + 500.0
        );
        assert_eq!(encoded("± 5 µs ≥ 1\u{202f}000 Ω"), b"\xb1 5 \xb5s >= 1 000 ?");
    }
}
