//! Builds self-contained HTML pages. A page loads nothing from the network and uses no external
//! library; its content security policy forbids the browser to load anything from elsewhere.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::canvas::Canvas;
use crate::error::{DrawError, rendered};
use crate::held;
use crate::page;
use crate::picture::{PictureKind, draw};
use crate::scene::Scene;
use crate::steps;
use crate::story::Story;
use crate::svg::to_svg;
use crate::theme::Theme;

/// The script of a page, which `build.rs` joins from the modules in `assets/page`.
pub(crate) const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/page.js"));
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
    /// The chart as SVG, which is shown when the browser runs no scripts.
    picture: &'a str,
    /// Further HTML below the plots, such as flame graphs and tables.
    more: &'a str,
    /// JSON data of the page, in which no character can end the HTML element that contains it.
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
    style: &'a str,
    drawing: &'a str,
}

/// What [`page_with`] adds to a page besides the plots.
pub(crate) struct Addition<'a> {
    pub(crate) style: &'a str,
    /// HTML that is placed below the plots, in which every text is already escaped.
    pub(crate) body: &'a str,
    /// The texts below the heading. For a page of [`html_page`] these are one line with hosts,
    /// ranks, number of samples, duration and start time, and a sentence about the clocks of the
    /// ranks if clocks were corrected.
    pub(crate) subtitle: Vec<String>,
}

/// Renders a story (the content of a chart) as an interactive HTML page.
pub fn html_page(story: &Story, kind: PictureKind, theme: Theme) -> Result<String, DrawError> {
    let mut subtitle = vec![story.subtitle()];
    subtitle.extend(story.skew_note());
    let steps = match kind {
        PictureKind::Timeline | PictureKind::Steps | PictureKind::Dashboard => {
            steps_section(story)?
        }
        PictureKind::Ranks | PictureKind::Heatmap | PictureKind::Gap => None,
    };
    let mut body = match kind {
        PictureKind::Timeline | PictureKind::Dashboard => held::sections(&story.held),
        PictureKind::Steps | PictureKind::Ranks | PictureKind::Heatmap | PictureKind::Gap => {
            String::new()
        }
    };
    body.push_str(steps.as_deref().unwrap_or_default());
    let addition = Addition {
        style: if steps.is_some() { PICTURES } else { "" },
        body: &body,
        subtitle,
    };
    page_with(story, kind, theme, &addition)
}

/// CSS for pictures that a page contains twice, once in light and once in dark colours. The CSS
/// hides the one that does not match the theme of the page.
pub(crate) const PICTURES: &str = "
.picture svg { max-width: 100%; height: auto; }
.picture.dark, :root[data-theme=\"dark\"] .picture.light { display: none; }
:root[data-theme=\"dark\"] .picture.dark { display: block; }
@media (prefers-color-scheme: dark) {
  :root[data-theme=\"system\"] .picture.light { display: none; }
  :root[data-theme=\"system\"] .picture.dark { display: block; }
}
";

/// Draws the memory at the end of each training step and the highest use during each step, as HTML
/// for the light and the dark theme. Returns `None` when no training steps were recorded.
pub fn steps_section(story: &Story) -> Result<Option<String>, DrawError> {
    let span = story.shown()?;
    if steps::tracks_of(story, span).is_empty() {
        return Ok(None);
    }
    // The picture gets no verdict and only a short title, because the page already has a heading
    // and a verdict.
    let bare = Story {
        title: Some("by step".to_owned()),
        verdict: None,
        ..story.clone()
    };
    let picture = |theme| {
        let canvas = Canvas {
            theme,
            ..Canvas::default()
        };
        Ok::<_, DrawError>(to_svg(&steps::draw(&bare, canvas)?))
    };
    Ok(Some(format!(
        "<section id=\"steps\"><div class=\"picture light\">{}</div><div class=\"picture dark\">{}</div></section>",
        picture(Theme::Light)?,
        picture(Theme::Dark)?,
    )))
}

/// Renders a story (the content of a chart) as an interactive HTML page, with additional content
/// below the plots.
pub(crate) fn page_with(
    story: &Story,
    kind: PictureKind,
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
        PictureKind::Timeline => "Memory timeline",
        PictureKind::Ranks => "Memory across ranks",
        PictureKind::Heatmap => "Memory by rank and time",
        PictureKind::Gap => "Hidden device memory",
        PictureKind::Steps => "Memory by step",
        PictureKind::Dashboard => "Memory report",
    });
    let style = format!("{}{}", style(), addition.style);
    rendered(&Page {
        policy: &policy(Some(SCRIPT), &style),
        title: &title,
        subtitle: &addition.subtitle,
        theme: theme.as_str(),
        style: &style,
        script: SCRIPT,
        picture: &picture,
        more: addition.body,
        spec: &inert_json(&data.spec),
        overview: &STANDARD.encode(&data.overview),
        detail: &STANDARD.encode(&data.detail),
    })
}

/// Renders an HTML page without scripts that contains only a finished drawing.
pub fn picture_page(scene: &Scene, title: &str, theme: Theme) -> Result<String, DrawError> {
    let style = style();
    rendered(&Picture {
        policy: &policy(None, &style),
        title,
        theme: theme.as_str(),
        style: &style,
        drawing: &to_svg(scene),
    })
}

/// The selector in `plot.css` of the rule that sets the colours of the dark theme.
const DARK: &str = ":root[data-theme=\"dark\"] ";

/// The CSS of all pages. The rules for the dark theme also apply when the page follows the reader's
/// system and the system uses a dark theme.
pub(crate) fn style() -> String {
    let dark = STYLE.split_once(DARK).and_then(|(_, rest)| {
        let (rules, _) = rest.split_once('}')?;
        Some(format!(
            "@media (prefers-color-scheme: dark) {{ :root[data-theme=\"system\"] {rules}}} }}\n"
        ))
    });
    format!("{STYLE}{}", dark.unwrap_or_default())
}

/// A content security policy that allows only the given script and style, each identified by its
/// hash.
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

/// Escapes the characters of JSON that an HTML parser would interpret. The escaped characters occur
/// only inside JSON strings, where their escaped form has the same meaning.
fn inert_json(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Ink;
    use crate::theme::tests::contrast;

    #[test]
    fn json_cannot_leave_its_element() {
        let json = inert_json("{\"label\":\"</script><!--&\"}");
        assert!(!json.contains(['<', '>', '&']));
    }

    #[test]
    fn our_assets_stay_small() {
        assert!(SCRIPT.len() + STYLE.len() < 72_000);
    }

    /// The colours that the CSS defines for a theme, by name.
    fn colours(rules: &str) -> Vec<(String, u32)> {
        let declarations = rules.split(';').filter_map(|one| one.split_once(": #"));
        declarations
            .map(|(name, hex)| {
                let name = name.trim().trim_start_matches("--").to_owned();
                (name, u32::from_str_radix(hex.trim(), 16).expect("a colour"))
            })
            .collect()
    }

    #[test]
    fn a_page_follows_the_system_and_can_be_read_in_light_and_dark() {
        let style = style();
        let (light, rest) = style.split_once(DARK).unwrap();
        let (dark, _) = rest.split_once('}').unwrap();
        let (_, by_system) = style.split_once("prefers-color-scheme: dark").unwrap();
        assert_eq!(
            colours(&by_system.replace('{', ";")),
            colours(&dark.replace('{', ";"))
        );
        for (theme, rules) in [(Theme::Light, light), (Theme::Dark, dark)] {
            let colours = colours(&rules.replace('{', ";"));
            let of = |name: &str| {
                let found = colours.iter().find(|(known, _)| known == name);
                found.unwrap_or_else(|| panic!("no {name}")).1
            };
            assert_eq!(of("background"), theme.background().rgb);
            assert_eq!(of("text"), theme.text().rgb);
            for text in ["text", "muted", "critical", "warning", "info", "capacity"] {
                for behind in ["background", "panel", "raised"] {
                    let contrast = contrast(Ink::solid(of(text)), Ink::solid(of(behind)));
                    assert!(
                        contrast >= 4.5,
                        "{theme:?}: {text} on {behind}: {contrast:.2}"
                    );
                }
            }
        }
    }
}
