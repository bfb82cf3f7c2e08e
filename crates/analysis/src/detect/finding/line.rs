//! A finding in one line: level, holder, line of code, size. Every output begins with it: alerts, the
//! last line of `stormlog run`, reports, lists, pages, the terminal UI and the titles of issues.

use stormlog_format::human_bytes;

use super::{Finding, Kind, Level};
use crate::detect::cause::{Cause, SiteRole, verb_of};

/// The separator between the parts of the line.
const BETWEEN: &str = "  ";

impl Finding {
    /// How bad the finding is.
    #[must_use]
    pub fn level(&self) -> Level {
        self.severity.into()
    }

    /// What the finding is called at its level: `LIKELY LEAK`, `PROBLEM: OUT OF MEMORY`.
    #[must_use]
    pub fn label(&self) -> String {
        let what = self.kind.detector().noun.to_uppercase();
        match self.level() {
            Level::Problem => format!("PROBLEM: {what}"),
            // An out-of-memory error that the program survived is a fact.
            Level::Likely if self.kind == Kind::OomRisk => "LIKELY PROBLEM".to_owned(),
            Level::Likely => format!("LIKELY {what}"),
            Level::Note if self.kind.detector().is_growth => "NOTE: GROWTH".to_owned(),
            Level::Note => format!("NOTE: {what}"),
        }
    }

    /// The line without the label, for lists that show the level as a badge beside it.
    #[must_use]
    pub fn line_without_label(&self) -> &str {
        let rest = self.headline.strip_prefix(&self.label());
        rest.unwrap_or(&self.headline).trim_start()
    }

    /// The line of a finding; `whose` is the rank or the memory that it is about.
    pub(crate) fn line(&self, whose: &str) -> String {
        let cause = self.cause.as_ref();
        let subject = match (cause.and_then(Cause::short_holder), whose) {
            (Some(holder), "") => holder,
            (Some(holder), whose) => format!("{holder} on {whose}"),
            (None, whose) => whose.to_owned(),
        };
        let parts = [
            Some(self.label()),
            Some(subject),
            cause.and_then(Cause::leading_place),
            Some(self.size_words.clone()),
        ];
        let known = parts.into_iter().flatten().filter(|part| !part.is_empty());
        known.collect::<Vec<_>>().join(BETWEEN)
    }

    /// The finding as the title of an issue, without numbers, which differ from run to run: `sessions
    /// grows, kv_cache.py:11`.
    #[must_use]
    pub fn title(&self) -> String {
        let title = self.kind.detector().title;
        let Some(cause) = &self.cause else {
            return title.to_owned();
        };
        let is_failure = cause.failure.is_some() || cause.site_role == SiteRole::Fails;
        let verb = cause.holder.as_deref().map_or("grows", verb_of);
        let holder = cause.short_holder().map(|holder| without_numbers(&holder));
        match (holder, cause.leading_place()) {
            (Some(holder), None) if is_failure => format!("{title}: {holder}"),
            (Some(holder), Some(place)) if is_failure => format!("{title}: {holder}, {place}"),
            (Some(holder), Some(place)) => format!("{holder} {verb}, {place}"),
            (Some(holder), None) => format!("{holder} {verb}"),
            (None, Some(place)) => format!("{title}, {place}"),
            (None, None) => match cause.site.as_ref().filter(|_| is_failure) {
                Some(site) => format!("{title} at {}", site.place()),
                None => title.to_owned(),
            },
        }
    }
}

/// A holder without its counts: "the autograd graphs of tensors in aux".
fn without_numbers(holder: &str) -> String {
    let is_count = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = holder.split(' ').filter(|word| !is_count(word)).collect();
    words.join(" ")
}

/// The size of growth in words: `+125 KiB/step (20.0 MiB so far; device full after 25 h)`.
#[derive(Debug, Clone, Default)]
pub(crate) struct GrowthSize<'a> {
    pub(crate) bytes_per_step: Option<f64>,
    pub(crate) rate_bytes_per_s: f64,
    /// The memory, where it is not the memory of a device that a framework allocated: `host memory`.
    pub(crate) memory: &'a str,
    pub(crate) grown_bytes: f64,
    /// What will be full (`device`, `memory`), and after how many seconds.
    pub(crate) full: Option<(&'a str, f64)>,
    /// Whether the program may still be running.
    pub(crate) may_go_on: bool,
    /// Why the growth may be harmless, for a note.
    pub(crate) excuse: &'a str,
}

impl GrowthSize<'_> {
    pub(crate) fn words(&self) -> String {
        let pace = match self.bytes_per_step {
            Some(bytes) => format!("+{}/step", human_bytes(bytes)),
            None => format!("+{}", super::words::rate(self.rate_bytes_per_s)),
        };
        let memory = match self.memory {
            "" => String::new(),
            memory => format!(" of {memory}"),
        };
        let full = self.full.map_or_else(String::new, |(what, seconds)| {
            let time = super::words::duration(seconds);
            if self.may_go_on {
                format!("; {what} full in about {time}")
            } else {
                format!("; {what} full after {time}")
            }
        });
        let excuse = match self.excuse {
            "" => String::new(),
            excuse => format!("; {excuse}"),
        };
        let so_far = human_bytes(self.grown_bytes);
        format!("{pace}{memory} ({so_far} so far{full}){excuse}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::cause::Site;
    use crate::detect::{Severity, finding_of_track};
    use crate::timeline::Track;

    const KIB: f64 = 1024.0;

    fn leak(severity: Severity, holder: Option<&str>, line: Option<u32>) -> Finding {
        let mut finding = finding_of_track(Kind::AllocatorLeak, &Track::default());
        finding.severity = severity;
        finding.cause = Some(Cause {
            site: line.map(|line| Site {
                file: "/home/ada/train.py".into(),
                line,
                function: "main".into(),
                source_text: None,
            }),
            site_role: SiteRole::AddsItems,
            allocated_at: None,
            call_path: Vec::new(),
            holder: holder.map(str::to_owned),
            attributed_bytes: 1,
            share: 1.0,
            failure: None,
        });
        finding.size_words = GrowthSize {
            bytes_per_step: Some(125.0 * KIB),
            grown_bytes: 20.0 * KIB * KIB,
            full: Some(("device", 25.0 * 3600.0)),
            ..GrowthSize::default()
        }
        .words();
        finding
    }

    #[test]
    fn the_holder_leads_then_the_line_then_the_size() {
        let finding = leak(Severity::Warning, Some("`preds` in `__main__`"), Some(8));
        assert_eq!(
            finding.line(""),
            "LIKELY LEAK  preds  train.py:8  +125 KiB/step (20.0 MiB so far; device full after 25 h)"
        );
        assert_eq!(finding.title(), "preds grows, train.py:8");
        let graphs = "the autograd graphs of 62 tensors in `aux` in `__main__`";
        assert_eq!(
            leak(Severity::Warning, Some(graphs), Some(8)).title(),
            "the autograd graphs of tensors in aux grow, train.py:8"
        );
    }

    #[test]
    fn the_level_is_the_first_word() {
        let line = |severity| leak(severity, None, None).line("GPU 0");
        assert!(line(Severity::Critical).starts_with("PROBLEM: LEAK  GPU 0  +125"));
        assert!(line(Severity::Info).starts_with("NOTE: GROWTH  GPU 0  +125"));
    }

    #[test]
    fn a_line_that_only_allocates_is_named_as_such() {
        let mut finding = leak(Severity::Warning, Some("`seen` in `__main__`"), Some(25));
        finding.cause.as_mut().unwrap().site_role = SiteRole::Allocates;
        let line = finding.line("");
        assert!(
            line.contains("  seen  allocated at train.py:25  +"),
            "{line}"
        );
        assert_eq!(finding.title(), "seen grows, allocated at train.py:25");
    }
}
