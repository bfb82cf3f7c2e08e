//! `stormlog issues diff`: lists the issues that are new, gone, regressed or more frequent.

use std::path::PathBuf;

use clap::Args;
use stormlog_analysis::issue::compare;
use stormlog_report::document::pretty;
use stormlog_report::issues as render;

use super::{ArtifactSet, Form, ListFormat};
use crate::Exit;
use crate::console::Console;
use crate::machine::now_ns;

/// Show which issues are new, gone, regressed or more frequent in NEW than in OLD
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  stormlog issues diff runs/monday runs/tuesday
  stormlog issues diff old/ new/ --format md >> \"$GITHUB_STEP_SUMMARY\"")]
pub(super) struct Arguments {
    /// Artifacts before
    old: PathBuf,
    /// Artifacts after
    new: PathBuf,
    #[command(flatten)]
    form: Form,
}

pub(super) fn run(arguments: &Arguments, console: &mut Console<'_>) -> anyhow::Result<Exit> {
    let old = ArtifactSet::at(&arguments.old).find(console)?.sound()?;
    let mut new = ArtifactSet::at(&arguments.new).find(console)?.sound()?;
    // An issue of the new artifacts that was resolved in the old ones counts as regressed, even if
    // the state file of the new artifacts does not contain it.
    let now = now_ns();
    for issue in &mut new.issues {
        if old.states.state_of(issue, now) == "regressed" {
            issue.state = "regressed";
        }
    }
    let changes = compare(&old.issues, &new.issues);
    let text = match arguments.form.format() {
        ListFormat::Text => render::changes_text(&changes),
        ListFormat::Md => render::changes_markdown(&changes),
        ListFormat::Github => render::changes_github(&changes),
        ListFormat::Json => pretty(&changes),
    };
    console.out.write_all(text.as_bytes())?;
    Ok(Exit::Fine)
}
