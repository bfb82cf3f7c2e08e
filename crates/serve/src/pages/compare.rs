//! The page that compares two runs: both curves with the difference as a band, the numbers and the
//! gates of `stormlog compare`.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use stormlog_analysis::Loaded;
use stormlog_analysis::analyze::AnalyzeOptions;
use stormlog_analysis::compare::{FailOn, Gates, Side, compare, profile_of};
use stormlog_report::compare::{sections, verdict};
use stormlog_report::{Alignment, comparison_json};

use super::escaped;
use super::run::json;
use crate::app::App;
use crate::replies::{found, message, rendered};
use crate::runs::Entry;

/// The limit for the growth of the peak that a comparison checks unless the reader enters another
/// limit.
const PEAK_GROWTH: &str = "5%";

/// The parsed query string of a comparison's URL: which runs to compare, and how.
#[derive(Clone, Debug, Default)]
struct Wish {
    runs: Vec<String>,
    alignment: Alignment,
    peak_growth: String,
    swap: bool,
    /// Whether the older of the two runs is the base. The value is true if the reader selected the
    /// runs in the list of runs, where the order of the selection has no meaning.
    by_age: bool,
}

impl Wish {
    fn of(pairs: Vec<(String, String)>) -> Self {
        let mut wish = Self {
            peak_growth: PEAK_GROWTH.to_owned(),
            ..Self::default()
        };
        for (key, value) in pairs {
            match key.as_str() {
                "run" => wish.runs.push(value),
                "align" if value == Alignment::Step.name() => wish.alignment = Alignment::Step,
                "peak" if !value.trim().is_empty() => {
                    value.trim().clone_into(&mut wish.peak_growth);
                }
                "swap" => wish.swap = value == "1",
                "from" => wish.by_age = value == "list",
                _ => {}
            }
        }
        if wish.swap {
            wish.runs.reverse();
        }
        wish
    }

    fn gates(&self) -> Result<Gates, String> {
        let limit = self.peak_growth.parse();
        Ok(Gates {
            max_peak_growth: Some(limit.map_err(|error| format!("peak growth: {error}"))?),
            fail_on: vec![FailOn::NewFindings],
            ..Gates::default()
        })
    }

    /// The two runs to compare, base and new. If the two runs were selected in the list of runs,
    /// the older one is the base.
    fn entries(&mut self, app: &App) -> Option<(Entry, Entry)> {
        let [one, other] = self.runs.as_slice() else {
            return None;
        };
        let mut pair = (app.entry(one)?, app.entry(other)?);
        if self.by_age && pair.0.when_ns() > pair.1.when_ns() {
            pair = (pair.1, pair.0);
            self.runs.reverse();
        }
        Some(pair)
    }

    fn query(&self) -> String {
        let runs: Vec<String> = self.runs.iter().map(|run| escaped(run)).collect();
        let runs = runs.join("&run=");
        let (align, peak) = (self.alignment.name(), escaped(&self.peak_growth));
        format!("run={runs}&align={align}&peak={peak}")
    }
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Page {
    base: Entry,
    new: Entry,
    by_step: bool,
    peak_growth: String,
    query: String,
}

/// Serves the comparison page without its data, which the script of the page requests.
pub(crate) async fn page(
    State(app): State<Arc<App>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, Response> {
    let mut wish = Wish::of(pairs);
    if wish.runs.len() != 2 {
        let text = "Mark two runs in the list, then press Compare.";
        return Err(message(
            StatusCode::BAD_REQUEST,
            "Exactly two runs can be compared",
            text,
        ));
    }
    let pair = found(move || wish.entries(&app).map(|pair| (pair, wish)));
    let ((base, new), wish) = pair.await?;
    Ok(rendered(&Page {
        base,
        new,
        by_step: wish.alignment == Alignment::Step,
        query: wish.query(),
        peak_growth: wish.peak_growth,
    }))
}

/// Serves the content of the comparison page as JSON: the chart's data, and the tables as HTML.
pub(crate) async fn data(
    State(app): State<Arc<App>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, Response> {
    let mut wish = Wish::of(pairs);
    let made = found(move || {
        let (base, new) = wish.entries(&app)?;
        let state = base.stamp.value.rotate_left(1) ^ new.stamp.value;
        let key = format!("compare {}", wish.query());
        Some(app.kept_or(&key, state, || document(&app, &base, &new, &wish)))
    });
    Ok(json(made.await?))
}

fn document(app: &App, base: &Entry, new: &Entry, wish: &Wish) -> Result<String, String> {
    let gates = wish.gates()?;
    let load = |entry: &Entry| {
        let (view, side) = app.load_with(entry, |recordings| side(entry, recordings))?;
        Ok::<_, String>((view.story, side))
    };
    let (base_story, base_side) = load(base)?;
    let (new_story, new_side) = load(new)?;
    let names = (base.name.as_str(), new.name.as_str());
    let drawing = comparison_json(&base_story, &new_story, names, wish.alignment);
    let (drawing, note) = match drawing {
        Ok(drawing) => (drawing, None),
        Err(error) => ("null".to_owned(), Some(error.to_string())),
    };
    let comparison = compare(base_side, new_side, &gates);
    let head = verdict(&comparison).map_err(|error| error.to_string())?;
    let markup = sections(&comparison).map_err(|error| error.to_string())?;
    let parts = serde_json::json!({ "head": head, "sections": markup, "note": note });
    Ok(format!("{{\"drawing\":{drawing},\"parts\":{parts}}}"))
}

fn side(entry: &Entry, recordings: &[Loaded]) -> Result<Side, String> {
    let profile = profile_of(recordings, &AnalyzeOptions::default());
    Ok(Side {
        source: entry.name.clone(),
        profile: profile.map_err(|error| format!("{}: {error}", entry.name))?,
    })
}
