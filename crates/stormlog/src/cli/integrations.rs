//! Flags for logging the result of a recording or a diagnosis to W&B or `MLflow`. The flags are
//! checked before any recording or analysis starts; a service that fails afterwards only causes a
//! warning.

use serde::Serialize;
use stormlog_format::json::map_of;
use stormlog_redact::redacted_str;
use stormlog_report::escape::for_terminal;

use crate::console::Console;
use crate::failure::hinted;
use crate::services::{Finished, Request, Service};

/// The largest number of characters printed of an error message of W&B or `MLflow`; the rest is
/// cut.
const LONGEST_COMPLAINT: usize = 500;

/// Services to log the result to.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Integrations {
    #[command(flatten)]
    wandb: Wandb,
    #[command(flatten)]
    mlflow: Mlflow,
}

#[derive(Clone, Debug, Default, Serialize, clap::Args)]
#[command(next_help_heading = "Logging to Weights & Biases")]
#[expect(
    clippy::struct_field_names,
    reason = "each field has the name of its command line flag"
)]
struct Wandb {
    /// Log the result to Weights & Biases
    #[arg(long)]
    wandb: bool,
    /// W&B project [default: stormlog]
    #[arg(long, value_name = "NAME")]
    wandb_project: Option<String>,
    /// Entity or team of the project
    #[arg(long, value_name = "NAME")]
    wandb_entity: Option<String>,
    /// Upload now, or store locally for 'wandb sync' [default: W&B's setting]
    #[arg(long, value_name = "MODE", value_parser = ["online", "offline"])]
    wandb_mode: Option<String>,
    /// Log to this run, which may already exist
    #[arg(long, value_name = "ID")]
    wandb_run_id: Option<String>,
    /// Name of the run [default: the command and the session]
    #[arg(long, value_name = "NAME")]
    #[serde(rename = "wandb_run_name")]
    wandb_name: Option<String>,
    /// Group of the run [default: the job id]
    #[arg(long, value_name = "NAME")]
    wandb_group: Option<String>,
    /// Job type of the run [default: the command]
    #[arg(long, value_name = "NAME")]
    wandb_job_type: Option<String>,
    /// Also upload the files as artifacts, with secrets redacted
    #[arg(long)]
    wandb_log_artifacts: bool,
    /// Also log the holders of memory, when the bundle has them
    #[arg(long)]
    wandb_log_attribution: bool,
}

#[derive(Clone, Debug, Default, Serialize, clap::Args)]
#[command(next_help_heading = "Logging to MLflow")]
#[expect(
    clippy::struct_field_names,
    reason = "each field has the name of its command line flag"
)]
struct Mlflow {
    /// Log the result to MLflow
    #[arg(long)]
    mlflow: bool,
    /// Server, database or directory [default: MLflow's setting]
    #[arg(long, value_name = "URI")]
    mlflow_tracking_uri: Option<String>,
    /// MLflow experiment [default: stormlog]
    #[arg(long, value_name = "NAME")]
    mlflow_experiment: Option<String>,
    /// Log to this run, which must exist
    #[arg(long, value_name = "ID")]
    mlflow_run_id: Option<String>,
    /// Name of the run [default: the command and the session]
    #[arg(long, value_name = "NAME")]
    mlflow_run_name: Option<String>,
    /// Tag of the group [default: the job id]
    #[arg(long, value_name = "NAME")]
    mlflow_group: Option<String>,
    /// Tag of the job type [default: the command]
    #[arg(long, value_name = "NAME")]
    mlflow_job_type: Option<String>,
    /// Also upload the files as artifacts, with secrets redacted
    #[arg(long)]
    mlflow_log_artifacts: bool,
    /// Also log the holders of memory, when the bundle has them
    #[arg(long)]
    mlflow_log_attribution: bool,
}

impl Integrations {
    /// Fails when a requested service is not available. This check runs before any recording or
    /// analysis starts.
    pub(crate) fn check(&self, console: &mut Console<'_>) -> anyhow::Result<()> {
        for request in self.requests() {
            let Some(services) = &mut console.services else {
                let service = request.service;
                return Err(hinted(
                    anyhow::anyhow!(
                        "'--{}' needs the Python package; this program runs without it",
                        service.key()
                    ),
                    format!(
                        "run the 'stormlog' command installed by \"pip install 'stormlog[{}]'\"",
                        service.key()
                    ),
                ));
            };
            services.check(&request).map_err(anyhow::Error::msg)?;
        }
        Ok(())
    }

    /// Logs a result to the requested services. A service that fails only causes a warning, because
    /// the result exists on disk and the exit code is reserved for memory risks.
    pub(crate) fn log(
        &self,
        command: &str,
        finished: impl FnOnce() -> Option<Finished>,
        console: &mut Console<'_>,
    ) -> anyhow::Result<()> {
        let requests = self.requests();
        if requests.is_empty() {
            return Ok(());
        }
        let Some(finished) = finished() else {
            return Ok(());
        };
        // The output of the command is flushed before a service is called, because the service may
        // be slow and writes to the terminal itself.
        console.out.flush()?;
        for request in requests {
            let Some(services) = &mut console.services else {
                continue;
            };
            let name = request.service.name();
            if console.err_is_terminal {
                writeln!(console.err, "logging to {name}; press Ctrl+C to stop")?;
                console.err.flush()?;
            }
            match services.log(&request, command, &finished) {
                Ok(None) => writeln!(console.err, "logged to {name}")?,
                Ok(Some(location)) => {
                    writeln!(console.err, "logged to {name}: {}", for_terminal(&location))?;
                }
                Err(complaint) => writeln!(
                    console.err,
                    "warning: not logged to {name}: {}",
                    for_terminal(&redacted_line(&complaint))
                )?,
            }
        }
        Ok(())
    }

    /// The services that the user requested. Flags such as `--wandb-project` do not request a
    /// service by themselves.
    fn requests(&self) -> Vec<Request> {
        let mut requests = Vec::new();
        if self.wandb.wandb {
            requests.push(request(Service::Wandb, &self.wandb));
        }
        if self.mlflow.mlflow {
            requests.push(request(Service::Mlflow, &self.mlflow));
        }
        requests
    }
}

/// Makes the request for a service from the flags that are set; the prefix with the service's name
/// is removed from the names of the flags.
fn request(service: Service, flags: &impl Serialize) -> Request {
    let prefix = format!("{}_", service.key());
    let flags = map_of(flags).into_iter();
    let set = flags.filter(|(_, value)| !value.is_null());
    let settings = set.filter_map(|(key, value)| {
        let key = key.as_str()?.strip_prefix(&prefix)?;
        Some((key.into(), value))
    });
    Request {
        service,
        settings: settings.collect(),
    }
}

/// Prepares the error message of a service for printing: one line of limited length, without the
/// password in a server address.
fn redacted_line(complaint: &str) -> String {
    let complaint = redacted_str(complaint);
    let words: Vec<&str> = complaint.split_whitespace().collect();
    words.join(" ").chars().take(LONGEST_COMPLAINT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::Services;

    /// A service for tests that records its calls and fails when configured to.
    #[derive(Default)]
    struct Fake {
        asked: Vec<String>,
        missing: Option<&'static str>,
        failing: Option<&'static str>,
    }

    impl Services for Fake {
        fn check(&mut self, request: &Request) -> Result<(), String> {
            self.asked.push(format!("check {}", request.service.key()));
            self.missing.map_or(Ok(()), |text| Err(text.to_owned()))
        }

        fn log(
            &mut self,
            request: &Request,
            command: &str,
            _: &Finished,
        ) -> Result<Option<String>, String> {
            let key = request.service.key();
            self.asked.push(format!("log {key} {command}"));
            self.failing
                .map_or_else(|| Ok(Some("there\u{1b}".into())), |text| Err(text.into()))
        }
    }

    fn both() -> Integrations {
        let mut flags = Integrations::default();
        (flags.wandb.wandb, flags.mlflow.mlflow) = (true, true);
        flags
    }

    fn tried(flags: &Integrations, services: Option<&mut Fake>) -> (anyhow::Result<()>, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            services: services.map(|fake| fake as &mut dyn Services),
            ..Console::of_process(&mut out, &mut err)
        };
        let finished = || Some(Finished::Diagnosis("bundle".into()));
        let outcome = flags
            .check(&mut console)
            .and_then(|()| flags.log("test-diagnose", finished, &mut console));
        (outcome, String::from_utf8(err).unwrap())
    }

    #[test]
    fn services_are_called_in_turn_and_reported() {
        let mut fake = Fake::default();
        let (outcome, err) = tried(&both(), Some(&mut fake));
        outcome.unwrap();
        let asked = ["check wandb", "check mlflow"];
        let logged = ["log wandb test-diagnose", "log mlflow test-diagnose"];
        assert_eq!(fake.asked, [asked, logged].concat());
        assert_eq!(
            err,
            "logged to W&B: there\\u{1b}\nlogged to MLflow: there\\u{1b}\n"
        );
    }

    #[test]
    fn a_service_that_fails_is_a_warning_without_its_password() {
        let failing = Some("no answer\nfrom https://me:pw@host/");
        let mut fake = Fake {
            failing,
            ..Fake::default()
        };
        let mut flags = both();
        flags.mlflow.mlflow = false;
        let (outcome, err) = tried(&flags, Some(&mut fake));
        outcome.unwrap();
        assert_eq!(
            err,
            "warning: not logged to W&B: no answer from https://[redacted]@host/\n"
        );
    }

    #[test]
    fn a_missing_service_is_reported_before_any_work() {
        let missing = Some("there is no wandb");
        let mut fake = Fake {
            missing,
            ..Fake::default()
        };
        let (outcome, err) = tried(&both(), Some(&mut fake));
        assert_eq!(outcome.unwrap_err().to_string(), "there is no wandb");
        assert_eq!((fake.asked.len(), &*err), (1, ""));
    }

    #[test]
    fn without_python_the_flags_say_so() {
        let (outcome, _) = tried(&both(), None);
        assert!(
            outcome
                .unwrap_err()
                .to_string()
                .starts_with("'--wandb' needs the Python package")
        );
        tried(&Integrations::default(), None).0.unwrap();
    }
}
