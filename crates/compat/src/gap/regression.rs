//! Fits a straight line through points and tests its slope.

pub use stormlog_analysis::median;

/// A line fitted by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Slope of the line: the rise of y per unit of x.
    pub slope: f64,
    /// Correlation coefficient of x and y.
    pub r: f64,
    /// The p-value: two-sided probability that noise alone gives a slope as large as this one.
    pub p_value: f64,
}

/// Added to a divisor to avoid a division by zero when all points lie on the line.
const TINY: f64 = 1.0e-20;

/// Fits a line by least squares. `None` when all x are equal, or when there are fewer than two
/// points.
#[expect(
    clippy::many_single_char_names,
    reason = "the variables have the names that they have in the formulas"
)]
pub fn fit(x: &[f64], y: &[f64]) -> Option<Line> {
    let n = x.len().min(y.len());
    if n < 2 {
        return None;
    }
    let (x_mean, y_mean) = (mean(&x[..n]), mean(&y[..n]));
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (dx, dy) = (x - x_mean, y - y_mean);
        xx += dx * dx;
        xy += dx * dy;
        yy += dy * dy;
    }
    let n = n as f64;
    let (xx, xy, yy) = (xx / n, xy / n, yy / n);
    if xx == 0.0 {
        return None;
    }
    let r = if yy == 0.0 {
        0.0
    } else {
        (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0)
    };
    let freedom = n - 2.0;
    let p_value = if freedom > 0.0 {
        let t = r * (freedom / ((1.0 - r + TINY) * (1.0 + r + TINY))).sqrt();
        t_test(t, freedom)
    } else if yy == 0.0 {
        1.0
    } else {
        0.0
    };
    Some(Line {
        slope: xy / xx,
        r,
        p_value,
    })
}

/// The Pearson correlation of two lists; `None` when one of them is constant.
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let constant = |list: &[f64]| {
        list.windows(2)
            .all(|pair| pair[0].total_cmp(&pair[1]).is_eq())
    };
    if constant(x) || constant(y) {
        return None;
    }
    fit(x, y).map(|line| line.r)
}

/// The mean of a non-empty list.
pub fn mean(values: &[f64]) -> f64 {
    precise_mean(values).value()
}

/// The sample standard deviation, which divides by n - 1. Zero for fewer than two values.
pub fn sample_deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = precise_mean(values);
    let mut squares = Precise::default();
    for value in values {
        let (high, low) = two_sum(*value, -mean.high);
        let low = low - mean.low;
        let square = high * high;
        squares.add(square);
        squares.add(high.mul_add(high, -square) + 2.0 * high * low);
    }
    (squares.value() / (values.len() - 1) as f64).sqrt()
}

fn precise_mean(values: &[f64]) -> Precise {
    let mut sum = Precise::default();
    for value in values {
        sum.add(*value);
    }
    let count = values.len() as f64;
    let high = sum.value() / count;
    let rest = (-high).mul_add(count, sum.high) + sum.low;
    Precise {
        high,
        low: rest / count,
    }
}

/// A sum kept as two floats, so that hardly any digits are lost. Stormlog 0.3.9 computes exact
/// sums; with the rounding errors of ordinary sums, the results here would differ from its results.
#[derive(Clone, Copy, Debug, Default)]
struct Precise {
    high: f64,
    low: f64,
}

impl Precise {
    fn add(&mut self, value: f64) {
        let (high, low) = two_sum(self.high, value);
        self.high = high;
        self.low += low;
    }

    fn value(self) -> f64 {
        self.high + self.low
    }
}

/// The sum of two floats, and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// The probability that the absolute value of a Student's t variable exceeds that of `t`.
fn t_test(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The regularized incomplete beta function, computed by its continued fraction (Lentz's method).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The continued fraction converges fast only for small `x`. For larger `x`, the function is
    // computed as 1 minus the function of `1 - x` with `a` and `b` exchanged.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

#[expect(clippy::many_single_char_names, reason = "the formula's names")]
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const SMALL: f64 = 1.0e-300;
    let guarded = |value: f64| if value.abs() < SMALL { SMALL } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guarded(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guarded(1.0 + even * d);
        c = guarded(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guarded(1.0 + odd * d);
        c = guarded(1.0 + odd / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < 1.0e-15 {
            break;
        }
    }
    fraction
}

/// The logarithm of the gamma function for positive numbers (Lanczos approximation).
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let sine = (std::f64::consts::PI * x).sin();
        return (std::f64::consts::PI / sine).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let mut series = 0.999_999_999_999_809_9;
    let mut place = x;
    for coefficient in COEFFICIENTS {
        place += 1.0;
        series += coefficient / place;
    }
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + series.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * right.abs().max(1.0)
    }

    #[test]
    fn a_line_is_found_with_its_test() {
        let x = [0.0, 1.0, 2.0, 3.0, 4.0];
        let line = fit(&x, &[1.0, 3.0, 2.0, 5.0, 4.0]).expect("x differ");
        assert!(near(line.slope, 0.8) && near(line.r, 0.8));
        assert!(near(line.p_value, 0.104_088_038_661_828));
        let exact = fit(&x, &[0.0, 2.0, 4.0, 6.0, 8.0]).expect("x differ");
        assert!(exact.p_value < 1e-12);
    }

    #[test]
    fn one_x_has_no_slope() {
        assert_eq!(fit(&[3.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(fit(&[1.0], &[1.0]), None);
    }

    #[test]
    fn constant_lists_have_no_correlation() {
        assert_eq!(pearson(&[1.0, 1.0], &[1.0, 2.0]), None);
    }
}
