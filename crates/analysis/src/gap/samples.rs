//! Identifies samples among events, and computes the gap between their used and reserved memory.

use crate::columns::EventRef;
use stormlog_format::EventType;

/// Whether an event of this type is a sample. Case and surrounding white space are ignored.
pub fn is_sample(event_type: &[u8]) -> bool {
    EventType::Sample.is(event_type)
        || std::str::from_utf8(event_type).is_ok_and(|kind| {
            stormlog_format::strip(kind).eq_ignore_ascii_case(EventType::Sample.as_str())
        })
}

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
