//! Flags of the old commands for W&B and MLflow. They are understood, so that nobody wonders
//! about a spelling, and refused before any work starts.

/// Flags for services that this version does not write to.
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(next_help_heading = "Not supported yet")]
pub(crate) struct Integrations {
    /// Log to Weights & Biases
    #[arg(long)]
    wandb: bool,
    #[arg(long, hide = true)]
    wandb_project: Option<String>,
    #[arg(long, hide = true)]
    wandb_entity: Option<String>,
    #[arg(long, hide = true)]
    wandb_mode: Option<String>,
    #[arg(long, hide = true)]
    wandb_run_id: Option<String>,
    #[arg(long, hide = true)]
    wandb_name: Option<String>,
    #[arg(long, hide = true)]
    wandb_group: Option<String>,
    #[arg(long, hide = true)]
    wandb_job_type: Option<String>,
    #[arg(long, hide = true)]
    wandb_log_artifacts: bool,
    #[arg(long, hide = true)]
    wandb_log_attribution: bool,
    /// Log to MLflow
    #[arg(long)]
    mlflow: bool,
    #[arg(long, hide = true)]
    mlflow_tracking_uri: Option<String>,
    #[arg(long, hide = true)]
    mlflow_experiment: Option<String>,
    #[arg(long, hide = true)]
    mlflow_run_id: Option<String>,
    #[arg(long, hide = true)]
    mlflow_run_name: Option<String>,
    #[arg(long, hide = true)]
    mlflow_group: Option<String>,
    #[arg(long, hide = true)]
    mlflow_job_type: Option<String>,
    #[arg(long, hide = true)]
    mlflow_log_artifacts: bool,
    #[arg(long, hide = true)]
    mlflow_log_attribution: bool,
}

impl Integrations {
    /// Fails when a service was asked for. Its other flags alone do nothing, as before.
    pub(crate) fn refuse(&self) -> anyhow::Result<()> {
        for (asked, flag) in [(self.wandb, "--wandb"), (self.mlflow, "--mlflow")] {
            if asked {
                anyhow::bail!("'{flag}' is not supported yet");
            }
        }
        Ok(())
    }
}
