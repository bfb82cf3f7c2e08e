//! Computes gaps and ratios from an event's counters, with the rules of stormlog 0.3.9.

use serde::Serialize;
use stormlog_format::{EventType, Text};

/// A collector whose name contains one of these words does not measure all counters.
const DEGRADED_COLLECTORS: [&str; 5] = [
    "fallback",
    "degraded",
    "unavailable",
    "partial",
    "legacy.unknown",
];

/// Values that are computed from the counters of one event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EventFields {
    /// Bytes that the allocator reserved but that are not allocated.
    pub allocator_gap_bytes: i64,
    /// Allocated bytes as a share of the device's size, if the size is known.
    pub utilization_ratio: Option<f64>,
    /// The allocator gap as a share of the reserved bytes, if any bytes are reserved.
    pub fragmentation_ratio: Option<f64>,
    /// Whether the collector's name shows that it does not measure all counters.
    pub is_degraded_collector: bool,
}

/// The size of a device in bytes, in the number type used in records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceTotal {
    /// A number of bytes that the record contains as an integer.
    Bytes(i64),
    /// A number of bytes that the record contains as a floating-point number.
    Number(f64),
}

impl EventFields {
    /// Computes the values from an event's allocated, reserved and total bytes and the name of its
    /// collector.
    pub fn of(
        allocated: i64,
        reserved: i64,
        total: Option<DeviceTotal>,
        collector: Option<&Text>,
    ) -> Self {
        let gap = reserved.saturating_sub(allocated).max(0);
        Self {
            allocator_gap_bytes: gap,
            utilization_ratio: total.and_then(|total| utilization(allocated, total)),
            fragmentation_ratio: (reserved != 0).then(|| ratio(gap, reserved)),
            is_degraded_collector: collector.is_some_and(is_degraded),
        }
    }
}

/// Values that are computed from all events of a session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SessionFields {
    /// The highest utilization ratio of any event; `None` when no event has one.
    pub peak_utilization_ratio: Option<f64>,
    /// The mean fragmentation ratio of the events that have one.
    pub avg_fragmentation_ratio: Option<f64>,
    /// Whether the recording broke off: the last event is not a `stop` event.
    pub is_session_interrupted: bool,
}

impl SessionFields {
    /// Computes the values from a session's events and the type of the last event.
    pub fn of(events: &[EventFields], last_type: Option<&Text>) -> Self {
        let peak = events
            .iter()
            .filter_map(|event| event.utilization_ratio)
            .reduce(|peak, ratio| if ratio > peak { ratio } else { peak });
        let fragmentation: Vec<f64> = events
            .iter()
            .filter_map(|event| event.fragmentation_ratio)
            .collect();
        Self {
            peak_utilization_ratio: peak,
            avg_fragmentation_ratio: mean(&fragmentation),
            is_session_interrupted: last_type.is_none_or(|last| *last != EventType::Stop.as_str()),
        }
    }
}

fn mean(numbers: &[f64]) -> Option<f64> {
    let sum = numbers.iter().fold(0.0, |sum, number| sum + number);
    (!numbers.is_empty()).then(|| sum / numbers.len() as f64)
}

fn utilization(allocated: i64, total: DeviceTotal) -> Option<f64> {
    match total {
        DeviceTotal::Bytes(total) => (total > 0).then(|| ratio(allocated, total)),
        DeviceTotal::Number(total) if total <= 0.0 => None,
        DeviceTotal::Number(total) => Some(allocated as f64 / total),
    }
}

fn is_degraded(collector: &Text) -> bool {
    let collector = collector.to_str_lossy().to_lowercase();
    let mut words = DEGRADED_COLLECTORS.iter();
    words.any(|word| collector.contains(word))
}

/// The float nearest to the exact quotient of two integers; the divisor must not be zero.
///
/// Dividing the counts as floats would round three times: both counts and the quotient. Here the
/// dividend is shifted to the top of 128 bits, so that the quotient has at least 64 bits, more than
/// a float. If the division leaves a remainder, the lowest bit of the quotient is set, so that the
/// conversion to a float does not mistake the quotient for an exact tie between two floats.
fn ratio(dividend: i64, divisor: i64) -> f64 {
    let sign = if (dividend < 0) == (divisor < 0) {
        1.0
    } else {
        -1.0
    };
    if dividend == 0 {
        return 0.0 * sign;
    }
    let (dividend, divisor) = (
        u128::from(dividend.unsigned_abs()),
        u128::from(divisor.unsigned_abs()),
    );
    let shift = dividend.leading_zeros() - 1;
    let moved = dividend << shift;
    let quotient = (moved / divisor) | u128::from(moved % divisor != 0);
    let exponent = i32::try_from(shift).unwrap_or(0);
    sign * (quotient as f64) * 2f64.powi(-exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_exact() {
        for (dividend, divisor) in [(1, 3), (5, 40), (978_249_595, 10_000_000_000), (-7, 3)] {
            let plain = dividend as f64 / divisor as f64;
            assert_eq!(ratio(dividend, divisor).to_bits(), plain.to_bits());
        }
        assert_eq!(ratio(0, -1).to_bits(), (-0.0f64).to_bits());
        assert_eq!(
            ratio(9_007_199_254_740_993, 3).to_bits(),
            3_002_399_751_580_331.0f64.to_bits()
        );
        assert_eq!(ratio(i64::MIN, i64::MIN).to_bits(), 1.0f64.to_bits());
    }

    #[test]
    fn unknown_is_not_zero() {
        let event = EventFields::of(5, 0, Some(DeviceTotal::Bytes(0)), None);
        assert_eq!(event.utilization_ratio, None);
        assert_eq!(event.fragmentation_ratio, None);
        assert!(SessionFields::of(&[], None).is_session_interrupted);
    }

    #[test]
    fn degraded_by_name() {
        let collector = Text::from("x.Fallback");
        assert!(EventFields::of(0, 0, None, Some(&collector)).is_degraded_collector);
    }
}
