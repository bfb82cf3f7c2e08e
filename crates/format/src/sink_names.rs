//! The names of the files in a sink, the directory of a recording: its manifest and its segments.

use crate::file_names;

/// The beginning of a segment's file name.
pub const SEGMENT_PREFIX: &str = "segment-";

/// The naming scheme of a sink's files.
///
/// Ordinary sinks and host sinks contain records of the same form. Stormlog 0.3.9 looks for
/// `manifest.json` and `*.jsonl`, so it does not find host sinks and never mixes their numbers with
/// the numbers of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SinkNames {
    /// The names in ordinary sinks: `manifest.json` and `segment-000001.jsonl`.
    #[default]
    Ordinary,
    /// The names in host sinks, which record host memory: `host.json` and `segment-000001.ndjson`.
    Host,
}

impl SinkNames {
    /// Both naming schemes for sinks; if a directory has the manifests of both, the first scheme is
    /// used.
    pub const ALL: [Self; 2] = [Self::Ordinary, Self::Host];

    /// The file name of the manifest in this naming scheme.
    pub fn manifest(self) -> &'static str {
        match self {
            Self::Ordinary => file_names::MANIFEST,
            Self::Host => file_names::HOST_MANIFEST,
        }
    }

    /// The end of a segment's file name in this naming scheme.
    pub fn segment_suffix(self) -> &'static str {
        match self {
            Self::Ordinary => ".jsonl",
            Self::Host => ".ndjson",
        }
    }

    /// The file name of the segment with the number `index`, such as `segment-000001.jsonl`.
    pub fn segment(self, index: u64) -> String {
        format!("{SEGMENT_PREFIX}{index:06}{}", self.segment_suffix())
    }

    /// The part of a segment's file name between prefix and suffix; `None` when the name is not
    /// that of a segment.
    pub fn segment_stem(self, name: &str) -> Option<&str> {
        name.strip_prefix(SEGMENT_PREFIX)?
            .strip_suffix(self.segment_suffix())
    }

    /// The number in a segment's file name, if the name contains one.
    pub fn segment_index(self, name: &str) -> Option<u64> {
        self.segment_stem(name)?.parse().ok()
    }

    /// The file name of the same segment in another naming scheme.
    pub fn renamed_segment(self, name: &str, other: Self) -> Option<String> {
        let stem = self.segment_stem(name)?;
        Some(format!("{SEGMENT_PREFIX}{stem}{}", other.segment_suffix()))
    }

    /// The naming scheme that a segment's file name belongs to; `None` if it is not the name of a
    /// segment.
    pub fn of_segment(name: &str) -> Option<Self> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|names| names.segment_stem(name).is_some())
    }

    /// The naming scheme that a manifest's file name belongs to; `None` if it is not the name of a
    /// manifest.
    pub fn of_manifest(name: &str) -> Option<Self> {
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|names| names.manifest() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::SinkNames::{self, Host, Ordinary};

    #[test]
    fn names_and_numbers() {
        assert_eq!(Ordinary.segment(1), "segment-000001.jsonl");
        assert_eq!(Host.segment(1_234_567), "segment-1234567.ndjson");
        assert_eq!(Ordinary.segment_index("segment-000012.jsonl"), Some(12));
        assert_eq!(Ordinary.segment_index("segment-000012.ndjson"), None);
        assert_eq!(Host.segment_index("segment-000012.ndjson"), Some(12));
        assert_eq!(Ordinary.segment_index("segment-abc.jsonl"), None);
        assert_eq!(Ordinary.segment_index("other-000001.jsonl"), None);
    }

    #[test]
    fn kinds_by_name() {
        assert_eq!(SinkNames::of_segment("segment-1.ndjson"), Some(Host));
        assert_eq!(SinkNames::of_segment("segment-1.json"), None);
        assert_eq!(SinkNames::of_manifest("host.json"), Some(Host));
        assert_eq!(
            Host.renamed_segment("segment-000001.ndjson", Ordinary),
            Some("segment-000001.jsonl".to_owned())
        );
    }
}
