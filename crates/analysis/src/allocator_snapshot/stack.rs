//! Call stacks in a snapshot: which frames are kept, and which program line is reported for an
//! allocation.
//!
//! When C++ stacks were recorded, an entry of the history has up to a hundred frames. Python frames
//! show where in the program the allocation happened. C++ frames are kept only for stacks without
//! Python frames, as in a backward pass.

use stormlog_format::{is_library_file, is_torch_file};

use super::list::{Item, List};

/// Maximum number of frames kept per call stack, with the exceptions in the function
/// `keep` of a frame.
const MOST_FRAMES: usize = 12;

/// Maximum length in bytes of a frame's function name and of its path. Of a longer name the first
/// bytes are kept, of a longer path the last bytes.
const LONGEST: usize = 512;

/// Prefixes of the names of functions with which every C++ stack begins. These functions do not
/// help to find the program line.
const MACHINERY: [&str; 9] = [
    "torch::unwind::",
    "torch::CapturedTraceback::",
    "torch::cuda::",
    "c10::cuda::",
    "c10::StorageImpl",
    "at::detail::empty",
    "at::native::empty",
    "at::TensorBase",
    "at::(anonymous namespace)::",
];

/// One frame of the call stack of an allocation, in Python or C++.
#[derive(Clone, Debug, Default, PartialEq, Eq, deser::Deserialize)]
#[deser(default)]
pub struct Frame<'a> {
    /// The name of the function, for C++ with its namespace and argument types.
    pub name: &'a str,
    /// The path of the function's source file.
    pub filename: &'a str,
    /// Line number in the file; 0 when unknown.
    pub line: i64,
}

impl<'a> Frame<'a> {
    /// Shortens the frame's function name and path. Classifying a frame searches both texts, and a
    /// snapshot can refer to one long text from millions of frames.
    fn within_bounds(self) -> Self {
        let (name, file): (&'a str, &'a str) = (self.name, self.filename);
        Self {
            name: &name[..name.floor_char_boundary(LONGEST)],
            filename: &file[file.ceil_char_boundary(file.len().saturating_sub(LONGEST))..],
            line: self.line,
        }
    }

    fn is_python(&self) -> bool {
        let file = self.filename;
        file.starts_with('<') || file.rsplit_once('.').is_some_and(|(_, end)| end == "py")
    }

    /// Whether the frame belongs to the user's code and not to a library.
    fn is_users(&self) -> bool {
        self.is_python() && !is_library_file(self.filename)
    }

    /// Whether the frame belongs to the user's code or to a library that uses PyTorch.
    fn is_outside_torch(&self) -> bool {
        self.is_python() && !is_torch_file(self.filename)
    }

    fn is_machinery(&self) -> bool {
        MACHINERY.iter().any(|start| self.name.starts_with(start))
    }

    /// The frame as `step (train.py:26)`: the function, the file's name without its directory, and
    /// the line.
    pub fn label(&self) -> String {
        let name = shortened(self.name);
        if !self.is_python() {
            // The argument types of a C++ function are left out of its label.
            return name.split('(').next().unwrap_or_default().to_owned();
        }
        let file = shortened(self.filename.rsplit('/').next().unwrap_or_default());
        match self.line {
            0 => format!("{name} ({file})"),
            line => format!("{name} ({file}:{line})"),
        }
    }
}

/// A call stack: the frames that are kept, the innermost first.
pub(super) type Stack<'a> = List<Frame<'a>>;

impl Stack<'_> {
    /// The program line that is reported: the innermost line of the user's code, otherwise that of
    /// a library other than PyTorch, otherwise the innermost frame.
    pub(super) fn place(&self) -> Option<String> {
        let frames = &self.0;
        let of_user = frames.iter().find(|frame| frame.is_users());
        let of_library = || frames.iter().find(|frame| frame.is_outside_torch());
        let found = of_user.or_else(of_library).or_else(|| frames.first());
        if found.is_some_and(|frame| !frame.is_python())
            && let Some(name) = frames.iter().find_map(|frame| backward_of(frame.name))
        {
            return Some(format!("backward pass ({})", shortened(name)));
        }
        found.map(Frame::label)
    }
}

impl Item for Frame<'_> {
    const EXPECTED: &'static str = "frames";

    /// Adds the next frame, from the innermost outwards, if it helps to find the line of the user
    /// and the limits allow it.
    fn keep(self, frames: &mut Vec<Self>) {
        let frame = self.within_bounds();
        let is_first = |test: fn(&Self) -> bool| test(&frame) && !frames.iter().any(test);
        match (frame.is_python(), frames.first().map(Frame::is_python)) {
            // The first Python frame of a stack replaces the C++ frames before it.
            (true, Some(false)) => *frames = vec![frame],
            (true, _) if frames.len() < MOST_FRAMES => frames.push(frame),
            // An allocation within libraries may have many frames between the innermost one and the
            // line that is reported, so that line is kept beyond the limit.
            (true, _) if is_first(Frame::is_users) || is_first(Frame::is_outside_torch) => {
                frames.push(frame);
            }
            (false, None | Some(false))
                if (frames.len() < MOST_FRAMES || backward_of(frame.name).is_some())
                    && frames.len() < 2 * MOST_FRAMES
                    && !frame.is_machinery() =>
            {
                frames.push(frame);
            }
            _ => {}
        }
    }
}

/// The autograd node in the name of a C++ function: `AddmmBackward0` in
/// `torch::autograd::generated::AddmmBackward0_apply_functional(...)`. `None` for functions that
/// are not part of a backward pass.
fn backward_of(name: &str) -> Option<&str> {
    let name = name.strip_prefix("torch::autograd::generated::")?;
    let end = name.find(|character: char| !character.is_alphanumeric());
    let name = &name[..end.unwrap_or(name.len())];
    name.contains("Backward").then_some(name)
}

pub(super) fn shortened(text: &str) -> &str {
    const MOST: usize = 120;
    text.char_indices()
        .nth(MOST)
        .map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &'static str, filename: &'static str, line: i64) -> Frame<'static> {
        Frame {
            name,
            filename,
            line,
        }
    }

    fn stack(frames: impl IntoIterator<Item = Frame<'static>>) -> Stack<'static> {
        let mut stack = Stack::default();
        frames
            .into_iter()
            .for_each(|frame| frame.keep(&mut stack.0));
        stack
    }

    #[test]
    fn the_users_own_line_is_named() {
        let named = stack([
            frame("torch::unwind::unwind()", "??", 0),
            frame("at::_ops::mm::call(...)", "??", 0),
            frame("adam", "/v/site-packages/torch/optim/adam.py", 971),
            frame("step", "/home/user/torch/train.py", 26),
            frame("main", "/home/user/torch/train.py", 99),
        ]);
        assert_eq!(named.0.len(), 3);
        assert_eq!(named.place().unwrap(), "step (train.py:26)");
        let inside = stack([frame("adam", "/v/dist-packages/torch/optim/adam.py", 971)]);
        assert_eq!(inside.place().unwrap(), "adam (adam.py:971)");
        let trained = stack([
            frame(
                "forward",
                "/v/site-packages/torch/nn/modules/linear.py",
                125,
            ),
            frame("train", "/v/site-packages/transformers/trainer.py", 2240),
            frame("<module>", "/home/user/train.py", 9),
        ]);
        assert_eq!(trained.place().unwrap(), "<module> (train.py:9)");
        let library = stack(trained.0[..2].iter().cloned());
        assert_eq!(library.place().unwrap(), "train (trainer.py:2240)");
        let unknown = stack([frame("step", "train.py", 0)]);
        assert_eq!(unknown.place().unwrap(), "step (train.py)");
    }

    #[test]
    fn a_backward_pass_has_no_line_but_a_name() {
        let native = stack([
            frame("c10::cuda::CUDACachingAllocator::x()", "??", 0),
            frame("at::_ops::mm::call(at::Tensor const&)", "??", 0),
            frame(
                "torch::autograd::generated::AddmmBackward0::apply(std::vector<...>)",
                "??",
                0,
            ),
        ]);
        assert_eq!(native.place().unwrap(), "backward pass (AddmmBackward0)");
        assert_eq!(stack([]).place(), None);
    }

    #[test]
    fn no_more_than_some_of_a_text_is_looked_at() {
        let long: &'static str = "é".repeat(10_000).leak();
        let path: &'static str = format!("{long}/train.py").leak();
        let named = stack([frame(long, path, 26)]);
        assert!(named.0[0].name.len() <= LONGEST && named.0[0].filename.len() <= LONGEST);
        let place = named.place().unwrap();
        assert!(place.ends_with("é (train.py:26)"), "{place}");
    }

    #[test]
    fn no_more_than_some_frames_are_kept() {
        let python = stack((0..100).map(|line| frame("f", "a.py", line)));
        assert_eq!(python.0.len(), MOST_FRAMES);
        let modules = (0..50).map(|line| frame("f", "/site-packages/torch/m.py", line));
        let library = (0..50).map(|line| frame("f", "/site-packages/lightning/l.py", line));
        let users = (7..9).map(|line| frame("f", "train.py", line));
        let deep = stack(modules.chain(library).chain(users));
        assert_eq!(deep.0.len(), MOST_FRAMES + 2);
        assert_eq!(deep.place().unwrap(), "f (train.py:7)");
        let native = stack(
            (0..100).map(|_| frame("torch::autograd::generated::MulBackward0::apply()", "??", 0)),
        );
        assert_eq!(native.0.len(), 2 * MOST_FRAMES);
    }
}
