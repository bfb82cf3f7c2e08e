//! Finds the cause of a process's host memory growth in the inspections ([`HostInspection`]) made
//! while it ran.
//!
//! A cause of growth is named only when it explains most of the growth, because a wrong name is
//! worse than none.

use stormlog_format::{LineRole, Retention, counted};

use super::{Cause, SiteRole};
use crate::detect::finding::{draft, words};
use crate::timeline::{HostHolder, HostInspection, float};

/// Smallest share of the growth of host memory that a container (`MOST_OF_IT`) or a single array or
/// text (`NEARLY_ALL`) must explain to be named as its cause. The limit for a single array or text
/// is higher, because it may only seem to have grown: the variable may have been assigned another,
/// larger object, such as the next batch.
const MOST_OF_IT: f64 = 0.5;
const NEARLY_ALL: f64 = 0.8;
/// The growth during an inspection must be at least this share of the growth that the average rate
/// predicts; otherwise the inspection shows an ordinary pause of the growth, and a holder in it need
/// not be the cause.
const LEAST_PACE: f64 = 0.2;
/// An object whose estimated growth is larger than this multiple of the process's growth cannot be
/// the cause.
const BEYOND: f64 = 4.0;
/// When Python objects explain less than this share of the growth, the growing memory is native
/// (allocated by an extension or library and not by Python).
const LITTLE: f64 = 0.2;
/// Smallest growth of the memory in use, in bytes, that is compared with the growth of memory
/// mappings. An allocator reserves memory in larger pieces than it uses.
const LEAST_USED: i64 = 16 << 20;

/// A cause of growing host memory, with its wording for a sentence.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HostCause {
    pub(crate) cause: Cause,
    /// The cause as the end of a sentence: "`kept` in `__main__` grows (1,204 items, 1.10 GiB)".
    pub(crate) words: String,
    pub(crate) advice: &'static str,
    /// How certain it is that the memory never comes back.
    pub(crate) fate: Fate,
}

/// Whether memory that grows comes back, as far as the inspections of a process show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The memory has a bound, is emptied, is a result, or was reserved before it was used.
    Ends,
    /// Nothing ends the growth, but it may end by itself: the keys of a dictionary may come from a
    /// collection that ends.
    MayEnd,
    /// Nothing ends the growth.
    Endless,
}

/// The cause of a process's host memory growing by `bytes_per_s`, from the latest inspection that
/// shows a cause. The times of inspections are stated relative to `origin_ns`.
pub(crate) fn of(
    inspections: &[HostInspection],
    bytes_per_s: f64,
    origin_ns: i64,
) -> Option<HostCause> {
    let mut inspections = inspections.iter().rev();
    inspections.find_map(|inspection| {
        held(inspection, bytes_per_s, origin_ns).or_else(|| native(inspection, bytes_per_s))
    })
}

/// The cause of growing shared memory, such as memory maps that are never closed. Only objects of
/// Python can be the cause, because the mappings that an inspection lists are private.
pub(crate) fn of_shared(
    inspections: &[HostInspection],
    bytes_per_s: f64,
    origin_ns: i64,
) -> Option<HostCause> {
    let mut inspections = inspections.iter().rev();
    inspections.find_map(|inspection| held(inspection, bytes_per_s, origin_ns))
}

/// Whether the memory that grows was reserved before: memory mappings grew by far less than the
/// memory in use, so the growth ends when the reserved memory is full.
pub(crate) fn fills_reserved_memory(inspections: &[HostInspection]) -> bool {
    inspections.last().is_some_and(|inspection| {
        let grown = inspection.mapped_bytes.zip(inspection.anonymous_bytes);
        grown.is_some_and(|(mapped, anonymous)| {
            anonymous >= LEAST_USED && float(mapped) < LITTLE * float(anonymous)
        })
    })
}

/// The Python container, array or text that grew the most, as the cause; `None` if its growth does
/// not explain most of the growth of the process. The growth is measured by the process during the
/// inspection, because growth may speed up: the average rate of a run is then higher than the rate
/// at the inspection.
fn held(inspection: &HostInspection, bytes_per_s: f64, origin_ns: i64) -> Option<HostCause> {
    let average = bytes_per_s * seconds(inspection.inside_ms?);
    let holder = inspection
        .holders
        .iter()
        .max_by_key(|one| one.bytes_gained)?;
    let gained = float(holder.bytes_gained);
    let is_container = holder.items_gained > 0;
    let least = if is_container { MOST_OF_IT } else { NEARLY_ALL };
    let measured = inspection
        .grown_bytes
        .map(float)
        .filter(|&grown| grown >= LEAST_PACE * average && gained >= LEAST_PACE * average);
    let mut shares = [measured, Some(average)]
        .into_iter()
        .flatten()
        .map(|grown| gained / grown);
    let share = shares.find(|share| (least..=BEYOND).contains(share))?;
    let site_role = match holder.line_role {
        LineRole::Added => SiteRole::AddsItems,
        LineRole::Created => SiteRole::CreatesHolder,
        LineRole::Disabled => SiteRole::DisablesCollector,
        LineRole::Summed => SiteRole::Sums,
    };
    let place = holder.added_at.as_ref().map_or_else(String::new, |site| {
        format!(", {} at {}", site_role.participle(), site.place())
    });
    let verb = super::verb_of(&holder.name);
    Some(HostCause {
        words: format!(
            "{} {verb} ({}){place}{}",
            holder.name,
            size(holder, inspection.at_ns, origin_ns),
            words_of_retention(holder)
        ),
        advice: advice(holder),
        fate: fate_of(holder),
        cause: Cause {
            site: holder.added_at.clone(),
            site_role,
            allocated_at: None,
            call_path: Vec::new(),
            holder: Some(holder.name.clone()),
            attributed_bytes: holder.bytes_gained,
            share: share.min(1.0),
            failure: None,
        },
    })
}

/// Whether a holder ever holds less again. A dictionary without ids may have keys that come from a
/// collection that ends, such as the indices of a data set.
fn fate_of(holder: &HostHolder) -> Fate {
    let is_keyed = holder.kind.to_ascii_lowercase().contains("dict");
    match holder.retention {
        _ if matches!(&*holder.kind, GRAPHS | GARBAGE) => Fate::Endless,
        Some(Retention::Bounded | Retention::Removed | Retention::Read) => Fate::Ends,
        Some(Retention::Kept) if is_keyed && !holder.has_ids => Fate::MayEnd,
        Some(Retention::Kept) => Fate::Endless,
        None => Fate::Unknown,
    }
}

/// The kind of a holder that is a collection of tensors whose autograd graphs grow, and of one that
/// is garbage which a disabled garbage collector does not free.
const GRAPHS: &str = "graphs";
const GARBAGE: &str = "garbage";

fn words_of_retention(holder: &HostHolder) -> String {
    match (holder.retention, holder.most_items) {
        _ if holder.kind == GRAPHS => String::new(),
        _ if holder.kind == GARBAGE && holder.added_at.is_none() => {
            ", and the garbage collector is turned off".to_owned()
        }
        _ if holder.kind == GARBAGE => String::new(),
        (Some(Retention::Bounded), None) => ", and the program checks its length".to_owned(),
        (Some(Retention::Bounded), Some(most)) => {
            format!(", at most {}", counted(most, "item"))
        }
        (Some(Retention::Removed), _) => ", and the program also removes items".to_owned(),
        (Some(Retention::Read), _) => {
            ", and the program reads all items, so it may be a result".to_owned()
        }
        (Some(Retention::Kept), _) => ", and nothing removes items".to_owned(),
        _ => String::new(),
    }
}

fn advice(holder: &HostHolder) -> &'static str {
    match holder.retention {
        _ if holder.kind == GRAPHS => {
            "Keep numbers instead of tensors: append `loss.item()` or `output.detach()`, or compute \
             under `torch.no_grad()`; each tensor that is kept keeps the graph that made it"
        }
        _ if holder.kind == GARBAGE => {
            "Turn the garbage collector on again (gc.enable()), call gc.collect() at times, or break \
             the cycles: links from children to parents can be weakref.ref"
        }
        Some(Retention::Bounded) => {
            "Nothing to do if the bound fits into memory; otherwise lower it"
        }
        Some(Retention::Read) => {
            "Nothing to do if this is the result and fits into memory; otherwise write it out in \
             parts, or keep only what is needed of each element"
        }
        _ => {
            "Limit the size of this container, clear it when it is no longer needed, or keep only \
             what is needed of each element"
        }
    }
}

/// The size of a holder when it was inspected: "6,079 items, 120 MiB at 45 s".
fn size(holder: &HostHolder, at_ns: Option<i64>, origin_ns: i64) -> String {
    let bytes = words::bytes(float(holder.bytes));
    let at = at_ns.map_or_else(String::new, |at_ns| {
        let seconds = float(at_ns.saturating_sub(origin_ns)) / 1e9;
        format!(" at {}", words::moment(seconds))
    });
    if holder.items_gained > 0 {
        format!("{}, {bytes}{at}", counted(holder.items, "item"))
    } else {
        format!("{bytes}{at}")
    }
}

/// Native memory as the cause, when the process's private memory mappings explain most of the
/// growth and its Python objects explain little of it.
fn native(inspection: &HostInspection, bytes_per_s: f64) -> Option<HostCause> {
    if inspection.is_python {
        let expected = bytes_per_s * seconds(inspection.inside_ms?);
        if !inspection.is_complete || float(inspection.objects_bytes?) > LITTLE * expected {
            return None;
        }
    }
    let expected = bytes_per_s * seconds(inspection.mapped_ms?);
    let (mapped, anonymous) = (
        float(inspection.mapped_bytes?),
        float(inspection.anonymous_bytes?),
    );
    let share = mapped / expected;
    if mapped < MOST_OF_IT * anonymous || !(MOST_OF_IT..=BEYOND).contains(&share) {
        return None;
    }
    let (name, grown) = inspection.mappings.first()?;
    let grown = words::bytes(float(*grown));
    let growth = if inspection.is_python {
        "native memory grows, held by no Python object"
    } else {
        "native memory grows"
    };
    Some(HostCause {
        words: format!(
            "{growth} ({name} grew by {grown} in {duration})",
            duration = words::duration(seconds(inspection.mapped_ms?))
        ),
        advice: "Look at extensions and libraries that allocate by themselves (ctypes, C++, \
                 decoders): a native heap profiler such as heaptrack names the call",
        fate: Fate::Unknown,
        cause: Cause {
            site: None,
            site_role: SiteRole::Allocates,
            allocated_at: None,
            call_path: Vec::new(),
            holder: Some(format!("native memory ({name})")),
            attributed_bytes: draft::whole(mapped),
            share: share.min(1.0),
            failure: None,
        },
    })
}

fn seconds(millis: i64) -> f64 {
    float(millis) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Site;

    const MIB: i64 = 1 << 20;

    fn look(gained_mib: i64) -> HostInspection {
        HostInspection {
            at_ns: Some(45_000_000_000),
            grown_bytes: None,
            inside_ms: Some(4000),
            objects_bytes: Some(gained_mib * MIB),
            is_complete: true,
            is_python: true,
            holders: vec![HostHolder {
                name: "`kept` in `__main__`".into(),
                items: 1204,
                items_gained: 60,
                bytes: 1100 * MIB,
                bytes_gained: gained_mib * MIB,
                added_at: Some(Site {
                    file: "/a/b/train.py".into(),
                    line: 31,
                    function: "main".into(),
                    source_text: None,
                }),
                line_role: LineRole::Added,
                kind: "list".into(),
                retention: Some(Retention::Kept),
                most_items: None,
                has_ids: false,
            }],
            mapped_ms: Some(6000),
            mappings: vec![("[heap]".into(), 58 * MIB)],
            mapped_bytes: Some(60 * MIB),
            anonymous_bytes: Some(61 * MIB),
        }
    }

    const TEN_MIB: f64 = 10.0 * 1_048_576.0;

    #[test]
    fn a_holder_of_most_of_the_growth_is_named() {
        let found = of(&[look(38)], TEN_MIB, 0).unwrap();
        assert_eq!(
            found.words,
            "`kept` in `__main__` grows (1,204 items, 1.07 GiB at 45.0 s), items added at train.py:31, and \
             nothing removes items"
        );
        assert!((0.94..0.96).contains(&found.cause.share));
        // The latest inspection that shows a cause is used; an inspection without a cause is
        // skipped.
        let both = [look(38), look(12)];
        assert_eq!(of(&both, TEN_MIB, 0).unwrap().words, found.words);
    }

    #[test]
    fn a_part_of_the_growth_is_no_cause() {
        for gained in [10, 18, 400] {
            assert_eq!(of(&[look(gained)], TEN_MIB, 0), None, "{gained}");
        }
        let mut array = look(25);
        array.holders[0].items_gained = 0;
        assert_eq!(of(&[array], TEN_MIB, 0), None);
    }

    #[test]
    fn growth_that_speeds_up_is_compared_with_itself() {
        // The run grew by 10 MiB/s on average, but by 3 MiB/s while it was inspected.
        let slower = |grown_mib, gained_mib| HostInspection {
            grown_bytes: Some(grown_mib * MIB),
            ..look(gained_mib)
        };
        let found = of(&[slower(12, 11)], TEN_MIB, 0).unwrap();
        assert!(found.cause.share > 0.9, "{found:?}");
        // A holder of a small part of the growth is no cause, nor is one that grew in a pause.
        for inspection in [slower(40, 11), slower(3, 3)] {
            assert_eq!(of_shared(&[inspection], TEN_MIB, 0), None);
        }
    }

    #[test]
    fn what_no_object_holds_is_native() {
        let found = of(&[look(1)], TEN_MIB, 0).unwrap();
        assert_eq!(
            found.words,
            "native memory grows, held by no Python object ([heap] grew by 58.0 MiB in 6.0 s)"
        );
        assert_eq!(
            found.cause.holder.as_deref(),
            Some("native memory ([heap])")
        );
        let program = HostInspection {
            is_python: false,
            is_complete: false,
            inside_ms: None,
            objects_bytes: None,
            holders: Vec::new(),
            ..look(0)
        };
        assert!(
            of(&[program], TEN_MIB, 0)
                .unwrap()
                .words
                .starts_with("native memory grows ([heap]")
        );
    }

    #[test]
    fn what_is_not_certain_is_not_native() {
        // Inspections that show no cause: not all objects were examined, or nothing was mapped
        // because a buffer that was reserved earlier fills up.
        for uncertain in [
            HostInspection {
                is_complete: false,
                ..look(1)
            },
            HostInspection {
                objects_bytes: None,
                ..look(1)
            },
            HostInspection {
                mapped_bytes: Some(2 * MIB),
                ..look(1)
            },
            HostInspection {
                mapped_bytes: None,
                ..look(1)
            },
            HostInspection {
                mappings: Vec::new(),
                ..look(1)
            },
        ] {
            assert_eq!(
                of(std::slice::from_ref(&uncertain), TEN_MIB, 0),
                None,
                "{uncertain:?}"
            );
        }
    }
}
