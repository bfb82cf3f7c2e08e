//! Finds the cause of growth in evidence windows (a few steps each, in which PyTorch recorded the
//! stack of every allocation): the line and the holder that several windows agree on and that
//! explain most of the growth.

use hashbrown::HashMap;

use super::advice::About;
use super::{Cause, Site, SiteRole, source};
use crate::timeline::{EvidenceWindow, WindowEvidence, float};

/// Number of evidence windows that must agree on a line. Windows by steps begin and end at step
/// ends; windows by time may begin and end in the middle of a step, so more of them must agree.
const AGREEING_BY_STEPS: usize = 3;
const AGREEING_BY_TIME: usize = 4;
/// Smallest share of the growth that a line or a holder must explain to be named as its cause.
const MOST: f64 = 0.5;
/// Smallest share of the growth that a line must allocate itself to be named while the holder is
/// unknown. The memory of an autograd graph is allocated by many lines of the model, and none of
/// these is the cause.
const MOST_WITHOUT_HOLDER: f64 = 0.8;
/// A leak that happens rarely may show in only two evidence windows; both must then agree on one
/// line that explains almost all of the growth.
const AGREEING_WHERE_RARE: usize = 2;
const ALMOST_ALL: f64 = 0.95;
/// Survivors are allocations of a window that are still alive at its end. No cause is named when
/// they have more than this many times the bytes by which memory grew: many of them then only
/// replace freed blocks, as in a cache of constant size, and it is unknown which of them leak.
const MOST_SURVIVORS: f64 = 1.5;
/// A line is named as the cause only if it allocated memory in at least this share of the evidence
/// windows in which memory grew.
const SHOWN_IN: f64 = 0.6;

/// The type of a holder that grows by elements under keys, where its type was not recorded.
const DICT: &str = "dict";

/// The cause that the windows agree on, if any: the line and the holder that explain most of the
/// growth in the windows, and what else is known about this holder.
pub(crate) fn cause_of(evidence: &WindowEvidence) -> Option<(Cause, About)> {
    let grew = |window: &&EvidenceWindow| window.growth_bytes > 0;
    let windows: Vec<&EvidenceWindow> = evidence.windows.iter().filter(grew).collect();
    let (needed, most) = match (evidence.by_steps, windows.len()) {
        (true, AGREEING_WHERE_RARE) => (AGREEING_WHERE_RARE, ALMOST_ALL),
        (true, _) => (AGREEING_BY_STEPS, MOST),
        (false, _) => (AGREEING_BY_TIME, MOST),
    };
    if windows.len() < needed {
        return None;
    }
    let survived = sum(&windows, |window| window.survivor_bytes);
    let growth = sum(&windows, |window| window.growth_bytes);
    if float(survived) > MOST_SURVIVORS * float(growth) {
        return None;
    }
    let searched = float(growth.max(survived));
    let holder = best_holder(evidence, survived, most * searched);
    let lines = match holder {
        Some(_) => Lines {
            least_bytes: most * searched,
            may_call: true,
        },
        None => Lines {
            least_bytes: most.max(MOST_WITHOUT_HOLDER) * searched,
            may_call: false,
        },
    };
    let site = best_site(evidence, &windows, needed, lines);
    let (attributed_bytes, (site, call_path)) = match (&site, &holder) {
        (Some((bytes, _, _)), _) => (*bytes, split(site)),
        (None, Some(holder)) => (holder.bytes, (None, Vec::new())),
        (None, None) => return None,
    };
    let (name, mut about) =
        holder.map_or_else(Default::default, |holder| (holder.name, holder.about));
    let keeping = about.keeping.line.clone();
    let keeping = keeping.map(|(role, line)| (role.into(), line));
    let keeping = keeping.or_else(|| keeping_line(site.iter().chain(&call_path), &name));
    if let Some((SiteRole::AddsItems, line)) = &keeping
        && about.keeping.kind.is_empty()
        && source::stores_under_key(line, &name)
    {
        DICT.clone_into(&mut about.keeping.kind);
    }
    let cause = Cause {
        site,
        site_role: SiteRole::Allocates,
        allocated_at: None,
        call_path,
        holder: (!name.is_empty()).then_some(name),
        attributed_bytes,
        share: (float(attributed_bytes) / searched).clamp(0.0, 1.0),
        failure: None,
    };
    let cause = match keeping {
        Some((role, line)) => cause.led_by(role, line),
        None => cause,
    };
    Some((cause, about))
}

/// The innermost of the lines of a stack whose source text shows that the line makes the memory of
/// the holder stay.
fn keeping_line<'s>(
    mut stack: impl Iterator<Item = &'s Site>,
    holder: &str,
) -> Option<(SiteRole, Site)> {
    stack.find_map(|site| Some((source::role_of(site, holder)?, site.clone())))
}

/// The holder of most of the growth.
struct Best {
    name: String,
    /// The part of the growth that it holds.
    bytes: i64,
    about: About,
}

fn sum(windows: &[&EvidenceWindow], bytes: fn(&EvidenceWindow) -> i64) -> i64 {
    let bytes = windows.iter().map(|window| bytes(window));
    bytes.fold(0, i64::saturating_add)
}

type Named = (i64, Site, Vec<Site>);

fn split(named: Option<Named>) -> (Option<Site>, Vec<Site>) {
    named.map_or((None, Vec::new()), |(_, site, path)| (Some(site), path))
}

/// Sums for one line of code over all evidence windows. They cover the allocations whose stacks
/// contain the line.
#[derive(Default)]
struct Seen<'e> {
    bytes: i64,
    /// Sum over all stacks: the line's distance from the innermost frame, multiplied by the bytes
    /// that were allocated with this stack.
    depth: f64,
    windows: Vec<usize>,
    /// `heaviest` is the largest number of bytes that were allocated with one stack, and `path` is
    /// the call path of that stack.
    heaviest: i64,
    path: &'e [Site],
}

/// Which lines may be named.
#[derive(Clone, Copy)]
struct Lines {
    /// A line is named only if it explains more than these bytes.
    least_bytes: f64,
    /// Whether lines may be named that call those that allocate the memory.
    may_call: bool,
}

impl Lines {
    fn include(self, one: &Seen<'_>) -> bool {
        float(one.bytes) > self.least_bytes && (self.may_call || one.depth == 0.0)
    }
}

/// The innermost of the `lines` that explain most of the growth. When the memory comes from many
/// lines, as for an autograd graph, this may be the call that these lines have in common.
fn best_site(
    evidence: &WindowEvidence,
    windows: &[&EvidenceWindow],
    needed: usize,
    lines: Lines,
) -> Option<Named> {
    let mut seen: HashMap<(&str, u32), Seen<'_>> = HashMap::new();
    for (index, window) in windows.iter().enumerate() {
        for &(stack, bytes) in &window.sites {
            let Some(frames) = evidence.stacks.get(stack) else {
                continue;
            };
            for (depth, site) in frames.iter().enumerate() {
                let is_repeated = |other: &Site| other.line == site.line && other.file == site.file;
                if frames[..depth].iter().any(is_repeated) {
                    // The line of a recursive function is in the stack several times and is counted
                    // once.
                    continue;
                }
                let one = seen.entry((&site.file, site.line)).or_default();
                one.bytes = one.bytes.saturating_add(bytes);
                let depth_of = depth as f64;
                one.depth += depth_of * float(bytes);
                if one.windows.last() != Some(&index) {
                    one.windows.push(index);
                }
                if bytes > one.heaviest {
                    one.heaviest = bytes;
                    one.path = &frames[depth..];
                }
            }
        }
    }
    let is_shown = |one: &Seen<'_>| {
        let shown = one.windows.len();
        shown >= needed && shown as f64 >= SHOWN_IN * windows.len() as f64
    };
    let best = seen
        .into_values()
        .filter(|one| lines.include(one) && is_shown(one))
        .min_by(|a, b| {
            let depth = |one: &Seen<'_>| one.depth / float(one.bytes.max(1));
            let by_depth = depth(a).total_cmp(&depth(b));
            by_depth
                .then(b.bytes.cmp(&a.bytes))
                .then(a.path.cmp(b.path))
        })?;
    let (site, path) = best.path.split_first()?;
    Some((best.bytes, site.clone(), path.to_vec()))
}

/// The holder with the most surviving memory, when this memory makes up most of the growth. The
/// search for holders covered only a part of the surviving memory (`searched_bytes`), so the
/// holder's share of this part is taken as its share of all surviving memory.
fn best_holder(evidence: &WindowEvidence, survived: i64, least_bytes: f64) -> Option<Best> {
    let searched = evidence.searched_bytes.filter(|&bytes| bytes > 0)?;
    // One holder may have several entries, for parameters, their gradients and so on, which are
    // added up.
    let mut sums: Vec<(&String, i64)> = Vec::new();
    for holder in &evidence.holders {
        match sums.iter_mut().find(|(known, _)| **known == holder.name) {
            Some((_, sum)) => *sum = sum.saturating_add(holder.bytes),
            None => sums.push((&holder.name, holder.bytes)),
        }
    }
    let (name, bytes) = sums.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let share = (float(bytes) / float(searched)).min(1.0);
    let held = share * float(survived);
    if name.is_empty() || held <= least_bytes {
        return None;
    }
    let mut own: Vec<_> = evidence
        .holders
        .iter()
        .filter(|one| one.name == *name)
        .collect();
    own.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    let largest = own.first()?;
    let keeping = own.iter().find(|one| one.keeping.line.is_some());
    Some(Best {
        name: name.clone(),
        bytes: crate::detect::finding::draft::whole(held),
        about: About {
            category: largest.category.clone(),
            keeping: keeping.unwrap_or(largest).keeping.clone(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{KeepingRole, WindowHolder};

    fn site(file: &str, line: u32) -> Site {
        Site {
            file: format!("/home/u/{file}"),
            line,
            function: "f".to_owned(),
            source_text: None,
        }
    }

    fn window(growth_bytes: i64, sites: &[(usize, i64)]) -> EvidenceWindow {
        EvidenceWindow {
            growth_bytes,
            survivor_bytes: sites.iter().map(|(_, bytes)| bytes).sum(),
            sites: sites.to_vec(),
        }
    }

    fn evidence(windows: Vec<EvidenceWindow>, stacks: Vec<Vec<Site>>) -> WindowEvidence {
        WindowEvidence {
            by_steps: true,
            windows,
            stacks,
            ..WindowEvidence::default()
        }
    }

    fn cause(evidence: &WindowEvidence) -> Option<Cause> {
        Some(super::cause_of(evidence)?.0)
    }

    fn place(evidence: &WindowEvidence) -> Option<String> {
        cause(evidence)?.site.map(|site| site.place())
    }

    fn held(name: &str, bytes: i64) -> WindowHolder {
        WindowHolder {
            name: name.to_owned(),
            bytes,
            ..WindowHolder::default()
        }
    }

    #[test]
    fn the_line_that_several_windows_agree_on_is_named() {
        let stacks = vec![
            vec![site("train.py", 8), site("main.py", 3)],
            vec![site("net.py", 5)],
        ];
        let windows = vec![
            window(100, &[(0, 100)]),
            window(100, &[(0, 90), (1, 10)]),
            window(0, &[(1, 30)]),
            window(100, &[(0, 100)]),
        ];
        let found = cause(&evidence(windows, stacks)).unwrap();
        assert_eq!(found.site.as_ref().unwrap().place(), "train.py:8");
        assert_eq!(found.call_path, [site("main.py", 3)]);
        assert_eq!(found.attributed_bytes, 290);
        assert!((found.share - 290.0 / 300.0).abs() < 1e-9);
        assert_eq!(found.clause().unwrap(), "allocated at train.py:8");
    }

    #[test]
    fn two_windows_must_show_one_line_and_three_by_time_are_too_few() {
        let stacks = vec![vec![site("train.py", 8)], vec![site("net.py", 5)]];
        let one = vec![window(100, &[(0, 100)])];
        assert_eq!(place(&evidence(one, stacks.clone())), None);
        let mixed = vec![window(100, &[(0, 90), (1, 10)]); 2];
        assert_eq!(place(&evidence(mixed, stacks.clone())), None);
        let different = vec![window(100, &[(0, 100)]), window(100, &[(1, 100)])];
        assert_eq!(place(&evidence(different, stacks.clone())), None);
        let rare = vec![
            window(0, &[]),
            window(100, &[(0, 100)]),
            window(0, &[]),
            window(100, &[(0, 100)]),
        ];
        let named = place(&evidence(rare, stacks.clone()));
        assert_eq!(named.as_deref(), Some("train.py:8"));
        let mut by_time = evidence(vec![window(100, &[(0, 100)]); 3], stacks);
        assert!(place(&by_time).is_some());
        by_time.by_steps = false;
        assert_eq!(place(&by_time), None);
    }

    #[test]
    fn a_holder_counts_with_all_that_it_holds() {
        // Old optimizers in a list: their parameters, the gradients and the moments.
        let stacks: Vec<Vec<Site>> = (1..=3).map(|line| vec![site("train.py", line)]).collect();
        let one = window(400, &[(0, 100), (1, 100), (2, 200)]);
        let mut found = evidence(vec![one; 3], stacks);
        found.searched_bytes = Some(400);
        found.holders = vec![
            held("`restarts` in `__main__`", 200),
            held("`restarts` in `__main__`", 100),
        ];
        let named = cause(&found).unwrap();
        assert_eq!(named.holder.as_deref(), Some("`restarts` in `__main__`"));
        assert_eq!((named.site, named.attributed_bytes), (None, 900));
        found.holders = vec![
            held("`restarts` in `__main__`", 200),
            held("`model` in `__main__`", 100),
        ];
        assert_eq!(cause(&found), None);
    }

    #[test]
    fn windows_that_disagree_name_no_line() {
        let stacks = (1..=4).map(|line| vec![site("train.py", line)]).collect();
        let windows = (0..4).map(|stack| window(100, &[(stack, 100)])).collect();
        assert_eq!(place(&evidence(windows, stacks)), None);
        // A single window with large growth must not outvote the others.
        let stacks = vec![vec![site("train.py", 1)], vec![site("train.py", 2)]];
        let mut windows = vec![window(1000, &[(0, 1000)])];
        windows.extend(vec![window(100, &[(1, 100)]); 3]);
        assert_eq!(place(&evidence(windows, stacks)), None);
    }

    #[test]
    fn what_explains_a_small_part_of_the_growth_is_not_named() {
        let stacks = vec![vec![site("train.py", 8)]];
        let windows = vec![window(1000, &[(0, 400)]); 4];
        assert_eq!(place(&evidence(windows, stacks)), None);
    }

    #[test]
    fn survivors_that_replace_others_do_not_explain_growth() {
        // The first line is a cache of constant size, the second a small leak.
        let stacks = vec![vec![site("cache.py", 1)], vec![site("train.py", 8)]];
        let windows = vec![window(100, &[(0, 400), (1, 100)]); 4];
        assert_eq!(cause(&evidence(windows, stacks)), None);
    }

    #[test]
    fn the_common_call_of_many_lines_is_named_only_beside_the_holder() {
        let stacks = (1..=4)
            .map(|line| {
                vec![
                    site("net.py", line),
                    site("loss.py", 40),
                    site("train.py", 9),
                ]
            })
            .collect();
        let parts = [(0, 25), (1, 25), (2, 25), (3, 25)];
        let mut found = evidence(vec![window(100, &parts); 3], stacks);
        assert_eq!(place(&found), None);
        found.holders = vec![held("`losses` in `__main__`", 100)];
        found.searched_bytes = Some(100);
        assert_eq!(place(&found).unwrap(), "loss.py:40");
    }

    #[test]
    fn a_holder_of_most_is_named_with_or_without_a_line() {
        let mut found = evidence(vec![window(100, &[(0, 100)]); 3], vec![vec![]]);
        found.holders = vec![held("`kept` in `__main__`", 45), held("`b`", 5)];
        found.searched_bytes = Some(50);
        let named = cause(&found).unwrap();
        assert_eq!(named.clause().unwrap(), "`kept` grows");
        assert_eq!(named.attributed_bytes, 270);
        found.searched_bytes = Some(100);
        assert_eq!(cause(&found), None);
    }

    #[test]
    fn the_line_that_keeps_leads_and_the_allocation_follows() {
        let stacks = vec![vec![
            site("net.py", 25),
            site("net.py", 46),
            site("train.py", 9),
        ]];
        let mut found = evidence(vec![window(100, &[(0, 100)]); 3], stacks);
        found.holders = vec![held("`seen` in `__main__`", 100)];
        found.searched_bytes = Some(100);
        assert_eq!(place(&found).unwrap(), "net.py:25");
        found.holders[0].keeping.line = Some((KeepingRole::AddsItems, site("train.py", 11)));
        let recorded = cause(&found).unwrap();
        assert_eq!(recorded.site_role, SiteRole::AddsItems);
        assert_eq!(recorded.site.as_ref().unwrap().place(), "train.py:11");
        assert_eq!(recorded.allocated_at, Some(site("net.py", 25)));
        assert_eq!(
            recorded.call_path,
            [site("net.py", 46), site("train.py", 9)]
        );
        let clause = recorded.clause().unwrap();
        assert_eq!(clause, "`seen` grows, items added at train.py:11");
        // A recording that does not name the line, but has its text.
        found.holders[0].keeping.line = None;
        found.stacks[0][2].source_text = Some("seen.append(step(x))".to_owned());
        let read = cause(&found).unwrap();
        assert_eq!(read.site.unwrap().place(), "train.py:9");
        assert_eq!(read.allocated_at, Some(site("net.py", 25)));
    }

    #[test]
    fn a_stack_that_is_not_there_is_left_out() {
        let windows = vec![window(100, &[(7, 100)]); 3];
        assert_eq!(cause(&evidence(windows, vec![])), None);
    }
}
