//! Decides which findings of a running job become alerts. A false alarm is worse than a late alert,
//! so a finding must appear in two analyses in a row.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stormlog_analysis::Pace;
use stormlog_analysis::detect::{Diagnosis, Finding, Kind, Severity};

/// The shortest and the longest time between two analyses of a running job. The time between two
/// analyses grows with the age of the run, so that a finding must persist over a share of the run
/// and not only over a few more samples.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(5);
const LONGEST_INTERVAL: Duration = Duration::from_mins(1);

/// The time between two analyses is the age of the run divided by this number, but at least 5
/// seconds and at most one minute.
const AGE_DIVISOR: u32 = 4;

/// The pause after an analysis is at least 50 times as long as the analysis took, so that analyses
/// cost at most 2 % of one core.
const PAUSE_FACTOR: u32 = 50;

/// The time until the next analysis, from the age of the run and the duration of the last analysis.
#[must_use]
pub fn next_look(age: Duration, cost: Duration) -> Duration {
    let by_age = (age / AGE_DIVISOR).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
    Pace::new(by_age, PAUSE_FACTOR).after(cost)
}

/// Identifies the same problem in successive analyses, by its kind, rank and device.
type Key = (Kind, Option<u32>, i64);

/// The size and the end time of a finding in the previous analysis. A leak becomes an alert only if
/// both have increased since.
#[derive(Clone, Copy, Debug)]
struct Seen {
    magnitude_bytes: Option<i64>,
    end_ns: Option<i64>,
}

/// Remembers the findings of the last analysis and the alerts that were sent.
#[derive(Debug, Default)]
pub struct Confirmation {
    before: HashMap<Key, Seen>,
    alerted: HashSet<Key>,
}

impl Confirmation {
    /// The findings to send as alerts: each was also present in the previous analysis and has not
    /// been sent before. Findings of severity info are never returned, and a leak must have kept
    /// growing since the previous analysis.
    pub fn confirm<'a>(&mut self, diagnosis: &'a Diagnosis) -> Vec<&'a Finding> {
        let findings = worth_alerting(diagnosis);
        let mut now = HashMap::new();
        let mut confirmed = Vec::new();
        for finding in findings {
            let key = key(finding);
            let before = self.before.get(&key);
            if before.is_some_and(|before| is_confirmed(before, finding))
                && self.alerted.insert(key)
            {
                confirmed.push(finding);
            }
            now.insert(
                key,
                Seen {
                    magnitude_bytes: finding.magnitude_bytes,
                    end_ns: finding.end_ns,
                },
            );
        }
        self.before = now;
        confirmed
    }

    /// The findings about the out-of-memory error that ended the run. An out-of-memory error is a
    /// fact, so the alert needs no confirmation by a second analysis.
    pub fn at_end<'a>(&mut self, diagnosis: &'a Diagnosis) -> Vec<&'a Finding> {
        if !diagnosis.end.is_out_of_memory() {
            return Vec::new();
        }
        let mut findings = worth_alerting(diagnosis);
        findings.retain(|finding| {
            let is_end = finding.kind == Kind::OomRisk && finding.severity == Severity::Critical;
            is_end && self.alerted.insert(key(finding))
        });
        findings
    }
}

fn worth_alerting(diagnosis: &Diagnosis) -> Vec<&Finding> {
    let mut findings = diagnosis.findings();
    findings.retain(|finding| finding.severity > Severity::Info);
    findings
}

fn key(finding: &Finding) -> Key {
    (finding.kind, finding.rank, finding.device_id)
}

/// Whether the previous analysis confirms a finding. A leak must have lasted longer and grown since
/// the previous analysis; a finding of another kind only has to be found again.
fn is_confirmed(before: &Seen, finding: &Finding) -> bool {
    let lasted_longer = finding.end_ns.is_none() || finding.end_ns > before.end_ns;
    !finding.kind.detector().is_growth
        || (lasted_longer && finding.magnitude_bytes > before.magnitude_bytes)
}
