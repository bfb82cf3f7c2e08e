//! Makes the time until memory is full a property of the growth that fills it. Without this step, one
//! leak would be reported twice: as growth, and as an out-of-memory risk.

use crate::detect::answer::Answer;
use crate::detect::finding::{Finding, Kind};

/// Moves each out-of-memory risk that growth explains into the findings about this growth. A risk
/// that nothing explains, and an error that happened, stay findings of their own.
pub(super) fn attach(answers: &mut [(Kind, Answer)]) {
    let Some(index) = answers.iter().position(|(kind, _)| *kind == Kind::OomRisk) else {
        return;
    };
    let Answer::Found(risks) = &answers[index].1 else {
        return;
    };
    let mut alone = Vec::new();
    for risk in risks.clone() {
        // An error that happened has no growth rate.
        let is_trend = risk.rate_bytes_per_s.is_some();
        if !is_trend || !hasten(answers, &risk) {
            alone.push(risk);
        }
    }
    answers[index].1 = Answer::from_findings(alone);
}

/// Raises the findings about the growth that leads to `risk` to the severity of the risk. Returns
/// whether there is such a finding.
fn hasten(answers: &mut [(Kind, Answer)], risk: &Finding) -> bool {
    let findings = answers.iter_mut().flat_map(|(_, answer)| match answer {
        Answer::Found(findings) => findings.as_mut_slice(),
        Answer::Clear | Answer::NotEnoughEvidence => &mut [],
    });
    let mut growths: Vec<&mut Finding> = findings.filter(|one| leads_to(one, risk)).collect();
    let fastest = growths
        .iter()
        .filter_map(|one| one.rate_bytes_per_s)
        .fold(0.0, f64::max);
    // Of a leak and a drift on one device, the slower one is not what fills the device.
    growths.retain(|one| {
        one.rate_bytes_per_s
            .is_some_and(|rate| rate >= fastest / 2.0)
    });
    for growth in &mut growths {
        growth.severity = growth.severity.max(risk.severity);
        growth.also.push(Kind::OomRisk);
        if growth.may_go_on {
            growth.advice.push_str("; ");
            growth.advice.push_str(&risk.advice);
        }
    }
    !growths.is_empty()
}

fn leads_to(growth: &Finding, risk: &Finding) -> bool {
    let is_same_rank = growth.rank == risk.rank || growth.rank.is_none() || risk.rank.is_none();
    growth.kind.detector().is_growth
        && is_same_rank
        && (growth.device_id < 0) == (risk.device_id < 0)
        && (growth.device_id == risk.device_id || risk.rank.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::finding::Severity;
    use crate::detect::tests::sketch::{a_rank, mib, run_of};
    use crate::detect::{Options, diagnose};

    #[test]
    fn growth_that_fills_the_device_is_one_finding() {
        let run = run_of([a_rank(0).grows(mib(30), 100)]);
        let diagnosis = diagnose(&run, &Options::default());
        let findings = diagnosis.findings();
        let [leak] = findings.as_slice() else {
            panic!("{findings:?}")
        };
        assert_eq!(leak.kind, Kind::AllocatorLeak);
        assert_eq!(leak.severity, Severity::Critical);
        assert!(leak.is_a(Kind::OomRisk) && leak.advice.contains("save a checkpoint"));
        assert!(
            leak.headline.contains("; device full in about "),
            "{}",
            leak.headline
        );
    }

    #[test]
    fn growth_that_fills_the_device_beyond_the_horizon_is_no_risk() {
        let run = run_of([a_rank(0).grows(mib(30), 100)]);
        let options = Options {
            oom_horizon_hours: 0.001,
        };
        let diagnosis = diagnose(&run, &options);
        let [leak] = diagnosis.findings()[..] else {
            panic!("{:?}", diagnosis.findings())
        };
        assert_eq!(leak.severity, Severity::Warning);
        assert!(!leak.is_a(Kind::OomRisk));
    }

    #[test]
    fn an_error_that_happened_stays_a_finding() {
        let run = run_of([a_rank(0).grows(mib(30), 100).runs_out_of_memory()]);
        let diagnosis = diagnose(&run, &Options::default());
        let kinds: Vec<Kind> = diagnosis.findings().iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [Kind::OomRisk, Kind::AllocatorLeak]);
    }
}
