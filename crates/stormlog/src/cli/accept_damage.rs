//! The condition under which a gate that found nothing passes: nothing is missing of what it judged.

use stormlog_analysis::Loaded;
use stormlog_format::Text;

use crate::failure::hinted;

/// The flag of commands with gates.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct AcceptDamage {
    /// Let gates pass although a recording is damaged, or still open
    #[arg(long)]
    accept_damage: bool,
}

impl AcceptDamage {
    /// Fails if an artifact is damaged, or one of its judged sessions was not closed, because the
    /// missing part may contain what a gate looks for.
    pub(crate) fn check<'a>(
        self,
        artifacts: impl IntoIterator<Item = &'a Loaded>,
        is_judged: impl Fn(&Text) -> bool,
    ) -> anyhow::Result<()> {
        if self.accept_damage {
            return Ok(());
        }
        for artifact in artifacts {
            let damage = artifact.damage.first().map(ToString::to_string);
            let open = || {
                let id = artifact.open.iter().find(|id| is_judged(id))?;
                Some(format!(
                    "session '{id}' was not closed: it is still recorded, or its recorder was killed"
                ))
            };
            if let Some(reason) = damage.or_else(open) {
                return Err(hinted(
                    anyhow::anyhow!("cannot judge an incomplete recording: {reason}"),
                    "'--accept-damage' judges it anyway",
                ));
            }
        }
        Ok(())
    }
}
