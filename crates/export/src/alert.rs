//! Renders a finding as an alert: as JSON, or in Slack's form.

use serde_json::{Value, json};
use stormlog_analysis::detect::{Finding, Severity};
use stormlog_capture::redact::redacted;
use stormlog_format::json::{Layout, Writer, parse};
use stormlog_report::analyze::finding as finding_json;

use crate::address::Address;

/// The version of the JSON form.
const VERSION: u32 = 1;

/// The content type of both forms.
pub const CONTENT_TYPE: &str = "application/json";

/// The form of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertFormat {
    /// The finding with all its numbers.
    Json,
    /// A text in the form of Slack's incoming webhooks. Mattermost, Rocket.Chat and Discord's
    /// `/slack` addresses accept it too.
    Slack,
}

impl AlertFormat {
    /// The form for a receiver, chosen by its host.
    #[must_use]
    pub fn of(address: &Address) -> Self {
        if address.host() == "hooks.slack.com" {
            Self::Slack
        } else {
            Self::Json
        }
    }
}

/// The run that an alert concerns.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The id of the run.
    pub run_id: Option<String>,
    /// The program's name.
    pub program: Option<String>,
    /// The name of the machine.
    pub host: Option<String>,
    /// The job.
    pub job_id: Option<String>,
    /// The path of the recording.
    pub recording: Option<String>,
}

/// A finding about a run.
#[derive(Clone, Copy, Debug)]
pub struct Alert<'a> {
    /// The run.
    pub subject: &'a Subject,
    /// The finding.
    pub finding: &'a Finding,
    /// When it was found, nanoseconds since the epoch.
    pub at_ns: i64,
}

impl Alert<'_> {
    /// Renders the body of the request. What looks like a secret is hidden.
    #[must_use]
    pub fn render(&self, format: AlertFormat) -> Vec<u8> {
        let document = match format {
            AlertFormat::Json => self.json(),
            AlertFormat::Slack => json!({ "text": self.slack_text() }),
        };
        without_secrets(&document)
    }

    fn json(&self) -> Value {
        let Subject {
            run_id,
            program,
            host,
            job_id,
            recording,
        } = self.subject;
        json!({
            "source": "stormlog",
            "version": VERSION,
            "at_ns": self.at_ns,
            "text": self.finding.explanation,
            "run": {
                "run_id": run_id,
                "program": program,
                "host": host,
                "job_id": job_id,
                "recording": recording,
            },
            "finding": finding_json(self.finding),
        })
    }

    fn slack_text(&self) -> String {
        let severity = match self.finding.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Info => "note",
        };
        let subject = self.subject;
        let program = subject.program.as_deref().unwrap_or("a run");
        let host = subject.host.as_deref().map(|host| format!(" on {host}"));
        let job = subject.job_id.as_deref().map(|job| format!(", job {job}"));
        let mut lines = vec![
            format!(
                "Stormlog: {severity} in {program}{}{}",
                host.unwrap_or_default(),
                job.unwrap_or_default()
            ),
            self.finding.explanation.clone(),
            self.finding.advice.clone(),
        ];
        if let Some(recording) = &subject.recording {
            lines.push(format!("stormlog analyze {recording}"));
        }
        let lines: Vec<String> = lines.iter().map(|line| plain(line)).collect();
        lines.join("\n")
    }
}

/// Escapes a line for Slack: links, mentions and markup in a hostile name stay text.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text
}

fn without_secrets(document: &Value) -> Vec<u8> {
    let text = document.to_string();
    match parse(text.as_bytes()) {
        Ok(value) => Writer::new(Layout::Line)
            .to_string(&redacted(value))
            .into_bytes(),
        // Our own JSON can always be parsed. If not, nothing is sent unchecked.
        Err(_) => b"{}".to_vec(),
    }
}
