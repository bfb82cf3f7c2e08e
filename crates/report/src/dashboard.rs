//! Draws several charts of a run on one page, with the verdict and the most important facts.

use stormlog_analysis::detect::Severity;
use stormlog_format::human_duration;

use crate::bytes::{grouped as thousands, human};
use crate::canvas::Canvas;
use crate::chart;
use crate::error::DrawError;
use crate::focus_chart;
use crate::gap;
use crate::heatmap;
use crate::host_lane::HostLane;
use crate::mark::{MarkGroup, grouped};
use crate::measure::Measure;
use crate::ranks;
use crate::scale::Span;
use crate::scene::{Area, Scene, TextStyle};
use crate::story::Story;
use crate::timeline::{Panel, keys_of, marks_for, phases_for};
use crate::track::DrawnTrack;

/// Height in pixels of one row of the verdict.
const BANNER_ROW: f64 = 19.0;

pub(crate) fn draw(story: &Story, canvas: Canvas) -> Result<Scene, DrawError> {
    let span = story.shown()?;
    let theme = canvas.theme;
    let width = canvas.width.max(700);
    let more = if story.focus.is_some() {
        focus_chart::HEIGHT
    } else {
        0
    };
    let height = canvas.height.unwrap_or(1020 + more).max(700);
    let mut scene = Scene::new(width, height, theme);
    scene.zero_ns = story.start_ns();
    let whole = Area::new(0.0, 0.0, f64::from(width), f64::from(height));
    let page = whole.inset(24.0, 18.0, 24.0, 18.0);
    let mut subtitle = vec![story.subtitle()];
    subtitle.extend(story.skew_note());
    let title = story.heading("Memory report");
    let mut y = chart::heading(&mut scene, page, &title, &subtitle);
    let (severity, verdict) = verdict_of(story);
    y = banner(
        &mut scene,
        Area::new(page.x, y, page.width, 34.0),
        severity,
        &verdict,
    );

    if let Some(focus) = &story.focus {
        let share = (page.bottom() - y) * 0.27;
        let area = page
            .below(y)
            .upper(f64::from(focus_chart::HEIGHT).min(share));
        focus.draw(&mut scene, area, span, story);
        y = area.bottom() + 10.0;
    }
    let has_others = story.focus.is_some();
    let rest = page.bottom() - y;
    let upper = Area::new(page.x, y, page.width, rest * 0.44);
    let lower = Area::new(page.x, upper.bottom() + 8.0, page.width, rest * 0.29);
    let bottom = page.below(lower.bottom() + 12.0);
    let split = |area: Area, share: f64| {
        let left = (area.width - 20.0) * share;
        let right = area.width - 20.0 - left;
        (
            Area::new(area.x, area.y, left, area.height),
            Area::new(area.x + left + 20.0, area.y, right, area.height),
        )
    };
    let (lower_left, lower_right) = split(lower, 0.5);
    let (bottom_left, bottom_right) = split(bottom, 0.64);

    let marks = story.marks();
    let several = story.tracks.len() > 1;
    let has_device = story.tracks.iter().any(|track| !track.is_host());
    if several {
        let area = titled(&mut scene, upper, "all ranks");
        let view = ranks::View::new(story, span);
        let area = chart::legend(&mut scene, area, &view.keys(theme));
        view.draw(&mut scene, area, &marks);
        let area = titled(&mut scene, lower_right, "by rank and time");
        let measure = story.compared_measure();
        heatmap::panel(&mut scene, area, &story.tracks, measure, span);
    } else if let Some(track) = story.tracks.first() {
        let area = titled(&mut scene, upper, "timeline");
        let keys = keys_of(&[track], span, theme, has_others);
        let area = chart::legend(&mut scene, area, &keys);
        timeline_panel(&mut scene, area, story, track, span);
        let beside = if has_device { lower_right } else { lower };
        if story.hosts.is_empty() {
            let area = titled(&mut scene, beside, "last tenth of the time");
            let tail = Span::new(span.to - span.length() / 10, span.to);
            timeline_panel(&mut scene, area, story, track, tail);
        } else {
            let on_host = marks.iter().filter(|mark| mark.on_host);
            let lane = HostLane {
                tracks: story.hosts.iter().collect(),
                marks: &on_host.cloned().collect::<Vec<_>>(),
                span,
            };
            lane.draw(&mut scene, beside);
        }
    }
    if has_device || several {
        let area = titled(&mut scene, lower_left, "hidden memory");
        gap::panel(
            &mut scene,
            area,
            &gap::widest(&story.tracks, span),
            &[],
            span,
        );
    }
    let area = titled(&mut scene, bottom_left, "events");
    happenings(&mut scene, area, &grouped(&marks), span, several);
    let area = titled(&mut scene, bottom_right, "facts");
    fact_table(&mut scene, area, &facts_of(story, span));
    Ok(scene)
}

fn titled(scene: &mut Scene, area: Area, title: &str) -> Area {
    let style = TextStyle::new(13.5, scene.theme.text()).bold();
    scene.text((area.x, area.y + 14.0), title, style);
    area.inset(0.0, 22.0, 0.0, 0.0)
}

fn timeline_panel(scene: &mut Scene, area: Area, story: &Story, track: &DrawnTrack, span: Span) {
    let inside = |time: i64| time >= span.from && time <= span.end_with_slack();
    let marks: Vec<_> = marks_for(&story.marks(), track, true)
        .into_iter()
        .filter(|mark| inside(mark.time_ns) && (story.hosts.is_empty() || !mark.on_host))
        .collect();
    Panel {
        track,
        marks: &marks,
        phases: &phases_for(&story.phases, track),
        span,
        name: None,
        time_axis: true,
        requests: &story.requests_for(track),
        top: None,
        has_others: story.focus.is_some(),
    }
    .draw(scene, area);
}

/// The verdict of a story (the content of a chart), or the text of its most severe mark if the
/// story has no verdict.
pub(crate) fn verdict_of(story: &Story) -> (Severity, String) {
    if let Some((severity, text)) = &story.verdict {
        return (*severity, crate::label::clean_paragraph(text));
    }
    let marks = story.marks();
    let worst = marks.iter().max_by_key(|mark| {
        // Among equally severe marks the earliest is chosen, because later problems may follow from
        // it.
        (mark.severity, std::cmp::Reverse(mark.time_ns))
    });
    match worst.filter(|mark| mark.severity > Severity::Info) {
        Some(mark) => (mark.severity, mark.label.clone()),
        None => (Severity::Info, "nothing reported".to_owned()),
    }
}

fn banner(scene: &mut Scene, area: Area, severity: Severity, verdict: &str) -> f64 {
    let style = TextStyle::new(14.0, scene.theme.text()).bold();
    let lines = chart::wrapped(verdict, style, area.width - 32.0, usize::MAX);
    let more = lines.len().saturating_sub(1) as f64 * BANNER_ROW;
    let area = Area::new(area.x, area.y, area.width, area.height + more);
    let ink = scene.theme.severity(severity);
    scene.rounded(area, ink.with_opacity(0.13), 4.0);
    scene.rect(Area::new(area.x, area.y, 4.0, area.height), ink);
    for (index, line) in lines.into_iter().enumerate() {
        let y = area.y + 22.0 + index as f64 * BANNER_ROW;
        scene.text((area.x + 16.0, y), line, style);
    }
    area.bottom() + 14.0
}

fn happenings(scene: &mut Scene, area: Area, groups: &[MarkGroup], span: Span, several: bool) {
    let row = 19.0;
    let room = (area.height / row).floor().max(1.0) as usize;
    let mut order: Vec<&MarkGroup> = groups.iter().collect();
    order.sort_by_key(|group| (std::cmp::Reverse(group.first.severity), group.first.time_ns));
    let plain = TextStyle::new(12.0, scene.theme.text());
    let muted = TextStyle::new(12.0, scene.theme.muted());
    if order.is_empty() {
        scene.text(
            (area.x, area.y + 12.0),
            "no alerts, no errors, no findings",
            muted,
        );
    }
    for (index, group) in order.iter().take(room).enumerate() {
        let y = area.y + 12.0 + index as f64 * row;
        if index + 1 == room && order.len() > room {
            let text = format!("and {} more", order.len() - index);
            scene.text((area.x, y), text, muted);
            break;
        }
        let ink = scene.theme.severity(group.first.severity);
        scene.rect(Area::new(area.x, y - 9.0, 8.0, 10.0), ink);
        let zero_ns = scene.zero_ns.unwrap_or(span.from);
        let when = human_duration(group.first.time_ns.saturating_sub(zero_ns));
        scene.text((area.x + 16.0, y), when, muted);
        let text = match group.first.rank {
            // The sentence of a finding already names the rank, so the rank is added only to the
            // sentences of other marks.
            Some(rank) if several && !group.sentence().starts_with("Rank ") => {
                format!("rank {rank}: {}", group.sentence())
            }
            _ => group.sentence(),
        };
        let x = area.x + 86.0;
        scene.text((x, y), plain.fit(&text, area.right() - x), plain);
    }
}

/// Names and values of the most important facts about a run, such as duration and peaks.
pub(crate) fn facts_of(story: &Story, span: Span) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: String| facts.push((name.to_owned(), value));
    put("duration", human_duration(span.length()));
    if !story.is_history {
        put("samples", thousands(story.samples() as i64));
    }
    let has_device = story.tracks.iter().any(|track| !track.is_host());
    for measure in Measure::ALL {
        // All counters of host memory contain the same number, so for a host only one counter and
        // the capacity are listed.
        let is_of_host = matches!(measure, Measure::Allocated | Measure::Capacity);
        if measure == Measure::Own || !has_device && !is_of_host {
            continue;
        }
        let tracks = story.tracks.iter();
        let tracks = tracks.filter(|track| is_of_host || !track.is_host());
        let extremes = tracks.filter_map(|track| Some((track.peak(measure, span)?, track.rank)));
        if let Some((high, rank)) = extremes.max_by_key(|(high, rank)| (*high, -rank)) {
            let name = match measure {
                Measure::Capacity => "capacity".to_owned(),
                _ if !has_device => "peak host memory".to_owned(),
                measure => format!("peak {}", measure.as_str()),
            };
            let index = if story.tracks.len() > 1 && measure != Measure::Capacity {
                format!(" (rank {rank})")
            } else {
                String::new()
            };
            put(&name, format!("{}{index}", human(high)));
        }
    }
    let hosts = story.hosts.iter();
    let peaks = hosts.filter_map(|track| track.peak(Measure::Allocated, span));
    if let Some(peak) = peaks.max() {
        put("peak host memory", human(peak));
    }
    if !story.is_history {
        let gaps: usize = story.tracks.iter().map(|track| track.gaps().len()).sum();
        put("sampling gaps", gaps.to_string());
    }
    facts.extend(story.facts.iter().cloned());
    facts
}

fn fact_table(scene: &mut Scene, area: Area, facts: &[(String, String)]) {
    let row = 19.0;
    let room = (area.height / row).floor().max(1.0) as usize;
    let plain = TextStyle::new(12.0, scene.theme.text());
    let muted = TextStyle::new(12.0, scene.theme.muted());
    for (index, (name, value)) in facts.iter().take(room).enumerate() {
        let y = area.y + 12.0 + index as f64 * row;
        scene.text((area.x, y), muted.fit(name, 130.0), muted);
        let text = plain.fit(value, area.width - 140.0);
        scene.text((area.x + 140.0, y), text, plain);
    }
}
