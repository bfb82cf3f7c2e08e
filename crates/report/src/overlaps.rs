//! Tests that no two texts of a picture overlap, for all recordings among the fixtures and all kinds
//! of pictures.

use rayon::prelude::*;

use crate::canvas::Canvas;
use crate::fixtures::{opened, recordings};
use crate::picture::{PictureKind, draw};
use crate::scene::{Anchor, Area, Scene, Shape};
use crate::story::Story;

/// How far the boxes of two texts may overlap in pixels, because the widths are rounded.
const TOUCH: f64 = 0.5;
/// The heights of capital letters above the base line and of letters below it, as shares of the size.
const ASCENT: f64 = 0.72;
const DESCENT: f64 = 0.20;

/// The texts of a scene with the rectangles that they cover.
fn boxes(scene: &Scene) -> Vec<(Area, &str)> {
    let texts = scene.shapes.iter().filter_map(|shape| match shape {
        Shape::Text { at, text, style } => Some((at, text, style)),
        _ => None,
    });
    texts
        .map(|((x, y), text, style)| {
            let width = style.width(text);
            let before = match style.anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => width / 2.0,
                Anchor::End => width,
            };
            let (above, below) = (ASCENT * style.size, DESCENT * style.size);
            let area = if style.upwards {
                Area::new(x - above, y - width + before, above + below, width)
            } else {
                Area::new(x - before, y - above, width, above + below)
            };
            (area, text.as_str())
        })
        .collect()
}

fn overlaps(one: Area, other: Area) -> bool {
    let width = one.right().min(other.right()) - one.x.max(other.x);
    let height = one.bottom().min(other.bottom()) - one.y.max(other.y);
    width > TOUCH && height > TOUCH
}

/// The pairs of texts that overlap, and the texts that leave the picture.
fn faults(scene: &Scene) -> Vec<String> {
    let boxes = boxes(scene);
    let mut found = Vec::new();
    for (index, (area, text)) in boxes.iter().enumerate() {
        let (width, height) = (f64::from(scene.width), f64::from(scene.height));
        if area.x < -TOUCH || area.right() > width + TOUCH || area.bottom() > height + TOUCH {
            found.push(format!("'{text}' leaves the picture"));
        }
        for (other, words) in &boxes[index + 1..] {
            if overlaps(*area, *other) {
                found.push(format!("'{text}' and '{words}'"));
            }
        }
    }
    found
}

#[test]
fn no_two_texts_of_a_picture_overlap() {
    let faults: Vec<String> = recordings()
        .into_par_iter()
        .flat_map(|path| {
            let Some(run) = opened(&path) else {
                return Vec::new();
            };
            let story = Story::of_diagnosed(&run);
            let mut found = Vec::new();
            for kind in PictureKind::ALL {
                for width in [400, 1000] {
                    let canvas = Canvas {
                        width,
                        ..Canvas::default()
                    };
                    let Ok(scene) = draw(&story, kind, canvas) else {
                        continue;
                    };
                    let name = path.file_name().unwrap().to_string_lossy();
                    let faults = faults(&scene).into_iter();
                    found.extend(
                        faults.map(|fault| format!("{name} {} {width}: {fault}", kind.as_str())),
                    );
                }
            }
            found
        })
        .collect();
    assert!(
        faults.is_empty(),
        "{}:\n{}",
        faults.len(),
        faults.join("\n")
    );
}
