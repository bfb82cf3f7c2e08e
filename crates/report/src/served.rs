//! Parts of a page that the server of `stormlog serve` sends separately: the script and the style,
//! and the data of a chart, which is sent again when the recording has grown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::DrawError;
use crate::held;
use crate::html;
use crate::page::{self, Alignment, PageData};
use crate::picture::PictureKind;
use crate::story::Story;

/// The JavaScript of every page. On the pages of the server, which contain no data, the script
/// waits until `serve.js` calls `stormlogPlot.show` with the data.
pub fn page_script() -> &'static str {
    html::SCRIPT
}

/// The CSS of every page, for the light and the dark theme.
pub fn page_style() -> String {
    format!("{}{}", html::style(), html::PICTURES)
}

/// The data of a chart as JSON: `{"spec": …, "overview": "…", "detail": "…"}`. `spec` describes the
/// chart. `overview` and `detail` contain the compressed samples in base64: the page unpacks
/// `overview` before it draws anything, and `detail` block by block as needed.
pub fn drawing_json(story: &Story, kind: PictureKind) -> Result<String, DrawError> {
    Ok(to_json(&page::data(story, kind)?))
}

/// The data of a chart that compares two runs, as JSON; `names` are the names of the two curves.
pub fn comparison_json(
    base: &Story,
    new: &Story,
    names: (&str, &str),
    alignment: Alignment,
) -> Result<String, DrawError> {
    Ok(to_json(&page::comparison(base, new, names, alignment)?))
}

/// The flame graphs of what holds memory, by call stack and by holder, as HTML; empty when neither
/// call stacks nor holders were recorded.
pub fn held_section(story: &Story) -> String {
    held::sections(&story.held)
}

fn to_json(data: &PageData) -> String {
    format!(
        "{{\"spec\":{},\"overview\":\"{}\",\"detail\":\"{}\"}}",
        data.spec,
        STANDARD.encode(&data.overview),
        STANDARD.encode(&data.detail)
    )
}
