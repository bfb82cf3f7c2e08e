//! Finds the rank whose memory rose first, with the rules of stormlog 0.3.9.

use crate::phases::PhaseAttribution;
use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::{Map, Text, names, whole};

use super::{CrossRank, RankSamples, ResolvePhase, listed};
use crate::distinct;

/// A rise of the memory used by a rank is ignored when it has fewer bytes than this.
const FEWEST_BYTES: i64 = 64 << 20;

/// How certain it is that the memory of a rank rose first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The memory of this rank rose at least one sampling interval before that of every other rank.
    High,
    /// The rank's memory rose first, but at the same time as that of another rank or less than one
    /// sampling interval earlier.
    Medium,
    /// The rank's memory did not rise first, no other rank's memory rose, or samples of some ranks
    /// are missing.
    Low,
}

names!(Confidence {
    High => "high",
    Medium => "medium",
    Low => "low",
});

/// A rank whose memory may have risen first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct Suspect {
    pub rank: i64,
    pub first_spike_timestamp_ns: i64,
    pub aligned_first_spike_timestamp_ns: i64,
    pub peak_delta_bytes: i64,
    pub spike_window_samples: usize,
    pub lead_over_cluster_onset_ns: i64,
    pub confidence: Confidence,
    #[serde(skip)]
    pub supporting_ranks: usize,
    #[serde(rename = "phase_attribution")]
    #[schemars(with = "Option<Map>")]
    pub phase: Option<PhaseAttribution>,
}

/// The result of the search for the rank whose memory rose first: the ranks that it may have been,
/// and notes about the certainty.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct FirstCause {
    pub cluster_onset_timestamp_ns: Option<i64>,
    pub suspects: Vec<Suspect>,
    pub notes: Vec<String>,
}

struct Candidate {
    rank: i64,
    session_id: Text,
    at_ns: i64,
    aligned_ns: i64,
    rise: i64,
    steps: usize,
}

impl CrossRank {
    /// Finds the ranks whose memory may have risen first. The function `resolve` returns the phase
    /// of the program at a time.
    pub fn first_cause(&self, resolve: Option<&ResolvePhase<'_>>) -> FirstCause {
        if self.ranks.is_empty() {
            let none_given = self.events.is_empty();
            return FirstCause {
                notes: if none_given {
                    vec![super::NO_SAMPLES.into()]
                } else {
                    self.notes.clone()
                },
                ..FirstCause::default()
            };
        }
        if self.ranks.len() < 2 {
            let note = "At least two ranks are required for cross-rank first-cause analysis.";
            return FirstCause {
                notes: vec![note.into()],
                ..FirstCause::default()
            };
        }
        let mut notes = Vec::new();
        let short: Vec<i64> = self
            .rank_sample_counts()
            .filter(|(_, count)| *count < 2)
            .map(|(rank, _)| rank)
            .collect();
        if !short.is_empty() {
            notes.push(format!(
                "Some ranks have fewer than two samples and cannot contribute to spike detection: \
                 {}.",
                listed(&short)
            ));
        }
        let candidates = self.candidates();
        let Some(first) = candidates.first() else {
            notes.push("No qualifying cross-rank spikes were detected.".into());
            return FirstCause {
                notes,
                ..FirstCause::default()
            };
        };
        let earliest = first.aligned_ns;
        let onset = candidates.get(1).map(|candidate| candidate.aligned_ns);
        if onset.is_none() {
            let note = "Only one rank produced a qualifying spike; confidence is limited.";
            notes.push(note.into());
        }
        let supporting: Vec<&Candidate> = candidates
            .iter()
            .filter(|candidate| candidate.aligned_ns <= onset.unwrap_or(earliest))
            .collect();
        let tied = candidates
            .iter()
            .filter(|c| c.aligned_ns == earliest)
            .count();
        let sparse = !self.missing_ranks.is_empty() || !short.is_empty();
        let suspects = supporting
            .iter()
            .map(|candidate| {
                let lead = onset.map_or(0, |onset| onset.saturating_sub(candidate.aligned_ns));
                let is_first = candidate.aligned_ns == earliest;
                let clear = self.median_interval_ns <= 0 || lead >= self.median_interval_ns;
                let confidence = match (candidates.len() >= 2 && is_first, sparse) {
                    (true, false) if tied == 1 && clear => Confidence::High,
                    (true, false) => Confidence::Medium,
                    _ => Confidence::Low,
                };
                Suspect {
                    rank: candidate.rank,
                    first_spike_timestamp_ns: candidate.at_ns,
                    aligned_first_spike_timestamp_ns: candidate.aligned_ns,
                    peak_delta_bytes: candidate.rise,
                    spike_window_samples: candidate.steps,
                    lead_over_cluster_onset_ns: lead,
                    confidence,
                    supporting_ranks: supporting.len(),
                    phase: resolve.and_then(|resolve| {
                        resolve(candidate.at_ns, &candidate.session_id, candidate.rank)
                    }),
                }
            })
            .collect();
        FirstCause {
            cluster_onset_timestamp_ns: onset,
            suspects,
            notes,
        }
    }

    /// The ranks with a rise that [`first_rise`](RankSamples::first_rise) finds, the earliest rise
    /// first.
    fn candidates(&self) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = self
            .ranks
            .iter()
            .filter_map(|(rank, of_rank)| {
                let (index, rise, steps) = of_rank.first_rise()?;
                let sample = &of_rank.samples[index];
                let event = self.events.event(sample.id);
                Some(Candidate {
                    rank: *rank,
                    session_id: event.origin().session_id.clone(),
                    at_ns: sample.timestamp_ns,
                    aligned_ns: sample.timestamp_ns.saturating_sub(self.offset(*rank)),
                    rise,
                    steps,
                })
            })
            .collect();
        candidates.sort_by_key(|c| (c.aligned_ns, std::cmp::Reverse(c.rise), c.rank));
        candidates
    }

    /// The notes of this comparison and those of `cause`, without duplicates.
    pub fn all_notes(&self, cause: &FirstCause) -> Vec<String> {
        distinct(self.notes.iter().chain(&cause.notes).cloned())
    }
}

impl RankSamples {
    /// The sample at which an uninterrupted rise reaches the threshold: its index, the rise in
    /// bytes, and how many samples in a row were higher than the sample before. The threshold is
    /// 10 % of the rank's highest memory use, but at least [`FEWEST_BYTES`]. Samples with unknown
    /// memory use are skipped.
    fn first_rise(&self) -> Option<(usize, i64, usize)> {
        if self.samples.len() < 2 {
            return None;
        }
        let largest = self.samples.iter().filter_map(|sample| sample.used).max()?;
        // As in stormlog 0.3.9, which computes `int(largest * 0.1)`, the fraction is cut off.
        let threshold = FEWEST_BYTES.max(whole(largest as f64 * 0.1));
        let mut previous = None;
        let (mut rise, mut steps) = (0_i64, 0);
        for (index, sample) in self.samples.iter().enumerate() {
            let Some(used) = sample.used else { continue };
            let step = previous.map_or(0, |previous| used.saturating_sub(previous));
            previous = Some(used);
            if step <= 0 {
                (rise, steps) = (0, 0);
                continue;
            }
            rise = rise.saturating_add(step);
            steps += 1;
            if rise >= threshold {
                return Some((index, rise, steps));
            }
        }
        None
    }
}
