//! Converts numbers in the same way as Python's `int`, for files written by Python programs.

use crate::digits::decimal_digit;
use crate::text::{Text, strip};
use crate::value::Value;

/// Why a value cannot be converted to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerError {
    /// A value of this type, such as a list, cannot be converted to an integer.
    WrongType,
    /// The text or number is not an integer.
    Invalid,
    /// The integer does not fit into signed 64 bits.
    TooLarge,
}

/// Converts a value in the same way as Python's `int`: truncates fractions and parses texts.
pub(crate) fn python_int(value: &Value) -> Result<i64, IntegerError> {
    match value {
        Value::Int(value) => Ok(*value),
        Value::Big(_) => Err(IntegerError::TooLarge),
        Value::Bool(value) => Ok(i64::from(*value)),
        Value::Float(value) => truncate(*value),
        Value::Text(text) => parse_integer(text),
        Value::Null | Value::List(_) | Value::Map(_) | Value::Opaque(_) => {
            Err(IntegerError::WrongType)
        }
    }
}

/// Converts a number to an integer without its fraction, like Python's `int`. NaN is invalid, and a
/// number that does not fit into 64 bits is too large.
pub fn truncate(value: f64) -> Result<i64, IntegerError> {
    if value.is_nan() {
        return Err(IntegerError::Invalid);
    }
    let limit = 9_223_372_036_854_775_808.0;
    if (-limit..limit).contains(&value) {
        Ok(whole(value))
    } else {
        Err(IntegerError::TooLarge)
    }
}

/// The number without its fraction, as an integer. A number out of range becomes the nearest
/// integer that fits into 64 bits, and NaN becomes zero.
#[expect(
    clippy::cast_possible_truncation,
    reason = "float-to-int casts saturate"
)]
pub fn whole(value: f64) -> i64 {
    value as i64
}

/// Converts a count, such as a number of bytes, to `i64`, the type of the numbers in records; larger
/// numbers become `i64::MAX`.
pub fn signed(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// The number without its fraction like [`whole`], but for counts: a negative number becomes zero.
pub fn whole_count(value: f64) -> usize {
    usize::try_from(whole(value).max(0)).unwrap_or(usize::MAX)
}

/// The integer that a text contains; `None` when the text is not an integer.
pub fn integer_of_text(text: &Text) -> Option<i64> {
    parse_integer(text).ok()
}

/// Parses an integer: a sign, decimal digits of any writing system, and single underscores between
/// the digits. White space before and after the integer is ignored.
pub fn parse_integer(text: &Text) -> Result<i64, IntegerError> {
    let text = text.as_str().ok_or(IntegerError::Invalid)?;
    // Python accepts the spaces of other writing systems only if the text is not ASCII.
    let text = if text.is_ascii() {
        text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r'])
    } else {
        strip(text)
    };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_digit = |ch: char| decimal_digit(ch as u32).is_some();
    let is_digits = |group: &str| !group.is_empty() && group.chars().all(is_digit);
    if !digits.split('_').all(is_digits) {
        return Err(IntegerError::Invalid);
    }
    let plain = |ch: char| decimal_digit(ch as u32).map_or(ch, |digit| char::from(b'0' + digit));
    let text: String = text.chars().filter(|ch| *ch != '_').map(plain).collect();
    text.parse().map_err(|_| IntegerError::TooLarge)
}

/// Parses a decimal number that is not negative: digits and at most one point, such as `1.5`.
pub fn plain_decimal(text: &str) -> Option<f64> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let value: f64 = text.parse().ok()?;
    (text.bytes().all(is_plain) && value.is_finite()).then_some(value)
}

/// Rounds the exact binary value of a float to six decimals, with ties to even.
pub fn round_to_6(value: f64) -> f64 {
    if value.is_finite() {
        format!("{value:.6}").parse().unwrap_or(value)
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_python_does() {
        assert_eq!(python_int(&Value::text(" +1_0 ")), Ok(10));
        assert_eq!(python_int(&Value::text("-\u{663}")), Ok(-3));
        assert_eq!(python_int(&Value::Float(-5.7)), Ok(-5));
        assert_eq!(python_int(&Value::Bool(true)), Ok(1));
        for bad in ["", "\u{1c}1", "1__0", "_1", "1.0", "0x1", "²"] {
            assert_eq!(
                python_int(&Value::text(bad)),
                Err(IntegerError::Invalid),
                "{bad}"
            );
        }
        assert_eq!(python_int(&Value::Null), Err(IntegerError::WrongType));
        assert_eq!(truncate(1e300), Err(IntegerError::TooLarge));
    }
}
