//! The list of all detectors, each with the kind of problem that it finds.

use std::fmt;

use super::detector::Detector;

/// Defines [`Kind`] and [`Kind::detector`] from the modules of the detectors. The name of a kind is
/// the name of its module.
macro_rules! detectors {
    ($($(#[$doc:meta])* $module:ident => $kind:ident),+ $(,)?) => {
        /// The kind of problem that a detector looks for; the most urgent kind comes first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind),+
        }

        stormlog_format::names!(Kind {
            $($kind => stringify!($module)),+
        });

        impl Kind {
            /// The detector that looks for problems of this kind.
            #[must_use]
            pub const fn detector(self) -> &'static Detector {
                match self {
                    $(Self::$kind => &super::$module::DETECTOR),+
                }
            }
        }

        $(const _: () = assert!(
            matches!(super::$module::DETECTOR.kind, Kind::$kind),
            concat!(stringify!($module), " has the descriptor of another kind"),
        );)+
    };
}

// Among findings of equal severity, kinds that are earlier in this list are shown first.
detectors! {
    /// The run ran out of memory, or growing memory will soon fill the device.
    oom_risk => OomRisk,
    /// The floor of allocated memory (the memory held between steps) keeps growing.
    allocator_leak => AllocatorLeak,
    /// Hidden memory (in use outside the allocator) keeps growing.
    hidden_drift => HiddenDrift,
    /// The host memory of a process keeps growing.
    host_leak => HostLeak,
    /// The memory that the allocator reserves rises ever further above the highest number of bytes
    /// that were allocated at once.
    fragmentation => Fragmentation,
    /// The floor of allocated or hidden memory jumped once and did not fall back.
    step_change => StepChange,
    /// Memory rose above its normal peak for a short time.
    transient_spike => TransientSpike,
    /// A leak, a drift or a jump of all ranks began on one rank clearly before the others.
    rank_first_cause => RankFirstCause,
    /// One rank permanently holds more memory than the others.
    rank_imbalance => RankImbalance,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
