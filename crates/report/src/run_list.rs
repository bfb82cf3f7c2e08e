//! Prints a list of runs as a table for people.

use std::fmt::Write as _;

use stormlog_analysis::timeline::End;

use crate::escape::for_terminal;
use crate::{bytes, wrap};

/// What a list shows of a run. Texts are not escaped yet.
#[derive(Clone, Debug, Default)]
pub struct RunLine {
    /// The name of the run, see [`run_name`](crate::run_name).
    pub name: String,
    /// When the run started, such as `3 min ago`; empty if unknown.
    pub started: String,
    /// How the run ended, or its status; empty if unknown.
    pub ended: String,
    /// The highest memory use; `None` if unknown.
    pub peak_bytes: Option<i64>,
    /// The verdict; `None` if the run was not analyzed.
    pub verdict: Option<String>,
    /// The folder of the run.
    pub folder: String,
    /// The id of the run.
    pub run_id: String,
    /// The job of the run; empty if it has none.
    pub job: String,
}

const TITLES: [&str; COLUMNS] = [
    "Run", "Started", "Ended", "Peak", "Verdict", "Folder", "Run id", "Job",
];
const COLUMNS: usize = 8;
const STARTED: usize = 1;
/// The column that takes the space that the others leave, and the columns after it, which are left
/// out on a narrow terminal, the last one first.
const VERDICT: usize = 4;
/// The longest cell in characters, except a verdict, on a terminal.
const WIDEST: usize = 40;
/// Columns are left out until a verdict has this many characters, if it is that long.
const WANTED: usize = 44;
/// A verdict that gets fewer characters than this is left out.
const LEAST: usize = 12;

/// The runs as a table. `width` is the width of the terminal in characters; `None` if the output is
/// not a terminal, where no cell is cut and no column is left out.
pub fn run_list(runs: &[RunLine], width: Option<usize>) -> String {
    if runs.is_empty() {
        return "No runs.\n".to_owned();
    }
    let rows: Vec<[String; COLUMNS]> = runs.iter().map(|run| cells(run, width)).collect();
    let mut widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(TITLES[column].chars().count())
    });
    let is_empty = |column: usize| rows.iter().all(|row| row[column] == "-");
    let mut shown: Vec<usize> = (0..COLUMNS).filter(|column| !is_empty(*column)).collect();
    let mut left_out = Vec::new();
    if let Some(width) = width {
        let room = |shown: &[usize], widths: &[usize; COLUMNS]| {
            let others = shown.iter().filter(|column| **column != VERDICT);
            let used: usize = others.map(|column| widths[*column] + 2).sum();
            width.saturating_sub(used)
        };
        let wanted = widths[VERDICT].min(WANTED);
        while room(&shown, &widths) < wanted && shown.last().is_some_and(|last| *last > VERDICT) {
            left_out.extend(shown.pop());
        }
        // The name of most runs has the time of their start.
        if room(&shown, &widths) < wanted && shown.contains(&STARTED) {
            shown.retain(|column| *column != STARTED);
            left_out.push(STARTED);
        }
        widths[VERDICT] = widths[VERDICT].min(room(&shown, &widths));
        if widths[VERDICT] < LEAST && shown.contains(&VERDICT) {
            shown.retain(|column| *column != VERDICT);
            left_out.push(VERDICT);
        }
    }
    let mut out = String::new();
    let titles = TITLES.map(str::to_owned);
    let rule: [String; COLUMNS] = std::array::from_fn(|column| "-".repeat(widths[column]));
    for row in [&titles, &rule].into_iter().chain(&rows) {
        let cells = shown.iter().map(|&column| {
            let cell = cut(&row[column], widths[column]);
            let missing = widths[column].saturating_sub(cell.chars().count());
            cell + &" ".repeat(missing)
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if !left_out.is_empty() {
        left_out.sort_unstable();
        let names: Vec<&str> = left_out.iter().map(|column| TITLES[*column]).collect();
        let note = format!(
            "Columns not shown: {} (use a wider terminal, --raw or --json)",
            names.join(", ")
        );
        let _ = writeln!(out, "\n{}", wrap(&note, "", width.unwrap_or(80)));
    }
    out
}

fn cells(run: &RunLine, width: Option<usize>) -> [String; COLUMNS] {
    let text = |text: &str| match &*for_terminal(text) {
        "" => "-".to_owned(),
        text if width.is_some() => cut(text, WIDEST),
        text => text.to_owned(),
    };
    let verdict = run.verdict.as_deref().unwrap_or("-");
    [
        text(&run.name),
        text(&run.started),
        text(&run.ended),
        run.peak_bytes.map_or_else(|| "-".to_owned(), bytes::human),
        for_terminal(verdict).into_owned(),
        // The folder and the ids are needed whole for the next command.
        for_terminal(&run.folder).into_owned(),
        for_terminal(&run.run_id).into_owned(),
        text(&run.job),
    ]
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// How a run ended, in a few words: `exit code 0`, `SIGKILL (signal 9)`.
pub fn short_end(end: &End) -> String {
    let clause = match end {
        End::OutOfMemory => "out of memory".to_owned(),
        End::KernelOomKill => "killed: out of memory".to_owned(),
        End::StillRunning => "running".to_owned(),
        End::Vanished => "not closed".to_owned(),
        End::RecorderStopped => "recorder stopped".to_owned(),
        end => end.clause(),
    };
    let short = clause
        .strip_prefix("ended with ")
        .or_else(|| clause.strip_prefix("ended by "));
    short.unwrap_or(&clause).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<RunLine> {
        let line = |name: &str, verdict: Option<&str>| RunLine {
            name: name.to_owned(),
            started: "3 min ago".to_owned(),
            ended: "exit code 0".to_owned(),
            peak_bytes: Some(3 << 30),
            verdict: verdict.map(str::to_owned),
            folder: "stormlog-runs/20261119T125800Z-1".to_owned(),
            run_id: "0fe8a1b2-0000-4000-8000-000000000000".to_owned(),
            job: String::new(),
        };
        vec![
            line(
                "train.py 12:58",
                Some("Leak: 64.0 MiB per step are kept by `cache` at train.py:9"),
            ),
            line("serve\u{1b}[31m.py 12:40", None),
        ]
    }

    #[test]
    fn a_list_fits_the_terminal_and_names_the_columns_that_do_not() {
        for width in [50, 80, 120, 180] {
            let text = run_list(&runs(), Some(width));
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(
                widest.is_some_and(|widest| widest <= width.max(64)),
                "{text}"
            );
            assert_eq!(text.contains("0fe8a1b2"), width >= 180, "{text}");
            assert_eq!(text.contains("not shown"), width < 180, "{text}");
            assert!(!text.contains('\u{1b}'));
        }
        let wide = run_list(&runs(), Some(80));
        assert!(wide.contains("3.00 GiB  Leak: 64.0 MiB"), "{wide}");
        assert!(!wide.contains("Job"), "{wide}");
    }

    #[test]
    fn a_pipe_gets_everything() {
        let text = run_list(&runs(), None);
        assert!(
            text.contains("train.py:9  stormlog-runs/20261119T125800Z-1  0fe8a1b2"),
            "{text}"
        );
        assert_eq!(run_list(&[], None), "No runs.\n");
    }

    #[test]
    fn ends_are_short() {
        assert_eq!(short_end(&End::Exit { code: Some(3) }), "exit code 3");
        assert_eq!(short_end(&End::OutOfMemory), "out of memory");
        assert_eq!(short_end(&End::Unknown), "");
    }
}
