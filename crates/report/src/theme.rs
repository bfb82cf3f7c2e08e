//! The colours of charts: two themes that work in print, on a projector and for colour-blind
//! readers.

use stormlog_analysis::detect::Severity;
use stormlog_format::names;

use crate::measure::Measure;

/// A light theme, a dark theme, or the setting of the reader's system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// The light theme: dark text on white.
    #[default]
    Light,
    /// The dark theme: light text on a background that is nearly black.
    Dark,
    /// A page follows the setting of the reader's system; a picture cannot follow the setting and
    /// has the light theme.
    System,
}

names!(Theme {
    Light => "light",
    Dark => "dark",
    System => "system",
});

/// A colour with its opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ink {
    pub(crate) rgb: u32,
    pub(crate) opacity: f32,
}

impl Ink {
    pub(crate) const fn solid(rgb: u32) -> Self {
        Self { rgb, opacity: 1.0 }
    }

    pub(crate) const fn with_opacity(self, opacity: f32) -> Self {
        Self {
            rgb: self.rgb,
            opacity,
        }
    }

    pub(crate) fn hex(self) -> String {
        format!("#{:06x}", self.rgb)
    }
}

/// Colours of rank lines, in order. Neighbouring colours differ in lightness as well as in hue.
const RANKS_LIGHT: [u32; 8] = [
    0x1f_6f_b4, 0xd9_5f_02, 0x1b_8a_5a, 0xa6_3d_9b, 0x8c_6d_00, 0x00_8c_a8, 0xc2_2f_3c, 0x5b_5f_97,
];
const RANKS_DARK: [u32; 8] = [
    0x63_b3_ed, 0xf6_a5_4c, 0x5f_d3_9c, 0xe0_8f_d8, 0xe3_c8_4e, 0x4f_d1_e0, 0xff_7b_7b, 0xa5_a9_f0,
];

/// The colours of a heat map from low to high values, in even steps of lightness, based on
/// Matplotlib's colour map viridis.
/// The darkest colour of the heat map is lighter than in viridis, so that idle ranks do not look
/// like the dark background.
const HEAT: [u32; 9] = [
    0x44_0f_5c, 0x46_32_7e, 0x36_5c_8d, 0x27_7f_8e, 0x1f_a1_87, 0x4a_c1_6d, 0xa0_da_39, 0xe4_e1_19,
    0xfd_e7_25,
];

impl Theme {
    fn pick(self, light: u32, dark: u32) -> Ink {
        Ink::solid(match self {
            Self::Light | Self::System => light,
            Self::Dark => dark,
        })
    }

    pub(crate) fn background(self) -> Ink {
        self.pick(0xff_ff_ff, 0x14_17_1c)
    }

    pub(crate) fn panel(self) -> Ink {
        self.pick(0xfa_fb_fc, 0x1a_1e_25)
    }

    pub(crate) fn grid(self) -> Ink {
        self.pick(0xe3_e7_ec, 0x2b_31_3b)
    }

    pub(crate) fn axis(self) -> Ink {
        self.pick(0x9a_a3_ae, 0x5b_65_73)
    }

    pub(crate) fn text(self) -> Ink {
        self.pick(0x1d_24_2d, 0xe8_ec_f1)
    }

    pub(crate) fn muted(self) -> Ink {
        self.pick(0x5c_67_75, 0x9a_a6_b5)
    }

    /// The colour of the line of a measure, such as the allocated bytes.
    pub(crate) fn measure(self, measure: Measure) -> Ink {
        match measure {
            Measure::Allocated => self.pick(0x1f_6f_b4, 0x63_b3_ed),
            Measure::Reserved => self.pick(0xd9_7a_00, 0xf6_a5_4c),
            Measure::Used => self.pick(0x1b_8a_5a, 0x5f_d3_9c),
            Measure::Capacity => self.pick(0x6b_74_80, 0x9a_a6_b5),
            Measure::Hidden | Measure::Own => self.pick(0xa6_3d_9b, 0xe0_8f_d8),
            Measure::Others => self.pick(0x5c_67_75, 0x9a_a6_b5),
        }
    }

    /// The colour of the line of the n-th rank in a chart, counted from 0; after eight ranks the
    /// colours repeat.
    pub(crate) fn rank(self, index: usize) -> Ink {
        Ink::solid(match self {
            Self::Light | Self::System => RANKS_LIGHT[index % RANKS_LIGHT.len()],
            Self::Dark => RANKS_DARK[index % RANKS_DARK.len()],
        })
    }

    /// The colour of a measure's n-th line in a chart: the colour of the measure if it has only one
    /// line, otherwise the colour of a rank.
    pub(crate) fn line(self, measure: Measure, index: usize, is_only: bool) -> Ink {
        if is_only {
            self.measure(measure)
        } else {
            self.rank(index)
        }
    }

    pub(crate) fn severity(self, severity: Severity) -> Ink {
        match severity {
            Severity::Critical => self.pick(0xc2_1f_30, 0xff_6b_6b),
            Severity::Warning => self.pick(0xa0_5f_00, 0xf2_b1_34),
            Severity::Info => self.pick(0x4a_58_68, 0xa9_b6_c6),
        }
    }

    /// The colour of the bands of the n-th phase name in a chart, counted from 0; after six names
    /// the colours repeat.
    pub(crate) fn phase(self, index: usize) -> Ink {
        const LIGHT: [u32; 6] = [
            0xcf_e3_f5, 0xfb_e3_c4, 0xcf_ec_dc, 0xec_d6_ea, 0xf1_ea_bf, 0xd9_dc_ee,
        ];
        const DARK: [u32; 6] = [
            0x24_44_5f, 0x5a_40_1c, 0x20_4c_3a, 0x52_2f_50, 0x51_48_17, 0x35_38_5e,
        ];
        let index = index % LIGHT.len();
        self.pick(LIGHT[index], DARK[index])
    }
}

/// The colour of a heat map cell for a value between 0 (lowest) and 1 (highest).
pub(crate) fn heat(share: f64) -> Ink {
    let index = share.clamp(0.0, 1.0) * (HEAT.len() - 1) as f64;
    let below = (index as usize).min(HEAT.len() - 2);
    let part = index - below as f64;
    let mix = |shift: u32| {
        let channel = |rgb: u32| f64::from(rgb >> shift & 0xff);
        let value = channel(HEAT[below]) * (1.0 - part) + channel(HEAT[below + 1]) * part;
        (value.round() as u32) << shift
    };
    Ink::solid(mix(16) | mix(8) | mix(0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn luminance(ink: Ink) -> f64 {
        let channel = |shift: u32| {
            let value = f64::from(ink.rgb >> shift & 0xff) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0)
    }

    /// The contrast ratio between two colours, from 1 to 21, as WCAG defines it.
    pub(crate) fn contrast(ink: Ink, behind: Ink) -> f64 {
        let (one, other) = (luminance(ink), luminance(behind));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_ink_of_a_text_can_be_read() {
        for theme in [Theme::Light, Theme::Dark] {
            let severities = [Severity::Critical, Severity::Warning, Severity::Info];
            let mut inks = vec![
                theme.text(),
                theme.muted(),
                theme.measure(Measure::Capacity),
            ];
            inks.extend(severities.map(|severity| theme.severity(severity)));
            for ink in inks {
                for behind in [theme.background(), theme.panel()] {
                    let contrast = contrast(ink, behind);
                    assert!(contrast >= 4.5, "{theme:?} {}: {contrast:.2}", ink.hex());
                }
            }
        }
    }
}
