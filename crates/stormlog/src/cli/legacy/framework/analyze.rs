//! `tfmemprof analyze` and `jaxmemprof analyze`: analyze a recorded file by the rules of stormlog
//! 0.3.9.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use stormlog_analysis::regular_file;
use stormlog_compat::framework::{
    Fragmentation, Framework, efficiency, leaks, patterns, score, suggestions,
};
use stormlog_format::whole;
use stormlog_format::{Map, Value as Recorded};
use stormlog_report::escape::path_for_terminal;
use stormlog_report::{DrawnTrack, PictureKind, Story};

use super::names;
use crate::Exit;
use crate::cli::pictures::write_picture;
use crate::console::Console;
use crate::whole_file::write_whole;

/// The file name of the picture that `analyze --visualize` draws, if no other name is given.
pub(crate) const PICTURE: &str = "memory_timeline.png";

const MOST_RECOMMENDATIONS: usize = 5;
const MB: f64 = 1_048_576.0;

/// Flags that `tfmemprof analyze` and `jaxmemprof analyze` share.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each boolean field is a command line flag"
)]
pub(crate) struct Arguments {
    /// File written by 'track' or 'monitor'
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Detect leaks and patterns of memory use
    #[arg(long)]
    detect_leaks: bool,
    /// Compute an efficiency score and suggestions
    #[arg(long)]
    optimize: bool,
    /// Draw the timeline
    #[arg(long)]
    visualize: bool,
    /// Write the output also to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The folder and the file name for the picture of the timeline, from the flags `--output` and
/// `--plot` of `jaxmemprof analyze`. If a name is given, the picture is drawn even without
/// `--visualize`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Picture<'a> {
    pub(crate) folder: Option<&'a Path>,
    pub(crate) name: Option<&'a str>,
}

/// The largest size in bytes of a recorded file; larger files are not read.
const LARGEST: u64 = 1 << 30;

/// The samples in a file that `track` or `monitor` of `tfmemprof` or `jaxmemprof` wrote.
struct Recording {
    /// Memory in use in megabytes, one value per sample.
    usage: Vec<f64>,
    /// The times of the samples in seconds since the Unix epoch.
    times: Vec<f64>,
    seconds: f64,
    /// The highest memory use in megabytes, as stored in the file; `None` if the file has no such
    /// value.
    peak: Option<f64>,
    average: Option<f64>,
}

impl Recording {
    fn read(framework: Framework, path: &Path) -> anyhow::Result<Self> {
        let content = regular_file::read(path, LARGEST)
            .with_context(|| format!("cannot read '{}'", path_for_terminal(path)))?;
        let document: Value = serde_json::from_slice(&content)
            .with_context(|| format!("'{}' is not a JSON document", path_for_terminal(path)))?;
        let numbers = |key: &str| -> Vec<f64> {
            let list = document.get(key).and_then(Value::as_array);
            let numbers = list.into_iter().flatten().filter_map(Value::as_f64);
            numbers.collect()
        };
        if document.get("memory_usage").is_none() {
            let path = path_for_terminal(path);
            let program = names(framework).program;
            anyhow::bail!(
                "'{path}' has no 'memory_usage'; it was not written by '{program} track' or 'monitor'"
            );
        }
        let unit = match framework {
            Framework::TensorFlow => 1.0,
            Framework::Jax => MB,
        };
        let number = |key: &str| document.get(key).and_then(Value::as_f64);
        Ok(Self {
            usage: numbers("memory_usage")
                .iter()
                .map(|size| size / unit)
                .collect(),
            times: numbers("timestamps"),
            seconds: number("duration").unwrap_or(0.0),
            peak: number("peak_memory"),
            average: number("average_memory"),
        })
    }

    fn growth(&self) -> f64 {
        match (self.usage.first(), self.usage.last()) {
            (Some(first), Some(last)) if self.seconds > 0.0 => (last - first) / self.seconds,
            _ => 0.0,
        }
    }

    fn steps(&self, is_step: fn(f64, f64) -> bool) -> usize {
        let pairs = self.usage.windows(2);
        pairs.filter(|pair| is_step(pair[0], pair[1])).count()
    }

    fn story(&self) -> Story {
        let points = self.times.iter().zip(&self.usage).map(|(time, size)| {
            let bytes = whole(size * MB);
            (whole(time * 1e9), bytes, bytes, String::new())
        });
        Story::of_tracks(vec![DrawnTrack::from_points(points.collect())])
    }
}

/// The results of `analyze`: leaks and patterns of memory use with `--detect-leaks`, the efficiency
/// score and suggestions with `--optimize`.
struct Findings {
    leaks: Vec<Map>,
    patterns: Vec<Map>,
    score: Option<Map>,
}

pub(crate) fn run(
    framework: Framework,
    arguments: &Arguments,
    picture: Picture<'_>,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    let recording = Recording::read(framework, &arguments.input)?;
    let findings = analyze(framework, &recording, arguments);
    let text = lines(framework, &recording, &findings, arguments).join("\n") + "\n";
    if arguments.json {
        let document = document(&recording, &findings);
        writeln!(console.out, "{}", serde_json::to_string_pretty(&document)?)?;
    } else {
        write!(console.out, "{text}")?;
    }
    if arguments.visualize || picture.name.is_some() {
        anyhow::ensure!(!recording.usage.is_empty(), "no samples to draw");
        let folder = picture.folder.unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make '{}'", folder.display()))?;
        }
        let name = picture.name.unwrap_or(PICTURE);
        let path = write_picture(&recording.story(), PictureKind::Timeline, folder, name)?;
        writeln!(console.err, "timeline saved as {}", path.display())?;
    }
    if let Some(path) = &arguments.report {
        write_whole(path, text.as_bytes())?;
        writeln!(console.err, "report saved to {}", path.display())?;
    }
    Ok(Exit::Fine)
}

fn analyze(framework: Framework, recording: &Recording, arguments: &Arguments) -> Findings {
    let usage = &recording.usage;
    let mut findings = Findings {
        leaks: Vec::new(),
        patterns: Vec::new(),
        score: None,
    };
    if arguments.detect_leaks {
        findings.leaks = leaks(usage, Recorded::Float(recording.growth()));
        findings.patterns = patterns(usage);
    }
    if arguments.optimize {
        let peak = recording.peak.unwrap_or(0.0);
        let growth = recording.growth();
        // A recording from outside the training process does not contain the memory reserved by the
        // allocator, so the fragmentation is unknown and its default value is used.
        let share = Fragmentation::default().score;
        let worth = efficiency(peak, growth, share, Some(usage));
        let mut advice = suggestions(framework, peak, growth, share, &[]);
        advice.truncate(MOST_RECOMMENDATIONS);
        findings.score = Some(score(worth, None, &[], advice));
    }
    findings
}

fn lines(
    framework: Framework,
    recording: &Recording,
    findings: &Findings,
    arguments: &Arguments,
) -> Vec<String> {
    let size = |size: Option<f64>| size.map_or("unknown".into(), |size| format!("{size:.2} MB"));
    let mut lines = vec![
        format!(
            "{} memory of '{}'",
            names(framework).framework,
            path_for_terminal(&arguments.input)
        ),
        String::new(),
        "Basic Analysis:".into(),
        "---------------".into(),
        format!("Peak Memory: {}", size(recording.peak)),
        format!("Average Memory: {}", size(recording.average)),
        format!("Duration: {:.2} seconds", recording.seconds),
        format!("Memory Allocations: {}", recording.steps(|a, b| b > a)),
        format!("Memory Deallocations: {}", recording.steps(|a, b| b < a)),
    ];
    if arguments.detect_leaks {
        lines.extend([String::new(), "Memory Leak Analysis:".into()]);
        lines.push("---------------------".into());
        if findings.leaks.is_empty() {
            lines.push("No memory leaks detected".into());
        }
        for leak in &findings.leaks {
            let (kind, severity) = (text(leak, "type"), text(leak, "severity"));
            let what = text(leak, "description");
            lines.push(format!("  - {kind}: {what} (Severity: {severity})"));
        }
        for pattern in &findings.patterns {
            let (kind, what) = (text(pattern, "type"), text(pattern, "description"));
            lines.push(format!("  - {kind}: {what}"));
        }
    }
    if let Some(score) = &findings.score {
        lines.extend([String::new(), "Optimization Analysis:".into()]);
        lines.push("----------------------".into());
        lines.push(format!(
            "Overall Score: {:.1}/10",
            number(score, "overall_score")
        ));
        if let Some(categories) = score.get("categories").and_then(Recorded::as_map) {
            for (name, _) in categories.iter() {
                let name = name.to_str_lossy();
                lines.push(format!("  {name}: {:.1}/10", number(categories, &name)));
            }
        }
        if let Some(Recorded::List(advice)) = score.get("top_recommendations") {
            lines.push("Top Recommendations:".into());
            for (index, advice) in advice.iter().enumerate() {
                let advice = advice.as_text().map(|text| text.to_str_lossy());
                let advice = advice.unwrap_or_default();
                lines.push(format!("  {}. {advice}", index + 1));
            }
        }
    }
    lines
}

fn text(map: &Map, key: &str) -> String {
    let text = map.get(key).and_then(Recorded::as_text);
    text.map_or_else(String::new, |text| text.to_str_lossy().into_owned())
}

fn number(map: &Map, key: &str) -> f64 {
    match map.get(key) {
        Some(Recorded::Float(number)) => *number,
        _ => 0.0,
    }
}

fn document(recording: &Recording, findings: &Findings) -> Value {
    json!({
        "peak_memory_mb": recording.peak,
        "average_memory_mb": recording.average,
        "duration_seconds": recording.seconds,
        "samples": recording.usage.len(),
        "allocations": recording.steps(|a, b| b > a),
        "deallocations": recording.steps(|a, b| b < a),
        "leaks": findings.leaks,
        "patterns": findings.patterns,
        "optimization": findings.score,
    })
}
