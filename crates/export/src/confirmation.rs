//! Which findings of a run that goes on are worth an alert. A false alarm costs more than a late one.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stormlog_analysis::detect::{Diagnosis, Finding, Kind, Severity};

/// The shortest and the longest time between looks. In between it grows with the run: a finding that
/// stays must stay over a share of the run, not over a few more samples.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(1);

/// The share of the run so far that passes between looks.
const SHARE: u32 = 4;

/// A look is followed by a pause of this many times what it took, so that looking costs at most 2 %
/// of one core.
const PAUSE_OF_COST: u32 = 50;

/// When to look next, after a look that took so long at a run of this age.
#[must_use]
pub fn next_look(age: Duration, cost: Duration) -> Duration {
    let by_age = (age / SHARE).clamp(SHORTEST, LONGEST);
    by_age.max(cost * PAUSE_OF_COST)
}

/// What a finding is about: the same trouble, seen again.
type Key = (Kind, Option<u32>, i64);

/// What was seen at the look before.
#[derive(Clone, Copy, Debug)]
struct Seen {
    magnitude_bytes: Option<i64>,
    end_ns: Option<i64>,
}

/// Remembers what was seen at the last look and what was alerted.
#[derive(Debug, Default)]
pub struct Confirmation {
    before: HashMap<Key, Seen>,
    alerted: HashSet<Key>,
}

impl Confirmation {
    /// The findings of a look that are new and were there at the look before. Notes are never
    /// alerted; what grows must have grown further.
    pub fn confirm<'a>(&mut self, diagnosis: &'a Diagnosis) -> Vec<&'a Finding> {
        let findings = worth_alerting(diagnosis);
        let mut now = HashMap::new();
        let mut confirmed = Vec::new();
        for finding in findings {
            let key = key(finding);
            let before = self.before.get(&key);
            if before.is_some_and(|before| stays(before, finding)) && self.alerted.insert(key) {
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

    /// The findings about memory that ran out and ended the run: a fact, which needs no second look.
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

/// Whether a finding is still true: time went on, and what grows has not shrunk.
fn stays(before: &Seen, finding: &Finding) -> bool {
    let went_on = finding.end_ns.is_none() || finding.end_ns > before.end_ns;
    let grows = matches!(
        finding.kind,
        Kind::AllocatorLeak | Kind::HiddenDrift | Kind::HostLeak
    );
    !grows || (went_on && finding.magnitude_bytes > before.magnitude_bytes)
}
