//! Converts the findings of Stormlog's own detectors to issues.
//!
//! The dimensions of such an issue are what stays the same from run to run: program, phase,
//! collector and backend, and the site if the evidence names one (without its line number, which
//! changes with every edit). Magnitude, severity, onset, confidence and rank of a finding are
//! evidence and not part of the identity. Up to version 0.4.0 the severity was a dimension
//! and the program was not; the ids of those versions are kept as former ids.

use stormlog_format::{Map, Text, Value};

use super::fingerprint::{fingerprint_id, normalize_dimensions};
use super::gather::Hit;
use super::labels::backend;
use super::object::EvidenceLink;
use crate::columns::{EventRef, Events};
use crate::detect::{Diagnosis, Finding, Kind, Severity, Site};
use crate::query::SourceKind;
use crate::timeline::{self, Member};

/// A function that returns the source of a session's evidence: the file to name as the source, and
/// the kind of the source.
pub(crate) type Home<'h> = dyn Fn(Member<'_>) -> (Text, SourceKind) + Sync + 'h;

/// The findings of a run, each as a hit (one occurrence) of an issue.
pub(crate) fn hits(run: &[Member<'_>], diagnosis: &Diagnosis, home: &Home<'_>) -> Vec<Hit> {
    let program = timeline::program_name(run.iter().map(|member| member.session));
    let findings = diagnosis.findings();
    let of = |one: &&Finding| hit(one, run, program.as_ref(), home);
    findings.iter().filter_map(of).collect()
}

/// Whether an issue of this kind comes from Stormlog's own detectors.
pub(crate) fn is_finding(kind: &Text) -> bool {
    Kind::ALL.iter().any(|known| *kind == known.as_str())
}

fn hit(
    finding: &Finding,
    run: &[Member<'_>],
    program: Option<&Text>,
    home: &Home<'_>,
) -> Option<Hit> {
    let member = run
        .iter()
        .find(|member| member.session.summary.session_id.to_str_lossy() == finding.session_id)?;
    let at_ns = finding.onset_ns.or(finding.end_ns)?;
    let event = event_at(&member.session.events, at_ns, finding)?;
    let severity: Text = finding.severity.as_str().into();
    let phase = finding.phase.as_deref().map(Text::from);
    let mut dimensions = Map::new();
    dimensions.insert("phase", phase.clone());
    dimensions.insert("collector", event.origin().collector.clone());
    dimensions.insert("backend", backend(&event.metadata()));
    let mut former_ids = former_ids(finding, &dimensions);
    if let Some(program) = program {
        dimensions.insert("program", program.clone());
    }
    add_site(finding, &mut dimensions, &mut former_ids);
    let (source_path, source_kind) = home(*member);
    let peers = match finding.rank {
        Some(_) => Vec::new(),
        // A finding without a rank affects all ranks, so all sessions of the run are listed.
        None => run
            .iter()
            .map(|member| member.session.summary.session_id.clone())
            .collect(),
    };
    Some(Hit {
        kind: finding.kind.as_str(),
        dimensions,
        title: finding.title().into(),
        severity,
        evidence: EvidenceLink {
            timestamp_ns: Some(at_ns),
            rank: finding.rank.map(i64::from),
            ..EvidenceLink::of_event(event, source_path, source_kind, measured(finding))
        },
        details: details(finding, phase),
        peers,
        former_ids,
    })
}

/// The ids that version 0.4.0 gave a finding: one for each severity that the finding may have had,
/// its current severity first.
fn former_ids(finding: &Finding, dimensions: &Map) -> Vec<Text> {
    let kind = finding.kind.detector().formerly.unwrap_or(finding.kind);
    let mut severities = [Severity::Critical, Severity::Warning, Severity::Info];
    severities.sort_by_key(|severity| *severity != finding.severity);
    let id = |severity: Severity| {
        let mut former = Map::new();
        former.insert("severity", severity.as_str());
        former.extend(dimensions.clone());
        let former = normalize_dimensions(&former).ok()?;
        Some(fingerprint_id(kind.as_str(), &former, &Value::Int(1)))
    };
    severities.into_iter().filter_map(id).collect()
}

/// Adds the site to the dimensions of an issue. The ids without the site, and with the line that
/// allocates the memory, become former ids, so that decisions that were made before the site was
/// known still apply.
fn add_site(finding: &Finding, dimensions: &mut Map, former_ids: &mut Vec<Text>) {
    let Some(cause) = &finding.cause else {
        return;
    };
    let Some(site) = &cause.site else {
        return;
    };
    let mut former = |dimensions: &Map| {
        if let Ok(normal) = normalize_dimensions(dimensions) {
            former_ids.insert(
                0,
                fingerprint_id(finding.kind.as_str(), &normal, &Value::Int(1)),
            );
        }
    };
    former(dimensions);
    if let Some(allocating) = cause.allocated_at.as_ref().filter(|one| *one != site) {
        let mut with_allocation = dimensions.clone();
        with_allocation.insert("site", &*dimension_of(allocating));
        former(&with_allocation);
    }
    dimensions.insert("site", &*dimension_of(site));
}

/// A line of code as a dimension: without its number, which changes with every edit.
fn dimension_of(site: &Site) -> String {
    let source = site.source_text.as_deref().unwrap_or_default();
    let words: Vec<&str> = source.split_whitespace().collect();
    let site = [site.file_name(), site.function.as_str(), &words.join(" ")].join(" ");
    site.trim().to_owned()
}

/// The first event of the finding's rank and device at or after a time; if there is none, the last
/// event before it.
fn event_at<'e>(events: &'e Events, at_ns: i64, finding: &Finding) -> Option<EventRef<'e>> {
    let concerned = |event: &EventRef<'_>| {
        let origin = event.origin();
        let of_rank = finding
            .rank
            .is_none_or(|rank| origin.rank == i64::from(rank));
        of_rank && origin.device_id == finding.device_id
    };
    let mut last = None;
    for event in events.iter().filter(concerned) {
        if event.timestamp_ns() >= at_ns {
            return Some(event);
        }
        last = Some(event);
    }
    last
}

/// The numbers of a finding, which differ from run to run.
fn measured(finding: &Finding) -> Map {
    let mut map = Map::new();
    map.insert("onset_ns", finding.onset_ns);
    map.insert("end_ns", finding.end_ns);
    map.insert("device_id", finding.device_id);
    map.insert("magnitude_bytes", finding.magnitude_bytes);
    map.insert("confidence", number(Some(finding.confidence)));
    map.insert("explanation", finding.explanation.as_str());
    map
}

fn details(finding: &Finding, phase: Option<Text>) -> Map {
    let mut map = Map::new();
    map.insert("headline", finding.headline.as_str());
    map.insert("explanation", finding.explanation.as_str());
    map.insert("advice", finding.advice.as_str());
    map.insert("phase", phase);
    map.insert("device_id", finding.device_id);
    map.insert("magnitude_bytes", finding.magnitude_bytes);
    map.insert("rate_bytes_per_s", number(finding.rate_bytes_per_s));
    map.insert("time_to_full_s", number(finding.time_to_full_s));
    map.insert("confidence", number(Some(finding.confidence)));
    let mut evidence = Map::new();
    for (name, value) in &finding.evidence {
        evidence.insert(*name, number(Some(*value)));
    }
    map.insert("evidence", Value::Map(evidence));
    map
}

/// A number as a JSON value; a number that is not finite becomes null.
fn number(value: Option<f64>) -> Value {
    match value {
        Some(value) if value.is_finite() => Value::Float(value),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leak(line: u32, source: &str) -> Finding {
        let track = crate::timeline::Track::default();
        let mut leak = crate::detect::finding_of_track(Kind::AllocatorLeak, &track);
        leak.cause = Some(crate::detect::Cause {
            site: Some(crate::detect::Site {
                file: "/home/u/train.py".to_owned(),
                line,
                function: "step".to_owned(),
                source_text: Some(source.to_owned()),
            }),
            site_role: crate::detect::SiteRole::Allocates,
            allocated_at: None,
            call_path: Vec::new(),
            holder: None,
            attributed_bytes: 1,
            share: 1.0,
            failure: None,
        });
        leak
    }

    fn identity(finding: &Finding) -> (Text, Vec<Text>) {
        let (mut dimensions, mut former) = (Map::new(), Vec::new());
        dimensions.insert("program", "train.py");
        add_site(finding, &mut dimensions, &mut former);
        let dimensions = normalize_dimensions(&dimensions).unwrap();
        let id = fingerprint_id("allocator_leak", &dimensions, &Value::Int(1));
        (id, former)
    }

    #[test]
    fn a_line_that_moves_is_the_same_site_and_another_line_is_not() {
        let (id, former) = identity(&leak(8, "kept.append(out)"));
        assert_eq!(identity(&leak(31, "kept.append(out)")).0, id);
        assert_ne!(identity(&leak(8, "seen.append(loss)")).0, id);
        // A decision also applies when the line that makes the memory stay becomes known.
        let mut led = leak(12, "loss = step(x)");
        let cause = led.cause.take().unwrap();
        let line = leak(8, "kept.append(out)").cause.unwrap().site.unwrap();
        led.cause = Some(cause.led_by(crate::detect::SiteRole::AddsItems, line));
        let (led_id, formerly) = identity(&led);
        assert_eq!(led_id, id);
        assert!(formerly.contains(&identity(&leak(12, "loss = step(x)")).0));
        // A decision about the issue without a site also applies to the issue with a site.
        let mut unnamed = leak(8, "");
        unnamed.cause = None;
        assert_eq!(former, [identity(&unnamed).0]);
    }

    #[test]
    fn a_decision_holds_when_the_line_that_keeps_the_memory_becomes_known() {
        let before = leak(8, "logits = model(x)");
        let mut after = leak(12, "kept.append(logits)");
        let cause = after.cause.as_mut().unwrap();
        cause.allocated_at = before.cause.clone().unwrap().site;
        let (id, former) = identity(&after);
        assert_ne!(id, identity(&before).0);
        assert!(former.contains(&identity(&before).0));
    }

    #[test]
    fn only_findings_have_their_kinds() {
        assert!(is_finding(&"allocator_leak".into()));
        assert!(!is_finding(&"alert".into()));
    }
}
