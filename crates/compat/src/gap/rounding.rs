//! Rounds to a number of digits in the same way as Python and NumPy.

/// Rounds like Python's `round`: to the decimal number that is nearest to the exact binary value.
/// Of two equally near numbers, the one with an even last digit is chosen.
pub fn python(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// Rounds like NumPy's `round`: scales, rounds ties to even, and scales back.
pub fn numpy(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    let scaled = (value * scale).round_ties_even() / scale;
    if scaled.is_finite() { scaled } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_differ_on_halves_that_binary_cannot_hold() {
        assert_eq!(python(2.675, 2).to_bits(), 2.67_f64.to_bits());
        assert_eq!(python(0.5, 0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(numpy(2.675, 2).to_bits(), 2.68_f64.to_bits());
        assert!(numpy(f64::MAX, 2).is_finite());
    }
}
