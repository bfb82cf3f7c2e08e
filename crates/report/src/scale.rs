//! Converts values and times to pixels, and computes axis ticks.

use crate::bytes::unit_for;

/// A time span in nanoseconds; its end is never before its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Span {
    pub(crate) fn new(from: i64, to: i64) -> Self {
        Self {
            from,
            to: to.max(from),
        }
    }

    pub(crate) fn length(self) -> i64 {
        self.to.saturating_sub(self.from)
    }

    /// The end of the span plus a little time, so that events just after the last sample are
    /// included.
    pub(crate) fn end_with_slack(self) -> i64 {
        self.to.saturating_add(self.length() / 100 + 1)
    }
}

/// Maps times in nanoseconds to x positions in pixels: the time span fills the width of the plot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeScale {
    pub(crate) span: Span,
    pub(crate) left: f64,
    pub(crate) width: f64,
}

impl TimeScale {
    pub(crate) fn x(self, time_ns: i64) -> f64 {
        // If the span is a single moment, it is drawn in the middle of the plot and not at the
        // edge.
        if self.span.length() == 0 {
            return self.left + self.width / 2.0;
        }
        // The start is subtracted before the conversion, because a 64-bit float cannot represent
        // nanoseconds since 1970 exactly.
        let part = time_ns.saturating_sub(self.span.from) as f64 / self.span.length() as f64;
        self.left + part.clamp(-0.01, 1.01) * self.width
    }

    /// The number of nanoseconds that one pixel of the plot's width represents.
    pub(crate) fn ns_per_pixel(self) -> f64 {
        self.span.length() as f64 / self.width.max(1.0)
    }
}

/// Maps values in bytes to y positions in pixels: `low` to the lower edge of the plot, `high` to
/// the upper edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueScale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) top: f64,
    pub(crate) height: f64,
}

impl ValueScale {
    pub(crate) fn y(self, value: i64) -> f64 {
        let part = (value as f64 - self.low) / (self.high - self.low).max(1.0);
        self.top + (1.0 - part.clamp(0.0, 1.0)) * self.height
    }
}

/// A tick of an axis: its value (bytes or nanoseconds) and the number printed beside it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) text: String,
}

/// Rounds a step up to the next number of the form 1, 2 or 5 times a power of ten.
pub(crate) fn nice_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= step * 0.999_999)
        .unwrap_or(10.0);
    factor * power
}

/// Computes about `count` ticks for a byte axis between two values, and the unit that all ticks
/// share.
pub(crate) fn byte_ticks(low: f64, high: f64, count: usize) -> (Vec<Tick>, &'static str) {
    let (unit, size) = unit_for(high.abs().max(low.abs()));
    let step = nice_step(((high - low) / size / count.max(1) as f64).max(1e-9));
    // Bytes are integers, so ticks in the unit `B` are at least one byte apart.
    let step = if unit == "B" { step.max(1.0) } else { step };
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let first = (low / size / step).ceil() as i64;
    let last = (high / size / step + 1e-9).floor() as i64;
    let ticks = (first..=last.min(first + 50))
        .map(|index| {
            let value = index as f64 * step;
            Tick {
                value: value * size,
                text: format!("{value:.digits$}"),
            }
        })
        .collect();
    (ticks, unit)
}

/// The value in bytes at the upper end of a byte axis: the value of a tick slightly above `peak`.
pub(crate) fn byte_ceiling(peak: f64, count: usize) -> f64 {
    let peak = peak.max(1.0) * 1.04;
    let (_, size) = unit_for(peak);
    let step = nice_step(peak / size / count.max(1) as f64);
    (peak / size / step).ceil() * step * size
}

/// The value in bytes at the lower end of a byte axis that does not start at zero: the value of a
/// tick not above `least`, for an axis of about `length` bytes up to `most`.
pub(crate) fn byte_floor(least: f64, length: f64, most: f64) -> f64 {
    let (_, size) = unit_for(most);
    let step = nice_step((length / size / 6.0).max(1e-9));
    (least / size / step).floor() * step * size
}

/// Computes about `count` ticks for a time span. The value of a tick is in nanoseconds since the
/// time `zero_ns`, from which its text counts too, in the returned unit: `s`, `h:mm:ss` or `h:mm`.
pub(crate) fn time_ticks(span: Span, zero_ns: i64, count: usize) -> (Vec<Tick>, &'static str) {
    const CLOCK: [f64; 13] = [
        60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0, 43200.0,
        86400.0, 172_800.0,
    ];
    let length = span.length() as f64 / 1e9;
    let raw = (length / count.max(1) as f64).max(1e-9);
    let begin = span.from.saturating_sub(zero_ns) as f64 / 1e9;
    let clock = begin + length >= 300.0 && raw >= 0.5;
    let step = if raw > 40.0 {
        let fits = CLOCK.into_iter().find(|step| *step >= raw);
        fits.unwrap_or_else(|| 86400.0 * nice_step(raw / 86400.0))
    } else if clock {
        let fits = [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0].into_iter();
        fits.into_iter().find(|step| *step >= raw).unwrap_or(60.0)
    } else {
        nice_step(raw)
    };
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let first = (begin / step - 1e-9).ceil() as i64;
    let last = ((begin + length) / step + 1e-9).floor() as i64;
    let ticks = (first..=last.min(first.saturating_add(60))).map(|index| {
        let seconds = index as f64 * step;
        Tick {
            value: seconds * 1e9,
            text: if clock {
                clock_text(seconds, step)
            } else {
                format!("{seconds:.digits$}")
            },
        }
    });
    let unit = match (clock, step >= 60.0) {
        (false, _) => "s",
        (true, false) => "h:mm:ss",
        (true, true) => "h:mm",
    };
    (ticks.collect(), unit)
}

fn clock_text(seconds: f64, step: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (hours, minutes) = (whole / 3600, whole / 60 % 60);
    if step >= 60.0 {
        format!("{hours}:{minutes:02}")
    } else {
        format!("{hours}:{minutes:02}:{:02}", whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.text.as_str()).collect()
    }

    #[test]
    fn bytes_have_round_ticks_in_one_unit() {
        let high = byte_ceiling(17.4 * 1_073_741_824.0, 5);
        let (ticks, unit) = byte_ticks(0.0, high, 5);
        assert_eq!(unit, "GiB");
        assert_eq!(texts(&ticks), ["0", "5", "10", "15", "20"]);
        let (ticks, unit) = byte_ticks(0.0, byte_ceiling(0.0, 5), 5);
        assert_eq!((texts(&ticks), unit), (vec!["0", "1"], "B"));
    }

    #[test]
    fn times_have_ticks_people_read() {
        let seconds = |n: i64| n * 1_000_000_000;
        let (ticks, unit) = time_ticks(Span::new(seconds(100), seconds(110)), seconds(100), 6);
        assert_eq!(
            (texts(&ticks), unit),
            (vec!["0", "2", "4", "6", "8", "10"], "s")
        );
        let (ticks, unit) = time_ticks(Span::new(0, seconds(7200)), 0, 5);
        assert_eq!(unit, "h:mm");
        assert_eq!(texts(&ticks), ["0:00", "0:30", "1:00", "1:30", "2:00"]);
        let part = Span::new(seconds(150), seconds(160));
        let (ticks, _) = time_ticks(part, seconds(100), 5);
        assert_eq!(texts(&ticks), ["50", "52", "54", "56", "58", "60"]);
        let (ticks, _) = time_ticks(Span::new(0, i64::MAX), 0, 5);
        assert!(ticks.len() < 70);
    }

    #[test]
    fn far_apart_times_keep_their_nanoseconds() {
        let start = 1_794_726_520_546_367_404;
        let scale = TimeScale {
            span: Span::new(start, start + 1000),
            left: 0.0,
            width: 1000.0,
        };
        assert!((scale.x(start + 1) - 1.0).abs() < 1e-9);
    }
}
