//! The confidence of a finding: the estimated probability that the finding is correct.
//!
//! The estimates are the shares of correct findings on a thousand labelled runs, most of them
//! synthetic. The function for each kind of finding takes the numbers that best separated correct
//! from wrong findings. A finding counts as correct when its kind, rank and onset match the label.

/// Highest confidence of a finding, below 1 because labels, samples and detectors may all be wrong.
const MOST: f64 = 0.99;
/// Lowest confidence that a finding is given.
const LEAST: f64 = 0.5;

/// Converts log-odds to a probability between `LEAST` and `MOST`.
fn from_log_odds(log_odds: f64) -> f64 {
    (1.0 / (1.0 + (-log_odds).exp())).clamp(LEAST, MOST)
}

/// The logarithm of a ratio, clamped to the range that the labelled runs covered.
fn log_ratio(value: f64, to: f64, limit: f64) -> f64 {
    (value / to)
        .max(f64::MIN_POSITIVE)
        .ln()
        .clamp(-limit, limit)
}

/// Confidence of growth, from the part of the floor's changes that the fitted trend leaves
/// unexplained (0 is a perfect fit) and the growth's share of the device.
pub(crate) fn of_growth(unexplained: f64, share_of_device: f64) -> f64 {
    from_log_odds(4.3 - 8.0 * unexplained + 0.8 * log_ratio(share_of_device, 0.02, 2.0))
}

/// Confidence of a jump, from the log-odds that the samples give for it (`Jump::odds`) and the
/// jump's height in units of the floor's scatter.
pub(crate) fn of_jump(odds: f64, signal_to_noise: f64) -> f64 {
    from_log_odds(0.12 * odds - 0.5 + 0.4 * log_ratio(signal_to_noise, 20.0, 2.0))
}

/// Confidence of fragmentation, from the number of climbs: rises of reserved memory that no new
/// peak of allocated memory explains.
pub(crate) fn of_fragmentation(climbs: usize) -> f64 {
    let climbs = climbs.min(12) as f64;
    from_log_odds(2.0 + 0.08 * climbs)
}

/// Confidence of a spike, from the number of its samples and how much they differ.
pub(crate) fn of_spike(samples: usize, unevenness: f64) -> f64 {
    let seen = log_ratio(samples as f64, 2.0, 1.5);
    from_log_odds(2.3 + 1.3 * seen - 6.0 * unevenness.clamp(0.0, 0.35))
}

/// Confidence that growth fills the device, from the confidence of the growth and the time until
/// the device is full, as a share of the horizon (`Options::oom_horizon_hours`).
pub(crate) fn of_time_to_full(trend: f64, time_over_horizon: f64) -> f64 {
    (trend.sqrt() * from_log_odds(5.0 - 3.0 * time_over_horizon)).clamp(LEAST, MOST)
}

/// Confidence that a problem began on one rank first, from the rank's lead (the time until the
/// problem began on the second rank) as a multiple of the smallest lead that is reported.
pub(crate) fn of_lead(lead_over_least: f64) -> f64 {
    from_log_odds(2.2 + 0.5 * lead_over_least.min(5.0))
}

/// Confidence that a rank holds too much memory, from its excess over the median of the other
/// ranks, as a share of that median. Ordinary differences between ranks are a few per cent.
pub(crate) fn of_imbalance(share: f64) -> f64 {
    from_log_odds(2.0 + 30.0 * (share - 0.1).clamp(0.0, 0.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_limits() {
        for value in [0.0, 1e-300, 1.0, 1e300, f64::INFINITY, f64::NEG_INFINITY] {
            for sure in [
                of_growth(value, value),
                of_jump(value, value),
                of_spike(2, value),
                of_time_to_full(1.0, value),
                of_lead(value),
                of_imbalance(value),
            ] {
                assert!((LEAST..=MOST).contains(&sure), "{sure} for {value}");
            }
        }
    }

    #[test]
    fn better_evidence_makes_surer() {
        assert!(of_growth(0.05, 0.02) > of_growth(0.4, 0.02));
        assert!(of_jump(30.0, 50.0) > of_jump(14.0, 10.0));
        assert!(of_spike(6, 0.0) > of_spike(2, 0.3));
        assert!(of_lead(4.0) > of_lead(1.0));
    }
}
