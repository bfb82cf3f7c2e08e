//! Estimates how long until the device is full at the current growth rate.

use crate::detect::evidence::{Subject, peaks};

/// The estimated time until the growing memory of a track fills its device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outlook {
    /// Sum of the growth rates of allocated and hidden memory at the end of the track.
    pub(crate) rate_bytes_per_s: f64,
    /// Memory needed at the end of the track in bytes: the normal peak of a step plus everything
    /// else in use on the device.
    pub(crate) need_bytes: f64,
    /// Size of the device in bytes.
    pub(crate) total_bytes: f64,
    /// Seconds from the last sample until `need_bytes` reaches `total_bytes`.
    pub(crate) time_to_full_s: f64,
}

/// Estimates when a track will fill its device. `None` when nothing grows, even if the device is
/// nearly full, or when the size of the device is unknown.
pub(crate) fn of(subject: &Subject) -> Option<Outlook> {
    let signals = &subject.signals;
    let total_bytes = signals.total?;
    let courses = [&subject.allocated, &subject.hidden];
    let rate_bytes_per_s: f64 = courses
        .iter()
        .filter_map(|c| c.growth.map(|g| g.rate))
        .sum();
    if rate_bytes_per_s <= 0.0 {
        return None;
    }
    let need_bytes = peaks::at_end(&signals.allocated, &subject.allocated, signals)
        + peaks::at_end(&signals.hidden, &subject.hidden, signals)
        + signals.neighbours;
    let time_to_full_s = ((total_bytes - need_bytes) / rate_bytes_per_s).max(0.0);
    Some(Outlook {
        rate_bytes_per_s,
        need_bytes,
        total_bytes,
        time_to_full_s,
    })
}
