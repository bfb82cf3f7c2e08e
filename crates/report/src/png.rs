//! Renders a drawing as a PNG file. The only font is the one in the program, so that the picture
//! looks the same on every machine.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::error::DrawError;
use crate::font::{BOLD, FAMILY, REGULAR};
use crate::scene::Scene;
use crate::svg::to_svg;

/// The largest number of pixels in a picture. Each pixel of a picture takes 4 bytes of memory.
const MOST_PIXELS: u64 = 100_000_000;

static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(REGULAR.to_vec());
    fonts.load_font_data(BOLD.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    Arc::new(fonts)
});

/// Renders the drawing as a PNG file; `scale` is the number of PNG pixels per pixel of the drawing.
pub fn to_png(scene: &Scene, scale: f32) -> Result<Vec<u8>, DrawError> {
    let failed = |error: &dyn std::fmt::Display| DrawError::Raster(error.to_string());
    let size = |side: u32| (side as f32 * scale).round().max(1.0) as u32;
    let (width, height) = (size(scene.width), size(scene.height));
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(DrawError::TooLarge { width, height });
    }
    let options = Options {
        font_family: FAMILY.to_owned(),
        fontdb: Arc::clone(&FONTS),
        ..Options::default()
    };
    let tree = Tree::from_str(&to_svg(scene), &options).map_err(|error| failed(&error))?;
    let mut pixels = Pixmap::new(width, height).ok_or(DrawError::TooLarge { width, height })?;
    let transform = Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(&error))
}
