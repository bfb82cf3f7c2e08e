//! The typed sample: the counters of an event and the numbers in its metadata, parsed by one set of
//! rules for all readers.
//!
//! [`SampleNumber`] lists the numbers. A value that is not a whole number from 0 to `i64::MAX` (a
//! text, a negative number, NaN, a number beyond 64 bits) is unknown, never zero.

mod number;
mod process;
mod reader;

pub use number::{Place, SampleNumber, SampleNumbers};
pub use process::{ProcessMemory, other_processes};
pub use reader::SampleReader;

use crate::event::{Counters, Event};
use crate::metadata_keys::{COLLECTOR_PARTIAL_FIELDS, HOST_MEMORY, PROCESSES};
use crate::placeholders::Placeholders;
use crate::value::Map;

/// What an event measured: its counters, and the numbers in its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The counters that were read, without placeholders.
    pub counters: Counters,
    /// The numbers in the metadata.
    pub numbers: SampleNumbers,
    /// The memory of each process of a process tree.
    pub processes: Vec<ProcessMemory>,
}

impl Sample {
    /// The sample in an event. [`SampleReader`] reads the same from metadata that are not parsed.
    #[must_use]
    pub fn of_event(event: &Event) -> Self {
        MetadataNumbers::of_map(&event.metadata).with_counters(event.counters)
    }
}

/// What the metadata of an event contribute to a [`Sample`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MetadataNumbers {
    numbers: SampleNumbers,
    processes: Vec<ProcessMemory>,
    placeholders: Placeholders,
}

impl MetadataNumbers {
    fn with_counters(self, counters: Counters) -> Sample {
        Sample {
            counters: counters.known(self.placeholders),
            numbers: self.numbers,
            processes: self.processes,
        }
    }

    fn of_map(metadata: &Map) -> Self {
        let mut found = Self {
            processes: ProcessMemory::of_rows(metadata.list(PROCESSES)),
            placeholders: metadata
                .get(COLLECTOR_PARTIAL_FIELDS)
                .map_or_else(Placeholders::default, Placeholders::of_value),
            ..Self::default()
        };
        let objects = [
            (Place::Metadata, Some(metadata)),
            (Place::HostMemory, metadata.object(HOST_MEMORY)),
        ];
        for (place, object) in objects {
            for (key, value) in object.into_iter().flat_map(Map::iter) {
                if let Some(number) = SampleNumber::of_key(place, key.as_bytes()) {
                    found.numbers[number] = value.as_int().filter(|value| *value >= 0);
                }
            }
        }
        found
    }
}
