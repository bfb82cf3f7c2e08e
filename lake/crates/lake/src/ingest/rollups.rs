//! Sums up samples per track and minute, for the table `rollups`.
//!
//! A minute that is ingested in parts has a row for each part: readers add up counts and sums, and
//! take the least and greatest of all parts.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Date32Builder, Int64Builder, RecordBatch, StringBuilder};
use datafusion::arrow::error::ArrowError;
use hashbrown::HashMap;
use stormlog_analysis::EventRef;
use stormlog_format::{SampleNumber, SampleNumbers, Text};
use stormlog_lake_tables::Table;

use super::rows::{day, text};

const NS_A_MINUTE: i64 = 60_000_000_000;

/// The key of a row: a track (the samples of one device in one session and rank) and a minute.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    source_id: Arc<str>,
    session_id: Text,
    rank: i64,
    device_id: i64,
    minute_ns: i64,
}

#[derive(Clone, Copy, Default)]
struct Counter {
    known: i64,
    sum: i64,
    least: i64,
    greatest: i64,
}

impl Counter {
    fn add(&mut self, value: Option<i64>) {
        let Some(value) = value else { return };
        self.least = if self.known == 0 {
            value
        } else {
            self.least.min(value)
        };
        self.greatest = if self.known == 0 {
            value
        } else {
            self.greatest.max(value)
        };
        self.sum = self.sum.saturating_add(value);
        self.known += 1;
    }

    fn known(self, value: i64) -> Option<i64> {
        (self.known > 0).then_some(value)
    }
}

struct Minute {
    host: Text,
    job_id: Option<Text>,
    samples: i64,
    first_ns: i64,
    last_ns: i64,
    sampling_interval_ms: i64,
    allocated: Counter,
    allocated_first: Option<i64>,
    allocated_last: Option<i64>,
    reserved: Counter,
    used: Counter,
    unused: Counter,
    free: Counter,
    total: Counter,
    step_floor: Counter,
}

/// The sums of all tracks and minutes in a batch, in the order in which their first samples were
/// added.
#[derive(Default)]
pub(super) struct Rollups {
    minutes: Vec<(Key, Minute)>,
    by_key: HashMap<Key, usize>,
    /// The index of the minute that the last sample belonged to, because the next sample usually
    /// belongs to the same one.
    last: Option<usize>,
}

impl Rollups {
    pub(super) fn push(&mut self, source_id: &str, event: EventRef<'_>, numbers: &SampleNumbers) {
        let index = self.index_of(source_id, event);
        let minute = &mut self.minutes[index].1;
        let time = event.timestamp_ns();
        let (allocated, reserved) = (event.allocated_bytes(), event.reserved_bytes());
        minute.samples += 1;
        if time <= minute.first_ns {
            minute.allocated_first = allocated.or(minute.allocated_first);
        }
        if time >= minute.last_ns {
            minute.allocated_last = allocated.or(minute.allocated_last);
        }
        minute.first_ns = minute.first_ns.min(time);
        minute.last_ns = minute.last_ns.max(time);
        let interval = event.origin().sampling_interval_ms;
        minute.sampling_interval_ms = minute.sampling_interval_ms.max(interval);
        minute.allocated.add(allocated);
        minute.reserved.add(reserved);
        minute.used.add(event.used_bytes());
        let both = reserved.zip(allocated);
        minute
            .unused
            .add(both.map(|(held, used)| held.saturating_sub(used)));
        minute.free.add(event.free_bytes());
        minute.total.add(event.total_bytes());
        if numbers[SampleNumber::Step].is_some() {
            minute.step_floor.add(allocated);
        }
    }

    fn index_of(&mut self, source_id: &str, event: EventRef<'_>) -> usize {
        let origin = event.origin();
        let time = event.timestamp_ns();
        // The multiplication saturates, because the earliest possible time, in 1677, is in the
        // middle of a minute.
        let minute_ns = time.div_euclid(NS_A_MINUTE).saturating_mul(NS_A_MINUTE);
        let is_same = |key: &Key| {
            key.minute_ns == minute_ns
                && key.rank == origin.rank
                && key.device_id == origin.device_id
                && &*key.source_id == source_id
                && key.session_id == origin.session_id
        };
        if let Some(last) = self.last.filter(|last| is_same(&self.minutes[*last].0)) {
            return last;
        }
        let key = Key {
            source_id: source_id.into(),
            session_id: origin.session_id.clone(),
            rank: origin.rank,
            device_id: origin.device_id,
            minute_ns,
        };
        let minutes = &mut self.minutes;
        let index = *self.by_key.entry(key.clone()).or_insert_with(|| {
            let minute = Minute {
                host: origin.host.clone(),
                job_id: origin.job_id.clone(),
                samples: 0,
                first_ns: time,
                last_ns: time,
                sampling_interval_ms: 0,
                allocated: Counter::default(),
                allocated_first: None,
                allocated_last: None,
                reserved: Counter::default(),
                used: Counter::default(),
                unused: Counter::default(),
                free: Counter::default(),
                total: Counter::default(),
                step_floor: Counter::default(),
            };
            minutes.push((key, minute));
            minutes.len() - 1
        });
        self.last = Some(index);
        index
    }

    pub(super) fn finish(self) -> Result<RecordBatch, ArrowError> {
        let mut date = Date32Builder::new();
        let mut texts: [StringBuilder; 4] = Default::default();
        let mut numbers: [Int64Builder; 27] = Default::default();
        for (key, minute) in &self.minutes {
            date.append_value(day(key.minute_ns));
            texts[0].append_value(&key.source_id);
            texts[1].append_value(text(&key.session_id));
            texts[2].append_value(text(&minute.host));
            texts[3].append_option(minute.job_id.as_ref().map(text));
            for (column, value) in numbers.iter_mut().zip(minute.numbers(key)) {
                column.append_option(value);
            }
        }
        let mut columns: Vec<ArrayRef> = vec![Arc::new(date.finish())];
        columns.extend(
            texts
                .iter_mut()
                .map(|column| Arc::new(column.finish()) as ArrayRef),
        );
        columns.extend(
            numbers
                .iter_mut()
                .map(|column| Arc::new(column.finish()) as ArrayRef),
        );
        RecordBatch::try_new(Table::Rollups.schema(), columns)
    }
}

impl Minute {
    /// The values of the integer columns, which follow the text columns in the schema of the table.
    fn numbers(&self, key: &Key) -> [Option<i64>; 27] {
        let (allocated, reserved, used) = (self.allocated, self.reserved, self.used);
        [
            Some(key.rank),
            Some(key.device_id),
            Some(key.minute_ns),
            Some(self.samples),
            Some(self.first_ns),
            Some(self.last_ns),
            Some(self.sampling_interval_ms),
            Some(allocated.known),
            allocated.known(allocated.sum),
            allocated.known(allocated.least),
            allocated.known(allocated.greatest),
            self.allocated_first,
            self.allocated_last,
            Some(reserved.known),
            reserved.known(reserved.sum),
            reserved.known(reserved.least),
            reserved.known(reserved.greatest),
            Some(used.known),
            used.known(used.sum),
            used.known(used.least),
            used.known(used.greatest),
            Some(self.unused.known),
            self.unused.known(self.unused.sum),
            self.free.known(self.free.least),
            self.total.known(self.total.greatest),
            Some(self.step_floor.known),
            self.step_floor.known(self.step_floor.least),
        ]
    }
}
