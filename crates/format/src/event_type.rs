//! The event types that Stormlog writes and reads.

use crate::text::Text;

/// The type of an event. Records may have types that this enum does not list; such a type is kept
/// as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The memory counters at one of the regular sampling times.
    Sample,
    /// A training step ended.
    Step,
    /// The recorder started.
    Start,
    /// The recorder stopped.
    Stop,
    /// Allocated memory grew.
    Allocation,
    /// Allocated memory shrank.
    Deallocation,
    /// Allocated memory reached a new peak.
    Peak,
    /// An alert that is less severe than [`Critical`](Self::Critical).
    Warning,
    /// An alert about a severe problem, such as memory that is almost full.
    Critical,
    /// The condition of an alert has ended; this event is not an alert itself.
    AlertCleared,
    /// An error, such as running out of memory.
    Error,
    /// The framework's cached memory was released.
    Cleanup,
    /// A collector can no longer read all of its counters.
    CollectorDegraded,
    /// A collector can read all of its counters again.
    CollectorRecovered,
    /// A phase of the program, such as `train`, began.
    PhaseEnter,
    /// A phase of the program ended.
    PhaseExit,
    /// A process of the watched process tree started.
    ProcessStart,
    /// A process of the watched process tree exited.
    ProcessExit,
    /// An exception ended a process.
    Exception,
    /// What an evidence window saw: which lines of code allocated memory that stays in use, and
    /// what holds this memory.
    MemoryEvidence,
    /// Lists the processes and libraries that use a device.
    MemoryLedger,
}

crate::names!(EventType {
    Sample => "sample",
    Step => "step",
    Start => "start",
    Stop => "stop",
    Allocation => "allocation",
    Deallocation => "deallocation",
    Peak => "peak",
    Warning => "warning",
    Critical => "critical",
    AlertCleared => "alert_cleared",
    Error => "error",
    Cleanup => "cleanup",
    CollectorDegraded => "collector_degraded",
    CollectorRecovered => "collector_recovered",
    PhaseEnter => "phase_enter",
    PhaseExit => "phase_exit",
    ProcessStart => "process_start",
    ProcessExit => "process_exit",
    Exception => "exception",
    MemoryEvidence => "memory_evidence",
    MemoryLedger => "memory_ledger",
});

impl EventType {
    /// The event type with the name `text`, such as `sample`; `None` if no type has exactly this
    /// name.
    pub fn of(text: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|known| known.as_str().as_bytes() == text)
    }

    /// Whether the text is exactly the name of this type.
    pub fn is(self, text: &[u8]) -> bool {
        self.as_str().as_bytes() == text
    }
}

impl From<EventType> for Text {
    fn from(event_type: EventType) -> Self {
        event_type.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_text() {
        for known in EventType::ALL {
            assert_eq!(EventType::of(known.as_str().as_bytes()), Some(known));
        }
        assert_eq!(EventType::of(b"Sample"), None);
        assert!(EventType::Stop.is(b"stop") && !EventType::Stop.is(b"step"));
    }
}
