//! What is held on the devices of a run, as flame graphs: survivors of evidence windows by the stack
//! that allocated them, and what held the memory when it ran out by category and holder.

use std::fmt::Write as _;

use stormlog_analysis::timeline::{Run, Site, Track, WindowEvidence};

use crate::bytes;
use crate::label::clean;
use crate::svg::escape;

/// Graphs of one page.
const MOST_GRAPHS: usize = 4;
/// Levels of one graph, the outermost first, and stacks of the short form.
const MOST_LEVELS: usize = 12;
/// Width of a graph in its own units, and the height of a level.
const WIDTH: f64 = 1000.0;
const LEVEL: f64 = 20.0;
/// What is narrower is left out; what is narrower than a few letters has no text.
const NARROWEST: f64 = 1.0;
const LETTER: f64 = 6.3;
/// Colours of boxes in the style sheet.
const COLOURS: u32 = 6;

/// One graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldGraph {
    title: String,
    root: Node,
}

/// A box of a graph: what is in it and below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    name: String,
    /// What a reader gets who asks for more.
    detail: String,
    bytes: i64,
    children: Vec<Node>,
}

impl Node {
    /// Adds bytes along a path, each step with its name and its detail.
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

/// The graphs of a run.
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
                let category = clean(&held.category);
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

fn device(track: &Track, several: bool) -> String {
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

/// Bytes of the survivors of all windows by stack, the largest first.
fn stacks(evidence: &WindowEvidence) -> Vec<(&[Site], i64)> {
    let mut sums = vec![0_i64; evidence.stacks.len()];
    for (stack, bytes) in evidence.windows.iter().flat_map(|window| &window.sites) {
        if let Some(sum) = sums.get_mut(*stack) {
            *sum = sum.saturating_add(*bytes);
        }
    }
    let named = evidence.stacks.iter().zip(sums);
    let mut named: Vec<(&[Site], i64)> = named
        .filter(|(stack, bytes)| !stack.is_empty() && *bytes > 0)
        .map(|(stack, bytes)| (stack.as_slice(), bytes))
        .collect();
    named.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    named
}

fn by_stack(evidence: &WindowEvidence) -> Option<Node> {
    let mut root = Node::default();
    for (stack, bytes) in stacks(evidence) {
        let frames = stack.iter().rev().take(MOST_LEVELS).map(|site| {
            let name = format!("{} in {}", site.place(), site.function);
            let source = site.source_text.as_deref().unwrap_or_default();
            (clean(&name), clean(source))
        });
        root.add(&frames.collect::<Vec<_>>(), bytes);
    }
    finished(root)
}

/// A graph with something in it.
fn finished(mut root: Node) -> Option<Node> {
    root.sort();
    "all".clone_into(&mut root.name);
    (root.bytes > 0).then_some(root)
}

/// The stacks that hold the most on one device, a line each: how much, and the calls from the
/// outermost to the line that allocated.
pub fn held_lines(run: &Run, rank: u32, device_id: i64, most: usize) -> Vec<String> {
    let mut tracks = run.tracks.iter();
    let track = tracks.find(|track| track.rank == rank && track.device_id == device_id);
    let evidence = track.and_then(|track| track.evidence.as_ref());
    let stacks = evidence.map(stacks).unwrap_or_default();
    let lines = stacks.into_iter().take(most).map(|(stack, bytes)| {
        let calls = stack.iter().rev().map(Site::place);
        let calls: Vec<String> = calls.collect();
        format!("{} stay: {}", bytes::human(bytes), calls.join(" > "))
    });
    lines.collect()
}

/// The graphs as sections of a page; one picture serves both themes by the page's colours.
pub(crate) fn sections(graphs: &[HeldGraph]) -> String {
    let mut out = String::new();
    for graph in graphs {
        let height = LEVEL * graph.root.levels() as f64;
        out.push_str("<section class=\"held\"><h2>");
        escape(&mut out, &graph.title);
        let _ = write!(
            out,
            "</h2><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"list\">"
        );
        draw(&mut out, &graph.root, (0.0, 0), WIDTH, graph.root.bytes);
        out.push_str("</svg></section>");
    }
    out
}

/// Draws a box and what is below it; `at` is its left edge and its level.
fn draw(out: &mut String, node: &Node, at: (f64, usize), width: f64, all: i64) {
    if width < NARROWEST {
        return;
    }
    let (x, level) = at;
    let y = LEVEL * level as f64;
    let percent = node.bytes as f64 / all.max(1) as f64 * 100.0;
    let mut words = format!(
        "{}: {} ({percent:.1} %)",
        node.name,
        bytes::human(node.bytes)
    );
    if !node.detail.is_empty() {
        let _ = write!(words, ", {}", node.detail);
    }
    let mut label = String::new();
    escape(&mut label, &words);
    let colour = colour(&node.name);
    let _ = write!(
        out,
        "<g tabindex=\"0\" role=\"listitem\" aria-label=\"{label}\"><title>{label}</title>\
         <rect class=\"held{colour}\" x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\"/>",
        LEVEL - 1.0
    );
    let letters = ((width - 6.0) / LETTER).floor();
    if letters >= 4.0 {
        let text = format!("{}, {}", node.name, bytes::human(node.bytes));
        let shown: String = text.chars().take(letters as usize).collect();
        let _ = write!(out, "<text x=\"{:.2}\" y=\"{}\">", x + 3.0, y + LEVEL - 6.0);
        escape(out, &shown);
        out.push_str("</text>");
    }
    out.push_str("</g>");
    let mut left = x;
    for child in &node.children {
        let share = width * child.bytes as f64 / node.bytes.max(1) as f64;
        draw(out, child, (left, level + 1), share, all);
        left += share;
    }
}

/// One colour for one name, in every graph.
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
        assert_eq!(page.matches("tabindex=\"0\"").count(), 4);
        assert!(page.contains("600 B (92.3 %)"), "{page}");
    }

    #[test]
    fn nothing_to_show_is_no_graph() {
        assert_eq!(by_stack(&WindowEvidence::default()), None);
        assert_eq!(sections(&[]), "");
    }
}
