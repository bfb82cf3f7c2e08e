//! Where the memory of a finding came from: the line that allocated it and what keeps it alive.

pub use crate::timeline::{Failure, Held, Site};

/// What a finding is put down to. It is attached only where it explains most of the bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// The innermost line of the user's code that allocated the memory.
    pub site: Option<Site>,
    /// The calls that led to the site, the innermost first, without the site itself.
    pub call_path: Vec<Site>,
    /// What keeps the memory alive, as a path that the user knows: "`sessions` in `__main__`".
    pub holder: Option<String>,
    /// Bytes put down to this cause where it was looked at.
    pub attributed_bytes: i64,
    /// The share of the bytes looked at that these are, 0 to 1.
    pub share: f64,
    /// What held the memory when an allocation failed.
    pub failure: Option<Failure>,
}

impl Cause {
    /// What grows and where it is allocated, for a sentence: "`preds` grows, allocated at
    /// train.py:8".
    #[must_use]
    pub fn clause(&self) -> Option<String> {
        let place = self.site.as_ref().map(Site::place);
        // The globals of the program itself need no module.
        let holder = self.holder.as_deref();
        let holder = holder.map(|holder| holder.strip_suffix(" in `__main__`").unwrap_or(holder));
        match (holder, place) {
            (Some(holder), Some(place)) => Some(format!("{holder} grows, allocated at {place}")),
            (Some(holder), None) => Some(format!("{holder} grows")),
            (None, Some(place)) => Some(format!("allocated at {place}")),
            (None, None) => None,
        }
    }
}
