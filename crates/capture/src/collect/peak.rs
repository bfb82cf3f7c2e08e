//! Detects memory peaks between two readings by comparing the allocator's own peak counter, such as
//! PyTorch's `max_memory_allocated`, at both readings.

use stormlog_format::SampleNumber;

use super::Reading;

/// The allocator's peak counter at the last reading. If the counter is higher at the next reading,
/// memory peaked between the two readings; if it is lower, the program has reset it.
#[derive(Debug, Default)]
pub struct Peak(Option<i64>);

impl Peak {
    /// Compares the allocator's peak counter with its value at the last reading. If memory peaked
    /// between the two readings, stores the peak in the new reading, `reading`.
    pub fn follow(&mut self, peak: i64, reading: &mut Reading) {
        let before = self.0.replace(peak);
        if before.is_some_and(|before| peak > before) {
            reading.peak_bytes =
                Some(peak).filter(|peak| Some(*peak) > reading.counters.allocator_allocated_bytes);
        }
        reading
            .metadata
            .insert(SampleNumber::AllocatorPeak.key(), peak);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_format::Counters;

    #[test]
    fn only_a_rise_above_the_reading_is_a_peak_in_between() {
        let mut peak = Peak::default();
        let mut seen = |now: i64, allocated: i64| {
            let mut reading = Reading {
                counters: Counters {
                    allocator_allocated_bytes: Some(allocated),
                    ..Counters::default()
                },
                ..Reading::default()
            };
            peak.follow(now, &mut reading);
            reading.peak_bytes
        };
        assert_eq!(seen(100, 10), None);
        assert_eq!(seen(100, 10), None);
        assert_eq!(seen(120, 10), Some(120));
        // After the program has reset the allocator's peak, the peak equals the level of the
        // reading, so no peak happened in between.
        assert_eq!(seen(5, 5), None);
        assert_eq!(seen(30, 30), None);
    }
}
