//! Flags for alerts and metrics, which are sent to other machines while a run is being recorded.

use std::path::PathBuf;
use std::time::Duration;

use stormlog_export::otlp::metrics_address;
use stormlog_export::{Address, AlertFormat};

use super::named_values::named;
use crate::failure::hinted;
use crate::online::{Alerts, Otlp, Targets};
use crate::recording::positive_seconds;

/// The value of `--otlp` for which the address is read from OpenTelemetry's environment variables.
const FROM_VARIABLES: &str = "env";

/// The environment variable with the URL of `--alert`.
const ALERT: &str = "STORMLOG_ALERT";

/// Flags of alerts and metrics.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Alerts and metrics")]
pub(crate) struct ExportFlags {
    /// Send findings to this URL as they appear
    #[arg(
        long,
        value_name = "URL",
        env = ALERT,
        hide_env_values = true
    )]
    alert: Option<String>,
    /// Form of alerts [default: slack for hooks.slack.com, else json]
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "alert",
        value_parser = named(AlertFormat::ALL.map(AlertFormat::as_str), AlertFormat::parse)
    )]
    alert_format: Option<AlertFormat>,
    /// Send no alert about the first seconds of a run, in which memory grows anyway
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = positive_seconds)]
    alert_after: Duration,
    #[arg(
        long,
        value_name = "FILE",
        help = "Write metrics to this file for node_exporter's textfile collector (*.prom)"
    )]
    metrics_file: Option<PathBuf>,
    #[arg(
        long,
        value_name = "URL",
        help = "Send metrics to this OTLP collector over HTTP; 'env' reads OTEL_EXPORTER_OTLP_*"
    )]
    otlp: Option<String>,
    /// Seconds between two writes to the metrics file or the OTLP collector
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = positive_seconds)]
    metrics_interval: Duration,
}

impl ExportFlags {
    /// Where alerts and metrics are sent according to the flags; fails if a URL is invalid. An
    /// invalid URL in the environment only causes a warning, because the environment may be set for
    /// all commands of a machine and must not keep a program from starting.
    pub(crate) fn targets(&self, warn: &mut dyn FnMut(&str)) -> anyhow::Result<Targets> {
        let variable = std::env::var(ALERT).ok();
        let alerts = match self.alerts(variable.as_deref()) {
            Ok(alerts) => alerts,
            Err(error) if variable.is_some() && variable == self.alert => {
                warn(&format!("no alerts are sent: {error:#}"));
                None
            }
            Err(error) => return Err(error),
        };
        let otlp = self.otlp.as_deref().map(|url| match url {
            FROM_VARIABLES => otlp_of_variables(|name| std::env::var(name).ok()),
            url => Ok(Otlp {
                address: metrics_address(&address("--otlp", url)?)?,
                headers: Vec::new(),
            }),
        });
        Ok(Targets {
            alerts,
            look_after: self.alert_after,
            metrics_file: self.metrics_file.clone(),
            otlp: otlp.transpose()?,
            interval: self.metrics_interval,
        })
    }

    /// Where alerts are sent; `variable` is the value of [`ALERT`].
    fn alerts(&self, variable: Option<&str>) -> anyhow::Result<Option<Alerts>> {
        let Some(url) = self.alert.as_deref() else {
            return Ok(None);
        };
        let is_variable = variable == Some(url);
        let address = address(if is_variable { ALERT } else { "--alert" }, url)?;
        let by_address = || AlertFormat::of(&address);
        let format = self.alert_format.unwrap_or_else(by_address);
        Ok(Some(Alerts { address, format }))
    }
}

/// Parses the URL in a flag. An error about an invalid URL does not repeat the URL, which may
/// contain a secret.
fn address(flag: &str, url: &str) -> anyhow::Result<Address> {
    Address::parse(url).map_err(|error| {
        let message = anyhow::anyhow!("'{flag}': {error}");
        hinted(message, "give a URL such as http://127.0.0.1:9000/alerts")
    })
}

/// Reads the collector's address and its headers from OpenTelemetry's environment variables.
fn otlp_of_variables(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Otlp> {
    let known = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let whole = known("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
    let address = if let Some(url) = whole {
        address("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &url)?
    } else {
        let url = known("OTEL_EXPORTER_OTLP_ENDPOINT").ok_or_else(|| {
            let message = anyhow::anyhow!("'--otlp env': no endpoint is set");
            hinted(message, "set OTEL_EXPORTER_OTLP_ENDPOINT, or give a URL")
        })?;
        metrics_address(&address("OTEL_EXPORTER_OTLP_ENDPOINT", &url)?)?
    };
    let headers = known("OTEL_EXPORTER_OTLP_METRICS_HEADERS");
    let headers = headers.or_else(|| known("OTEL_EXPORTER_OTLP_HEADERS"));
    let headers = headers.unwrap_or_default();
    let headers = headers.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim().to_owned(), decoded(value.trim())))
    });
    Ok(Otlp {
        address,
        headers: headers.collect(),
    })
}

/// Decodes percent escapes such as `%20` in a header value; OpenTelemetry requires such escapes in
/// its environment variables.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_opentelemetry_name_the_collector_and_its_headers() {
        fn of(variables: &[(&str, &str)]) -> anyhow::Result<Otlp> {
            otlp_of_variables(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        }
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        let otlp = of(&[base, ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=y")]).unwrap();
        let whole = Address::parse("http://collector:4318/v1/metrics").unwrap();
        assert_eq!(otlp.address, whole);
        let headers = [("api-key", "a b"), ("x", "y")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(otlp.headers, headers);
        let metrics = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://other/x");
        let otlp = of(&[metrics]).unwrap();
        assert_eq!(otlp.address, Address::parse("http://other/x").unwrap());
        assert!(of(&[]).is_err());
    }
}
