//! Parts of a page that a server sends separately: the script and the style that files embed, and
//! the data of a drawing, which is sent again when the recording has grown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::DrawError;
use crate::html;
use crate::page::{self, Alignment, PageData};
use crate::story::{Kind, Story};

/// The script of every page. If the page has no data, it waits for `stormlogPlot.show`.
pub fn page_script() -> &'static str {
    html::SCRIPT
}

/// The style of every page, in both themes.
pub fn page_style() -> String {
    format!("{}{}", html::style(), html::PICTURES)
}

/// The data of a drawing as JSON: `{"spec": …, "overview": "…", "detail": "…"}`.
pub fn drawing_json(story: &Story, kind: Kind) -> Result<String, DrawError> {
    Ok(to_json(&page::data(story, kind)?))
}

/// The same for two runs, each with the name of its curve.
pub fn comparison_json(
    base: &Story,
    new: &Story,
    names: (&str, &str),
    alignment: Alignment,
) -> Result<String, DrawError> {
    Ok(to_json(&page::comparison(base, new, names, alignment)?))
}

/// The steps as HTML in both themes; `None` when no steps were recorded.
pub fn steps_section(story: &Story) -> Result<Option<String>, DrawError> {
    html::by_step(story)
}

fn to_json(data: &PageData) -> String {
    format!(
        "{{\"spec\":{},\"overview\":\"{}\",\"detail\":\"{}\"}}",
        data.spec,
        STANDARD.encode(&data.overview),
        STANDARD.encode(&data.detail)
    )
}
