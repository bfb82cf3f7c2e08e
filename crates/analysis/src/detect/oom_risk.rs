//! `oom_risk`: the run ran out of memory, or its growth will fill the device within the horizon
//! ([`Options::oom_horizon_hours`]).

mod failed_at;

use stormlog_format::classify::KERNEL_OOM_KILL;

use super::answer::Answer;
use super::cause::Cause;
use super::cause::advice::{self, About};
use super::detector::{Detector, Judged};
use super::evidence::{Evidence, Subject};
use super::finding::{Finding, Kind, Severity, confidence, draft, words};
use super::growth::outlook::{self, Outlook};
use super::growth::{Strength, findings};
use super::host_leak::HostEvidence;
use super::options::Options;
use crate::timeline::{End, Framework, OomMark, Run, TimeZero, Track, float, is_over};

pub(super) const DETECTOR: Detector = Detector {
    kind: Kind::OomRisk,
    title: "Out-of-memory risk",
    noun: "out of memory",
    label: "OOM risk",
    resource: Judged::Both,
    is_growth: false,
    draws_end: false,
    formerly: None,
    check: |context| {
        let of_host = context.of_host(|run, host| check_host(run, host, context.options));
        of_host.and(context.of_tracks(|evidence| check(evidence, context.options)))
    },
};

/// Confidence of a finding about an out-of-memory error that was recorded, not predicted.
const RECORDED: f64 = 0.99;
/// Errors within this first share of a run, and within this many seconds, may belong to a search
/// for the largest batch.
const START_SHARE: f64 = 1.0 / 3.0;
const START_S: f64 = 600.0;

/// Finds ranks that ran out of memory, or whose growth fills the device within the horizon of
/// `options`.
fn check(evidence: &Evidence, options: &Options) -> Answer {
    let found: Vec<Finding> = evidence
        .subjects
        .iter()
        .filter_map(|subject| judge(subject, options, evidence.has_ranks))
        .collect();
    if found.is_empty() && evidence.has_too_few_samples() {
        return Answer::NotEnoughEvidence;
    }
    Answer::from_findings(draft::per_rank_or_run(evidence, found))
}

fn judge(subject: &Subject, options: &Options, has_ranks: bool) -> Option<Finding> {
    if let Some(mark) = last_mark(subject) {
        return Some(describe_error(subject, mark, has_ranks));
    }
    let horizon_s = options.oom_horizon_hours * 3600.0;
    let outlook = outlook::of(subject).filter(|o| o.time_to_full_s <= horizon_s)?;
    Some(describe_trend(subject, &outlook, horizon_s, has_ranks))
}

/// The out-of-memory error that ended the program; if none did, the first error that the program
/// survived.
fn last_mark<'a>(subject: &'a Subject) -> Option<&'a OomMark> {
    let marks = &subject.signals.track.ooms;
    let last = marks.iter().max_by_key(|mark| mark.at_ns)?;
    if is_end(subject, last) {
        Some(last)
    } else {
        marks.iter().min_by_key(|mark| mark.at_ns)
    }
}

/// Whether an out-of-memory error ended the program; an error that the program caught and survived
/// does not count.
fn is_end(subject: &Subject, mark: &OomMark) -> bool {
    let signals = &subject.signals;
    let is_last = is_over(mark.at_ns, signals.ns(signals.end));
    match subject.end {
        _ if mark.ended_process => true,
        End::OutOfMemory | End::KernelOomKill | End::Unknown | End::Vanished => is_last,
        _ => false,
    }
}

/// Whether all errors were caught in the first part of a run that then ended normally. Programs
/// that search for the largest batch run out of memory on purpose.
fn is_search_for_limit(subject: &Subject) -> bool {
    let signals = &subject.signals;
    let start_s = START_S.min(START_SHARE * signals.end);
    let is_early = |mark: &OomMark| signals.seconds(mark.at_ns) <= start_s;
    subject.end.is_normal() && signals.track.ooms.iter().all(is_early)
}

fn describe_error(subject: &Subject, mark: &OomMark, has_ranks: bool) -> Finding {
    let is_end = is_end(subject, mark);
    let severity = if is_end {
        Severity::Critical
    } else if is_search_for_limit(subject) {
        Severity::Info
    } else {
        Severity::Warning
    };
    let signals = &subject.signals;
    let mut finding = draft::finding(Kind::OomRisk, severity, subject);
    finding.end_ns = Some(mark.at_ns);
    finding.time_to_full_s = is_end.then_some(0.0);
    finding.confidence = RECORDED;
    finding.phase = signals.phase_at(signals.seconds(mark.at_ns));
    if mark.reason == KERNEL_OOM_KILL {
        return killed(finding, subject);
    }
    let at_failure = mark.reserved.or(mark.allocated).map(float);
    let numbers = [
        ("requested_bytes", mark.requested),
        ("allocated_bytes", mark.allocated),
        ("reserved_bytes", mark.reserved),
        ("device_used_bytes", mark.used),
        ("device_free_bytes", mark.free),
        ("limit_bytes", mark.limit),
    ];
    let known = numbers.into_iter();
    finding.evidence = known
        .filter_map(|(name, value)| Some((name, float(value?))))
        .collect();
    finding.magnitude_bytes = mark.requested;
    let went_on = if is_end { "" } else { " and went on" };
    let at = subject.since(signals.seconds(mark.at_ns));
    let name = subject.name(has_ranks);
    let details = request(mark, signals.total).map_or_else(
        || {
            let highest = highest_use(subject).unwrap_or(0.0);
            let highest = highest.max(at_failure.unwrap_or(0.0));
            let highest = highest_words((highest > 0.0).then_some(highest));
            format!(" ({}){highest}", mark.reason)
        },
        |request| format!(": {request}"),
    );
    let place = failed_at::place(mark).map_or_else(String::new, |place| format!(", {place}"));
    let held = failed_at::held(mark);
    finding.size_words = error_words(mark, is_end, &at, signals.total);
    finding.explanation =
        format!("{name} ran out of memory{went_on} at {at}{place}{details}{held}");
    let (cause, about) = failed_at::cause(mark).unzip();
    finding.advice = held_advice(cause.as_ref(), about.as_ref(), signals.track.framework)
        .unwrap_or_else(|| smaller_step(signals.track.framework).into());
    finding.cause = cause;
    finding
}

/// The size of an out-of-memory error in a few words: `16.2 GiB of 20.0 GiB held; 250 MiB more failed at
/// net.py:67`.
fn error_words(mark: &OomMark, is_end: bool, at: &str, total: Option<f64>) -> String {
    let text = |bytes: i64| words::bytes(float(bytes));
    let held = failed_at::largest(mark).map(text);
    let in_use = mark.allocated.map(text);
    let in_use = match (held, in_use) {
        (Some(held), Some(all)) => Some(format!("{held} of {all} held")),
        (Some(held), None) => Some(format!("{held} held")),
        (None, all) => all.map(|all| format!("{all} in use")),
    };
    let place = mark
        .site
        .as_ref()
        .map(|site| format!(" at {}", site.place()));
    let place = place.unwrap_or_default();
    let failed = match mark.requested {
        Some(bytes) => format!("{} more failed{place}", text(bytes)),
        None => format!("failed{place}"),
    };
    let limit = mark.limit.map(float).or(total);
    let limit = limit.map(|bytes| format!("limit {}", words::bytes(bytes)));
    let went_on = (!is_end).then(|| format!("ran out of memory at {at} and went on"));
    let cached = unusable_cache(mark).map(|bytes| format!("{} cached but unusable", text(bytes)));
    let parts = [went_on, in_use, cached, Some(failed), limit];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The bytes in the allocator's cache, where they would have been enough for the request that failed,
/// or half of it: the cache is fragmented.
fn unusable_cache(mark: &OomMark) -> Option<i64> {
    let cached = mark.reserved?.saturating_sub(mark.allocated?);
    (cached > 0 && cached >= mark.requested? / 2).then_some(cached)
}

/// What to do about a holder that is no part of the step; `None` when the memory was that of the
/// step, or when no holder had most of it.
fn held_advice(
    cause: Option<&Cause>,
    about: Option<&About>,
    framework: Framework,
) -> Option<String> {
    let (cause, about) = cause.zip(about)?;
    if !advice::can_hold_less(cause, about) {
        return None;
    }
    advice::of_holder(cause, about, framework)
}

fn smaller_step(framework: Framework) -> &'static str {
    match framework {
        Framework::Jax => {
            "Make the step smaller (batch size, sequence length, jax.checkpoint, donated buffers, \
             sharded state); if another finding names a leak or drift, fix that first: a smaller \
             step only delays it"
        }
        _ => {
            "Make the step smaller (batch size, sequence length, activation checkpointing, sharded \
             optimizer state); if another finding names a leak, drift or fragmentation, fix that \
             first: a smaller step only delays it"
        }
    }
}

/// The part of a finding's sentence that names the highest recorded memory use; empty when no use
/// was recorded.
fn highest_words(bytes: Option<f64>) -> String {
    bytes.map_or_else(String::new, |bytes| {
        format!(
            "; the highest recorded memory use was {}",
            words::bytes(bytes)
        )
    })
}

/// A text with the numbers of the failed allocation: bytes requested, bytes in use, bytes in the
/// allocator's cache that the request could not use, and the memory limit.
fn request(mark: &OomMark, total: Option<f64>) -> Option<String> {
    let text = |bytes: i64| words::bytes(float(bytes));
    let tried = format!("tried to allocate {}", text(mark.requested?));
    let in_use = mark
        .allocated
        .map(|bytes| format!(" with {} in use", text(bytes)));
    let cached = mark.reserved.zip(mark.allocated);
    let cached = cached.map(|(reserved, allocated)| reserved.saturating_sub(allocated));
    let cached = cached.filter(|&bytes| bytes > 0);
    let cached = cached.map(|bytes| format!(" and {} cached but unusable", text(bytes)));
    let is_own = |limit: &f64| total.is_none_or(|total| *limit < 0.99 * total);
    let limit = match mark.limit.map(float).filter(is_own) {
        Some(limit) => Some(format!(
            "; the process is limited to {}",
            words::bytes(limit)
        )),
        None => total.map(|total| format!("; the device has {}", words::bytes(total))),
    };
    let parts = [Some(tried), in_use, cached, limit];
    Some(parts.into_iter().flatten().collect())
}

/// Completes the finding about a process that the kernel killed because host memory ran out. The
/// finding does not report how much device memory was in use.
fn killed(mut finding: Finding, subject: &Subject) -> Finding {
    let highest = highest_use(subject).filter(|_| subject.is_host());
    finding.size_words = size_of_kill(highest, None);
    finding.explanation = words_of_kill(&highest_words(highest));
    finding.advice = ADVICE_ON_KILL.into();
    finding
}

const ADVICE_ON_KILL: &str = "See what holds host memory: workers of data loaders and what they \
                              prefetch, pinned buffers, caches, checkpoints assembled in memory; \
                              if a finding names a leak, fix that first, else raise the \
                              container's limit";

/// A kill by the kernel in a few words: `killed by the kernel; host memory reached 15.9 of 16.0 GiB`.
fn size_of_kill(highest: Option<f64>, limit: Option<f64>) -> String {
    let limit = limit.map_or_else(String::new, |bytes| format!(" of {}", words::bytes(bytes)));
    let reached = highest.map(|bytes| format!("; host memory reached {}", words::bytes(bytes)));
    format!("killed by the kernel{}{limit}", reached.unwrap_or_default())
}

fn words_of_kill(highest: &str) -> String {
    format!(
        "The kernel killed the process because the memory of its container or machine, not of a \
         device, ran out{highest}"
    )
}

fn describe_trend(
    subject: &Subject,
    outlook: &Outlook,
    horizon_s: f64,
    has_ranks: bool,
) -> Finding {
    let signals = &subject.signals;
    let growths = [subject.allocated.growth, subject.hidden.growth];
    let trend = growths
        .iter()
        .flatten()
        .map(|growth| findings::confidence_of(growth, signals.scale))
        .fold(0.0, f64::max);
    let left = outlook.time_to_full_s;
    // A run that has ended can no longer run out of memory, so its growth is at most a note.
    let is_over = !subject.end.may_go_on();
    let is_weak = growths
        .iter()
        .flatten()
        .all(|g| g.strength == Strength::Weak);
    let severity = if is_over || is_weak {
        Severity::Info
    } else {
        Severity::Critical
    };
    let mut finding = draft::finding(Kind::OomRisk, severity, subject);
    finding.rate_bytes_per_s = Some(outlook.rate_bytes_per_s);
    finding.time_to_full_s = Some(left);
    finding.magnitude_bytes = Some(draft::whole(outlook.need_bytes));
    finding.confidence = confidence::of_time_to_full(trend, left / horizon_s);
    finding.evidence = vec![
        ("need_bytes", outlook.need_bytes),
        ("total_bytes", outlook.total_bytes),
        ("horizon_s", horizon_s),
    ];
    finding.size_words = format!(
        "{} of {} needed, +{}; {} full {} {}",
        words::bytes(outlook.need_bytes),
        words::bytes(outlook.total_bytes),
        words::rate(outlook.rate_bytes_per_s),
        subject.medium(),
        if is_over { "after" } else { "in about" },
        words::duration(left),
    );
    let name = subject.name(has_ranks);
    let need = words::bytes(outlook.need_bytes);
    let total = words::bytes(outlook.total_bytes);
    let rate = words::rate(outlook.rate_bytes_per_s);
    let time_left = words::duration(left);
    if is_over {
        finding.explanation = format!(
            "{name} needs {need} of {total} and grew by {rate}: a longer run would have filled \
             the memory after another {time_left}"
        );
        finding.advice =
            "Fix the growth, which has a finding of its own, before a longer run".into();
        return finding;
    }
    finding.explanation =
        format!("{name} needs {need} of {total} and grows by {rate}: full in about {time_left}");
    finding.advice = format!(
        "Fix the growth, which has a finding of its own; until then save a checkpoint at least \
         every {interval} and restart before the {medium} is full",
        interval = words::duration(left / 2.0),
        medium = subject.medium(),
    );
    finding
}

/// Reports host memory that ran out or will run out, from the tracks of `stormlog run`, which are
/// separate from the tracks of devices.
fn check_host(run: &Run, evidence: &HostEvidence<'_>, options: &Options) -> Answer {
    let mut found: Vec<Finding> = Vec::new();
    let tracks = run.tracks.iter().filter(|track| track.is_host_of_run());
    for track in tracks {
        let marks = track.ooms.iter();
        // An error that ended a process is reported rather than an error that a process caught.
        let order = |mark: &&OomMark| (mark.ended_process, !mark.is_caught, mark.at_ns);
        let Some(mark) = marks.max_by_key(order) else {
            continue;
        };
        found.push(of_host_mark(run, track, mark));
    }
    let horizon_s = options.oom_horizon_hours * 3600.0;
    for growth in &evidence.growths {
        let left = growth.time_to_full_s().filter(|&left| left <= horizon_s);
        let is_likely = growth.severity() > Severity::Info && growth.end.may_go_on();
        let Some(left) = left.filter(|_| is_likely) else {
            continue;
        };
        let mut finding = draft::of_track(Kind::OomRisk, Severity::Critical, growth.track);
        finding.end_ns = growth.track.span_ns().map(|span| span.1);
        finding.rate_bytes_per_s = Some(growth.line.rate);
        finding.time_to_full_s = Some(left);
        finding.confidence = confidence::of_time_to_full(0.9, left / horizon_s);
        finding.size_words = format!(
            "+{} of host memory; memory full in about {}",
            words::rate(growth.line.rate),
            words::duration(left),
        );
        finding.explanation = format!(
            "Host memory grows by {rate}: the memory limit is reached in about {left}",
            rate = words::rate(growth.line.rate),
            left = words::duration(left),
        );
        finding.advice = "Fix the growth, which has a finding of its own; until then save \
                          checkpoints and restart before the limit is reached"
            .into();
        found.push(finding);
    }
    found.sort_by_key(|f| (f.rank, std::cmp::Reverse(f.severity)));
    found.dedup_by_key(|f| f.rank);
    Answer::from_findings(found)
}

fn of_host_mark(run: &Run, track: &Track, mark: &OomMark) -> Finding {
    let last_ns = track.span_ns().map_or(mark.at_ns, |span| span.1);
    let may_end = !mark.is_caught || mark.ended_process || is_over(mark.at_ns, last_ns);
    let is_end = may_end
        && run.ends.iter().any(|one| {
            one.rank == track.rank && one.pid == track.pid && one.end.is_out_of_memory()
        });
    // A caught error about host memory is less severe, because programs and libraries probe how
    // much memory there is and continue with less.
    let severity = match (is_end, mark.is_caught) {
        (true, _) => Severity::Critical,
        (false, true) => Severity::Info,
        (false, false) => Severity::Warning,
    };
    let mut finding = draft::of_track(Kind::OomRisk, severity, track);
    finding.end_ns = Some(mark.at_ns);
    finding.time_to_full_s = is_end.then_some(0.0);
    finding.confidence = RECORDED;
    finding.magnitude_bytes = mark.requested;
    let highest = track.used.max().max(mark.used).map(float);
    let total = (0..track.total.len())
        .rev()
        .find_map(|i| track.total.get(i))
        .map(float);
    let at = TimeZero::of(run).since_s(Some(track.rank), mark.at_ns);
    finding.size_words = if mark.reason == KERNEL_OOM_KILL {
        size_of_kill(highest, total)
    } else {
        error_words(mark, is_end, &words::moment(at), total)
    };
    let total = total.map_or_else(String::new, |bytes| format!(" of {}", words::bytes(bytes)));
    let highest = highest_words(highest) + &total;
    finding.explanation = if mark.reason == KERNEL_OOM_KILL {
        words_of_kill(&highest)
    } else {
        let tried = mark.requested.map_or_else(String::new, |bytes| {
            format!(": tried to allocate {}", words::bytes(float(bytes)))
        });
        let went_on = if is_end { "" } else { " and went on" };
        let place = failed_at::place(mark).map_or_else(String::new, |place| format!(" {place}"));
        format!(
            "The program ran out of host memory{went_on}{place} ({reason}){tried}{highest}{held}",
            reason = mark.reason,
            held = failed_at::held(mark)
        )
    };
    let (cause, about) = failed_at::cause(mark).unzip();
    finding.advice = held_advice(cause.as_ref(), about.as_ref(), Framework::Unknown)
        .unwrap_or_else(|| ADVICE_ON_KILL.into());
    finding.cause = cause;
    finding
}

fn highest_use(subject: &Subject) -> Option<f64> {
    let signals = &subject.signals;
    // Unknown values are NaN, which `f64::max` ignores.
    let highest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let held = highest(&signals.reserved).max(highest(&signals.allocated.y));
    let used = held + highest(&signals.hidden.y) + signals.neighbours;
    (used > 0.0).then_some(used)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sketch::{Sketch, a_rank, gib, mib, run_of};
    use super::*;
    use crate::timeline::RankEnd;

    fn answer_on(sketch: Sketch, hours: f64) -> Answer {
        let run = run_of([sketch]);
        check(
            &Evidence::of(&run),
            &Options {
                oom_horizon_hours: hours,
            },
        )
    }

    #[test]
    fn what_neighbours_hold_is_not_free() {
        let alone = run_of([a_rank(0).grows(mib(7), 160)]);
        let mut shared = alone.clone();
        let track = &mut shared.tracks[0];
        track.own = track.used.clone();
        let others = |sample: usize| Some(track.own.get(sample)? + gib(20));
        track.used = (0..track.own.len()).map(others).collect();
        let left = |run: &Run| {
            let answer = check(&Evidence::of(run), &Options::default());
            answer.findings()[0].time_to_full_s.unwrap()
        };
        let sooner = left(&alone) - left(&shared);
        let seconds = 20.0 * 1024.0 / 7.0;
        assert!((sooner / seconds - 1.0).abs() < 0.1, "{sooner} {seconds}");
    }

    #[test]
    fn a_trend_counts_within_the_horizon_only() {
        // The peak of 30 GiB, 1.6 GiB of growth and 1 GiB of hidden memory on a device of 80 GiB
        // leave room for about 1.9 hours of growth at 7 MiB/s.
        let leak = a_rank(0).grows(mib(7), 160);
        let answer = answer_on(leak.clone(), 4.0);
        let [risk] = answer.findings() else {
            panic!("{answer:?}")
        };
        let hours = risk.time_to_full_s.unwrap() / 3600.0;
        assert!((1.6..2.2).contains(&hours), "{hours}");
        assert_eq!(risk.onset_ns, None);
        assert_eq!(answer_on(leak, 1.0), Answer::Clear);
    }

    #[test]
    fn a_recorded_error_counts_however_short_the_run() {
        let answer = answer_on(a_rank(0).samples(12).runs_out_of_memory(), 24.0);
        let [risk] = answer.findings() else {
            panic!("{answer:?}")
        };
        assert_eq!(risk.severity, Severity::Critical);
        assert!(
            risk.explanation
                .starts_with("GPU 0 ran out of memory at 12.0 s (out of memory)")
        );
    }

    #[test]
    fn caught_errors_at_the_start_are_a_note_and_later_ones_a_warning() {
        let severity = |samples: i64, seconds: &[i64]| {
            let mut run = run_of([a_rank(0).samples(samples)]);
            let track = &mut run.tracks[0];
            let start = track.t_ns[0];
            let caught = |seconds: &i64| OomMark {
                at_ns: start + seconds * 1_000_000_000,
                is_caught: true,
                ..OomMark::default()
            };
            track.ooms = seconds.iter().map(caught).collect();
            run.ends = vec![RankEnd {
                rank: track.rank,
                pid: track.pid,
                at_ns: None,
                end: End::Exit { code: Some(0) },
            }];
            check(&Evidence::of(&run), &Options::default()).findings()[0].severity
        };
        assert_eq!(severity(400, &[10, 12]), Severity::Info);
        assert_eq!(severity(400, &[10, 300]), Severity::Warning);
        // A quarter of a long run is no start.
        assert_eq!(severity(4000, &[1000]), Severity::Warning);
    }

    #[test]
    fn a_kill_by_the_kernel_is_about_the_hosts_memory() {
        let explanation = |sketch: Sketch| {
            let mut run = run_of([sketch.runs_out_of_memory()]);
            run.tracks[0].ooms[0].reason = KERNEL_OOM_KILL.into();
            let answer = check(&Evidence::of(&run), &Options::default());
            let [risk] = answer.findings() else {
                panic!("{answer:?}")
            };
            assert!(risk.advice.contains("container's limit"), "{}", risk.advice);
            risk.explanation.clone()
        };
        assert!(explanation(a_rank(0).on_cpu()).contains("highest recorded memory use"));
        // A kill by the kernel is explained without the memory use of the device.
        assert!(explanation(a_rank(0)).ends_with("ran out"));
    }

    #[test]
    fn high_but_steady_use_is_no_risk() {
        assert_eq!(
            answer_on(a_rank(0).holds(2.4).jumps(gib(1), 10), 1000.0),
            Answer::Clear
        );
    }

    #[test]
    fn an_unknown_total_is_no_risk() {
        let leak = a_rank(0).grows(mib(7), 160).total_unknown();
        assert_eq!(answer_on(leak, 1000.0), Answer::Clear);
    }
}
