//! The time range that the plot shows, and the position of the plot's cursor.

use stormlog_format::whole;

/// Which track and which time range the plot shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlotView {
    /// The index of the plotted track among the tracks that match the rank filter.
    pub(crate) track: usize,
    /// The time range that the plot shows; `None` means the whole run.
    pub(crate) part: Option<(i64, i64)>,
    /// Whether the plot shows all memory of the device where a finding leads, and not only the
    /// quantity of the finding.
    pub(crate) has_all: bool,
    /// The time that the user selected in the plot, in nanoseconds; `None` if none is selected.
    pub(crate) cursor_ns: Option<i64>,
}

/// The length of the shortest time range that the user can zoom to, in nanoseconds.
const CLOSEST_NS: i64 = 1_000_000;

impl PlotView {
    /// The time range that the plot shows of a track, whose samples cover the range `whole`.
    pub(crate) fn shown(&self, whole: (i64, i64)) -> (i64, i64) {
        self.part.unwrap_or(whole)
    }

    /// Zooms the plot around the cursor: a factor above 1 shows a longer time range, a factor below
    /// 1 a shorter one.
    pub(crate) fn zoom(&mut self, whole: (i64, i64), factor: f64) {
        let (from, to) = self.shown(whole);
        let middle = self.cursor_ns.unwrap_or(from + (to - from) / 2);
        self.resize(whole, factor, |length| middle.saturating_sub(length / 2));
    }

    /// Zooms the plot around a position: the time at `share` of the plot's width stays where it is.
    pub(crate) fn zoom_at(&mut self, whole: (i64, i64), share: f64, factor: f64) {
        let kept = self.at_share(whole, share);
        self.resize(whole, factor, |length| kept - scaled(length, share));
    }

    /// Multiplies the length of the shown time range by `factor`; `start` computes its start from
    /// the new length.
    fn resize(&mut self, whole: (i64, i64), factor: f64, start: impl Fn(i64) -> i64) {
        let (from, to) = self.shown(whole);
        let length = scaled(to - from, factor).max(CLOSEST_NS.min(whole.1 - whole.0));
        if length >= whole.1 - whole.0 {
            self.part = None;
        } else {
            self.set(whole, start(length), length);
        }
    }

    /// The time that is drawn at a share of the plot's width, from 0 (left) to 1 (right).
    pub(crate) fn at_share(&self, whole: (i64, i64), share: f64) -> i64 {
        let (from, to) = self.shown(whole);
        from + scaled(to - from, share.clamp(0.0, 1.0))
    }

    /// Moves the shown time range by a share of its length, to later times if `by` is positive, but
    /// not beyond `whole`.
    pub(crate) fn pan(&mut self, whole: (i64, i64), by: f64) {
        let (from, to) = self.shown(whole);
        let moved = from.saturating_add(scaled(to - from, by));
        self.set(whole, moved, to - from);
    }

    /// Moves the cursor by `steps` hundredths of the shown time range; the range moves if the
    /// cursor leaves it.
    pub(crate) fn move_cursor(&mut self, whole: (i64, i64), steps: i64) {
        let (from, to) = self.shown(whole);
        let at = self.cursor_ns.unwrap_or(from + (to - from) / 2);
        let step = ((to - from) / 100).max(1);
        self.put_cursor(whole, at.saturating_add(steps * step));
    }

    /// Sets the cursor, and moves the shown time range so that the cursor is visible.
    pub(crate) fn put_cursor(&mut self, whole: (i64, i64), at: i64) {
        let at = at.clamp(whole.0, whole.1);
        self.cursor_ns = Some(at);
        let (from, to) = self.shown(whole);
        if at < from || at > to {
            self.set(whole, at - (to - from) / 2, to - from);
        }
    }

    fn set(&mut self, whole: (i64, i64), from: i64, length: i64) {
        let from = from.clamp(whole.0, (whole.1 - length).max(whole.0));
        self.part = Some((from, from + length));
    }
}

fn scaled(length: i64, factor: f64) -> i64 {
    whole(length as f64 * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: (i64, i64) = (1_000, 1_000 + 60_000_000_000);

    #[test]
    fn zooming_keeps_inside_and_comes_back() {
        let mut view = PlotView::default();
        for _ in 0..60 {
            view.zoom(WHOLE, 0.5);
        }
        let (from, to) = view.shown(WHOLE);
        assert_eq!(to - from, CLOSEST_NS);
        view.pan(WHOLE, -1e9);
        assert_eq!(view.shown(WHOLE).0, WHOLE.0);
        for _ in 0..60 {
            view.zoom(WHOLE, 2.0);
        }
        assert_eq!(view.part, None);
    }

    #[test]
    fn what_is_under_the_mouse_stays_there() {
        let mut view = PlotView::default();
        let before = view.at_share(WHOLE, 0.25);
        for _ in 0..5 {
            view.zoom_at(WHOLE, 0.25, 0.8);
        }
        let after = view.at_share(WHOLE, 0.25);
        assert!((after - before).abs() < 1_000, "{before} {after}");
        for _ in 0..20 {
            view.zoom_at(WHOLE, 0.9, 1.25);
        }
        assert_eq!(view.part, None);
    }

    #[test]
    fn the_view_follows_the_cursor() {
        let mut view = PlotView::default();
        view.zoom(WHOLE, 0.1);
        view.put_cursor(WHOLE, WHOLE.1);
        let (from, to) = view.shown(WHOLE);
        assert!(from > WHOLE.0 && to == WHOLE.1);
        view.move_cursor(WHOLE, 5);
        assert_eq!(view.cursor_ns, Some(WHOLE.1));
    }
}
