//! Draws a snapshot of PyTorch's allocator as a page: the timeline, the memory segments, and the
//! lines of code that allocated the memory.
//!
//! The timeline of a snapshot is drawn like that of a recording, with one sample per allocator
//! event. Everything below the timeline is tables that work without JavaScript. A snapshot is
//! untrusted input and may be very large, so every list on the page has a maximum length.

mod history;
mod sections;

use askama::Template;
use stormlog_analysis::allocator_snapshot::Account;
use stormlog_format::{counted, human_duration};

use crate::chart;
use crate::error::{DrawError, rendered};
use crate::html::{self, policy};
use crate::picture::PictureKind;
use crate::scene::{Area, Scene};
use crate::story::Story;
use crate::svg::to_svg;
use crate::theme::Theme;
use crate::time;
use crate::timeline::{Panel, keys_of};

use sections::Sections;

const STYLE: &str = include_str!("../assets/allocator.css");

/// The largest number of entries that a page shows of each part of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorLimits {
    /// The largest number of allocator events that the timeline shows. Of a longer history, the
    /// events with the most and the least allocated memory in each interval are shown.
    pub timeline_points: usize,
    /// The largest number of allocations, and of out-of-memory errors, that get a mark on the
    /// timeline.
    pub marks: usize,
    /// The largest number of rows in the table of holders. On this page a holder is a line of the
    /// program that allocated memory.
    pub holders: usize,
    /// The largest number of rows in the table of live blocks (allocations that were not freed).
    pub live: usize,
    /// The largest number of segments (pieces of device memory that PyTorch has reserved) that are
    /// drawn.
    pub segments: usize,
}

impl AllocatorLimits {
    /// The limits that [`allocator_page`] uses.
    pub const PAGE: Self = Self {
        timeline_points: 20_000,
        marks: 20,
        holders: 50,
        live: 1000,
        segments: 200,
    };
}

/// Draws a snapshot as an interactive page. If the snapshot contains no history of allocator
/// events, the page has no timeline.
pub fn allocator_page(account: &Account, theme: Theme) -> Result<String, DrawError> {
    let limits = AllocatorLimits::PAGE;
    if account.moments.is_empty() {
        return allocator_still(account, &limits);
    }
    let story = history::story(account, &limits);
    let addition = html::Addition {
        style: STYLE,
        body: &rendered(&Sections::of(account, &limits))?,
        subtitle: subtitle(account),
    };
    html::page_with(&story, PictureKind::Timeline, theme, &addition)
}

#[derive(Template)]
#[template(path = "allocator_still.html")]
struct Still<'a> {
    policy: String,
    style: String,
    title: &'a str,
    subtitle: &'a [String],
    light: &'a str,
    dark: &'a str,
    sections: &'a str,
}

/// Draws a snapshot as a self-contained page without JavaScript. If the snapshot contains no
/// history of allocator events, the page has no timeline.
pub fn allocator_still(account: &Account, limits: &AllocatorLimits) -> Result<String, DrawError> {
    let (light, dark) = if account.moments.is_empty() {
        (String::new(), String::new())
    } else {
        let story = history::story(account, limits);
        (
            picture(&story, Theme::Light)?,
            picture(&story, Theme::Dark)?,
        )
    };
    let style = format!("{}{STYLE}", html::style());
    rendered(&Still {
        policy: policy(None, &style),
        style,
        title: &title(account),
        subtitle: &subtitle(account),
        light: &light,
        dark: &dark,
        sections: &rendered(&Sections::of(account, limits))?,
    })
}

/// Draws the timeline of a snapshot without its heading. The picture is narrow, so that its text
/// can be read on a phone.
fn picture(story: &Story, theme: Theme) -> Result<String, DrawError> {
    const SIZE: (u32, u32) = (760, 380);
    let span = story.shown()?;
    let mut scene = Scene::new(SIZE.0, SIZE.1, theme);
    scene.description = story.title.clone().unwrap_or_default();
    let area = Area::new(0.0, 4.0, f64::from(SIZE.0), f64::from(SIZE.1) - 4.0);
    let keys = keys_of(&story.tracks.iter().collect::<Vec<_>>(), span, theme, true);
    let rest = chart::legend(&mut scene, area, &keys);
    for track in &story.tracks {
        let panel = Panel {
            track,
            marks: &story.marks(),
            phases: &story.phases,
            span,
            name: None,
            time_axis: true,
            requests: &[],
            top: None,
            has_others: true,
        };
        panel.draw(&mut scene, rest);
    }
    Ok(to_svg(&scene))
}

fn title(account: &Account) -> String {
    format!("Memory holders of cuda:{}", account.device)
}

fn subtitle(account: &Account) -> Vec<String> {
    let (Some(first), Some(last)) = (account.moments.first(), account.moments.last()) else {
        return vec!["no history recorded: current state of the allocator only".to_owned()];
    };
    let events = counted(account.totals.events, "event");
    let length = human_duration(last.time_ns.saturating_sub(first.time_ns));
    vec![if account.has_times {
        let from = time::moment(first.time_ns);
        format!("{events} of PyTorch's allocator in {length}, from {from}")
    } else {
        format!("{events} of PyTorch's allocator, in order, without times")
    }]
}
