//! `stormlog plot`: draws a recording as a picture or an HTML page.

use std::path::{Path, PathBuf};

use stormlog_analysis::allocator_snapshot::is_pickle;
use stormlog_analysis::{DiagnosedRun, OpenRun};
use stormlog_report::{
    Canvas, PictureKind, Story, Theme, draw, html_page, parse_moment, to_png, to_svg,
};

use super::allocator_snapshot;
use super::artifact::{load_failure, warn_of_damage};
use super::named_values::{described, named};
use super::newest_run::given_or_newest;
use super::run_files::loading;
use crate::Exit;
use crate::console::Console;
use crate::failure::hinted;
use crate::machine::on_this_machine;
use crate::rank_filter::RankFilter;
use crate::whole_file::write_whole;

/// Draw a recording as PNG, SVG or interactive HTML page
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stormlog plot
  stormlog plot runs/7f3a -o timeline.png
  stormlog plot runs/7f3a -o timeline.html
  stormlog plot events_rank*.json --kind ranks -o ranks.svg --theme dark
  stormlog plot cuda_allocator_snapshot.pickle -o memory.html
  stormlog plot events.jsonl.gz --from 2m30s --to 3m -o last-steps.png
  stormlog plot runs/7f3a --kind dashboard --rank 0,4-7 --title 'batch 64'")]
pub(crate) struct Arguments {
    /// Sinks, event files or bundles (several are drawn as ranks of one run), or one snapshot
    /// of PyTorch's allocator [default: the newest run in stormlog-runs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// File to write: .png, .svg or .html [default: KIND.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Kind of picture
    #[arg(long, default_value = "timeline", value_parser = named(described(KINDS), PictureKind::parse))]
    kind: PictureKind,
    /// Draw this session, with the other ranks of its job
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    /// Ranks to draw: all, or numbers and ranges such as 0,2,4-7
    #[arg(long, value_name = "RANKS", default_value = "all")]
    rank: RankFilter,
    /// Start of the range: seconds since the start, a duration (2m30s), or a time
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End of the range, like --from
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Colour theme
    #[arg(long, default_value = "system", value_parser = named(described(THEMES), Theme::parse))]
    theme: Theme,
    /// Title of the picture
    #[arg(long)]
    title: Option<String>,
    /// Draw no findings
    #[arg(long)]
    no_findings: bool,
    /// Width of a picture in pixels
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(320..=16_384))]
    width: u32,
    /// Height of a picture in pixels [default: depends on the kind]
    #[arg(long, value_parser = clap::value_parser!(u32).range(200..=16_384))]
    height: Option<u32>,
    /// Scale of a PNG, 1 to 8; 2 is sharp on paper
    #[arg(long, default_value_t = 2.0, value_parser = scale)]
    scale: f32,
}

const KINDS: &[(&str, &str)] = &[
    (
        "timeline",
        "Memory over time, with alerts, OOMs and findings",
    ),
    ("ranks", "Memory of all ranks on one time axis"),
    ("heatmap", "One row per rank, memory as colour"),
    ("gap", "Hidden memory over time"),
    (
        "steps",
        "Memory at the end of each step, and the peak during it",
    ),
    (
        "dashboard",
        "Several of these pictures in one, with the verdict",
    ),
];

const THEMES: &[(&str, &str)] = &[
    (
        "system",
        "Light pictures; pages use the theme of the reader's system",
    ),
    ("light", ""),
    ("dark", ""),
];

fn scale(text: &str) -> Result<f32, String> {
    let scale: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (1.0..=8.0).contains(&scale) {
        Ok(scale)
    } else {
        Err("must be between 1 and 8".to_owned())
    }
}

/// The format of the picture, chosen by the extension of the output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Png,
    Svg,
    Html,
}

impl Output {
    fn of(path: &Path) -> anyhow::Result<Self> {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        match extension.to_ascii_lowercase().as_str() {
            "png" => Ok(Self::Png),
            "svg" => Ok(Self::Svg),
            "html" | "htm" => Ok(Self::Html),
            _ => Err(hinted(
                anyhow::anyhow!("unknown picture format for '{}'", path.display()),
                "use a name that ends in .png, .svg or .html",
            )),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let kind = arguments.kind;
    let default = || PathBuf::from(format!("{}.html", kind.as_str()));
    let path = arguments.output.clone().unwrap_or_else(default);
    // The name of the output file is checked before loading, so that a wrong extension is reported
    // at once.
    let output = Output::of(&path)?;
    let theme = arguments.theme;
    if let [snapshot] = &*arguments.paths
        && is_pickle(snapshot)
    {
        refuse_what_a_snapshot_has_not(arguments)?;
        return plot_snapshot(snapshot, &path, output, theme, console);
    }
    let paths = given_or_newest(&arguments.paths, console)?;
    let story = story(arguments, &paths, console)?;
    let canvas = Canvas {
        width: arguments.width,
        height: arguments.height,
        theme,
    };
    let bytes = match output {
        Output::Html => html_page(&story, kind, theme)?.into_bytes(),
        Output::Svg => to_svg(&draw(&story, kind, canvas)?).into_bytes(),
        Output::Png => to_png(&draw(&story, kind, canvas)?, arguments.scale)?,
    };
    write(&path, &bytes, console)
}

/// Rejects flags that have no effect on a snapshot of PyTorch's allocator, which has only one page.
fn refuse_what_a_snapshot_has_not(arguments: &Arguments) -> anyhow::Result<()> {
    let given = [
        ("--kind", arguments.kind != PictureKind::Timeline),
        ("--session-id", arguments.session_id.is_some()),
        ("--from", arguments.from.is_some()),
        ("--to", arguments.to.is_some()),
        ("--title", arguments.title.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((flag, _)) => Err(hinted(
            anyhow::anyhow!("'{flag}' does not apply to snapshots of PyTorch's allocator"),
            "omit the option: a snapshot has one page with everything",
        )),
    }
}

/// Draws a snapshot of PyTorch's allocator, for which HTML is the only format.
fn plot_snapshot(
    snapshot: &Path,
    path: &Path,
    output: Output,
    theme: Theme,
    console: &mut Console<'_>,
) -> anyhow::Result<Exit> {
    if output != Output::Html {
        return Err(hinted(
            anyhow::anyhow!("a snapshot of PyTorch's allocator can only be drawn as an HTML page"),
            "use a name that ends in .html",
        ));
    }
    let page = allocator_snapshot::page(snapshot, theme, console)?;
    write(path, page.as_bytes(), console)
}

fn write(path: &Path, bytes: &[u8], console: &mut Console<'_>) -> anyhow::Result<Exit> {
    write_whole(path, bytes)?;
    writeln!(console.out, "{}", path.display())?;
    Ok(Exit::Fine)
}

fn story(
    arguments: &Arguments,
    paths: &[PathBuf],
    console: &mut Console<'_>,
) -> anyhow::Result<Story> {
    let run = load(arguments.session_id.as_deref(), paths, console)?;
    let mut story = if arguments.no_findings {
        Story::of_run(&run.timeline, &run.sessions.iter().collect::<Vec<_>>())
    } else {
        Story::of_diagnosed(&run)
    };
    story.title.clone_from(&arguments.title);
    let had_samples = story.samples() > 0;
    story.keep_ranks(|rank| arguments.rank.keeps(rank));
    let Some(start) = story.start_ns() else {
        return Err(if had_samples {
            hinted(
                anyhow::anyhow!("no samples of the ranks given by '--rank'"),
                "'--rank all' draws every rank",
            )
        } else {
            anyhow::anyhow!("no samples in '{}'", paths[0].display())
        });
    };
    let moment = |text: &Option<String>| {
        text.as_deref()
            .map(|text| parse_moment(text, start))
            .transpose()
    };
    story.between(moment(&arguments.from)?, moment(&arguments.to)?)?;
    Ok(story)
}

fn load(
    session_id: Option<&str>,
    paths: &[PathBuf],
    console: &mut Console<'_>,
) -> anyhow::Result<DiagnosedRun> {
    let files = paths.iter().map(PathBuf::as_path);
    let opened = loading(files, true, console, |options| {
        on_this_machine(|here| OpenRun::joined(paths, session_id, options, here))
    });
    let run = opened.map_err(|(path, error)| load_failure(&error, &path, true))?;
    warn_of_damage(&run.damage, console)?;
    match session_id {
        Some(id) if run.sessions.is_empty() => Err(hinted(
            anyhow::anyhow!("no session '{id}' in the given paths"),
            "omit '--session-id' to draw the latest session",
        )),
        _ => Ok(run),
    }
}
