//! Recognizes JSON texts that differ from an earlier text only in their integers.
//!
//! The metadata of most samples are such texts: the same keys and strings, with other counters.
//! Comparing the text between the integers takes a fraction of the time of parsing. Of each
//! text, only the integers need to be stored, which take a fraction of the memory: the text can be
//! restored from them and from the text between them, which is stored once for all such texts.

use std::ops::Range;
use std::sync::Arc;

use crate::integer::integer;

/// The length in bytes of the longest JSON text that is remembered for comparison.
const LONGEST_TEXT: usize = 4096;

/// A JSON text without its integers of up to 64 bits, for recognizing texts that differ from it
/// only in these integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skeleton {
    /// The text before, between and after the integers, concatenated.
    constants: Vec<u8>,
    /// Where in `constants` the text before each integer ends.
    ends: Vec<usize>,
}

impl Skeleton {
    /// Remembers a JSON text without the integers at the given ranges, which are in order.
    /// The result is `None` when the text is too long.
    fn of(text: &[u8], integers: &[Range<usize>]) -> Option<Self> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let mut skeleton = Self::default();
        let mut from = 0;
        for range in integers {
            skeleton
                .constants
                .extend_from_slice(text.get(from..range.start)?);
            skeleton.ends.push(skeleton.constants.len());
            from = range.end;
        }
        skeleton.constants.extend_from_slice(text.get(from..)?);
        Some(skeleton)
    }

    /// Compares the beginning of `text` with the remembered JSON text, and stores the integers of
    /// `text` in `integers`. Returns the length of the JSON text at the beginning of `text`, which
    /// is valid JSON if the remembered text is. Returns `None` if the two texts differ in more than
    /// their integers, or if an integer has a form that cannot be restored, such as `-0`.
    fn read(&self, text: &[u8], integers: &mut Vec<i64>) -> Option<usize> {
        integers.clear();
        let (mut at, mut from) = (0, 0);
        for end in &self.ends {
            let constant = &self.constants[from..*end];
            if !text.get(at..)?.starts_with(constant) {
                return None;
            }
            at += constant.len();
            let (value, after) = integer(text, at)?;
            if value == 0 && text[at] == b'-' {
                return None;
            }
            integers.push(value);
            (at, from) = (after, *end);
        }
        let tail = &self.constants[from..];
        text.get(at..)?.starts_with(tail).then_some(at + tail.len())
    }

    /// The text before, between and after the integers, concatenated. It contains every key and
    /// every string, so a word that does not occur in it is in no key and no string of a text with
    /// this skeleton.
    pub fn constants(&self) -> &[u8] {
        &self.constants
    }
}

/// A JSON text, represented by its skeleton and its integers.
#[derive(Clone, Copy, Debug)]
pub struct Numbered<'a> {
    /// The text without its integers.
    pub skeleton: &'a Arc<Skeleton>,
    /// The integers, in the order of the text.
    pub integers: &'a [i64],
}

impl Numbered<'_> {
    /// The text, byte for byte as it was read.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.size());
        let mut from = 0;
        for (end, value) in self.skeleton.ends.iter().zip(self.integers) {
            text.extend_from_slice(&self.skeleton.constants[from..*end]);
            text.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes());
            from = *end;
        }
        text.extend_from_slice(&self.skeleton.constants[from..]);
        text
    }

    /// An estimate of the number of bytes in the text, for reserving memory.
    pub fn size(&self) -> usize {
        self.skeleton.constants.len() + 12 * self.integers.len()
    }
}

/// Recognizes JSON texts that differ from one of a few remembered texts only in their integers.
#[derive(Debug, Default)]
pub struct Matcher {
    layouts: Layouts<Arc<Skeleton>>,
    /// The integers of the text that was matched last.
    integers: Vec<i64>,
}

impl Matcher {
    /// Compares the JSON text at the beginning of `text` with the remembered texts. The result is
    /// the length of the JSON text, or `None` if this JSON text differs from each remembered text
    /// in more than its integers.
    pub fn matches(&mut self, text: &[u8]) -> Option<usize> {
        let integers = &mut self.integers;
        self.layouts.read(|known| known.read(text, integers))
    }

    /// Remembers a JSON text for which [`matches`](Self::matches) returned `None`.
    pub fn learn(&mut self, text: &[u8]) {
        self.layouts.learn(|| {
            let skeleton = Skeleton::of(text, &integers_of(text))?;
            Some(Arc::new(skeleton))
        });
    }

    /// The JSON text that was matched last; `None` if it has no integers.
    pub fn matched(&self) -> Option<Numbered<'_>> {
        let skeleton = self.layouts.recent.first()?;
        let integers = &self.integers;
        (!integers.is_empty()).then_some(Numbered { skeleton, integers })
    }
}

/// How many layouts (skeletons of earlier texts) are kept and compared with the next text. One is
/// not enough: samples with and without a step, for example, have different metadata and alternate.
const MOST_LAYOUTS: usize = 4;

/// The credit at the start, which is also the highest credit. Learning a layout costs one credit,
/// and each text that fits a known layout earns one, because learning a layout takes about as much
/// time as is saved when one later text fits it. When the credit is used up, the texts differ in
/// more than their integers, and learning further layouts would only cost time.
const MOST_CREDIT: usize = 64;

/// When the credit is used up, a layout is still learned after this many texts that fitted no known
/// layout, because the texts of the next file may be more alike.
const RETRY: usize = 64;

/// The layouts of the last few texts: their skeletons, with what the caller knows about each.
#[derive(Debug)]
pub struct Layouts<T> {
    /// The remembered layouts. The layout that fitted last is the first.
    recent: Vec<T>,
    /// How many more layouts may be learned; each text that fits a known layout adds one.
    credit: usize,
    /// How many texts fitted no known layout and were not learned, since a layout was last learned.
    skipped: usize,
}

impl<T> Default for Layouts<T> {
    fn default() -> Self {
        Self {
            recent: Vec::with_capacity(MOST_LAYOUTS),
            credit: MOST_CREDIT,
            skipped: 0,
        }
    }
}

impl<T> Layouts<T> {
    /// Reads a text with the first layout that fits it. The result is `None` if no layout does.
    pub fn read<R>(&mut self, mut read: impl FnMut(&mut T) -> Option<R>) -> Option<R> {
        let mut layouts = self.recent.iter_mut().enumerate();
        let (index, found) = layouts.find_map(|(index, layout)| Some((index, read(layout)?)))?;
        self.recent.swap(0, index);
        self.credit = MOST_CREDIT.min(self.credit + 1);
        Some(found)
    }

    /// Remembers the layout of a text that no known layout fits. The function `layout` computes it
    /// (`None` if the text is too long, for example). When the credit is used up, `layout` is not
    /// called for most texts (see `MOST_CREDIT` and `RETRY`).
    pub fn learn(&mut self, layout: impl FnOnce() -> Option<T>) {
        match self.credit.checked_sub(1) {
            Some(credit) => self.credit = credit,
            None if self.skipped < RETRY => {
                self.skipped += 1;
                return;
            }
            None => {}
        }
        self.skipped = 0;
        if let Some(layout) = layout() {
            self.recent.truncate(MOST_LAYOUTS - 1);
            self.recent.insert(0, layout);
        }
    }
}

/// The ranges of the integers in a valid JSON text. Numbers with a fraction or an exponent, and
/// numbers that do not fit into 64 bits, are left out.
pub fn integers_of(json: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = after_string(json, at),
            b'-' | b'0'..=b'9' => {
                let others = json[at..].iter();
                let length = others.take_while(|byte| is_of_number(**byte)).count();
                if integer(json, at).is_some_and(|(_, end)| end == at + length) {
                    found.push(at..at + length);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    found
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

/// The offset after the closing quote of the string whose opening quote is at `start`. If the string
/// has no closing quote, the function returns the length of the whole text.
pub(crate) fn after_string(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(step) = memchr::memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += step;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Skeleton {
        Skeleton::of(text.as_bytes(), &integers_of(text.as_bytes())).unwrap()
    }

    /// Reads a text, and checks that it can be restored.
    fn read(skeleton: &Skeleton, text: &str) -> Option<(usize, Vec<i64>)> {
        let mut values = Vec::new();
        let length = skeleton.read(text.as_bytes(), &mut values)?;
        let numbered = Numbered {
            skeleton: &Arc::new(skeleton.clone()),
            integers: &values,
        };
        assert_eq!(numbered.to_text(), text.as_bytes()[..length]);
        Some((length, values))
    }

    const TEXT: &str = r#"{"a": 1, "b": "x 5 \" 6", "c": [-2, 1.5, 3e4], "d": {"7": 99}}"#;

    #[test]
    fn other_integers_are_read_and_other_texts_refused() {
        let skeleton = of(TEXT);
        assert_eq!(
            read(&skeleton, TEXT),
            Some((TEXT.len(), vec![1, -2, 99])),
            "strings, keys and fractions are constant"
        );
        let other = r#"{"a": 4096, "b": "x 5 \" 6", "c": [0, 1.5, 3e4], "d": {"7": -1}}, more"#;
        assert_eq!(
            read(&skeleton, other),
            Some((other.len() - 6, vec![4096, 0, -1]))
        );
        for refused in [
            r#"{"a": 1, "b": "x 6 \" 6", "c": [-2, 1.5, 3e4], "d": {"7": 99}}"#,
            r#"{"a": 1.0, "b": "x 5 \" 6", "c": [-2, 1.5, 3e4], "d": {"7": 99}}"#,
            r#"{"a": 01, "b": "x 5 \" 6", "c": [-2, 1.5, 3e4], "d": {"7": 99}}"#,
            r#"{"a": -0, "b": "x 5 \" 6", "c": [-2, 1.5, 3e4], "d": {"7": 99}}"#,
            r#"{"a": null, "b": "x 5 \" 6", "c": [-2, 1.5, 3e4], "d": {"7": 99}}"#,
            r#"{"a": 99999999999999999999, "b": "x 5 \" 6", "c": [-2, 1.5, 3e4], "d": {"7": 99}}"#,
            r#"{"a": 1, "b": "x 5 \" 6", "c": [-2, 1.5, 3e4], "d": {"7": 99"#,
            r#"{"a": 1"#,
            "",
        ] {
            assert_eq!(read(&skeleton, refused), None, "{refused}");
        }
    }

    #[test]
    fn a_text_without_integers_is_constant() {
        let skeleton = of(r#"{"a": "b"}"#);
        assert_eq!(read(&skeleton, r#"{"a": "b"}"#), Some((10, vec![])));
        assert_eq!(read(&skeleton, r#"{"a": "c"}"#), None);
    }

    fn learn(layouts: &mut Layouts<usize>, number: usize) {
        layouts.learn(|| Some(number));
    }

    fn knows(layouts: &mut Layouts<usize>, number: usize) -> bool {
        let read = layouts.read(|known| (*known == number).then_some(()));
        read.is_some()
    }

    #[test]
    fn only_the_last_layouts_are_remembered() {
        let mut layouts = Layouts::default();
        for number in 0..MOST_LAYOUTS {
            learn(&mut layouts, number);
        }
        assert!(knows(&mut layouts, 0), "the oldest is now the last used");
        learn(&mut layouts, MOST_LAYOUTS);
        assert!(knows(&mut layouts, 0));
        assert_eq!(layouts.recent.len(), MOST_LAYOUTS);
    }

    #[test]
    fn layouts_that_fit_no_other_text_are_seldom_learned() {
        let mut layouts = Layouts::default();
        for number in 0..MOST_CREDIT {
            learn(&mut layouts, number);
        }
        for _ in 0..RETRY {
            layouts.learn(|| unreachable!("texts that differ each time cost nothing"));
        }
        learn(&mut layouts, usize::MAX);
        assert!(knows(&mut layouts, usize::MAX), "one of many is learned");
    }

    #[test]
    fn layouts_that_fit_other_texts_are_learned_without_limit() {
        let mut layouts = Layouts::default();
        for number in 0..10 * MOST_CREDIT {
            learn(&mut layouts, number);
            assert!(knows(&mut layouts, number));
        }
    }

    #[test]
    fn long_texts_are_not_remembered() {
        assert!(Skeleton::of(&vec![b' '; LONGEST_TEXT + 1], &[]).is_none());
    }
}
