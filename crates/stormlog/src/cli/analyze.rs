//! `stormlog analyze`: finds memory problems of runs, with onset, location and advice.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use stormlog_analysis::Loaded;
use stormlog_analysis::analyze::{AnalyzeOptions, Report, analyze};
use stormlog_analysis::detect::{Finding, Kind, Level};
use stormlog_analysis::issue::read_states_of;
use stormlog_format::parse_duration;
use stormlog_report::analyze::{Detail, Document, to_markdown, to_text};
use stormlog_report::document::pretty;
use stormlog_report::escape::for_terminal;
use stormlog_report::markdown::escaped;

use super::accept_damage::AcceptDamage;
use super::newest_run::given_or_newest;
use super::pictures;
use super::run_files;
use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::machine::now_ns;
use crate::whole_file::write_whole;

/// Find memory problems of a run: what, since when, on which rank, and what to do
///
/// Sessions with the same run id are one run. Without a run id, sessions with the same job id are
/// one run, and without a job id, those of one sink. All ranks of a run are analyzed together.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when analyzed, with or without findings; 2 when a kind of --fail-on
was found; 1 on failure, also when --fail-on cannot judge a recording.

Examples:
  stormlog analyze
  stormlog analyze run/sink
  stormlog analyze rank*.jsonl.gz
  stormlog analyze run/ --format md >> $GITHUB_STEP_SUMMARY
  stormlog analyze run/ --format json | jq '.findings[] | [.kind, .rank]'
  stormlog analyze run/ --fail-on oom_risk,allocator_leak
  stormlog analyze run/ --visualization --plot-dir plots"
)]
pub(crate) struct Arguments {
    /// Files, folders, sinks or bundles, of one run or of several [default: the newest run in
    /// stormlog-runs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Analyze only this session
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    /// Analyze only this rank
    #[arg(long)]
    rank: Option<i64>,
    /// Print all evidence behind the findings
    #[arg(long, short)]
    verbose: bool,
    /// Exit with 2 when a likely or certain problem has one of these kinds: a list, or 'any';
    /// with 'note' in the list, notes count too
    #[arg(long, value_name = "KINDS", value_parser = FailOn::from_str)]
    fail_on: Option<FailOn>,
    /// Report running out of memory as a risk when it is at most this far ahead
    #[arg(long, value_name = "HOURS", default_value_t = 24.0, value_parser = positive_hours)]
    oom_horizon: f64,
    /// Skip and list records that cannot be read
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    accept_damage: AcceptDamage,
    /// Also draw the timeline of the run: timeline.png and timeline.html
    #[arg(long)]
    visualization: bool,
    /// Directory of the pictures
    #[arg(
        long,
        value_name = "DIR",
        default_value = "plots",
        requires = "visualization"
    )]
    plot_dir: PathBuf,
}

/// The output format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    #[value(name = "txt")]
    Text,
    /// For programs
    Json,
    /// For pull requests
    Md,
}

/// The value of `--fail-on`: the findings that make the command exit with code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailOn {
    kinds: Vec<Kind>,
    /// Findings of a lower level do not count.
    least: Level,
}

/// The word that makes notes count too.
const NOTES: &str = "note";

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut kinds = Vec::new();
        for name in names.iter().filter(|name| **name != NOTES) {
            match Kind::ALL.into_iter().find(|kind| kind.as_str() == *name) {
                Some(kind) => kinds.push(kind),
                None if *name == "any" => kinds.extend(Kind::ALL),
                None => {
                    let all = Kind::ALL.map(Kind::as_str).join(", ");
                    return Err(format!(
                        "unknown kind of finding '{name}'; known kinds: {all}, any, or {NOTES}"
                    ));
                }
            }
        }
        let has_notes = names.contains(&NOTES);
        if kinds.is_empty() {
            kinds.extend(Kind::ALL);
        }
        let least = if has_notes {
            Level::Note
        } else {
            Level::Likely
        };
        Ok(Self { kinds, least })
    }
}

impl FailOn {
    /// Whether the report has one of these findings.
    pub(crate) fn fails(&self, report: &Report) -> bool {
        let wanted = |finding: &Finding| {
            // A kind also matches the findings that earlier versions reported under it.
            let formerly = finding.kind.detector().formerly;
            let mut kinds = self.kinds.iter();
            kinds.any(|&kind| finding.is_a(kind) || formerly == Some(kind))
        };
        report
            .findings()
            .any(|finding| finding.level() >= self.least && wanted(finding))
    }
}

pub(crate) fn positive_hours(text: &str) -> Result<f64, String> {
    let duration = || parse_duration(text).map(|ns| ns as f64 / 3.6e12);
    let number: Option<f64> = text.parse().ok();
    number
        .or_else(duration)
        .filter(|hours| *hours > 0.0 && hours.is_finite())
        .ok_or_else(|| "must be a number of hours > 0, or a duration such as 90m or 2d".to_owned())
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let paths = given_or_newest(&arguments.paths, console)?;
    let run = run_files::open(&paths, arguments.skip_damaged, console)?;
    run_files::warn_of_gathered(run.gathered(), console)?;
    let loaded = run.loaded();
    if arguments.fail_on.is_some() {
        saw_events(loaded)?;
    }
    let options = AnalyzeOptions {
        session_id: arguments.session_id.clone(),
        rank: arguments.rank,
        oom_horizon_hours: arguments.oom_horizon,
    };
    let mut report = analyze(loaded, &options).map_err(|error| {
        hinted(
            error,
            "'stormlog show PATH' lists the sessions and ranks of an artifact",
        )
    })?;
    if let Some(first) = paths.first() {
        give_states(&mut report, first, console)?;
    }
    let pictures = pictures_of(arguments, loaded, &report, console)?;
    let text = match arguments.format {
        ReportFormat::Json => {
            let mut document = Document::of(&report);
            document.visualizations = arguments.visualization.then_some(pictures);
            pretty(&document)
        }
        ReportFormat::Md => {
            to_markdown(&report) + &pictures_line(&pictures, |name| escaped(name).into())
        }
        ReportFormat::Text => {
            let detail = if arguments.verbose {
                Detail::All
            } else {
                Detail::Short
            };
            to_text(
                &report,
                detail,
                console.terminal(arguments.output.as_deref()),
            ) + &pictures_line(&pictures, for_terminal)
        }
    };
    let failed = arguments
        .fail_on
        .as_ref()
        .is_some_and(|kinds| kinds.fails(&report));
    let exit = if failed { Exit::Risk } else { Exit::Fine };
    let whole = if arguments.fail_on.is_some() && !failed {
        arguments.accept_damage.check(loaded, |id| {
            let mut sessions = report.runs.iter().flat_map(|run| &run.sessions);
            sessions.any(|session| session.session_id == *id)
        })
    } else {
        Ok(())
    };
    console.decided = whole.is_ok().then_some(exit);
    write(arguments.output.as_deref(), &text, console)?;
    whole.map(|()| exit)
}

/// Fails when the artifacts contain no events, because a gate must not pass without any data.
pub(crate) fn saw_events(loaded: &[Loaded]) -> anyhow::Result<()> {
    let mut sessions = loaded.iter().flat_map(|one| &one.sessions);
    if sessions.any(|session| !session.events.is_empty()) {
        return Ok(());
    }
    Err(hinted(
        anyhow::anyhow!("--fail-on has nothing to judge: no event could be read"),
        "stormlog validate PATH lists what is wrong with an artifact",
    ))
}

/// Applies the issue states stored beside the artifacts to the issues of a report.
pub(crate) fn give_states(
    report: &mut Report,
    artifacts: &Path,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    match read_states_of(artifacts) {
        Ok(states) => states
            .unwrap_or_default()
            .apply(&mut report.issues, now_ns()),
        Err(error) => {
            let text = format!("{error}; the saved states of issues are ignored");
            writeln!(console.err, "warning: {}", for_terminal(&text))?;
        }
    }
    Ok(())
}

/// Draws the timeline of the run when requested; returns the names of the written files.
fn pictures_of(
    arguments: &Arguments,
    loaded: &[Loaded],
    report: &Report,
    console: &mut Console<'_>,
) -> anyhow::Result<Vec<String>> {
    if !arguments.visualization {
        return Ok(Vec::new());
    }
    let Some(story) = pictures::story_of(loaded, report, arguments.rank) else {
        writeln!(console.err, "warning: no samples to draw")?;
        return Ok(Vec::new());
    };
    let files = pictures::write_timeline(&story, &arguments.plot_dir)?;
    let names = files.iter().map(|file| file.to_string_lossy().into_owned());
    Ok(names.collect())
}

/// The last line of a report, which names the files of the written pictures; `escape` escapes the
/// names.
fn pictures_line(pictures: &[String], escape: fn(&str) -> Cow<'_, str>) -> String {
    if pictures.is_empty() {
        return String::new();
    }
    let names: Vec<Cow<'_, str>> = pictures.iter().map(|name| escape(name)).collect();
    format!("\nPictures: {}\n", names.join(", "))
}

/// Writes a report to the file `output`, or to standard output if it is `None`.
pub(crate) fn write(
    output: Option<&Path>,
    text: &str,
    console: &mut Console<'_>,
) -> anyhow::Result<()> {
    match output {
        None => console.out.write_all(text.as_bytes())?,
        Some(file) => write_whole(file, text.as_bytes())?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_name() {
        let parsed = |text: &str| FailOn::from_str(text).expect("known kinds");
        let (all, likely) = (Kind::ALL.to_vec(), Level::Likely);
        let of = |kinds: &[Kind], least| FailOn {
            kinds: kinds.to_vec(),
            least,
        };
        let two = [Kind::OomRisk, Kind::AllocatorLeak];
        assert_eq!(parsed("oom_risk, allocator_leak"), of(&two, likely));
        assert_eq!(parsed("any"), of(&all, likely));
        assert_eq!(parsed("note"), of(&all, Level::Note));
        assert_eq!(
            parsed("oom_risk,allocator_leak,note"),
            of(&two, Level::Note)
        );
        let error = FailOn::from_str("leak").expect_err("no kind");
        assert!(error.contains("allocator_leak"), "{error}");
    }

    #[test]
    fn horizons_are_positive() {
        assert_eq!(positive_hours("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", "x"] {
            assert!(positive_hours(bad).is_err(), "{bad}");
        }
    }
}
