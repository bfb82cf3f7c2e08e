//! The drawing model: a scene is a list of shapes on a canvas, in drawing order.
//!
//! A scene is independent of files and formats. `svg.rs` writes a scene as SVG, and `png.rs`
//! rasterizes that SVG, so both look the same.

use crate::font::{self, Weight};
use crate::theme::{Ink, Theme};

/// A position on the canvas, in pixels from the upper left corner.
pub(crate) type Point = (f64, f64);

/// Which part of a text (start, middle or end) is placed at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line is drawn: its colour, its width in pixels, and whether it is dashed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke {
    pub(crate) ink: Ink,
    pub(crate) width: f64,
    pub(crate) dashed: bool,
}

impl Stroke {
    pub(crate) fn solid(ink: Ink, width: f64) -> Self {
        Self {
            ink,
            width,
            dashed: false,
        }
    }

    pub(crate) fn dashed(ink: Ink, width: f64) -> Self {
        Self {
            ink,
            width,
            dashed: true,
        }
    }
}

/// One shape of a scene.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Rect {
        area: Area,
        fill: Ink,
        radius: f64,
    },
    /// Many rectangles of one colour, such as the cells of a heat map.
    Cells {
        areas: Vec<Area>,
        fill: Ink,
    },
    /// Several separate lines with the same stroke; each piece is the points of one line.
    Lines {
        pieces: Vec<Vec<Point>>,
        stroke: Stroke,
    },
    Polygon {
        points: Vec<Point>,
        fill: Ink,
    },
    Circle {
        centre: Point,
        radius: f64,
        fill: Ink,
        outline: Option<Ink>,
    },
    Text {
        at: Point,
        text: String,
        style: TextStyle,
    },
}

/// How a text is drawn: its size in pixels, its weight, its colour, its direction, and which part
/// of it is placed at its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStyle {
    pub(crate) size: f64,
    pub(crate) weight: Weight,
    pub(crate) anchor: Anchor,
    pub(crate) ink: Ink,
    /// Whether the text is rotated so that it runs from bottom to top, as beside a y axis.
    pub(crate) upwards: bool,
}

impl TextStyle {
    pub(crate) fn new(size: f64, ink: Ink) -> Self {
        Self {
            size,
            weight: Weight::Regular,
            anchor: Anchor::Start,
            ink,
            upwards: false,
        }
    }

    pub(crate) fn bold(mut self) -> Self {
        self.weight = Weight::Bold;
        self
    }

    pub(crate) fn anchored(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    pub(crate) fn upwards(mut self) -> Self {
        self.upwards = true;
        self
    }

    pub(crate) fn width(&self, text: &str) -> f64 {
        font::width(text, self.size, self.weight)
    }

    pub(crate) fn fit(&self, text: &str, room: f64) -> String {
        font::fit(text, room, self.size, self.weight)
    }
}

/// A rectangle of the canvas, in pixels: its upper left corner and its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Area {
    pub(crate) fn new(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self {
            x,
            y,
            width,
            height,
        }
    }

    pub(crate) fn right(self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(self) -> f64 {
        self.y + self.height
    }

    /// The upper part of the area, with a given height.
    pub(crate) fn upper(self, height: f64) -> Self {
        Self { height, ..self }
    }

    /// The part of the area below a y position.
    pub(crate) fn below(self, y: f64) -> Self {
        Self::new(self.x, y, self.width, self.bottom() - y)
    }

    /// Divides the area into horizontal strips of a given height, and returns the strip with this
    /// index, counted from the top.
    pub(crate) fn strip(self, index: usize, height: f64) -> Self {
        Self::new(self.x, self.y + index as f64 * height, self.width, height)
    }

    /// The area reduced by a margin on each of its four sides.
    pub(crate) fn inset(self, left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self {
            x: self.x + left,
            y: self.y + top,
            width: (self.width - left - right).max(1.0),
            height: (self.height - top - bottom).max(1.0),
        }
    }
}

/// A drawing: the shapes and the size of its canvas.
#[derive(Clone, Debug)]
pub struct Scene {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The theme whose colours the shapes have.
    pub(crate) theme: Theme,
    /// The time that the time axes of the drawing label as zero; `None` means that each axis counts
    /// from its own start.
    pub(crate) zero_ns: Option<i64>,
    /// A description for readers who cannot see the picture, written as the title of the SVG.
    pub(crate) description: String,
    pub(crate) shapes: Vec<Shape>,
}

impl Scene {
    pub(crate) fn new(width: u32, height: u32, theme: Theme) -> Self {
        Self {
            width,
            height,
            theme,
            zero_ns: None,
            description: String::new(),
            shapes: Vec::new(),
        }
    }

    pub(crate) fn rect(&mut self, area: Area, fill: Ink) {
        self.rounded(area, fill, 0.0);
    }

    /// Adds a filled rectangle with round corners.
    pub(crate) fn rounded(&mut self, area: Area, fill: Ink, radius: f64) {
        self.shapes.push(Shape::Rect { area, fill, radius });
    }

    pub(crate) fn line(&mut self, from: Point, to: Point, stroke: Stroke) {
        self.lines(vec![vec![from, to]], stroke);
    }

    pub(crate) fn lines(&mut self, pieces: Vec<Vec<Point>>, stroke: Stroke) {
        if !pieces.is_empty() {
            self.shapes.push(Shape::Lines { pieces, stroke });
        }
    }

    pub(crate) fn polygon(&mut self, points: Vec<Point>, fill: Ink) {
        self.shapes.push(Shape::Polygon { points, fill });
    }

    pub(crate) fn dot(&mut self, centre: Point, radius: f64, fill: Ink, outline: Ink) {
        self.shapes.push(Shape::Circle {
            centre,
            radius,
            fill,
            outline: Some(outline),
        });
    }

    /// Adds a text to the drawing. The position `at` is on the base line of the text, and at the
    /// start, middle or end of the text as its style says.
    pub(crate) fn text(&mut self, at: Point, text: impl Into<String>, style: TextStyle) {
        let text = text.into();
        if !text.is_empty() {
            self.shapes.push(Shape::Text { at, text, style });
        }
    }
}
