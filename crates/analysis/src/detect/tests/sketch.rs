//! Builds small runs for tests, so that a test reads like a sentence:
//! `a_rank(1).grows(mib(8), 100).track()`. All values are computed from the sample's number, so they
//! never change between test runs.

use crate::timeline::{OomMark, PhaseSpan, Run, Track};

pub(crate) const fn mib(count: i64) -> i64 {
    count << 20
}

pub(crate) const fn gib(count: i64) -> i64 {
    count << 30
}

pub(crate) const SECOND_NS: i64 = 1_000_000_000;
/// Timestamp of the first sample of a rank with a correct clock.
pub(crate) const START_NS: i64 = 1_700_000_000 * SECOND_NS;

/// Whole seconds since the first sample of a rank with a correct clock.
pub(crate) fn seconds_since_start(at_ns: Option<i64>) -> i64 {
    at_ns.map_or(i64::MIN, |ns| (ns - START_NS) / SECOND_NS)
}

/// A plain training run of one rank, as test data. The model of the plain run loads for a twentieth
/// of the run. After the model load, steps of eight samples follow, between a floor of 20 GiB and a
/// peak of 30 GiB, on a device of 80 GiB with one sample per second.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    rank: u32,
    samples: i64,
    factor: f64,
    total: Option<i64>,
    clock_ahead_s: i64,
    attached_at: i64,
    lifts: Vec<Lift>,
    hidden_lifts: Vec<Lift>,
    reserved_lifts: Vec<Lift>,
    phases: Vec<PhaseSpan>,
    oom: bool,
    device_id: i64,
}

/// Bytes added to a test signal as a function of the sample's number.
#[derive(Debug, Clone, Copy)]
enum Lift {
    Growth {
        per_sample: i64,
        from: i64,
        every: i64,
    },
    Jump {
        bytes: i64,
        at: i64,
    },
    Tooth {
        bytes: i64,
        every: i64,
    },
    /// A spike that holds the signal at a constant level, `bytes` above the normal peak.
    Spike {
        bytes: i64,
        at: i64,
        lasts: i64,
    },
}

pub(crate) fn a_rank(rank: u32) -> Sketch {
    Sketch {
        rank,
        samples: 400,
        factor: 1.0,
        total: Some(gib(80)),
        clock_ahead_s: 0,
        attached_at: 0,
        lifts: Vec::new(),
        hidden_lifts: Vec::new(),
        reserved_lifts: Vec::new(),
        phases: Vec::new(),
        oom: false,
        device_id: 0,
    }
}

pub(crate) fn run_of(sketches: impl IntoIterator<Item = Sketch>) -> Run {
    Run {
        tracks: sketches.into_iter().map(|sketch| sketch.track()).collect(),
        ..Run::default()
    }
}

impl Sketch {
    pub(crate) fn samples(mut self, samples: i64) -> Self {
        self.samples = samples;
        self
    }

    /// The rank holds `factor` times as much memory as a plain rank.
    pub(crate) fn holds(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    pub(crate) fn total_unknown(mut self) -> Self {
        self.total = None;
        self
    }

    pub(crate) fn clock_ahead(mut self, seconds: i64) -> Self {
        self.clock_ahead_s = seconds;
        self
    }

    /// The recorder attaches late and misses the samples before number `sample`.
    pub(crate) fn attached_at(mut self, sample: i64) -> Self {
        self.attached_at = sample;
        self
    }

    /// The floor grows by `per_sample` bytes in every sample from number `from` on.
    pub(crate) fn grows(self, per_sample: i64, from: i64) -> Self {
        self.grows_in_stairs(per_sample, from, 1)
    }

    /// The floor grows at an average rate of `per_sample` bytes, but rises only once every `every`
    /// samples.
    pub(crate) fn grows_in_stairs(mut self, per_sample: i64, from: i64, every: i64) -> Self {
        self.lifts.push(Lift::Growth {
            per_sample,
            from,
            every,
        });
        self
    }

    pub(crate) fn jumps(mut self, bytes: i64, at: i64) -> Self {
        self.lifts.push(Lift::Jump { bytes, at });
        self
    }

    /// The floor rises by `bytes` and falls back once every `every` samples.
    pub(crate) fn collects_garbage(mut self, bytes: i64, every: i64) -> Self {
        self.lifts.push(Lift::Tooth { bytes, every });
        self
    }

    pub(crate) fn spikes(mut self, bytes: i64, at: i64, lasts: i64) -> Self {
        self.lifts.push(Lift::Spike { bytes, at, lasts });
        self
    }

    pub(crate) fn hidden_grows(mut self, per_sample: i64, from: i64) -> Self {
        self.hidden_lifts.push(Lift::Growth {
            per_sample,
            from,
            every: 1,
        });
        self
    }

    pub(crate) fn hidden_jumps(mut self, bytes: i64, at: i64) -> Self {
        self.hidden_lifts.push(Lift::Jump { bytes, at });
        self
    }

    pub(crate) fn hidden_spikes(mut self, bytes: i64, at: i64, lasts: i64) -> Self {
        self.hidden_lifts.push(Lift::Spike { bytes, at, lasts });
        self
    }

    pub(crate) fn reserved_jumps(mut self, bytes: i64, at: i64) -> Self {
        self.reserved_lifts.push(Lift::Jump { bytes, at });
        self
    }

    pub(crate) fn marks_phase(mut self, name: &str, from: i64, to: i64) -> Self {
        let at = |sample: i64| START_NS + sample * SECOND_NS;
        let (start_ns, end_ns) = (at(from), Some(at(to)));
        self.phases.push(PhaseSpan {
            name: name.to_owned(),
            start_ns,
            end_ns,
            ..PhaseSpan::default()
        });
        self
    }

    pub(crate) fn runs_out_of_memory(mut self) -> Self {
        self.oom = true;
        self
    }

    /// The rank runs on a CPU, where all counters equal the resident memory.
    pub(crate) fn on_cpu(mut self) -> Self {
        self.device_id = -1;
        self
    }

    pub(crate) fn track(&self) -> Track {
        let mut track = Track {
            rank: self.rank,
            device_id: self.device_id,
            session_id: format!("session-{}", self.rank),
            phases: self.phases.clone(),
            ..Track::default()
        };
        let mut reserved = 0;
        for k in 0..self.samples {
            let (allocated, need) = self.allocated(k);
            reserved = reserved.max(need + need / 50);
            if k < self.attached_at {
                continue;
            }
            let held = reserved + lifted(&self.reserved_lifts, k, 0);
            let hidden = lifted(&self.hidden_lifts, k, 0) + gib(1) + mib(k * 7 % 5 * 2);
            let (held, used) = if self.device_id < 0 {
                (allocated, allocated)
            } else {
                (held, held + hidden)
            };
            track
                .t_ns
                .push(START_NS + (k + self.clock_ahead_s) * SECOND_NS + k * 7919 % 1000);
            track.allocated.push(Some(allocated));
            track.reserved.push(Some(held));
            track.used.push(Some(used));
            track.free.push(self.total.map(|total| total - used));
            track.total.push(self.total);
        }
        if self.oom {
            let at_ns = START_NS + self.samples * SECOND_NS;
            track.ooms.push(OomMark {
                at_ns,
                reason: "out of memory".to_owned(),
                ..OomMark::default()
            });
        }
        track
    }

    /// Allocated bytes at a sample, and the highest bytes that the sample's step needs.
    fn allocated(&self, k: i64) -> (i64, i64) {
        let load = self.samples / 20;
        if k < load {
            let bytes = scaled(gib(10) * k / load, self.factor);
            return (bytes, bytes);
        }
        // Memory in a step rises to its peak, falls to the level of the optimizer's update and
        // returns to its floor.
        let shape = [0, 25, 60, 100, 70, 40, 20, 0][usize::try_from(k % 8).unwrap_or(0)];
        let batch = 92 + (k / 8 * 31) % 9;
        let step = gib(10) * shape * batch / 10_000;
        let floor = gib(20) + mib(k * 13 % 7);
        let peak = scaled(floor + gib(10), self.factor);
        let bytes = lifted(&self.lifts, k, peak - scaled(floor + step, self.factor));
        let allocated = scaled(floor + step, self.factor) + bytes;
        (allocated, allocated.max(peak + lifted(&self.lifts, k, 0)))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "tests use small numbers")]
fn scaled(bytes: i64, factor: f64) -> i64 {
    (bytes as f64 * factor) as i64
}

/// The sum of all added bytes at a sample that is `below_peak` bytes below the normal peak.
fn lifted(lifts: &[Lift], k: i64, below_peak: i64) -> i64 {
    let of = |lift: &Lift| match *lift {
        Lift::Growth {
            per_sample,
            from,
            every,
        } => per_sample * ((k - from).max(0) / every * every),
        Lift::Jump { bytes, at } => {
            if k >= at {
                bytes
            } else {
                0
            }
        }
        Lift::Tooth { bytes, every } => bytes * (k % every) / every,
        Lift::Spike { bytes, at, lasts } if (at..at + lasts).contains(&k) => bytes + below_peak,
        Lift::Spike { .. } => 0,
    };
    lifts.iter().map(of).sum()
}
