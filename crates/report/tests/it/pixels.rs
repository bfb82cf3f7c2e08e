//! Pixels where it matters.

use resvg::tiny_skia::Pixmap;
use stormlog_analysis::LoadedSession;
use stormlog_report::{Canvas, PictureKind, Story, Theme, draw, to_png};

use crate::sessions::{GIB, SECOND, rank};

const ALLOCATED: [u8; 3] = [0x1f, 0x6f, 0xb4];
const RESERVED: [u8; 3] = [0xd9, 0x7a, 0x00];
const USED: [u8; 3] = [0x1b, 0x8a, 0x5a];
/// Two pixels to one of the drawing, so that thin lines keep their colour.
const SCALE: f32 = 2.0;

fn picture(sessions: &[LoadedSession], kind: PictureKind) -> Pixmap {
    let sessions: Vec<&LoadedSession> = sessions.iter().collect();
    let scene = draw(&Story::of_sessions(&sessions), kind, Canvas::default()).unwrap();
    Pixmap::decode_png(&to_png(&scene, SCALE).unwrap()).unwrap()
}

/// Places of pixels of a colour, by column and row of the drawing.
fn places(picture: &Pixmap, colour: [u8; 3]) -> Vec<(u32, u32)> {
    let near = |a: u8, b: u8| a.abs_diff(b) < 28;
    let width = picture.width();
    let pixels = picture.pixels().iter().enumerate();
    let found = pixels.filter(|(_, pixel)| {
        near(pixel.red(), colour[0])
            && near(pixel.green(), colour[1])
            && near(pixel.blue(), colour[2])
    });
    found
        .map(|(place, _)| {
            let place = u32::try_from(place).unwrap();
            (place % width / 2, place / width / 2)
        })
        .collect()
}

/// Rows below the heading and the legend.
fn in_plot(places: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    places.into_iter().filter(|(_, row)| *row > 110).collect()
}

#[test]
fn one_peak_among_many_samples_reaches_its_height() {
    let mut samples = rank(0);
    for place in 0..50_000 {
        let allocated = if place == 31_234 { 40 * GIB } else { 10 * GIB };
        samples = samples.sample(place * SECOND / 1000, allocated, 41 * GIB, 42 * GIB);
    }
    let picture = picture(&[samples.session()], PictureKind::Timeline);
    let blue = in_plot(places(&picture, ALLOCATED));
    let highest = blue.iter().map(|(_, row)| *row).min().unwrap();
    let usual = blue.iter().map(|(_, row)| *row).max().unwrap();
    // 40 of about 45 GiB against 10: most of the plot's height apart.
    assert!(usual - highest > 200, "{highest} {usual}");
    let (column, _) = blue.iter().find(|(_, row)| *row == highest).unwrap();
    let part = (f64::from(*column) - 88.0) / (1000.0 - 88.0 - 44.0);
    assert!((part - 0.625).abs() < 0.01, "{part}");
}

#[test]
fn every_series_has_its_colour() {
    let session = rank(0).steady(100, 10 * GIB, 20 * GIB, 30 * GIB).session();
    let picture = picture(&[session], PictureKind::Timeline);
    for colour in [ALLOCATED, RESERVED, USED] {
        let drawn = in_plot(places(&picture, colour));
        assert!(drawn.len() > 500, "{colour:?}: {}", drawn.len());
    }
}

#[test]
fn a_pause_in_sampling_is_a_pause_in_the_line() {
    let mut samples = rank(0);
    for place in (0..200).chain(600..800) {
        samples = samples.sample(place * SECOND / 10, 10 * GIB, 20 * GIB, 30 * GIB);
    }
    let picture = picture(&[samples.session()], PictureKind::Timeline);
    let columns: Vec<u32> = in_plot(places(&picture, USED))
        .iter()
        .map(|(x, _)| *x)
        .collect();
    let inside = columns.iter().filter(|x| (330..690).contains(*x)).count();
    let outside = columns.iter().filter(|x| !(330..690).contains(*x)).count();
    assert!(inside == 0 && outside > 300, "{inside} {outside}");
}

#[test]
fn the_unknown_is_not_drawn_as_zero() {
    let mut samples = rank(0);
    for place in 0..100 {
        let mut counters = stormlog_format::Counters {
            allocator_allocated_bytes: Some(10 * GIB),
            ..Default::default()
        };
        if place < 50 {
            counters.device_used_bytes = Some(30 * GIB);
        }
        samples = samples.event(place * SECOND / 10, "sample", None, counters);
    }
    let picture = picture(&[samples.session()], PictureKind::Timeline);
    let green = in_plot(places(&picture, USED));
    assert!(green.len() > 300);
    let (right, _) = green.iter().max().unwrap();
    assert!(*right < 540, "the line goes on to {right} without samples");
}

#[test]
fn ranks_on_skewed_clocks_stand_below_each_other() {
    let step = |rank: crate::sessions::Rank| {
        let mut samples = rank;
        for place in 0..100 {
            let used = if place < 50 { 10 * GIB } else { 30 * GIB };
            samples = samples.sample(place * SECOND / 10, used, used, used);
        }
        samples.session()
    };
    let sessions = [step(rank(0)), step(rank(1).clock_ahead_by(3600 * SECOND))];
    let picture = picture(&sessions, PictureKind::Ranks);
    // The second line covers the first one all along: no blue is left but the legend's.
    let second = in_plot(places(&picture, [0xd9, 0x5f, 0x02]));
    let columns = second.iter().map(|(x, _)| *x);
    assert!(columns.clone().max().unwrap() - columns.min().unwrap() > 800);
}

#[test]
fn every_kind_draws_in_both_themes() {
    let sessions: Vec<LoadedSession> = (0..3)
        .map(|place| {
            rank(place)
                .steady(50, GIB, 2 * GIB, (3 + place) * GIB)
                .session()
        })
        .collect();
    let sessions: Vec<&LoadedSession> = sessions.iter().collect();
    let story = Story::of_sessions(&sessions);
    // These sessions have no steps to draw.
    let kinds = PictureKind::ALL
        .into_iter()
        .filter(|kind| *kind != PictureKind::Steps);
    for kind in kinds {
        for theme in [Theme::Light, Theme::Dark] {
            let canvas = Canvas {
                theme,
                ..Canvas::default()
            };
            let scene = draw(&story, kind, canvas).unwrap();
            let picture = Pixmap::decode_png(&to_png(&scene, 1.0).unwrap()).unwrap();
            let first = picture.pixels()[0];
            assert_eq!(first.red() > 128, theme == Theme::Light, "{kind:?}");
            let others = picture.pixels().iter().filter(|pixel| **pixel != first);
            assert!(others.count() > 20_000, "{kind:?} {theme:?}");
        }
    }
}

#[test]
fn a_heat_map_of_many_ranks_shows_the_one_that_grows() {
    let sessions: Vec<LoadedSession> = (0..300)
        .map(|place| {
            let used = if place == 200 { 70 } else { 20 };
            rank(place).steady(20, GIB, 2 * GIB, used * GIB).session()
        })
        .collect();
    let picture = picture(&sessions, PictureKind::Heatmap);
    let yellow = places(&picture, [0xfd, 0xe7, 0x25]);
    let row: Vec<u32> = yellow
        .iter()
        .filter(|(x, _)| *x < 800)
        .map(|(_, y)| *y)
        .collect();
    assert!(row.len() > 500, "{}", row.len());
    let spread = row.iter().max().unwrap() - row.iter().min().unwrap();
    assert!(spread < 6, "{spread}");
}
