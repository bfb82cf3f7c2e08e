//! The cause of a finding: the line that allocated the memory, and the holder that keeps it alive.
//! The modules below find causes of growth, each in another kind of evidence, and say what to do.

pub(crate) mod advice;
pub(crate) mod host_inspections;
pub(crate) mod source;
pub(crate) mod windows;

use schemars::JsonSchema;
use serde::Serialize;

use crate::timeline::KeepingRole;
pub use crate::timeline::{Failure, Held, Site};

/// What the line of a cause does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteRole {
    /// The line allocates the memory.
    Allocates,
    /// The line adds items to the container that grows; other lines may allocate the items.
    AddsItems,
    /// The line assigns the variable or the attribute that keeps the memory.
    Assigns,
    /// The line registers something with an object that keeps it, such as a hook with a module.
    Registers,
    /// The line creates the object of a library in which the container grows.
    CreatesHolder,
    /// The line adds a tensor to a sum that is never detached; each addition keeps another graph.
    Sums,
    /// The line turns the garbage collector off, which then does not free what grows.
    DisablesCollector,
    /// The line requested memory when there was not enough.
    Fails,
}

stormlog_format::names!(SiteRole {
    Allocates => "allocates",
    AddsItems => "adds_items",
    Assigns => "assigns",
    Registers => "registers",
    CreatesHolder => "creates_holder",
    Sums => "sums",
    DisablesCollector => "disables_collector",
    Fails => "fails",
});

impl SiteRole {
    /// The role in front of the place, in the middle of a sentence: "items added" at train.py:8.
    #[must_use]
    pub fn participle(self) -> &'static str {
        match self {
            Self::Allocates => "allocated",
            Self::AddsItems => "items added",
            Self::Assigns => "assigned",
            Self::Registers => "registered",
            Self::CreatesHolder => "its owner created",
            Self::Sums => "summed up",
            Self::DisablesCollector => "garbage collector turned off",
            Self::Fails => "failed",
        }
    }
}

impl From<KeepingRole> for SiteRole {
    fn from(role: KeepingRole) -> Self {
        match role {
            KeepingRole::AddsItems => Self::AddsItems,
            KeepingRole::Assigns => Self::Assigns,
            KeepingRole::Registers => Self::Registers,
        }
    }
}

/// The cause of a finding. A finding gets a cause only when the cause explains most of its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Cause {
    /// The line of the user's code to look at first: the line that makes the memory stay, where it
    /// is known, otherwise the innermost line that allocates the memory.
    pub site: Option<Site>,
    /// What the line `site` does with the memory. Lines that make memory stay add items to the
    /// container that grows, assign the variable that keeps it, register something, such as a hook,
    /// create the object of a library that has the container, add to a sum that keeps its autograd
    /// graph, or turn the garbage collector off. Other lines allocate the memory, or their allocation
    /// failed.
    pub site_role: SiteRole,
    /// The innermost line of the user's code that allocates the memory, or whose allocation failed,
    /// where `site` is the line that makes the memory stay; both may be the same line.
    pub allocated_at: Option<Site>,
    /// The calls that led to the allocation, the innermost first, without the allocating line.
    pub call_path: Vec<Site>,
    /// The holder that keeps the memory alive, as a path in the user's program: "`sessions` in
    /// `__main__`".
    pub holder: Option<String>,
    /// Bytes attributed to this cause, of all bytes whose cause was searched for.
    pub attributed_bytes: i64,
    /// `attributed_bytes` as a share of all bytes whose cause was searched for, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
    /// The memory that was held when an allocation failed, for out-of-memory errors.
    pub failure: Option<Failure>,
}

impl Cause {
    /// Makes the line that makes the memory stay the site of the cause.
    pub(crate) fn led_by(mut self, role: SiteRole, line: Site) -> Self {
        self.allocated_at = self.site.replace(line);
        self.site_role = role;
        self
    }

    /// The holder that grows and its line, as part of a sentence: "`preds` grows, allocated at
    /// train.py:8".
    #[must_use]
    pub fn clause(&self) -> Option<String> {
        let place = self.site.as_ref().map(Site::place);
        // For global variables of the main program, the module name `__main__` is left out.
        let holder = self.holder.as_deref();
        let holder = holder.map(|holder| holder.strip_suffix(" in `__main__`").unwrap_or(holder));
        match (holder, place) {
            (Some(holder), Some(place)) => {
                let verb = verb_of(holder);
                let role = self.site_role.participle();
                Some(format!("{holder} {verb}, {role} at {place}"))
            }
            (Some(holder), None) => Some(format!("{holder} {verb}", verb = verb_of(holder))),
            (None, Some(place)) => Some(format!("{} at {place}", self.site_role.participle())),
            (None, None) => None,
        }
    }
}

impl Cause {
    /// The holder without markup, and without the module of the main program: `preds`.
    #[must_use]
    pub fn short_holder(&self) -> Option<String> {
        let holder = self.holder.as_deref()?;
        let holder = holder.strip_suffix(" in `__main__`").unwrap_or(holder);
        Some(holder.replace('`', ""))
    }

    /// The line that makes the memory stay, or else the line that allocates it, named as such.
    /// `None` when no line is known, or only the line at which an allocation failed.
    #[must_use]
    pub fn leading_place(&self) -> Option<String> {
        let place = self.site.as_ref()?.place();
        match self.site_role {
            SiteRole::Allocates => Some(format!("allocated at {place}")),
            SiteRole::Fails => None,
            SiteRole::AddsItems
            | SiteRole::Assigns
            | SiteRole::Registers
            | SiteRole::CreatesHolder
            | SiteRole::Sums
            | SiteRole::DisablesCollector => Some(place),
        }
    }
}

/// "grow" for several holders, such as "the autograd graphs of 12 tensors in `kept`", else "grows".
pub(crate) fn verb_of(holder: &str) -> &'static str {
    let rest = holder.strip_prefix("the ").unwrap_or_default();
    let noun = rest.split_once(" of ").map_or("", |(noun, _)| noun);
    if noun.ends_with('s') { "grow" } else { "grows" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_grows_and_several_grow() {
        assert_eq!(verb_of("`sessions`"), "grows");
        assert_eq!(verb_of("the `lru_cache` of `position_bias`"), "grows");
        assert_eq!(verb_of("the autograd graph of `hidden`"), "grows");
        assert_eq!(
            verb_of("the autograd graphs of 12 tensors in `aux`"),
            "grow"
        );
    }
}
