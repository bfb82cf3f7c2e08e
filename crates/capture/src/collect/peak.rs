//! The peak that an allocator itself keeps.

use super::Reading;

/// An allocator's own peak. It belongs to the user, who may reset it; a rise since the last
/// reading is a peak that happened in between.
#[derive(Debug, Default)]
pub struct Peak(Option<i64>);

impl Peak {
    /// Takes the peak as it is now and puts into the reading what a sample could not see.
    pub fn follow(&mut self, peak: i64, reading: &mut Reading) {
        let before = self.0.replace(peak);
        if before.is_some_and(|before| peak > before) {
            reading.peak_bytes =
                Some(peak).filter(|peak| Some(*peak) > reading.counters.allocator_allocated_bytes);
        }
        reading.metadata.insert("allocator_peak_bytes", peak);
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
        // Reset by the program, then at the level of the reading itself.
        assert_eq!(seen(5, 5), None);
        assert_eq!(seen(30, 30), None);
    }
}
