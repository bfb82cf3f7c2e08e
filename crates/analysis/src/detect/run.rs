//! What a diagnosis reads: the recorded columns of a run, one [`Track`] per session of a rank.
//! Plain data for a loader to fill; nothing here opens a file or knows an event format.

use super::signals::float;

/// A column of byte counts in which any value may be unknown.
///
/// Eight bytes a value: unknown is kept as `i64::MIN`, which no counter of bytes can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column(Vec<i64>);

const UNKNOWN: i64 = i64::MIN;

impl Column {
    /// Appends one value, `None` where it was not recorded.
    pub fn push(&mut self, value: Option<i64>) {
        self.0.push(value.unwrap_or(UNKNOWN));
    }

    /// The value at `index`; `None` where it is unknown or was never appended.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<i64> {
        self.0.get(index).copied().filter(|&value| value != UNKNOWN)
    }

    /// How many values, known or not, the column holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many values are known.
    #[must_use]
    pub fn known(&self) -> usize {
        self.0.iter().filter(|&&value| value != UNKNOWN).count()
    }

    /// Appends one value as the last of so many; those that were never appended are unknown.
    pub fn push_as(&mut self, length: usize, value: i64) {
        self.0.resize(length.saturating_sub(1), UNKNOWN);
        self.0.push(value);
    }

    /// Whether the column holds no value at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Option<i64>> for Column {
    fn from_iter<I: IntoIterator<Item = Option<i64>>>(values: I) -> Self {
        Self(values.into_iter().map(|v| v.unwrap_or(UNKNOWN)).collect())
    }
}

/// A named part of the training loop, such as an evaluation, in the clock of its track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSpan {
    /// The phase's name as the user gave it.
    pub name: String,
    /// When it was entered.
    pub start_ns: i64,
    /// When it was left; `None` when the record ends inside it.
    pub end_ns: Option<i64>,
}

/// An out-of-memory error that the recorder saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomMark {
    /// When it was recorded.
    pub at_ns: i64,
    /// The reason as recorded, for instance the exception's name.
    pub reason: String,
}

/// One session of one rank on one device: everything that was sampled, in columns of equal length.
///
/// Samples may be in any order and may repeat a timestamp; columns shorter than `t_ns` count as
/// unknown from there on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Track {
    /// Global rank.
    pub rank: u32,
    /// Device index; -1 is the CPU.
    pub device_id: i64,
    /// The session that recorded the samples; a restarted rank has several.
    pub session_id: String,
    /// The machine it ran on, whose clock it was timed by; empty where unknown.
    pub host: String,
    /// Time of each sample in Unix nanoseconds, by the clock of the rank's host.
    pub t_ns: Vec<i64>,
    /// Bytes in live tensors.
    pub allocated: Column,
    /// Bytes that the caching allocator holds.
    pub reserved: Column,
    /// Bytes in use on the device, by whomever.
    pub used: Column,
    /// Of these, the bytes of the recorded process; empty where nobody asked.
    pub own: Column,
    /// Bytes free on the device.
    pub free: Column,
    /// Size of the device; where it is unknown, used + free stands in.
    pub total: Column,
    /// Phases that were marked while the session was recorded.
    pub phases: Vec<PhaseSpan>,
    /// Out-of-memory errors.
    pub ooms: Vec<OomMark>,
}

impl Track {
    /// Bytes in use outside the allocator at each sample. On a device shared with others these
    /// are the process's own, where its share is known: a neighbour's growth is not its drift.
    pub(super) fn hidden(&self) -> impl Fn(usize) -> Option<f64> + '_ {
        let in_use = if self.knows_own() {
            &self.own
        } else {
            &self.used
        };
        move |sample| Some(float(in_use.get(sample)?) - float(self.reserved.get(sample)?))
    }

    /// Bytes of the device that other processes hold at a sample; none where that is unknown.
    pub(super) fn neighbours(&self, sample: usize) -> Option<f64> {
        Some(float(self.used.get(sample)?) - float(self.own.get(sample)?))
    }

    /// Whether the process's own share is known at nearly every sample; mixed with the whole
    /// device's use it would jump.
    pub(super) fn knows_own(&self) -> bool {
        if self.own.is_empty() {
            return false;
        }
        let used = self.used.known();
        self.own.known() >= used - used / 50
    }
}

/// All recorded sessions of one training job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The sessions, in any order.
    pub tracks: Vec<Track>,
}

impl Run {
    /// Whether the devices' use is known and nothing of any allocator.
    #[must_use]
    pub fn is_from_outside(&self) -> bool {
        let knows = |column: fn(&Track) -> &Column| {
            let mut columns = self.tracks.iter().map(column);
            columns.any(|column| column.known() > 0)
        };
        knows(|track| &track.used)
            && !knows(|track| &track.allocated)
            && !knows(|track| &track.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_value_leaves_those_before_it_unknown() {
        let mut column = Column::default();
        column.push_as(3, 7);
        let values = [column.get(0), column.get(1), column.get(2)];
        assert_eq!(values, [None, None, Some(7)]);
    }

    #[test]
    fn unknown_is_not_zero() {
        let column: Column = [Some(0), None, Some(-5)].into_iter().collect();
        assert_eq!(column.get(0), Some(0));
        assert_eq!(column.get(1), None);
        assert_eq!(column.get(2), Some(-5));
        assert_eq!(column.get(3), None);
    }
}
