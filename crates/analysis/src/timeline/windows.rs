//! The results of evidence windows on a device: which blocks survived, which lines allocated them
//! and which variables hold them. An evidence window is a short time in which PyTorch records the
//! stack of each allocation. The results are parsed from `memory_evidence` events; the detectors
//! interpret them.

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_format::{Map, Value, is_library_file, metadata_keys};

use super::keeping::Keeping;
use crate::untrusted::{bytes, maps, text};

/// Maximum number of evidence windows, of stacks, of frames per stack, of sites per window and of
/// holders that are read.
pub(super) const MOST: usize = 64;
/// Longest text that is kept, in characters.
pub(super) const LONGEST_TEXT: usize = 1024;

/// The names that interpreters give to code that the user typed or passed to them.
const TYPED: [&str; 3] = ["<stdin>", "<string>", "<ipython-input-"];

/// A line of the program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Site {
    /// The path of the file, as the interpreter knew it.
    pub file: String,
    /// The line number, counted from 1.
    pub line: u32,
    /// The function that contains the line.
    pub function: String,
    /// The text of the line at the time of the run, if it could be read.
    pub source_text: Option<String>,
}

impl Site {
    /// File name and line as text: `outputs_list.py:8`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.file_name(), self.line)
    }

    /// Whether the line is in a file of the user: not in an installed package, the standard library
    /// or code that a program made, whose file name is in angle brackets.
    #[must_use]
    pub fn is_users(&self) -> bool {
        let is_made = self.file.starts_with('<') && self.file.ends_with('>');
        let is_typed = TYPED.iter().any(|start| self.file.starts_with(start));
        (!is_made || is_typed) && !is_library_file(&self.file)
    }

    /// The file name without directories.
    #[must_use]
    pub fn file_name(&self) -> &str {
        let name = self.file.rsplit(['/', '\\']).next();
        name.filter(|name| !name.is_empty()).unwrap_or(&self.file)
    }
}

/// The results of several evidence windows, which are short times in which PyTorch records the
/// stack of each allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowEvidence {
    /// Whether the evidence windows began and ended at step ends; otherwise they began and ended at
    /// times that do not depend on steps.
    pub by_steps: bool,
    /// The reason why no further evidence windows were opened, if any.
    pub reason: Option<String>,
    /// The evidence windows, the earliest first.
    pub windows: Vec<EvidenceWindow>,
    /// The stacks of allocations that the windows refer to, each as the lines of the user's code,
    /// the innermost first.
    pub stacks: Vec<Vec<Site>>,
    /// The variables that keep the surviving blocks (allocated in a window and not freed by its
    /// end) alive, the one with the most bytes first.
    pub holders: Vec<WindowHolder>,
    /// Bytes of the surviving blocks whose holders were searched for.
    pub searched_bytes: Option<i64>,
}

/// A variable that keeps surviving blocks alive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowHolder {
    /// The path of the holder in the user's program: "`kept` in `__main__`".
    pub name: String,
    /// The category of the memory, such as `activations`; empty when unknown.
    pub category: String,
    /// The bytes of the blocks that it holds.
    pub bytes: i64,
    /// What else is known about the holder.
    pub keeping: Keeping,
}

/// The result of one evidence window: how much memory grew, and which stacks allocated the memory
/// that was not freed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EvidenceWindow {
    /// Growth of allocated memory during the window, in bytes.
    pub growth_bytes: i64,
    /// Bytes of the blocks that were allocated in the evidence window and still existed at its end.
    pub survivor_bytes: i64,
    /// The surviving bytes of each stack, as the index of the stack in [`WindowEvidence::stacks`]
    /// and the bytes.
    pub sites: Vec<(usize, i64)>,
}

impl WindowEvidence {
    /// Parses the window evidence from the metadata of an event; `None` when the metadata contains
    /// none.
    pub(super) fn of(metadata: &Map) -> Option<Self> {
        let evidence = metadata.object(metadata_keys::EVIDENCE)?;
        // Evidence of host memory has no mode.
        text(evidence, "mode", LONGEST_TEXT)?;
        Some(Self::of_evidence(evidence))
    }

    /// Parses the evidence that a recorder writes into its events and into its answer to a request.
    #[must_use]
    pub fn of_evidence(evidence: &Map) -> Self {
        let search = evidence.object("search");
        let stacks = evidence.list("stacks").iter();
        Self {
            by_steps: text(evidence, "mode", LONGEST_TEXT).as_deref() == Some("steps"),
            reason: text(evidence, "reason", LONGEST_TEXT),
            windows: maps(evidence, "windows", MOST).filter_map(window).collect(),
            stacks: stacks.take(MOST).filter_map(stack).collect(),
            holders: maps(evidence, "holders", MOST).filter_map(holder).collect(),
            searched_bytes: search.and_then(|search| bytes(search, "bytes")),
        }
    }

    /// The call stacks of surviving blocks with their bytes in all windows, the largest first.
    /// Stacks without readable frames are left out.
    #[must_use]
    pub fn survivors_by_stack(&self) -> Vec<(&[Site], i64)> {
        let mut sums = vec![0_i64; self.stacks.len()];
        for (stack, bytes) in self.windows.iter().flat_map(|window| &window.sites) {
            if let Some(sum) = sums.get_mut(*stack) {
                *sum = sum.saturating_add(*bytes);
            }
        }
        let named = self.stacks.iter().zip(sums);
        let mut named: Vec<(&[Site], i64)> = named
            .filter(|(stack, bytes)| !stack.is_empty() && *bytes > 0)
            .map(|(stack, bytes)| (stack.as_slice(), bytes))
            .collect();
        named.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        named
    }

    /// Number of evidence windows in which allocated memory grew.
    #[must_use]
    pub fn growing(&self) -> usize {
        let grew = |window: &&EvidenceWindow| window.growth_bytes > 0;
        self.windows.iter().filter(grew).count()
    }
}

fn window(map: &Map) -> Option<EvidenceWindow> {
    let site = |site: &Map| {
        let stack = usize::try_from(site.int("stack")?).ok()?;
        Some((stack, bytes(site, "bytes")?))
    };
    Some(EvidenceWindow {
        growth_bytes: map.int("growth_bytes")?,
        survivor_bytes: bytes(map, "survivor_bytes")?,
        sites: maps(map, "sites", MOST).filter_map(site).collect(),
    })
}

/// A stack without readable frames is kept as an empty list, so that the indices of the other
/// stacks stay valid.
fn stack(value: &Value) -> Option<Vec<Site>> {
    let Value::List(frames) = value else {
        return None;
    };
    let frames = frames.iter().take(MOST);
    Some(frames.filter_map(|frame| site(frame.as_map()?)).collect())
}

pub(super) fn site(map: &Map) -> Option<Site> {
    Some(Site {
        file: text(map, "file", LONGEST_TEXT)?,
        line: u32::try_from(map.int("line")?).ok()?,
        function: text(map, "function", LONGEST_TEXT)?,
        source_text: text(map, "source", LONGEST_TEXT),
    })
}

fn holder(map: &Map) -> Option<WindowHolder> {
    Some(WindowHolder {
        name: text(map, "holder", LONGEST_TEXT)?,
        category: text(map, "category", LONGEST_TEXT).unwrap_or_default(),
        bytes: bytes(map, "bytes")?,
        keeping: Keeping::of(map),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<WindowEvidence> {
        match stormlog_format::json::parse(json.as_bytes()) {
            Ok(Value::Map(map)) => WindowEvidence::of(&map),
            other => panic!("{other:?} is no object"),
        }
    }

    #[test]
    fn what_a_recorder_writes_is_read() {
        let found = read(
            r#"{"evidence": {"mode": "steps", "reason": null, "state": "ended",
            "windows": [{"growth_bytes": 10, "survivor_bytes": 9,
                         "sites": [{"stack": 0, "bytes": 8, "blocks": 1}]}],
            "stacks": [[{"file": "/a/b.py", "line": 8, "function": "f", "source": "x = 1"}]],
            "holders": [{"holder": "`kept`", "bytes": 8}], "search": {"bytes": 9}}}"#,
        );
        let found = found.unwrap();
        assert!(found.by_steps);
        assert_eq!(found.windows[0].sites, [(0, 8)]);
        assert_eq!(found.stacks[0][0].place(), "b.py:8");
        let held = WindowHolder {
            name: "`kept`".to_owned(),
            bytes: 8,
            ..WindowHolder::default()
        };
        assert_eq!(found.holders, [held]);
        assert_eq!((found.searched_bytes, found.growing()), (Some(9), 1));
    }

    #[test]
    fn nonsense_is_left_out() {
        assert_eq!(read("{}"), None);
        assert_eq!(read(r#"{"evidence": []}"#), None);
        let found = read(
            r#"{"evidence": {"mode": "time", "windows": [7, {"growth_bytes": "x"},
            {"growth_bytes": -5, "survivor_bytes": -1},
            {"growth_bytes": 5, "survivor_bytes": 1, "sites": [{"stack": -1, "bytes": 4}]}],
            "stacks": [[{"file": 5}], "no", [{"file": "a", "line": -1, "function": "f"}]],
            "holders": "none"}}"#,
        );
        let found = found.unwrap();
        assert_eq!(found.windows.len(), 1);
        assert_eq!(found.windows[0].sites, []);
        assert_eq!(found.stacks, [vec![], vec![]]);
    }

    #[test]
    fn long_lists_and_texts_are_cut() {
        let windows = vec![r#"{"growth_bytes": 1, "survivor_bytes": 1}"#; 1000].join(",");
        let reason = "é".repeat(5000);
        let json = format!(
            r#"{{"evidence": {{"mode": "steps", "reason": "{reason}", "windows": [{windows}]}}}}"#
        );
        let found = read(&json).unwrap();
        assert_eq!(found.windows.len(), MOST);
        assert_eq!(found.reason.unwrap().chars().count(), LONGEST_TEXT);
    }

    #[test]
    fn the_users_files_are_told_from_libraries() {
        let is_users = |file: &str| {
            let site = Site {
                file: file.to_owned(),
                line: 1,
                function: "f".to_owned(),
                source_text: None,
            };
            site.is_users()
        };
        for file in [
            "/home/u/train.py",
            "net.py",
            "<stdin>",
            "<ipython-input-3-ab>",
        ] {
            assert!(is_users(file), "{file}");
        }
        for file in [
            "/v/lib/python3.12/site-packages/torch/nn/modules/linear.py",
            "/usr/lib/python3/dist-packages/x.py",
            "/usr/lib/python3.11/threading.py",
            "<frozen runpy>",
            "<eval_with_key>.0 <x>",
            "<__array_function__ internals>",
        ] {
            assert!(!is_users(file), "{file}");
        }
    }

    #[test]
    fn a_place_is_the_file_name_and_the_line() {
        let site = |file: &str| Site {
            file: file.to_owned(),
            line: 8,
            function: "main".to_owned(),
            source_text: None,
        };
        assert_eq!(site("/a/b/train.py").place(), "train.py:8");
        assert_eq!(site("C:\\a\\train.py").place(), "train.py:8");
        assert_eq!(site("<stdin>").place(), "<stdin>:8");
        assert_eq!(site("/a/").place(), "/a/:8");
    }
}
