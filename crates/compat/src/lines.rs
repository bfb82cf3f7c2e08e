//! The lines that the `analyze` command of stormlog 0.3.9 prints, and its advice on gaps.

use crate::gap::GapClass;
use crate::phases::PhaseAttribution;
use stormlog_format::byte_text;

use crate::analyses::Analyses;

/// The three pieces of advice that stormlog 0.3.9 gives on a gap finding of the given class, such
/// as a transient spike.
pub(crate) fn remediation(class: GapClass) -> [&'static str; 3] {
    match class {
        GapClass::TransientSpike => [
            "Investigate non-allocator memory consumers active during spikes (cuDNN workspace, \
             NCCL buffers, other frameworks).",
            "Use torch.cuda.memory_snapshot() around spike windows for detailed attribution.",
            "Consider pinning cuDNN workspace size with torch.backends.cudnn.benchmark = False.",
        ],
        GapClass::PersistentDrift => [
            "Look for non-PyTorch CUDA allocations accumulating over time (e.g. custom CUDA \
             kernels, third-party libraries).",
            "Monitor nvidia-smi used memory alongside torch allocator counters.",
            "If gap stabilises after warmup, it may be one-time CUDA context overhead.",
        ],
        GapClass::FragmentationLike => [
            "Call torch.cuda.empty_cache() periodically to release unused reserved blocks.",
            "Reduce allocation churn by pre-allocating tensors or using memory pools.",
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to reduce fragmentation.",
        ],
    }
}

/// The lines about gaps and ranks, which `analyze` prints after the name and size of the file.
pub fn lines(analyses: &Analyses) -> Vec<String> {
    let mut lines = vec![format!("Gap findings: {}", analyses.gaps.len())];
    let phase = analyses
        .gaps
        .first()
        .and_then(|(_, phase)| phase.as_ref()?.label());
    if let Some(phase) = phase {
        lines.push(format!("Top gap phase: {phase}"));
    }
    if let Some((cross, cause)) = &analyses.ranks {
        let listed = |ranks: Vec<String>| {
            if ranks.is_empty() {
                "none".to_owned()
            } else {
                ranks.join(", ")
            }
        };
        let present = cross.rank_sample_counts().map(|(rank, _)| rank.to_string());
        let missing = cross.missing_ranks.iter().map(i64::to_string);
        lines.push(String::new());
        lines.push("Distributed Analysis:".into());
        lines.push(format!(
            "Participating ranks: {}",
            listed(present.collect())
        ));
        lines.push(format!("Missing ranks: {}", listed(missing.collect())));
        if let Some(onset) = cause.cluster_onset_timestamp_ns {
            lines.push(format!("Cluster onset (aligned ns): {onset}"));
        }
        match cause.suspects.first() {
            None => lines.push("No qualifying first-cause suspect identified.".into()),
            Some(suspect) => {
                lines.push(format!(
                    "Top first-cause suspect: rank {} ({})",
                    suspect.rank,
                    suspect.confidence.as_str()
                ));
                lines.push(format!(
                    "Evidence: timestamp_ns={}, aligned_timestamp_ns={}, lead_ns={}, delta={}",
                    suspect.first_spike_timestamp_ns,
                    suspect.aligned_first_spike_timestamp_ns,
                    suspect.lead_over_cluster_onset_ns,
                    byte_text(suspect.peak_delta_bytes)
                ));
                if let Some(phase) = suspect.phase.as_ref().and_then(PhaseAttribution::label) {
                    lines.push(format!("Suspect phase: {phase}"));
                }
            }
        }
        let notes = cross.all_notes(cause);
        if !notes.is_empty() {
            lines.push(format!("Notes: {}", notes.join(" ")));
        }
    }
    lines
}
