//! Parses the integers of JSON texts, eight digits at a time.

/// Parses an integer that fits into signed 64 bits, and returns the offset after it.
#[inline]
pub(crate) fn integer(text: &[u8], offset: usize) -> Option<(i64, usize)> {
    let negative = text.get(offset) == Some(&b'-');
    let start = offset + usize::from(negative);
    let mut end = start;
    let mut value = 0_u64;
    loop {
        let (digits, part) = leading_digits(&text[end..]);
        value = value.wrapping_mul(POWERS_OF_TEN[digits]).wrapping_add(part);
        end += digits;
        if digits < 8 {
            break;
        }
    }
    // A number of nineteen digits always fits into `u64`; whether the value fits into `i64` is
    // checked last.
    let fits = (1..=19).contains(&(end - start));
    let leading_zero = end > start + 1 && text[start] == b'0';
    if !fits || leading_zero || matches!(text.get(end), Some(b'.' | b'e' | b'E')) {
        return None;
    }
    let value = i64::try_from(value).ok()?;
    Some((if negative { -value } else { value }, end))
}

const POWERS_OF_TEN: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// The number of decimal digits at the start of the first eight bytes of a text, and the value of
/// these digits.
///
/// The eight bytes are processed as one 64-bit word for speed, because a record contains more than
/// a hundred digits.
fn leading_digits(text: &[u8]) -> (usize, u64) {
    let mut bytes = [0; 8];
    match text.first_chunk::<8>() {
        Some(chunk) => bytes = *chunk,
        None => bytes[..text.len()].copy_from_slice(text),
    }
    // The exclusive or with 0x30, the code of the digit 0, turns the bytes of digits into the
    // numbers 0 to 9. In `others`, the highest bit of a byte is set if the byte is not a digit.
    let word = u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030;
    let others = (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080;
    let digits = (others.trailing_zeros() / 8).min(8);
    if digits == 0 {
        return (0, 0);
    }
    // The digits are shifted to the end of the 64-bit word, as if zeros preceded them. Neighbouring
    // digits are combined to numbers of two digits, these numbers to numbers of four digits, and
    // those to eight digits.
    let word = word << (64 - 8 * digits);
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    let value = low.wrapping_add(high) >> 32;
    (digits as usize, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        let cases: [(&str, Option<(i64, usize)>); 18] = [
            ("0,", Some((0, 1))),
            ("7", Some((7, 1))),
            ("-1}", Some((-1, 2))),
            ("12345678,", Some((12_345_678, 8))),
            ("123456789 ", Some((123_456_789, 9))),
            ("1794726516168924406", Some((1_794_726_516_168_924_406, 19))),
            ("9223372036854775807", Some((i64::MAX, 19))),
            ("9223372036854775808", None),
            ("-9223372036854775807", Some((-i64::MAX, 20))),
            ("12345678901234567890", None),
            ("179472651616892440,", Some((179_472_651_616_892_440, 18))),
            ("999999999999999999", Some((999_999_999_999_999_999, 18))),
            ("01", None),
            ("1.5", None),
            ("1e5", None),
            ("-", None),
            ("", None),
            ("x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(integer(text.as_bytes(), 0), expected, "{text}");
        }
    }
}
