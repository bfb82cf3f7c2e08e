//! Replays recorded runs as they grew: clean runs raise no alert at any time, leaks raise one
//! before the end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stormlog_analysis::detect::{Kind, Options};
use stormlog_analysis::{EventRef, Events, LoadOptions, LoadedSession, OnError, gather};
use stormlog_export::Confirmation;
use stormlog_export::confirmation::next_look;
use stormlog_format::{Event, SessionStatus};

/// The kinds of alerts that a run raises when it is replayed, and the number of analyses.
fn alerts_of(run: &Path) -> (Vec<Kind>, usize) {
    let options = LoadOptions {
        on_error: OnError::Skip,
        ..LoadOptions::default()
    };
    let gathered = gather(&[run.to_path_buf()], &options).unwrap();
    let sessions: Vec<(LoadedSession, Vec<Event>)> = gathered
        .joined()
        .sessions
        .into_iter()
        .filter(|session| !session.events.is_empty())
        .map(|session| {
            let events = session.events.iter().map(EventRef::to_event).collect();
            (session, events)
        })
        .collect();
    let times = sessions.iter().flat_map(|(_, events)| events);
    let times: Vec<i64> = times.map(|event| event.timestamp_ns).collect();
    let (first, last) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
    let mut confirmation = Confirmation::default();
    let mut found = BTreeSet::new();
    let mut looks = 0;
    // Recordings are short, so the analyses begin earlier than in practice.
    let mut age = Duration::from_secs(8);
    while first + i64::try_from(age.as_nanos()).unwrap() < last {
        let now = first + i64::try_from(age.as_nanos()).unwrap();
        let so_far: Vec<LoadedSession> = sessions
            .iter()
            .map(|(session, events)| {
                let count = events.partition_point(|event| event.timestamp_ns <= now);
                let mut session = session.clone();
                session.events = Events::from_events(&events[..count]);
                session.summary.status = SessionStatus::Running;
                session.summary.ended_at_ns = None;
                session
            })
            .filter(|session| !session.events.is_empty())
            .collect();
        let so_far: Vec<_> = so_far.iter().collect();
        let (_, diagnosis) = stormlog_analysis::analyze::diagnosed(&so_far, &Options::default());
        found.extend(
            confirmation
                .confirm(&diagnosis)
                .iter()
                .map(|finding| finding.kind),
        );
        looks += 1;
        age += next_look(age, Duration::ZERO);
    }
    (found.into_iter().collect(), looks)
}

fn fixture(name: &str) -> PathBuf {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs");
    runs.join(name)
}

#[test]
fn clean_runs_raise_no_alert_at_any_moment() {
    for name in [
        "h200_clean_train",
        "h200_clean_eval_bumps",
        "h200_shared_gpu",
        "v040_clean_gpt",
        "v040_clean_serving",
        "v040_hf_trainer",
    ] {
        let (alerts, looks) = alerts_of(&fixture(name));
        println!("{name}: {looks} looks");
        assert_eq!(alerts, [], "{name}");
    }
}

#[test]
fn leaks_raise_an_alert_while_they_run() {
    let names = ["h200_leak_graph", "h200_hidden_drift"];
    let kinds = [Kind::AllocatorLeak, Kind::HiddenDrift];
    for (name, kind) in names.into_iter().zip(kinds) {
        let (alerts, looks) = alerts_of(&fixture(name));
        assert!(
            alerts.contains(&kind),
            "{name}: {alerts:?} in {looks} looks"
        );
    }
}

/// Every recording of a directory: `STORMLOG_REPLAY=/path cargo test --test it replay -- --ignored`.
#[test]
#[ignore = "prints what recordings of one's own would have raised"]
fn replay_a_directory() {
    let folder = std::env::var("STORMLOG_REPLAY").unwrap();
    let mut runs: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    runs.sort();
    for run in runs {
        let outcome = std::panic::catch_unwind(|| alerts_of(&run));
        println!("{}: {outcome:?}", run.display());
    }
}
