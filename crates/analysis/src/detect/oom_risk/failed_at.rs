//! Describes an out-of-memory error in words: where the allocation failed and what held the memory,
//! as far as they are known.

use std::fmt::Write as _;

use crate::detect::cause::advice::About;
use crate::detect::cause::{Cause, Failure, SiteRole};
use crate::detect::finding::words;
use crate::timeline::{OomMark, category_words, float};

/// Longest piece of the program's source code that a finding quotes, in characters.
const LONGEST_SOURCE: usize = 60;
/// Maximum number of holders listed in a sentence. A sentence that lists memory by category (such
/// as activations or parameters) names at most `MOST_NAMED + 1` categories.
const MOST_NAMED: usize = 3;
/// Categories and holders with less than this share of the memory that was allocated when the
/// allocation failed are not named in a sentence.
const WORTH_NAMING: f64 = 0.02;
/// A holder is named in parentheses after a category when it holds at least this share of the
/// category's memory. The largest holder is named as the cause of the error when it holds at least
/// this share of all memory that was allocated when the allocation failed.
const MOST_OF_IT: f64 = 0.5;

/// Where in the program the allocation failed: "at train.py:41 in `forward` (`self.mlp(x)`)".
/// `None` when the failing line is unknown.
pub(super) fn place(mark: &OomMark) -> Option<String> {
    let site = mark.site.as_ref()?;
    let mut words = format!("at {}", site.place());
    if !site.function.starts_with('<') {
        let _ = write!(words, " in `{}`", site.function);
    }
    let operation = mark.failure.as_ref().and_then(|one| one.operation.as_ref());
    let source = site.source_text.as_deref().map(shortened);
    let details: Vec<String> = [
        source.map(|text| format!("`{text}`")),
        operation.map(|name| format!("in `{name}`")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !details.is_empty() {
        let _ = write!(words, " ({})", details.join(", "));
    }
    Some(words)
}

/// What held the memory when the allocation failed, as the end of a sentence; empty when unknown.
pub(super) fn held(mark: &OomMark) -> String {
    let Some(failure) = &mark.failure else {
        return String::new();
    };
    let parts = if failure.categories.is_empty() {
        by_holder(failure)
    } else {
        by_category(failure)
    };
    if parts.is_empty() {
        return String::new();
    }
    format!("; held by: {}", parts.join(", "))
}

/// One text per memory category, such as `activations 61.0 GiB (the autograd graph of local `loss`
/// ...)`.
fn by_category(failure: &Failure) -> Vec<String> {
    let sizes = failure.categories.iter().map(|(_, bytes)| *bytes);
    let all = sizes.fold(0, i64::saturating_add);
    let is_worth = |bytes: i64| float(bytes) >= WORTH_NAMING * float(all);
    let shown = failure
        .categories
        .iter()
        .filter(|(_, bytes)| is_worth(*bytes));
    shown
        .take(MOST_NAMED + 1)
        .map(|(category, bytes)| {
            let holder = failure.holders.iter().find(|one| one.category == *category);
            let holder = holder.filter(|one| float(one.bytes) >= MOST_OF_IT * float(*bytes));
            let holder = holder.map_or_else(String::new, |one| format!(" ({})", one.holder));
            let name = category_words(category);
            format!("{name} {}{holder}", words::bytes(float(*bytes)))
        })
        .collect()
}

fn by_holder(failure: &Failure) -> Vec<String> {
    let all = failure.allocated_bytes.unwrap_or(0);
    let is_worth = |bytes: i64| float(bytes) >= WORTH_NAMING * float(all);
    let shown = failure.holders.iter().filter(|one| is_worth(one.bytes));
    shown
        .take(MOST_NAMED)
        .map(|one| format!("{} {}", one.holder, words::bytes(float(one.bytes))))
        .collect()
}

/// The cause of an out-of-memory error in the form of a finding's cause, and what else is known
/// about its holder; `None` when neither a site nor a holder was recorded.
pub(super) fn cause(mark: &OomMark) -> Option<(Cause, About)> {
    let failure = mark.failure.clone().unwrap_or_default();
    if mark.site.is_none() && failure.holders.is_empty() {
        return None;
    }
    // The numbers may come from an untrusted recording, so their sum may be too large for an `i64`.
    let named = if failure.categories.is_empty() {
        let holders = failure.holders.iter();
        holders.fold(0_i64, |sum, one| sum.saturating_add(one.bytes))
    } else {
        let named = failure.categories.iter();
        let named = named.filter(|(category, _)| category != "unnamed");
        named.fold(0_i64, |sum, (_, bytes)| sum.saturating_add(*bytes))
    };
    let all = failure.allocated_bytes.unwrap_or(0).max(named);
    let largest = failure.holders.first();
    // A request for more than everything that was held fails whatever holds memory.
    let is_too_large = mark.requested.is_some_and(|bytes| bytes > all);
    let holder = largest.filter(|one| float(one.bytes) >= MOST_OF_IT * float(all));
    let holder = holder.filter(|_| !is_too_large);
    let about = holder.map_or_else(About::default, |one| About {
        category: one.category.clone(),
        keeping: one.keeping.clone(),
    });
    let cause = Cause {
        site: mark.site.clone(),
        site_role: SiteRole::Fails,
        allocated_at: None,
        call_path: mark.call_path.clone(),
        holder: holder.map(|one| one.holder.clone()),
        attributed_bytes: named,
        share: if all > 0 {
            float(named) / float(all)
        } else {
            0.0
        },
        failure: Some(failure),
    };
    let keeping = about.keeping.line.clone();
    let cause = match keeping {
        Some((role, line)) => cause.led_by(role.into(), line),
        None => cause,
    };
    Some((cause, about))
}

/// The bytes of the largest holder, when it holds most of the memory.
pub(super) fn largest(mark: &OomMark) -> Option<i64> {
    let (cause, _) = cause(mark)?;
    let (holder, failure) = (cause.holder?, cause.failure?);
    let own = failure.holders.iter().filter(|one| one.holder == holder);
    Some(own.fold(0_i64, |sum, one| sum.saturating_add(one.bytes)))
}

fn shortened(source: &str) -> String {
    if source.chars().count() <= LONGEST_SOURCE {
        return source.to_owned();
    }
    let start: String = source.chars().take(LONGEST_SOURCE - 1).collect();
    format!("{}\u{2026}", start.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::cause::{Held, Site};
    use crate::timeline::{Keeping, KeepingRole};

    fn cause(mark: &OomMark) -> Option<Cause> {
        Some(super::cause(mark)?.0)
    }

    const GIB: i64 = 1 << 30;

    fn held_by(holder: &str, category: &str, gib: i64) -> Held {
        Held {
            holder: holder.to_owned(),
            category: category.to_owned(),
            bytes: gib * GIB,
            keeping: Keeping::default(),
        }
    }

    fn mark() -> OomMark {
        let sums = [
            ("activations", 60),
            ("parameters", 8),
            ("unnamed", 2),
            ("inputs", 0),
        ];
        OomMark {
            site: Some(Site {
                file: "/home/ada/train.py".into(),
                line: 41,
                function: "forward".into(),
                source_text: Some("self.mlp(x)".into()),
            }),
            failure: Some(Failure {
                operation: Some("Linear.forward".into()),
                allocated_bytes: Some(70 * GIB),
                categories: sums.map(|(name, gib)| (name.to_owned(), gib * GIB)).into(),
                holders: vec![
                    held_by("the autograd graph of `loss`", "activations", 50),
                    held_by("`model` in `__main__`", "parameters", 2),
                ],
                cut_short: None,
            }),
            ..OomMark::default()
        }
    }

    #[test]
    fn the_line_and_the_holders_are_named() {
        let mark = mark();
        assert_eq!(
            place(&mark).unwrap(),
            "at train.py:41 in `forward` (`self.mlp(x)`, in `Linear.forward`)"
        );
        // `model` holds less than half of the parameters, so it is not named as their holder.
        assert_eq!(
            held(&mark),
            "; held by: activations 60.0 GiB (the autograd graph of `loss`), parameters 8.00 GiB, \
             unknown holders 2.00 GiB"
        );
        let cause = cause(&mark).unwrap();
        assert_eq!(
            cause.holder.as_deref(),
            Some("the autograd graph of `loss`")
        );
        assert!((cause.share - 68.0 / 70.0).abs() < 1e-9);
        assert_eq!(cause.attributed_bytes, 68 * GIB);
    }

    #[test]
    fn the_line_that_keeps_most_of_the_memory_leads() {
        let mut mark = mark();
        let line = Site {
            line: 9,
            ..mark.site.clone().unwrap()
        };
        let keeping = Some((KeepingRole::AddsItems, line.clone()));
        mark.failure.as_mut().unwrap().holders[1].keeping.line = keeping.clone();
        assert_eq!(cause(&mark).unwrap().site_role, SiteRole::Fails);
        mark.failure.as_mut().unwrap().holders[0].keeping.line = keeping;
        let found = cause(&mark).unwrap();
        assert_eq!(
            (found.site, found.site_role),
            (Some(line), SiteRole::AddsItems)
        );
        assert_eq!(found.allocated_at, mark.site);
    }

    #[test]
    fn host_memory_has_holders_without_categories() {
        let mut mark = mark();
        let failure = mark.failure.as_mut().unwrap();
        failure.categories.clear();
        assert!(
            held(&mark).starts_with("; held by: the autograd graph of `loss` 50.0 GiB, `model`")
        );
    }

    #[test]
    fn sums_of_untrusted_numbers_do_not_overflow() {
        let mut mark = mark();
        let failure = mark.failure.as_mut().unwrap();
        failure
            .categories
            .iter_mut()
            .for_each(|one| one.1 = i64::MAX);
        failure
            .holders
            .iter_mut()
            .for_each(|one| one.bytes = i64::MAX);
        assert_eq!(cause(&mark).unwrap().attributed_bytes, i64::MAX);
        assert!(held(&mark).contains("activations"));
        mark.failure.as_mut().unwrap().categories.clear();
        assert_eq!(cause(&mark).unwrap().attributed_bytes, i64::MAX);
    }

    #[test]
    fn an_unknown_cause_adds_nothing() {
        let unknown = OomMark::default();
        assert_eq!((place(&unknown), held(&unknown)), (None, String::new()));
        assert_eq!(cause(&unknown), None);
        let mut long = mark();
        let site = long.site.as_mut().unwrap();
        site.function = "<module>".into();
        site.source_text = Some("x".repeat(500));
        long.failure = None;
        let words = place(&long).unwrap();
        assert!(words.starts_with("at train.py:41 (`xxx") && words.chars().count() < 90);
    }
}
