//! A page that needs nothing but itself: no network, no library, a policy that proves it.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::error::DrawError;
use crate::page;
use crate::scene::Scene;
use crate::story::{Canvas, Kind, Story, draw};
use crate::svg::to_svg;
use crate::theme::Theme;

const SCRIPT: &str = include_str!("../assets/plot.js");
const STYLE: &str = include_str!("../assets/plot.css");

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    policy: &'a str,
    title: &'a str,
    subtitle: &'a [String],
    theme: &'static str,
    style: &'a str,
    script: &'static str,
    /// The picture for readers without scripts.
    picture: &'a str,
    /// What stands below, as markup.
    more: &'a str,
    /// JSON in which no character can end the element that holds it.
    spec: &'a str,
    overview: &'a str,
    detail: &'a str,
}

#[derive(Template)]
#[template(path = "picture.html")]
struct Picture<'a> {
    policy: &'a str,
    title: &'a str,
    theme: &'static str,
    style: &'static str,
    drawing: &'a str,
}

/// What a page has besides the plots of its story.
pub(crate) struct Addition<'a> {
    pub(crate) style: &'a str,
    /// Markup, every text in it escaped.
    pub(crate) body: &'a str,
    /// Instead of the line on host, ranks and samples.
    pub(crate) subtitle: Vec<String>,
}

/// The story as a page to explore.
pub fn html_page(story: &Story, kind: Kind, theme: Theme) -> Result<String, DrawError> {
    let mut subtitle = vec![story.subtitle()];
    subtitle.extend(story.skew_note());
    let nothing = Addition {
        style: "",
        body: "",
        subtitle,
    };
    page_with(story, kind, theme, &nothing)
}

/// The story as a page to explore, with more below it.
pub(crate) fn page_with(
    story: &Story,
    kind: Kind,
    theme: Theme,
    addition: &Addition<'_>,
) -> Result<String, DrawError> {
    let data = page::data(story, kind)?;
    let canvas = Canvas {
        theme,
        ..Canvas::default()
    };
    let picture = to_svg(&draw(story, kind, canvas)?);
    let title = story.heading(match kind {
        Kind::Timeline => "Memory timeline",
        Kind::Ranks => "Memory across ranks",
        Kind::Heatmap => "Memory by rank and time",
        Kind::Gap => "Hidden device memory",
        Kind::Dashboard => "Memory report",
    });
    let style = format!("{STYLE}{}", addition.style);
    Page {
        policy: &policy(Some(SCRIPT), &style),
        title: &title,
        subtitle: &addition.subtitle,
        theme: theme.name(),
        style: &style,
        script: SCRIPT,
        picture: &picture,
        more: addition.body,
        spec: &inert_json(&data.spec),
        overview: &STANDARD.encode(&data.overview),
        detail: &STANDARD.encode(&data.detail),
    }
    .render()
    .map_err(|error| DrawError::Page(error.to_string()))
}

/// A page around a finished drawing, without scripts.
pub(crate) fn picture_page(scene: &Scene, title: &str, theme: Theme) -> Result<String, DrawError> {
    Picture {
        policy: &policy(None, STYLE),
        title,
        theme: theme.name(),
        style: STYLE,
        drawing: &to_svg(scene),
    }
    .render()
    .map_err(|error| DrawError::Page(error.to_string()))
}

/// Our style for pages without scripts, which follow the reader's system in light or dark.
pub(crate) fn style_for_system() -> String {
    const DARK: &str = ":root[data-theme=\"dark\"] ";
    let dark = STYLE.split_once(DARK).and_then(|(_, rest)| {
        let (rules, _) = rest.split_once('}')?;
        Some(format!(
            "@media (prefers-color-scheme: dark) {{ :root {rules}}} }}\n"
        ))
    });
    format!("{STYLE}{}", dark.unwrap_or_default())
}

/// Nothing may be loaded or run but our own script and style, each named by its hash.
pub(crate) fn policy(script: Option<&str>, style: &str) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let script = script.map_or("'none'".to_owned(), |script| {
        format!("'sha256-{}'", hash(script))
    });
    format!(
        "default-src 'none'; script-src {script}; style-src 'sha256-{}'; img-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(style)
    )
}

/// JSON without the characters that mean something to an HTML parser; they stand only
/// inside strings, where an escape says the same.
fn inert_json(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_cannot_leave_its_element() {
        let json = inert_json("{\"label\":\"</script><!--&\"}");
        assert!(!json.contains(['<', '>', '&']));
    }

    #[test]
    fn our_assets_stay_small() {
        assert!(SCRIPT.len() + STYLE.len() < 60_000);
    }

    #[test]
    fn a_page_without_scripts_can_be_dark() {
        let style = style_for_system();
        let (_, dark) = style.split_once("prefers-color-scheme: dark").unwrap();
        assert!(dark.contains("--background: #14171c") && dark.trim_end().ends_with("} }"));
    }
}
