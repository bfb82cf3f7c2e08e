//! The kinds of memory that a chart can show.

use stormlog_format::names;

/// The number that represents an unknown value; an unknown value is never drawn as zero.
pub const UNKNOWN: i64 = i64::MIN;

/// The kind of memory that a line of a chart shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Bytes in live tensors.
    Allocated,
    /// Bytes that the framework's allocator has reserved from the device, for live tensors and its
    /// cache.
    Reserved,
    /// Bytes in use on the device by all processes.
    Used,
    /// Total bytes of the device.
    Capacity,
    /// Bytes in use on the device outside the framework's allocator. If the device memory of each
    /// process is known, hidden memory includes only the bytes of the recorded process.
    Hidden,
    /// Bytes in use on the device by the recorded process, if the driver reports them.
    Own,
    /// Bytes in use on the device by the driver and by processes other than the recorded one, if
    /// the bytes of the recorded process are known.
    Others,
}

// The names of the measures in legends. A track stores the columns of the measures in this order.
names!(Measure {
    Allocated => "allocated",
    Reserved => "reserved",
    Used => "device used",
    Capacity => "capacity",
    Hidden => "hidden",
    Own => "used by the process",
    Others => "other processes",
});
