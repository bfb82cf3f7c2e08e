//! Renders a finding as an alert: as JSON, or in the message format of Slack's webhooks.

use schemars::JsonSchema;
use serde::Serialize;
use stormlog_analysis::detect::Finding;
use stormlog_format::json::{Layout, Writer, parse};
use stormlog_format::names;
use stormlog_redact::redacted;
use stormlog_report::document::to_value;

use crate::address::Address;

/// The version of the JSON document of an alert, and the name of the program that sends it.
const VERSION: u32 = 1;
const SOURCE: &str = "stormlog";

/// The content type of an alert's request body, which is JSON in both formats.
pub const CONTENT_TYPE: &str = "application/json";

/// The format of the request body in which an alert is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertFormat {
    /// The JSON object [`AlertDocument`], which contains the finding with all its numbers.
    Json,
    /// A message in the format of Slack's incoming webhooks. Mattermost, Rocket.Chat and Discord's
    /// `/slack` addresses accept this format too.
    Slack,
}

names!(AlertFormat {
    Json => "json",
    Slack => "slack",
});

impl AlertFormat {
    /// The alert format that a receiver expects, chosen by the host of its address.
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
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Subject {
    /// The id of the run: the one that was recorded, or else the job id, or else the id of the first
    /// session.
    pub run_id: Option<String>,
    /// The name that the user gave the run, or else that of its program.
    pub program: Option<String>,
    /// The name of the machine.
    pub host: Option<String>,
    /// The job.
    pub job_id: Option<String>,
    /// The path of the recording that the finding comes from.
    pub recording: Option<String>,
}

/// A finding about a run, as it is sent to a receiver.
#[derive(Clone, Copy, Debug)]
pub struct Alert<'a> {
    /// The run that the finding is about.
    pub subject: &'a Subject,
    /// The finding, such as a memory leak.
    pub finding: &'a Finding,
    /// When the finding was detected, in nanoseconds since the Unix epoch.
    pub at_ns: i64,
}

impl Alert<'_> {
    /// Renders the body of the HTTP request. Texts in the alert that look like secrets are hidden.
    #[must_use]
    pub fn render(&self, format: AlertFormat) -> Vec<u8> {
        match format {
            AlertFormat::Json => without_secrets(&AlertDocument {
                source: SOURCE,
                version: VERSION,
                at_ns: self.at_ns,
                text: &self.finding.headline,
                run: self.subject,
                finding: self.finding,
            }),
            AlertFormat::Slack => without_secrets(&SlackDocument {
                text: self.slack_text(),
            }),
        }
    }

    fn slack_text(&self) -> String {
        let subject = self.subject;
        let program = subject.program.as_deref().unwrap_or("a run");
        let host = subject.host.as_deref().map(|host| format!(" on {host}"));
        let job = subject.job_id.as_deref().map(|job| format!(", job {job}"));
        let mut lines = vec![
            format!(
                "Stormlog: {program}{host}{job}",
                host = host.unwrap_or_default(),
                job = job.unwrap_or_default()
            ),
            self.finding.headline.clone(),
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

/// A finding about a run that was detected while the run was being recorded.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AlertDocument<'a> {
    #[schemars(extend("const" = SOURCE))]
    source: &'static str,
    /// The version of the alert document.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// When the finding was detected, in nanoseconds since the Unix epoch.
    at_ns: i64,
    /// The finding in one line.
    text: &'a str,
    /// The run.
    run: &'a Subject,
    finding: &'a Finding,
}

#[derive(Serialize)]
struct SlackDocument {
    text: String,
}

/// Escapes a line for Slack, so that a hostile name cannot add links, mentions or markup.
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

fn without_secrets(document: &impl Serialize) -> Vec<u8> {
    let text = to_value(document).to_string();
    match parse(text.as_bytes()) {
        Ok(value) => Writer::new(Layout::Line)
            .to_string(&redacted(value))
            .into_bytes(),
        // The JSON that this crate rendered can always be parsed. If that fails anyway, an empty
        // document is sent, because secrets can be hidden only in parsed JSON.
        Err(_) => b"{}".to_vec(),
    }
}
