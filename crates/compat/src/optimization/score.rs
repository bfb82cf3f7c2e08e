//! Rates with a score how well a profiled program uses memory, and lists recommendations.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Insight, Pattern};

/// The score of a program: how well it uses memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct Score {
    pub score: i64,
    pub grade: &'static str,
    pub description: &'static str,
    pub issues_found: usize,
}

/// Advice on how a profiled program can use less memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of stormlog 0.3.9")]
pub struct Recommendation {
    pub priority: &'static str,
    pub category: &'static str,
    pub description: String,
    pub suggestions: Vec<String>,
}

/// Maximum number of recommendations that are listed in a report.
const MOST_RECOMMENDATIONS: usize = 10;

/// Computes the score: 100, minus deductions for the severities of patterns and the impacts of
/// insights, which are given as words.
pub fn score(severities: &[&str], impacts: &[&str]) -> Score {
    let patterns = severities.iter().map(|severity| match *severity {
        "critical" => 20,
        "warning" => 10,
        _ => 5,
    });
    let insights = impacts.iter().map(|impact| match *impact {
        "high" => 15,
        "medium" => 8,
        _ => 3,
    });
    let score = (100 - patterns.sum::<i64>() - insights.sum::<i64>()).max(0);
    let (grade, description) = match score {
        90.. => ("A", "Excellent memory usage patterns"),
        80.. => ("B", "Good memory usage with minor issues"),
        70.. => (
            "C",
            "Acceptable memory usage with some optimization potential",
        ),
        60.. => ("D", "Poor memory usage patterns requiring attention"),
        _ => (
            "F",
            "Critical memory usage issues requiring immediate attention",
        ),
    };
    Score {
        score,
        grade,
        description,
        issues_found: severities.len() + impacts.len(),
    }
}

/// The recommendations for a program: from critical patterns first, then from insights of high
/// impact, then from patterns of severity `warning`; at most 10.
pub fn recommendations(patterns: &[Pattern], insights: &[Insight]) -> Vec<Recommendation> {
    let of_pattern = |severity, priority| {
        let of_severity = patterns.iter().filter(move |p| p.severity == severity);
        of_severity.map(move |pattern| Recommendation {
            priority,
            category: pattern.pattern_type,
            description: pattern.description.clone(),
            suggestions: pattern.suggestions.clone(),
        })
    };
    let high = insights.iter().filter(|insight| insight.impact == "high");
    let high = high.map(|insight| Recommendation {
        priority: "high",
        category: insight.category,
        description: insight.description.clone(),
        suggestions: insight.recommendations.clone(),
    });
    of_pattern("critical", "high")
        .chain(high)
        .chain(of_pattern("warning", "medium"))
        .take(MOST_RECOMMENDATIONS)
        .collect()
}
