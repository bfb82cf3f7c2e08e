//! The gap between the used and the reserved memory of a sample.

use stormlog_analysis::EventRef;

/// The gap of an event: bytes in use on the device beyond the bytes that the allocator reserved.
/// The gap is `None` when used or reserved bytes are unknown.
pub fn device_gap(event: EventRef<'_>) -> Option<i64> {
    let (used, reserved) = (event.used_bytes()?, event.reserved_bytes()?);
    Some(used.saturating_sub(reserved))
}

/// The size of the device; `None` when it is unknown or zero.
pub fn device_total(event: EventRef<'_>) -> Option<i64> {
    event.total_bytes().filter(|total| *total > 0)
}
