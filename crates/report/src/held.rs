//! Draws flame graphs of what holds memory on the devices of a run. The survivors of evidence
//! windows are drawn by call stack; the memory in use at an out-of-memory error is drawn by
//! category and holder.

use std::fmt::Write as _;

use stormlog_analysis::timeline::{Run, Site, Track, WindowEvidence};

use crate::bytes;
use crate::label::clean;
use crate::svg::escape;

/// The largest number of flame graphs on one page.
const MOST_GRAPHS: usize = 4;
/// The largest number of levels in one flame graph, counted from the outermost.
const MOST_LEVELS: usize = 12;
/// The width of a flame graph and the height of one level, in SVG units.
const WIDTH: f64 = 1000.0;
const LEVEL: f64 = 20.0;
/// A box of a flame graph that is narrower than [`NARROWEST`] is not shown until the reader zooms
/// in. A letter is assumed to be [`LETTER`] wide; a box with room for fewer than four letters has
/// no text. Both widths are in SVG units.
const NARROWEST: f64 = 1.0;
const LETTER: f64 = 6.3;
/// The largest number of boxes in one flame graph. The number of boxes is limited because a file
/// may contain more than the 24 stacks of 12 frames that Stormlog's recorder writes.
const MOST_BOXES: usize = 1000;
/// The number of colours for the boxes of a flame graph; the style sheet has a class for each.
const COLOURS: u32 = 6;

/// A flame graph of what holds memory, with its title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldGraph {
    title: String,
    root: Node,
}

/// A box of a flame graph with its own bytes and the boxes below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    name: String,
    /// Text that the tooltip of the box shows after its name and size: the source line; may be
    /// empty.
    detail: String,
    bytes: i64,
    children: Vec<Node>,
}

impl Node {
    /// Adds bytes to every box along a path; each element of the path has a name and a tooltip.
    fn add(&mut self, path: &[(String, String)], bytes: i64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let Some(((name, detail), rest)) = path.split_first() else {
            return;
        };
        let known = self.children.iter().position(|child| child.name == *name);
        let index = known.unwrap_or_else(|| {
            self.children.push(Self {
                name: name.clone(),
                detail: detail.clone(),
                ..Self::default()
            });
            self.children.len() - 1
        });
        self.children[index].add(rest, bytes);
    }

    fn sort(&mut self) {
        self.children
            .sort_by_key(|child| std::cmp::Reverse(child.bytes));
        for child in &mut self.children {
            child.sort();
        }
    }

    fn levels(&self) -> usize {
        1 + self.children.iter().map(Self::levels).max().unwrap_or(0)
    }
}

/// Builds flame graphs of what holds memory on the devices of a run, at most [`MOST_GRAPHS`]. The
/// list is empty if the recording does not say what holds memory.
pub(crate) fn graphs(run: &Run) -> Vec<HeldGraph> {
    let mut found = Vec::new();
    let several = run.tracks.iter().any(|track| track.rank > 0);
    for track in &run.tracks {
        let name = device(track, several);
        if let Some(evidence) = &track.evidence {
            let root = by_stack(evidence);
            let title = format!("What stays on {name}, by the stack that allocated it");
            found.extend(root.map(|root| HeldGraph { title, root }));
        }
        let last = track
            .ooms
            .iter()
            .rev()
            .find_map(|mark| mark.failure.as_ref());
        if let Some(failure) = last {
            let mut root = Node::default();
            for held in &failure.holders {
                let category = clean(held.category_words());
                let holder = clean(&held.holder);
                let path = [(category, String::new()), (holder, String::new())];
                root.add(&path, held.bytes);
            }
            let title = format!("What held the memory when {name} ran out");
            found.extend(finished(root).map(|root| HeldGraph { title, root }));
        }
    }
    found.truncate(MOST_GRAPHS);
    found
}

/// The name of a device in the title of a list; `several` is true if the run has several ranks.
pub(crate) fn device(track: &Track, several: bool) -> String {
    let device = if track.device_id < 0 {
        "the host".to_owned()
    } else {
        format!("GPU {}", track.device_id)
    };
    if several {
        format!("{device} of rank {}", track.rank)
    } else {
        device
    }
}

fn by_stack(evidence: &WindowEvidence) -> Option<Node> {
    let mut root = Node::default();
    for (stack, bytes) in evidence.survivors_by_stack() {
        let frames = stack.iter().rev().take(MOST_LEVELS).map(|site| {
            let name = format!("{} in {}", site.place(), site.function);
            let source = site.source_text.as_deref().unwrap_or_default();
            (clean(&name), clean(source))
        });
        root.add(&frames.collect::<Vec<_>>(), bytes);
    }
    finished(root)
}

/// Sorts the boxes of a flame graph and names the outermost one; returns `None` if the graph
/// contains no bytes.
fn finished(mut root: Node) -> Option<Node> {
    root.sort();
    "all".clone_into(&mut root.name);
    (root.bytes > 0).then_some(root)
}

/// The call stacks that hold the most memory on one device, one line each: the bytes, and the calls
/// from the outermost to the line that allocated.
pub fn held_lines(run: &Run, rank: u32, device_id: i64, most: usize) -> Vec<String> {
    let mut tracks = run.tracks.iter();
    let track = tracks.find(|track| track.rank == rank && track.device_id == device_id);
    let evidence = track.and_then(|track| track.evidence.as_ref());
    let stacks = evidence
        .map(WindowEvidence::survivors_by_stack)
        .unwrap_or_default();
    let lines = stacks.into_iter().take(most).map(|(stack, bytes)| {
        let calls = stack.iter().rev().map(Site::place);
        let calls: Vec<String> = calls.collect();
        format!("{} stay: {}", bytes::human(bytes), calls.join(" > "))
    });
    lines.collect()
}

/// Renders the flame graphs as sections of a page. One drawing fits the light and the dark theme,
/// because its colours come from the style sheet of the page.
pub(crate) fn sections(graphs: &[HeldGraph]) -> String {
    let mut out = String::new();
    for graph in graphs {
        let height = LEVEL * graph.root.levels() as f64;
        out.push_str("<section class=\"held\"><h2>");
        escape(&mut out, &graph.title);
        out.push_str("</h2><svg viewBox=\"0 0 ");
        let _ = write!(out, "{WIDTH} {height}\" role=\"tree\" aria-label=\"");
        escape(&mut out, &graph.title);
        out.push_str("\">");
        let mut drawing = Drawing {
            out: &mut out,
            all: graph.root.bytes,
            boxes_left: MOST_BOXES,
        };
        drawing.add(&graph.root, (0.0, 0), WIDTH);
        out.push_str("</svg></section>");
    }
    out
}

/// A flame graph while its boxes are written as SVG.
struct Drawing<'a> {
    out: &'a mut String,
    /// The bytes of all boxes together, of which each box shows its percentage.
    all: i64,
    /// How many more boxes may be written before the limit of the flame graph is reached.
    boxes_left: usize,
}

impl Drawing<'_> {
    /// Writes a box of a flame graph and then the boxes below it; `at` is the left edge and the
    /// level of the box. The script `held.js`, which lays the boxes out again when the reader
    /// zooms, expects each box before the boxes below it.
    fn add(&mut self, node: &Node, at: (f64, usize), width: f64) {
        if self.boxes_left == 0 {
            return;
        }
        self.boxes_left -= 1;
        let (x, level) = at;
        let y = LEVEL * level as f64;
        let percent = node.bytes as f64 / self.all.max(1) as f64 * 100.0;
        let size = bytes::human(node.bytes);
        let mut words = format!("{}: {size} ({percent:.1} %)", node.name);
        if !node.detail.is_empty() {
            let _ = write!(words, ", {}", node.detail);
        }
        let mut label = String::new();
        escape(&mut label, &words);
        let mut name = String::new();
        escape(&mut name, &node.name);
        let colour = colour(&node.name);
        let is_shown = width >= NARROWEST;
        let display = if is_shown { "" } else { " display=\"none\"" };
        // The Tab key reaches only the outermost box of a flame graph; arrow keys lead from there
        // to the other boxes.
        let tab = if level == 0 { 0 } else { -1 };
        let _ = write!(
            self.out,
            "<g tabindex=\"{tab}\" role=\"treeitem\" aria-level=\"{}\" aria-label=\"{label}\" \
             data-name=\"{name}\" data-bytes=\"{}\"{display}><title>{label}</title>\
             <rect class=\"held{colour}\" x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\"/>\
             <text x=\"{:.2}\" y=\"{}\">",
            level + 1,
            node.bytes,
            LEVEL - 1.0,
            x + 3.0,
            y + LEVEL - 6.0
        );
        let fitting_characters = ((width - 6.0) / LETTER).floor();
        if fitting_characters >= 4.0 {
            let text = format!("{}, {size}", node.name);
            let shown: String = text.chars().take(fitting_characters as usize).collect();
            escape(self.out, &shown);
        }
        self.out.push_str("</text></g>");
        let mut left = x;
        for child in &node.children {
            let share = width * child.bytes as f64 / node.bytes.max(1) as f64;
            self.add(child, (left, level + 1), share);
            left += share;
        }
    }
}

/// The colour of a box, computed from its name so that it is the same in every flame graph.
fn colour(name: &str) -> u32 {
    let sum = name.bytes().fold(7_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    sum % COLOURS
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlog_analysis::timeline::EvidenceWindow;

    fn site(file: &str, line: u32) -> Site {
        Site {
            file: file.to_owned(),
            line,
            function: "f<script>".to_owned(),
            source_text: Some("x = \"1\"".to_owned()),
        }
    }

    fn evidence() -> WindowEvidence {
        let window = |sites| EvidenceWindow {
            sites,
            ..EvidenceWindow::default()
        };
        WindowEvidence {
            stacks: vec![
                vec![site("/a/train.py", 8), site("/a/train.py", 20)],
                vec![site("/a/net.py", 3), site("/a/train.py", 20)],
            ],
            windows: vec![
                window(vec![(0, 300), (1, 50)]),
                window(vec![(0, 300), (9, 5)]),
            ],
            ..WindowEvidence::default()
        }
    }

    #[test]
    fn stacks_share_the_boxes_of_their_outer_calls() {
        let root = by_stack(&evidence()).unwrap();
        assert_eq!((root.bytes, root.levels()), (650, 3));
        let [outer] = root.children.as_slice() else {
            panic!("{:?}", root.children);
        };
        assert!(outer.name.starts_with("train.py:20"));
        let inner: Vec<i64> = outer.children.iter().map(|child| child.bytes).collect();
        assert_eq!(inner, [600, 50], "the largest first");
    }

    #[test]
    fn names_of_the_program_are_escaped_and_boxes_can_be_reached() {
        let root = by_stack(&evidence()).unwrap();
        let title = "a <b>".to_owned();
        let page = sections(&[HeldGraph { title, root }]);
        assert!(
            !page.contains("<script>") && !page.contains("<b>"),
            "{page}"
        );
        assert!(!page.contains("style="), "the page's policy forbids it");
        assert_eq!(page.matches("tabindex=\"0\"").count(), 1, "the first");
        assert_eq!(page.matches("role=\"treeitem\"").count(), 4);
        assert!(page.contains("600 B (92.3 %)"), "{page}");
    }

    #[test]
    fn narrow_boxes_are_there_for_those_who_zoom_in() {
        let mut narrow = evidence();
        narrow.windows[0].sites = vec![(0, 1_000_000), (1, 50)];
        let root = by_stack(&narrow).unwrap();
        let title = "a".to_owned();
        let page = sections(&[HeldGraph { title, root }]);
        assert_eq!(page.matches("display=\"none\"").count(), 1, "{page}");
        assert!(
            page.contains("data-bytes=\"50\" display=\"none\""),
            "{page}"
        );
    }

    #[test]
    fn a_file_cannot_add_boxes_without_bound() {
        let mut hostile = evidence();
        hostile.stacks = (1..5000).map(|line| vec![site("/a.py", line)]).collect();
        hostile.windows[0].sites = (0..4999).map(|stack| (stack, 1 << 20)).collect();
        let root = by_stack(&hostile).unwrap();
        let title = "a".to_owned();
        let page = sections(&[HeldGraph { title, root }]);
        assert_eq!(page.matches("<g ").count(), MOST_BOXES);
    }

    #[test]
    fn nothing_to_show_is_no_graph() {
        assert_eq!(by_stack(&WindowEvidence::default()), None);
        assert_eq!(sections(&[]), "");
    }
}
