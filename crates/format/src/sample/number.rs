//! The list of the numbers in the metadata of samples.

use std::ops::{Index, IndexMut};

/// The object that contains a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The metadata itself.
    Metadata,
    /// The object `host_memory` in the metadata.
    HostMemory,
}

macro_rules! sample_numbers {
    ($($(#[doc = $doc:literal])+ $name:ident: $place:ident $key:literal, $column:expr;)+) => {
        /// A number in the metadata of a sample. This is the only list of these numbers: readers
        /// and writers of recordings take the keys from here, and the tables of a lake the columns.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SampleNumber {
            $($(#[doc = $doc])+ $name,)+
        }

        impl SampleNumber {
            /// All numbers, in the order of the columns of tables.
            pub const ALL: [Self; [$($key),+].len()] = [$(Self::$name),+];

            /// The key of the number in its object.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$name => $key,)+ }
            }

            /// The object that contains the number.
            #[must_use]
            pub const fn place(self) -> Place {
                match self { $(Self::$name => Place::$place,)+ }
            }

            /// The name of the number's column in a table of samples; `None` if it has no column
            /// there and stays in the text of the metadata.
            #[must_use]
            pub const fn column(self) -> Option<&'static str> {
                match self { $(Self::$name => $column,)+ }
            }

            /// The number with a key in an object.
            #[must_use]
            pub fn of_key(place: Place, key: &[u8]) -> Option<Self> {
                match (place, std::str::from_utf8(key).ok()?) {
                    $((Place::$place, $key) => Some(Self::$name),)+
                    _ => None,
                }
            }
        }
    };
}

sample_numbers! {
    /// The step that had just ended when the counters were read; unknown at other times.
    Step: Metadata "step", Some("step");
    /// The number of the optimizer whose step had just ended; unknown at other times.
    Optimizer: Metadata "optimizer", Some("optimizer");
    /// The number of steps so far.
    StepCount: Metadata "step_count", Some("step_count");
    /// The allocator's own peak counter: the highest number of allocated bytes since the program
    /// last reset the counter.
    AllocatorPeak: Metadata "allocator_peak_bytes", Some("allocator_peak_bytes");
    /// When the counters of the allocator were read, where that is before the time of the event.
    AllocatorReadNs: Metadata "allocator_read_ns", Some("allocator_read_ns");
    /// Device memory in use by the recorded process, as the driver counts it.
    Own: Metadata "process_device_used_bytes", Some("process_device_used_bytes");
    /// Pinned host memory that the program holds.
    Pinned: Metadata "pinned_bytes", Some("pinned_bytes");
    /// Anonymous host memory of the process tree.
    HostAnonymous: HostMemory "anonymous", Some("host_anonymous_bytes");
    /// Shared host memory of the process tree, with shared pages counted once.
    HostShared: HostMemory "shared", Some("host_shared_bytes");
    /// Pages of files that the process tree has mapped.
    HostFile: HostMemory "file", Some("host_file_bytes");
    /// Device memory in use by all processes that the driver lists, where it is not known which of
    /// them is the recorded process.
    Unassigned: Metadata "unassigned_process_bytes", None;
}

impl SampleNumber {
    /// Parses the JSON text of a number; `None` if it is not a whole number from 0 to `i64::MAX`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<i64> {
        let value: i64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
        (value >= 0).then_some(value)
    }
}

/// The numbers in the metadata of one sample; `None` for a number that is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleNumbers([Option<i64>; SampleNumber::ALL.len()]);

impl SampleNumbers {
    /// The known numbers, in the order of [`SampleNumber::ALL`].
    pub fn known(&self) -> impl Iterator<Item = (SampleNumber, i64)> {
        let numbers = SampleNumber::ALL.into_iter().zip(self.0);
        numbers.filter_map(|(number, value)| Some((number, value?)))
    }

    /// Makes all numbers of an object unknown.
    pub(super) fn forget(&mut self, place: Place) {
        let of_place = SampleNumber::ALL.into_iter();
        for number in of_place.filter(|number| number.place() == place) {
            self[number] = None;
        }
    }
}

impl Index<SampleNumber> for SampleNumbers {
    type Output = Option<i64>;

    fn index(&self, number: SampleNumber) -> &Option<i64> {
        &self.0[number as usize]
    }
}

impl IndexMut<SampleNumber> for SampleNumbers {
    fn index_mut(&mut self, number: SampleNumber) -> &mut Option<i64> {
        &mut self.0[number as usize]
    }
}
