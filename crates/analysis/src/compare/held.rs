//! Finds holders of memory that hold more on the new side of a comparison, when the causes on both
//! sides are known.

use stormlog_format::human_bytes;

use super::profile::Profile;
use crate::detect::Finding;

/// An increase of a holder is reported when the new value is more than `LEAST_RATIO` times the base
/// value, and at least `LEAST_BYTES` higher. The values are bytes or, for growth rates, bytes per
/// second.
const LEAST_RATIO: f64 = 1.1;
const LEAST_BYTES: f64 = (1 << 20) as f64;
/// Maximum number of sentences that [`holds_more`] returns for a comparison.
const MOST_NOTES: usize = 10;

/// A holder of memory, or a line of code whose allocations stay in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownHolder {
    /// The rank of the process that holds the memory; `None` if the finding that names the holder
    /// affects all ranks.
    pub rank: Option<u32>,
    /// The name of the holder in a sentence: "`aux` in `__main__`", or "what loss.py:8 allocates".
    pub name: String,
    /// The key for recognizing the holder on the other side of the comparison. Numbers are removed
    /// from the key, because line numbers and counts change between runs.
    pub key: String,
    /// Bytes that the holder holds or, if `is_rate` is set, by which it grows per second.
    pub bytes: f64,
    /// Whether `bytes` is a growth rate in bytes per second.
    pub is_rate: bool,
}

/// The holders of memory and the lines of code that the cause of a finding names; empty if the
/// finding has no known cause.
pub(super) fn holders_of(finding: &Finding) -> Vec<KnownHolder> {
    let Some(cause) = &finding.cause else {
        return Vec::new();
    };
    if let Some(failure) = &cause.failure {
        let held = failure.holders.iter();
        return held
            .map(|held| KnownHolder {
                rank: finding.rank,
                key: without_numbers(&format!("{} {}", held.category, held.holder)),
                name: held.holder.clone(),
                bytes: held.bytes as f64,
                is_rate: false,
            })
            .collect();
    }
    let site = cause.site.as_ref();
    let named = match (&cause.holder, site) {
        (Some(holder), Some(site)) => {
            let name = format!(
                "{holder}, {} at {},",
                cause.site_role.participle(),
                site.place()
            );
            Some((name, without_numbers(holder)))
        }
        (Some(holder), None) => Some((holder.clone(), without_numbers(holder))),
        (None, Some(site)) => {
            let text = site.source_text.as_deref().unwrap_or_default();
            let key = format!("{} {} {text}", site.file_name(), site.function);
            Some((format!("what {} allocates", site.place()), key))
        }
        (None, None) => None,
    };
    let rate = finding.rate_bytes_per_s.filter(|rate| rate.is_finite());
    named
        .zip(rate)
        .map(|((name, key), rate)| KnownHolder {
            rank: finding.rank,
            name,
            key,
            bytes: rate * cause.share,
            is_rate: true,
        })
        .into_iter()
        .collect()
}

/// One sentence for each holder that holds more on the new side, the largest increase first. A
/// holder is left out if the findings of the base side name no holder at all for the same rank or
/// the whole run.
pub(super) fn holds_more(base: &Profile, new: &Profile) -> Vec<String> {
    let mut more: Vec<(f64, String)> = Vec::new();
    for now in &new.holders {
        let of_kind = |one: &&KnownHolder| {
            one.is_rate == now.is_rate && (one.rank == now.rank || one.rank.is_none())
        };
        if !base.holders.iter().any(|one| of_kind(&one)) {
            continue;
        }
        let same = base.holders.iter().filter(of_kind);
        let before = same.filter(|one| one.key == now.key).map(|one| one.bytes);
        let before = before.fold(None, |sum, bytes| Some(sum.unwrap_or(0.0) + bytes));
        let least = before.unwrap_or(0.0) * LEAST_RATIO;
        let growth = now.bytes - before.unwrap_or(0.0);
        if now.bytes > least && growth >= LEAST_BYTES {
            more.push((growth, sentence(now, before)));
        }
    }
    more.sort_by(|a, b| b.0.total_cmp(&a.0));
    more.into_iter()
        .take(MOST_NOTES)
        .map(|(_, sentence)| sentence)
        .collect()
}

fn sentence(now: &KnownHolder, before: Option<f64>) -> String {
    let rank = now
        .rank
        .map_or(String::new(), |rank| format!("rank {rank}: "));
    let (verb, unit, none) = if now.is_rate {
        ("grows by", "/s", "did not grow in the base run")
    } else {
        ("holds", "", "not among the largest holders in the base run")
    };
    let before = match before {
        Some(bytes) => format!("{}{unit} in the base run", human_bytes(bytes)),
        None => none.to_owned(),
    };
    let bytes = human_bytes(now.bytes);
    format!(
        "{rank}{holder} {verb} {bytes}{unit}, {before}",
        holder = now.name
    )
}

/// Replaces every number in a text by `#`, so that keys of holders do not depend on line numbers
/// and counts.
fn without_numbers(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_ascii_digit() {
            key.push(character);
        } else if !key.ends_with('#') {
            key.push('#');
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = LEAST_BYTES;

    fn profile(holders: &[(&str, f64, bool)]) -> Profile {
        let holders = holders.iter().map(|(name, bytes, is_rate)| KnownHolder {
            rank: Some(0),
            name: (*name).to_owned(),
            key: without_numbers(name),
            bytes: *bytes,
            is_rate: *is_rate,
        });
        Profile {
            holders: holders.collect(),
            ..Profile::default()
        }
    }

    #[test]
    fn what_holds_more_is_named_with_both_numbers() {
        let base = profile(&[
            ("the graphs of 62 tensors in `aux`", 100.0 * MIB, false),
            ("`model`", 500.0 * MIB, false),
        ]);
        let new = profile(&[
            ("`model`", 510.0 * MIB, false),
            ("the graphs of 120 tensors in `aux`", 300.0 * MIB, false),
            ("`seen`", 50.0 * MIB, false),
        ]);
        assert_eq!(
            holds_more(&base, &new),
            [
                "rank 0: the graphs of 120 tensors in `aux` holds 300 MiB, 100 MiB in the base run",
                "rank 0: `seen` holds 50.0 MiB, not among the largest holders in the base run",
            ]
        );
        assert!(holds_more(&new, &base).is_empty());
    }

    #[test]
    fn a_leak_is_compared_by_its_rate_and_only_with_a_leak() {
        let slow = profile(&[("`kept`", 2.0 * MIB, true)]);
        let fast = profile(&[("`kept`", 20.0 * MIB, true)]);
        assert_eq!(
            holds_more(&slow, &fast),
            ["rank 0: `kept` grows by 20.0 MiB/s, 2.00 MiB/s in the base run"]
        );
        let held = profile(&[("`kept`", 2.0 * MIB, false)]);
        assert!(holds_more(&held, &fast).is_empty());
        assert!(holds_more(&profile(&[]), &fast).is_empty());
    }
}
