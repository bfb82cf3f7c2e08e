//! Draws recordings: every chart is built once as a drawing and written as SVG, PNG or HTML.
//!
//! Callers pass sessions that they have already loaded, and marks and findings as plain structs.
//! This crate opens no file, reads no clock, and uses neither the terminal nor the network. Only
//! [`time::LocalTime`] reads the time zone of the machine.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "these conversions lose far less than one pixel"
)]

mod allocator;
pub mod analyze;
mod annotation;
mod badge;
pub mod bytes;
mod canvas;
mod chart;
pub mod compare;
mod curve;
mod dashboard;
mod detail_levels;
mod device_profile;
pub mod document;
mod error;
pub mod escape;
#[cfg(test)]
mod fixtures;
mod focus;
mod focus_chart;
mod font;
mod functions;
mod gap;
mod grid;
mod heatmap;
mod held;
mod host_lane;
mod html;
pub mod issues;
/// Part of `build.rs`; here for its tests.
#[cfg(test)]
mod join;
mod label;
mod ledger;
mod limits_of_recording;
mod lines;
mod mark;
pub mod markdown;
mod marks_lane;
mod measure;
mod moment;
#[cfg(test)]
mod overlaps;
mod page;
mod phase;
mod picture;
mod png;
mod ranks;
mod reduce;
mod removed;
mod request;
pub mod rows;
mod run_list;
mod run_name;
mod scale;
mod scene;
mod served;
mod steps;
mod story;
mod svg;
mod theme;
pub mod time;
mod timeline;
mod track;
mod wrap;

pub use allocator::{AllocatorLimits, allocator_page, allocator_still};
pub use badge::{Badge, level_word};
pub use canvas::Canvas;
pub use curve::Curve;
pub use device_profile::device_profile_page;
pub use error::DrawError;
pub use functions::{FunctionBars, FunctionRow, FunctionTable};
pub use held::held_lines;
pub use html::{html_page, picture_page, steps_section};
pub use label::clean;
pub use ledger::{LedgerKeys, LedgerLine, LedgerLines, ledger_lines, ledgers};
pub use limits_of_recording::limits_of_recording;
pub use mark::{Mark, MarkKind, marks_of, marks_of_diagnosis};
pub use measure::{Measure, UNKNOWN};
pub use moment::parse_moment;
pub use page::Alignment;
pub use phase::Phase;
pub use picture::{PictureKind, draw};
pub use png::to_png;
pub use reduce::{Columns, columns};
pub use removed::removed_lines;
pub use run_list::{RunLine, run_list, short_end};
pub use run_name::run_name;
pub use scene::Scene;
pub use served::{comparison_json, drawing_json, held_section, page_script, page_style};
pub use story::Story;
pub use svg::to_svg;
pub use theme::Theme;
pub use track::DrawnTrack;
pub use wrap::{Terminal, wrap};
