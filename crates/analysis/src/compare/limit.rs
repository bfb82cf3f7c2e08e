//! Parses the limits of gates as users write them: `20%`, `512MiB`, `10MB/min`, `1MiB/step`.

use std::fmt;
use std::str::FromStr;

use stormlog_format::{parse_bytes, plain_decimal, seconds_of_unit};

/// The error for a text that is not a valid limit of a gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a limit; use {like}")]
pub struct BadLimit {
    text: String,
    like: &'static str,
}

/// How much a number may grow from the base side to the new side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GrowthLimit {
    /// Growth as a share of the value on the base side: 0.2 for 20%.
    Share(f64),
    /// Growth in bytes.
    Bytes(f64),
}

/// The highest growth rate with which the gate passes, and the limit as the user wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct SlopeLimit {
    /// The highest growth rate with which the gate passes, in bytes per second.
    pub bytes_per_s: f64,
    text: String,
}

/// The highest growth per step with which the gate passes, and the limit as the user wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLimit {
    /// The highest growth per step with which the gate passes, in bytes.
    pub bytes_per_step: f64,
    text: String,
}

impl FromStr for GrowthLimit {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        let parsed = match text.trim().strip_suffix('%') {
            Some(percent) => {
                plain_decimal(percent.trim()).map(|percent| Self::Share(percent / 100.0))
            }
            None => parse_bytes(text).map(Self::Bytes),
        };
        parsed.ok_or_else(|| BadLimit {
            text: text.to_owned(),
            like: "a share such as 20%, or an amount such as 512MiB or 2GB",
        })
    }
}

impl fmt::Display for GrowthLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The percentage is rounded, because 0.07 * 100 is not exactly 7 in floating point.
            Self::Share(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Self::Bytes(bytes) => {
                let binary = [("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0)];
                let whole = binary
                    .into_iter()
                    .find(|(_, size)| *bytes >= *size && bytes % size == 0.0);
                match whole {
                    Some((unit, size)) => write!(f, "{}{unit}", bytes / size),
                    None => write!(f, "{bytes}B"),
                }
            }
        }
    }
}

impl FromStr for SlopeLimit {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        let parsed = text
            .split_once('/')
            .and_then(|(amount, time)| Some(parse_bytes(amount)? / seconds_of_unit(time.trim())?));
        let bytes_per_s = parsed.ok_or_else(|| BadLimit {
            text: text.to_owned(),
            like: "an amount per time such as 10MB/min, 1GiB/h or 100kB/s",
        })?;
        Ok(Self {
            bytes_per_s,
            text: text.trim().to_owned(),
        })
    }
}

impl fmt::Display for SlopeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for StepLimit {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        let amount = match text.split_once('/') {
            Some((amount, unit)) if unit.trim().eq_ignore_ascii_case("step") => Some(amount),
            Some(_) => None,
            None => Some(text),
        };
        let bytes_per_step = amount.and_then(parse_bytes).ok_or_else(|| BadLimit {
            text: text.to_owned(),
            like: "an amount per step such as 64KiB/step or 1MB/step",
        })?;
        Ok(Self {
            bytes_per_step,
            text: text.trim().to_owned(),
        })
    }
}

impl fmt::Display for StepLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth() {
        let cases = [
            ("20%", GrowthLimit::Share(0.2), "20%"),
            ("7 %", GrowthLimit::Share(0.07), "7%"),
            ("12.5%", GrowthLimit::Share(0.125), "12.5%"),
            ("512MiB", GrowthLimit::Bytes(536_870_912.0), "512MiB"),
            ("2GB", GrowthLimit::Bytes(2e9), "2000000000B"),
            ("0", GrowthLimit::Bytes(0.0), "0B"),
            ("1.5 gib", GrowthLimit::Bytes(1_610_612_736.0), "1536MiB"),
        ];
        for (text, limit, shown) in cases {
            assert_eq!(text.parse(), Ok(limit));
            assert_eq!(limit.to_string(), shown);
        }
        for bad in [
            "",
            "%",
            "x",
            "-5%",
            "5 bananas",
            "1e3",
            "nan",
            "inf%",
            "+1MB",
            ".",
        ] {
            assert!(bad.parse::<GrowthLimit>().is_err(), "{bad}");
        }
    }

    #[test]
    fn steps() {
        let kept = |text: &str| text.parse::<StepLimit>().map(|limit| limit.bytes_per_step);
        assert_eq!(kept("64KiB/step"), Ok(65_536.0));
        assert_eq!(kept("1 MB / Step"), Ok(1e6));
        assert_eq!(kept("512"), Ok(512.0));
        for bad in ["1MB/min", "", "/step", "5%", "-1B/step"] {
            let error = kept(bad).expect_err(bad);
            assert!(error.to_string().contains("64KiB/step"), "{error}");
        }
        assert_eq!(
            "1MB/step".parse::<StepLimit>().unwrap().to_string(),
            "1MB/step"
        );
    }

    #[test]
    fn slopes() {
        let rate = |text: &str| text.parse::<SlopeLimit>().map(|limit| limit.bytes_per_s);
        assert_eq!(rate("60MB/min"), Ok(1e6));
        assert_eq!(rate("60MB/m"), Ok(1e6));
        assert_eq!(rate("1 kB / s"), Ok(1000.0));
        assert_eq!(rate("3600/h"), Ok(1.0));
        let error = rate("10MB").expect_err("no time");
        assert!(error.to_string().contains("10MB/min"), "{error}");
        assert!(rate("10MB/fortnight").is_err());
        assert_eq!(
            "10MB/min".parse::<SlopeLimit>().unwrap().to_string(),
            "10MB/min"
        );
    }
}
