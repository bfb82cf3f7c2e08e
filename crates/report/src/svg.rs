//! Writes a drawing as SVG. Colours and sizes are attributes of the elements; there are no scripts
//! and no style sheets, and every string is escaped.

use std::fmt::Write as _;

use crate::font::{FAMILY, Weight};
use crate::scene::{Anchor, Area, Point, Scene, Shape, Stroke, TextStyle};
use crate::theme::Ink;

/// Renders a drawing as an SVG document.
pub fn to_svg(scene: &Scene) -> String {
    let mut out = String::with_capacity(scene.shapes.len() * 120);
    let (width, height) = (scene.width, scene.height);
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FAMILY}, system-ui, \
         sans-serif\"><title>"
    );
    escape(&mut out, &scene.description);
    out.push_str("</title>");
    let whole = Area::new(0.0, 0.0, f64::from(width), f64::from(height));
    rect(&mut out, whole, scene.theme.background(), 0.0);
    for shape in &scene.shapes {
        match shape {
            Shape::Rect { area, fill, radius } => rect(&mut out, *area, *fill, *radius),
            Shape::Cells { areas, fill } => cells(&mut out, areas, *fill),
            Shape::Lines { pieces, stroke } => lines(&mut out, pieces, *stroke),
            Shape::Polygon { points, fill } => {
                out.push_str("<path d=\"");
                path(&mut out, points);
                out.push_str("Z\"");
                filled(&mut out, *fill);
                out.push_str("/>\n");
            }
            Shape::Circle {
                centre,
                radius,
                fill,
                outline,
            } => {
                let _ = write!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\"",
                    centre.0, centre.1
                );
                filled(&mut out, *fill);
                if let Some(outline) = outline {
                    let _ = write!(out, " stroke=\"{}\" stroke-width=\"1.5\"", outline.hex());
                }
                out.push_str("/>\n");
            }
            Shape::Text { at, text, style } => put_text(&mut out, *at, text, *style),
        }
    }
    out.push_str("</svg>\n");
    out
}

fn rect(out: &mut String, area: Area, fill: Ink, radius: f64) {
    let _ = write!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"",
        area.x,
        area.y,
        area.width.max(0.0),
        area.height.max(0.0)
    );
    if radius > 0.0 {
        let _ = write!(out, " rx=\"{radius:.1}\"");
    }
    filled(out, fill);
    out.push_str("/>\n");
}

fn cells(out: &mut String, areas: &[Area], fill: Ink) {
    out.push_str("<path shape-rendering=\"crispEdges\" d=\"");
    for area in areas {
        let _ = write!(
            out,
            // The edges of a heat map cell are written as absolute positions, so neighbouring cells
            // share an edge exactly and no seam is visible.
            "M{:.1},{:.1}H{:.1}V{:.1}H{:.1}z",
            area.x,
            area.y,
            area.right(),
            area.bottom(),
            area.x
        );
    }
    out.push('"');
    filled(out, fill);
    out.push_str("/>\n");
}

fn lines(out: &mut String, pieces: &[Vec<Point>], stroke: Stroke) {
    out.push_str("<path d=\"");
    for piece in pieces {
        path(out, piece);
    }
    let _ = write!(
        out,
        "\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\" \
         stroke-linecap=\"round\"",
        stroke.ink.hex(),
        stroke.width
    );
    if stroke.ink.opacity < 1.0 {
        let _ = write!(out, " stroke-opacity=\"{:.2}\"", stroke.ink.opacity);
    }
    if stroke.dashed {
        out.push_str(" stroke-dasharray=\"5 4\"");
    }
    out.push_str("/>\n");
}

fn path(out: &mut String, points: &[Point]) {
    for (index, (x, y)) in points.iter().enumerate() {
        let _ = write!(out, "{}{x:.1},{y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    // A single point is drawn as a line of zero length, which becomes a dot because the line has
    // round ends.
    if let [(x, y)] = points {
        let _ = write!(out, "L{x:.1},{y:.1}");
    }
}

fn filled(out: &mut String, fill: Ink) {
    let _ = write!(out, " fill=\"{}\"", fill.hex());
    if fill.opacity < 1.0 {
        let _ = write!(out, " fill-opacity=\"{:.2}\"", fill.opacity);
    }
}

fn put_text(out: &mut String, (x, y): Point, text: &str, style: TextStyle) {
    let anchor = match style.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{}\" text-anchor=\"{anchor}\"",
        style.size
    );
    // A viewer without the font of the layout would draw most texts wider, over their neighbours.
    let _ = write!(
        out,
        " textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\"",
        style.width(text)
    );
    if style.weight == Weight::Bold {
        out.push_str(" font-weight=\"bold\"");
    }
    if style.upwards {
        let _ = write!(out, " transform=\"rotate(-90 {x:.1} {y:.1})\"");
    }
    filled(out, style.ink);
    out.push('>');
    escape(out, text);
    out.push_str("</text>\n");
}

/// Appends a text to XML, escaped so that no character of it is read as markup.
pub(crate) fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
}
