//! `oom_risk`: the run ran out of memory, or its trend reaches the device's total within the
//! horizon.

use stormlog_format::classify::KERNEL_OOM_KILL;

use super::evidence::{Evidence, Subject};
use super::finding::{Finding, Kind, Severity, Verdict};
use super::options::Options;
use super::outlook::{self, Outlook};
use super::run::OomMark;
use super::{confidence, growing, report, words};

/// How sure a recorded out-of-memory error is.
const RECORDED: f64 = 0.99;

/// Looks for ranks that ran out of memory or are about to.
#[must_use]
pub fn check(evidence: &Evidence, options: &Options) -> Verdict {
    let found: Vec<Finding> = evidence
        .subjects
        .iter()
        .filter_map(|subject| judge(subject, options))
        .collect();
    if found.is_empty() && evidence.too_short() {
        return Verdict::TooShort;
    }
    Verdict::from_findings(report::per_rank_or_run(evidence, found))
}

fn judge(subject: &Subject, options: &Options) -> Option<Finding> {
    if let Some(mark) = subject.signals.track.ooms.first() {
        return Some(describe_error(subject, mark));
    }
    let horizon_s = options.oom_horizon_hours * 3600.0;
    let outlook = outlook::of(subject).filter(|o| o.time_to_full_s <= horizon_s)?;
    Some(describe_trend(subject, &outlook, horizon_s))
}

fn describe_error(subject: &Subject, mark: &OomMark) -> Finding {
    let mut finding = report::finding(Kind::OomRisk, Severity::Critical, subject);
    finding.end_ns = Some(mark.at_ns);
    finding.time_to_full_s = Some(0.0);
    finding.confidence = RECORDED;
    finding.phase = subject
        .signals
        .phase_at(subject.signals.seconds(mark.at_ns));
    if mark.reason == KERNEL_OOM_KILL {
        return killed(finding, subject);
    }
    finding.explanation = match highest_use(subject) {
        Some(bytes) => format!(
            "The run ran out of memory ({}); the {}'s highest recorded use was {}",
            mark.reason,
            subject.medium(),
            words::bytes(bytes)
        ),
        None => format!("The run ran out of memory ({})", mark.reason),
    };
    finding.advice = "Make the step smaller (batch size, sequence length, activation \
                      checkpointing, sharded optimizer state), and if another finding names a \
                      leak, drift or fragmentation, mend that first: a smaller step only delays it"
        .into();
    finding
}

/// The kernel speaks of the host's memory, whatever device the record is about.
fn killed(mut finding: Finding, subject: &Subject) -> Finding {
    let highest = highest_use(subject).filter(|_| subject.is_host());
    let highest = highest.map_or_else(String::new, |bytes| {
        let bytes = words::bytes(bytes);
        format!("; its highest recorded use was {bytes}")
    });
    finding.explanation = format!(
        "The kernel killed the process because the memory of its container, not of a device, ran \
         out{highest}"
    );
    finding.advice = "See what holds host memory: workers of data loaders and what they prefetch, \
                      pinned buffers, caches, checkpoints put together in memory; if a finding \
                      names a leak, mend that first, else raise the container's limit"
        .into();
    finding
}

fn describe_trend(subject: &Subject, outlook: &Outlook, horizon_s: f64) -> Finding {
    let signals = &subject.signals;
    let growths = [subject.allocated.growth, subject.hidden.growth];
    let trend = growths
        .iter()
        .flatten()
        .map(|growth| growing::confidence_of(growth, signals.scale))
        .fold(0.0, f64::max);
    let left = outlook.time_to_full_s;
    let mut finding = report::finding(Kind::OomRisk, Severity::Critical, subject);
    finding.end_ns = Some(signals.ns(signals.end));
    finding.rate_bytes_per_s = Some(outlook.rate_bytes_per_s);
    finding.time_to_full_s = Some(left);
    finding.magnitude_bytes = Some(report::whole(outlook.need_bytes));
    finding.confidence = confidence::of_time_to_full(trend, left / horizon_s);
    finding.evidence = vec![
        ("need_bytes", outlook.need_bytes),
        ("total_bytes", outlook.total_bytes),
        ("horizon_s", horizon_s),
    ];
    finding.explanation = format!(
        "A step needs {} of {} and grows by {}, so that the {} is full {} after the last sample",
        words::bytes(outlook.need_bytes),
        words::bytes(outlook.total_bytes),
        words::rate(outlook.rate_bytes_per_s),
        subject.medium(),
        words::duration(left),
    );
    finding.advice = format!(
        "Mend what grows (see the finding beside this one); until then save a checkpoint at \
         least every {} and restart before the {} is full",
        words::duration(left / 2.0),
        subject.medium(),
    );
    finding
}

fn highest_use(subject: &Subject) -> Option<f64> {
    let signals = &subject.signals;
    let highest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let held = signals
        .reserved
        .iter()
        .copied()
        .filter(|b| b.is_finite())
        .fold(0.0, f64::max);
    let beside = highest(&signals.hidden.y) + signals.neighbours;
    let used = held.max(highest(&signals.allocated.y)) + beside;
    (used > 0.0).then_some(used)
}

#[cfg(test)]
mod tests {
    use super::super::run::Run;
    use super::super::sketch::{Sketch, a_rank, gib, mib, run_of};
    use super::*;

    fn verdict_on(sketch: Sketch, hours: f64) -> Verdict {
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
            let verdict = check(&Evidence::of(run), &Options::default());
            verdict.findings()[0].time_to_full_s.unwrap()
        };
        let sooner = left(&alone) - left(&shared);
        let seconds = 20.0 * 1024.0 / 7.0;
        assert!((sooner / seconds - 1.0).abs() < 0.1, "{sooner} {seconds}");
    }

    #[test]
    fn a_trend_counts_within_the_horizon_only() {
        // 30 GiB peak + 1.6 GiB grown + 1 GiB hidden of 80 GiB, 7 MiB/s: full in about 1.9 hours.
        let leak = a_rank(0).grows(mib(7), 160);
        let verdict = verdict_on(leak.clone(), 4.0);
        let [risk] = verdict.findings() else {
            panic!("{verdict:?}")
        };
        let hours = risk.time_to_full_s.unwrap() / 3600.0;
        assert!((1.6..2.2).contains(&hours), "{hours}");
        assert_eq!(risk.onset_ns, None);
        assert_eq!(verdict_on(leak, 1.0), Verdict::Clear);
    }

    #[test]
    fn a_recorded_error_counts_however_short_the_run() {
        let verdict = verdict_on(a_rank(0).samples(12).runs_out_of_memory(), 24.0);
        let [risk] = verdict.findings() else {
            panic!("{verdict:?}")
        };
        assert_eq!(risk.severity, Severity::Critical);
        assert!(
            risk.explanation
                .starts_with("The run ran out of memory (out of memory)")
        );
    }

    #[test]
    fn a_kill_by_the_kernel_is_about_the_hosts_memory() {
        let told = |sketch: Sketch| {
            let mut run = run_of([sketch.runs_out_of_memory()]);
            run.tracks[0].ooms[0].reason = KERNEL_OOM_KILL.into();
            let verdict = check(&Evidence::of(&run), &Options::default());
            let [risk] = verdict.findings() else {
                panic!("{verdict:?}")
            };
            assert!(risk.advice.contains("container's limit"), "{}", risk.advice);
            risk.explanation.clone()
        };
        assert!(told(a_rank(0).on_cpu()).contains("highest recorded use"));
        // What the device had in use says nothing about it.
        assert!(told(a_rank(0)).ends_with("ran out"));
    }

    #[test]
    fn high_but_steady_use_is_no_risk() {
        assert_eq!(
            verdict_on(a_rank(0).holds(2.4).jumps(gib(1), 10), 1000.0),
            Verdict::Clear
        );
    }

    #[test]
    fn an_unknown_total_is_no_risk() {
        let leak = a_rank(0).grows(mib(7), 160).total_unknown();
        assert_eq!(verdict_on(leak, 1000.0), Verdict::Clear);
    }
}
