//! Texts and small drawings that several pages use: sizes, how a run ended, and the
//! small memory curve of a run.

use stormlog_analysis::detect::Level;
use stormlog_analysis::timeline::End;
use stormlog_report::bytes;

use crate::digest::Digest;

/// Width and height in SVG units of the small memory curve that the list shows for each run.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 26.0;

/// Formats an amount of memory, or returns `unknown` if the amount is not known.
pub(super) fn size(value: Option<i64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), bytes::human)
}

/// Describes how a run ended, with a CSS class for a good, bad or neutral end.
pub(super) fn end(end: &End, is_running: bool) -> (String, &'static str) {
    if is_running {
        return ("running".to_owned(), "live");
    }
    let class = match end {
        _ if end.is_normal() => "good",
        End::Unknown | End::StillRunning | End::RecorderStopped => "",
        _ => "critical",
    };
    let text = match end {
        End::Exit { code: Some(code) } => format!("exit code {code}"),
        End::OutOfMemory => "out of memory".to_owned(),
        End::KernelOomKill => "killed: host memory ran out".to_owned(),
        End::Unknown => "end unknown".to_owned(),
        End::Vanished => "not closed".to_owned(),
        End::RecorderStopped => "recording stopped".to_owned(),
        // The run was still active when its files were read, but has ended since.
        End::StillRunning => "ended".to_owned(),
        _ => end.clause(),
    };
    (text, class)
}

/// Draws the small curve of a run with its memory limit as SVG. The SVG contains no text from the
/// recording.
pub(super) fn sparkline(digest: &Digest) -> String {
    let known = digest.curve.iter().flatten().copied().max();
    // A curve of what was found may be far below the peak of the run.
    let level = digest.verdict.as_ref().and_then(|verdict| verdict.level);
    let is_found = level > Some(Level::Note);
    let peak = if is_found {
        known
    } else {
        digest.peak.or(known)
    };
    let Some(peak) = peak.filter(|peak| *peak > 0) else {
        return String::new();
    };
    // A memory limit of more than eight times the peak is not drawn, because it would flatten the
    // curve.
    let limit = digest
        .limit
        .filter(|limit| !is_found && *limit <= peak.saturating_mul(8));
    let (top, points) = (
        limit.unwrap_or(peak).max(peak) as f64 * 1.04,
        digest.curve.len().max(2) as f64 - 1.0,
    );
    let low = digest.curve_low as f64;
    let y = |value: i64| {
        let share = (value as f64 - low) / (top - low).max(1.0);
        HEIGHT - share.max(0.0) * (HEIGHT - 2.0)
    };
    let curve = digest.curve.iter().enumerate();
    let known: Vec<(f64, f64)> = curve
        .filter_map(|(index, value)| Some((index as f64 / points * WIDTH, y((*value)?))))
        .collect();
    let (Some((first, _)), Some((last, _))) = (known.first(), known.last()) else {
        return String::new();
    };
    let line: Vec<String> = known
        .iter()
        .map(|(x, y)| format!("{x:.1} {y:.1}"))
        .collect();
    let line = line.join("L");
    let bound = limit.map_or_else(String::new, |limit| {
        let y = y(limit);
        format!("<line class=\"limit\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>")
    });
    format!(
        "<svg class=\"spark\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <path class=\"area\" d=\"M{first:.1} {HEIGHT}L{line}L{last:.1} {HEIGHT}Z\"/>\
         <path class=\"line\" d=\"M{line}\"/>{bound}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use stormlog_report::Badge;

    use super::*;
    use crate::view::Verdict;

    #[test]
    fn a_curve_that_is_unknown_is_not_drawn() {
        assert_eq!(sparkline(&Digest::default()), "");
        let digest = Digest {
            peak: Some(4),
            limit: Some(8),
            curve: vec![None, Some(2), Some(4)],
            ..Digest::default()
        };
        let drawn = sparkline(&digest);
        assert!(
            drawn.contains("M60.0") && drawn.contains("limit"),
            "{drawn}"
        );
    }

    #[test]
    fn growth_far_below_the_limit_fills_its_curve() {
        let digest = Digest {
            verdict: Some(Verdict {
                level: Some(Level::Likely),
                badge: Badge::of_level(Level::Likely),
                text: "a leak".to_owned(),
            }),
            peak: Some(1000),
            limit: Some(2000),
            curve: vec![Some(100), Some(110)],
            curve_low: 98,
            ..Digest::default()
        };
        let drawn = sparkline(&digest);
        assert!(!drawn.contains("class=\"limit\""), "{drawn}");
        let line = drawn.split("class=\"line\" d=\"M").nth(1).unwrap();
        let heights: Vec<f64> = line
            .split('"')
            .next()
            .unwrap()
            .split('L')
            .map(|point| point.split(' ').nth(1).unwrap().parse().unwrap())
            .collect();
        assert!(heights[0] - heights[1] > HEIGHT / 3.0, "{heights:?}");
    }
}
