//! Decimal digits of all writing systems, which Python accepts as digits.

/// The zero digit of each writing system with its own decimal digits, sorted by code point. The
/// digits one to nine of a writing system follow its zero (Unicode 14.0.0).
const ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x1_04a0, 0x1_0d30, 0x1_1066, 0x1_10f0, 0x1_1136, 0x1_11d0, 0x1_12f0, 0x1_1450, 0x1_14d0,
    0x1_1650, 0x1_16c0, 0x1_1730, 0x1_18e0, 0x1_1950, 0x1_1c50, 0x1_1d50, 0x1_1da0, 0x1_6a60,
    0x1_6ac0, 0x1_6b50, 0x1_d7ce, 0x1_d7d8, 0x1_d7e2, 0x1_d7ec, 0x1_d7f6, 0x1_e140, 0x1_e2f0,
    0x1_e950, 0x1_fbf0,
];

/// The decimal value of a code point; `None` when it is not a decimal digit.
pub(crate) fn decimal_digit(unit: u32) -> Option<u8> {
    let after = ZEROS.partition_point(|zero| *zero <= unit);
    let zero = ZEROS.get(after.checked_sub(1)?)?;
    u8::try_from(unit - zero).ok().filter(|digit| *digit < 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_all_scripts_and_nothing_else() {
        assert!(ZEROS.is_sorted());
        for (ch, digit) in [
            ('0', Some(0)),
            ('9', Some(9)),
            ('\u{663}', Some(3)),
            ('１', Some(1)),
        ] {
            assert_eq!(decimal_digit(ch as u32), digit);
        }
        for ch in ['/', ':', '²', '½', 'a', '\u{66a}'] {
            assert_eq!(decimal_digit(ch as u32), None);
        }
    }
}
