//! The event types that Stormlog writes and reads.

use crate::text::Text;

/// A type of event. Records may have other types, which are kept as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// A regular reading of the counters.
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
    /// A less severe alert.
    Warning,
    /// A severe alert.
    Critical,
    /// An error, such as running out of memory.
    Error,
    /// Cached memory was released.
    Cleanup,
    /// A collector can no longer read everything.
    CollectorDegraded,
    /// A collector can read everything again.
    CollectorRecovered,
    /// A phase began.
    PhaseEnter,
    /// A phase ended.
    PhaseExit,
    /// A process of the watched process tree started.
    ProcessStart,
    /// A process of the watched process tree exited.
    ProcessExit,
    /// An exception ended a process.
    Exception,
    /// Evidence collected while memory was growing.
    MemoryEvidence,
    /// What uses a device.
    MemoryLedger,
}

impl EventType {
    /// All types.
    pub const ALL: [Self; 20] = [
        Self::Sample,
        Self::Step,
        Self::Start,
        Self::Stop,
        Self::Allocation,
        Self::Deallocation,
        Self::Peak,
        Self::Warning,
        Self::Critical,
        Self::Error,
        Self::Cleanup,
        Self::CollectorDegraded,
        Self::CollectorRecovered,
        Self::PhaseEnter,
        Self::PhaseExit,
        Self::ProcessStart,
        Self::ProcessExit,
        Self::Exception,
        Self::MemoryEvidence,
        Self::MemoryLedger,
    ];

    /// The text in the field `event_type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sample => "sample",
            Self::Step => "step",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Allocation => "allocation",
            Self::Deallocation => "deallocation",
            Self::Peak => "peak",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Error => "error",
            Self::Cleanup => "cleanup",
            Self::CollectorDegraded => "collector_degraded",
            Self::CollectorRecovered => "collector_recovered",
            Self::PhaseEnter => "phase_enter",
            Self::PhaseExit => "phase_exit",
            Self::ProcessStart => "process_start",
            Self::ProcessExit => "process_exit",
            Self::Exception => "exception",
            Self::MemoryEvidence => "memory_evidence",
            Self::MemoryLedger => "memory_ledger",
        }
    }

    /// Parses a type. The text must match exactly.
    pub fn of(text: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|known| known.as_str().as_bytes() == text)
    }

    /// Whether the text is exactly this type.
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
