//! How long until the device is full, if what grows keeps growing.

use super::evidence::Subject;
use super::peaks;

/// Where a track is heading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outlook {
    /// Growth of all that grows, at its rate at the end.
    pub(super) rate_bytes_per_s: f64,
    /// The normal peak of a step plus all that is in use beside it, at the end.
    pub(super) need_bytes: f64,
    /// Size of the device.
    pub(super) total_bytes: f64,
    /// Seconds from the last sample until the need reaches the total.
    pub(super) time_to_full_s: f64,
}

/// The outlook of a track on which something grows and whose device's size is known. High use that
/// does not grow has none.
pub(super) fn of(subject: &Subject) -> Option<Outlook> {
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
