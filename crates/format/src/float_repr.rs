//! Writes floating-point numbers as Python does.

/// The number as Python's `repr` writes it: with as few digits as possible, and always with a
/// decimal point or an exponent. Numbers other than zero have an exponent if their absolute value
/// is below 1e-4 or at least 1e16.
pub(crate) fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let scientific = shortest(value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return positional(mantissa, exponent);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// The fewest digits that parse to the same number as `value`, in scientific notation.
///
/// When two shortest decimal numbers are equally near to `value`, Rust uses the larger one and
/// Python the even one, so the digits are rounded again with ties to even.
fn shortest(value: f64) -> String {
    let shortest = format!("{value:e}");
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    // Two numbers with fewer than 15 digits are never equally near to `value`, so there is nothing
    // to choose.
    if digits < 15 {
        return shortest;
    }
    let rounded = format!("{value:.*e}", digits - 1);
    if rounded.parse() == Ok(value) {
        rounded
    } else {
        shortest
    }
}

/// Converts scientific notation to a number without an exponent: the mantissa `1.5` and the
/// exponent 3 become `1500.0`. The mantissa has one digit before its point.
fn positional(mantissa: &str, exponent: i32) -> String {
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let Ok(before) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("{sign}0.{}{digits}", "0".repeat(zeros));
    };
    if before == 0 {
        return format!("{sign}0.{digits}");
    }
    match digits.get(before..).filter(|after| !after.is_empty()) {
        Some(after) => format!("{sign}{}.{after}", &digits[..before]),
        None => format!("{sign}{digits:0<before$}.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (5e-324, "5e-324"),
            (1.5e300, "1.5e+300"),
            (0.001_25, "0.00125"),
            (-120.0, "-120.0"),
            (123.456, "123.456"),
            (-3_440_602_699_745_865.0 / 4.0, "-860150674936466.2"),
            (5.684_341_886_080_802e-14, "5.684341886080802e-14"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
        ];
        for (value, text) in cases {
            assert_eq!(float_repr(value), text);
        }
    }
}
