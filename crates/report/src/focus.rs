//! What the first chart of a picture shows: the quantity that the leading finding is about, with the
//! growth as a line and the level at which the memory is full. `focus_chart` draws it.

use stormlog_analysis::detect::{Kind, Memory, Quantity, Samples, Severity};
use stormlog_analysis::timeline::Run;
use stormlog_format::{counted, human_duration, human_rate};

use crate::bytes::human;
use crate::label::clean;
use crate::measure::Measure;
use crate::scale::{Span, byte_ceiling, byte_floor};
use crate::track::DrawnTrack;

/// If the values of the chart change by less than this share of the highest of them, the axis does
/// not start at zero, because the change would be a sliver.
const SLIVER: f64 = 0.34;
/// The axis spans at least this share of the highest value, so that its numbers stay short.
const LEAST_SPAN: f64 = 0.002;
/// Values before the onset are inside the axis if the axis gets at most this many times as long.
const MOST_BEFORE: f64 = 2.0;
/// The limit is inside the axis if the axis gets at most this many times as long.
const MOST_LIMIT: f64 = 1.6;

/// The quantity that the leading finding of a run is about, ready to be drawn. All times are on the
/// shared clock of all ranks, except those of the track.
#[derive(Clone, Debug)]
pub(crate) struct Focus {
    /// The values, as the only measure of a track.
    pub(crate) track: DrawnTrack,
    pub(crate) measure: Measure,
    /// Whether the quantity is host memory.
    pub(crate) on_host: bool,
    /// The kind of memory: `allocated memory`.
    pub(crate) name: &'static str,
    /// What is drawn: `Allocated memory of GPU 0 at the ends of steps`.
    pub(crate) title: String,
    /// What was found, in a few words: `leak since 10.8 s: +313 MiB, 16.6 MiB/s`.
    pub(crate) words: String,
    pub(crate) severity: Severity,
    pub(crate) onset_ns: Option<i64>,
    /// The growth as a line: time and bytes of its start and of its end.
    pub(crate) trend: Option<[(i64, i64); 2]>,
    /// The level at which the memory is full, and when that is reached.
    pub(crate) limit: Option<(i64, String)>,
    /// Whether the axis starts at zero in any case, so that the failed request can be compared.
    from_zero: bool,
    pub(crate) zero_ns: i64,
}

impl Focus {
    /// Makes the first chart of a quantity. `sources` are the tracks of the run as they are drawn,
    /// and `zero_ns` is the start of the run.
    pub(crate) fn of<'a>(
        quantity: &Quantity,
        run: &Run,
        mut sources: impl Iterator<Item = &'a DrawnTrack>,
        zero_ns: i64,
    ) -> Option<Self> {
        let track = run.tracks.get(quantity.track)?;
        let session = clean(&track.session_id);
        let source = sources.find(|source| {
            source.session_id == session
                && source.device_id == track.device_id
                && source.rank == i64::from(track.rank)
        })?;
        let measure = match quantity.memory {
            Memory::Reserved => Measure::Reserved,
            Memory::Hidden => Measure::Hidden,
            Memory::Used if track.knows_own() => Measure::Own,
            Memory::Used => Measure::Used,
            _ => Measure::Allocated,
        };
        let finding = &quantity.finding;
        let shared = |at: i64| source.shared_ns(at);
        let onset_ns = finding.onset_ns.map(shared);
        let ends = quantity.trend.map(|trend| {
            [
                (shared(trend.onset_ns), trend.from_bytes),
                (shared(trend.end_ns), trend.to_bytes),
            ]
        });
        Some(Self {
            track: source.with_values(
                measure,
                quantity.t_ns.clone(),
                quantity.bytes.clone(),
                quantity.samples != Samples::All,
            ),
            measure,
            on_host: quantity.memory.is_host(),
            name: quantity.memory.name(),
            title: title_of(quantity, run),
            words: words_of(quantity, (onset_ns, finding.end_ns.map(shared)), zero_ns),
            severity: finding.severity,
            onset_ns,
            trend: ends,
            limit: quantity.limit.map(|limit| (limit.bytes, limit.words())),
            from_zero: finding.kind == Kind::OomRisk,
            zero_ns,
        })
    }

    /// Whether the quantity is about the resource of a track, or about host memory of its rank.
    pub(crate) fn is_of(&self, track: &DrawnTrack) -> bool {
        track.rank == self.track.rank && (self.on_host || track.device_id == self.track.device_id)
    }

    /// The ends of the byte axis for a time span. The axis starts at zero unless the changes would
    /// be too small to be seen.
    pub(crate) fn range(&self, span: Span) -> (f64, f64) {
        let within = self.track.within(span);
        let all = self.track.extremes(self.measure, within).unwrap_or((0, 1));
        // Loading a model before the growth may take far more memory than the growth.
        let since = self.onset_ns.filter(|_| self.trend.is_some()).map(|onset| {
            let since = Span::new(onset.clamp(span.from, span.to), span.to);
            let extremes = self.track.extremes(self.measure, self.track.within(since));
            extremes.unwrap_or(all)
        });
        let (mut least, mut most) = since.unwrap_or(all);
        if let Some([from, to]) = self.trend.filter(|[_, to]| to.0 >= span.from) {
            (least, most) = (least.min(from.1), most.max(to.1));
        }
        let length = (most.saturating_sub(least)) as f64;
        let before = (least.min(all.0), most.max(all.1));
        if (before.1.saturating_sub(before.0)) as f64 <= MOST_BEFORE * length {
            (least, most) = before;
        }
        if self.from_zero || length >= SLIVER * most as f64 {
            return (0.0, byte_ceiling(most.max(all.1) as f64, 6));
        }
        if let Some((limit, _)) = &self.limit
            && limit.saturating_sub(least) as f64 <= MOST_LIMIT * length
        {
            most = most.max(*limit);
        }
        let length = (most.saturating_sub(least) as f64).max(LEAST_SPAN * most as f64);
        let low = byte_floor(least as f64 - 0.06 * length, length, most as f64);
        let high = most as f64 + 0.10 * length;
        (low.max(0.0), high)
    }
}

fn title_of(quantity: &Quantity, run: &Run) -> String {
    let track = &run.tracks[quantity.track];
    let mut name = quantity.memory.name().to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let owner = match &quantity.process {
        Some((pid, name)) if name.is_empty() => format!(" of process {pid}"),
        Some((_, name)) => format!(" of {}", clean(short_command(name))),
        None if track.is_host() => String::new(),
        None => format!(" on GPU {}", track.device_id),
    };
    let mut ranks: Vec<u32> = run.tracks.iter().map(|track| track.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let rank = match ranks.len() {
        0 | 1 => String::new(),
        count => format!(", rank {} of {}", track.rank, counted(count, "rank")),
    };
    let at = match quantity.samples {
        Samples::All => "",
        Samples::StepEnds => ", at the ends of steps",
        Samples::Floor => ", held between steps",
    };
    format!("{name}{owner}{rank}{at}")
}

/// A command without the folders of its program: `python train.py`.
fn short_command(command: &str) -> &str {
    let end = command.find(' ').unwrap_or(command.len());
    command[..end]
        .rfind('/')
        .map_or(command, |slash| &command[slash + 1..])
}

pub(crate) fn since(at_ns: i64, zero_ns: i64) -> String {
    human_duration(at_ns.saturating_sub(zero_ns).max(0))
}

fn words_of(
    quantity: &Quantity,
    (onset_ns, end_ns): (Option<i64>, Option<i64>),
    zero_ns: i64,
) -> String {
    let finding = &quantity.finding;
    let what = match finding.kind {
        Kind::OomRisk if finding.time_to_full_s.is_none_or(|left| left <= 0.0) => "out of memory",
        kind => kind.detector().label,
    };
    if what == "out of memory" {
        let at = end_ns.map_or_else(String::new, |end| format!(" at {}", since(end, zero_ns)));
        let tried = finding.magnitude_bytes.map_or_else(String::new, |bytes| {
            format!(": tried to allocate {}", human(bytes))
        });
        return format!("{what}{at}{tried}");
    }
    let since = onset_ns.map_or_else(String::new, |onset| {
        format!(" since {}", since(onset, zero_ns))
    });
    let grown = finding.magnitude_bytes.filter(|_| onset_ns.is_some());
    let rate = finding.rate_bytes_per_s.filter(|rate| rate.is_finite());
    let numbers: Vec<String> = [
        grown.map(|bytes| format!("+{}", human(bytes))),
        rate.map(human_rate),
    ]
    .into_iter()
    .flatten()
    .collect();
    let numbers = match numbers.as_slice() {
        [] => String::new(),
        numbers => format!(": {}", numbers.join(", ")),
    };
    format!("{what}{since}{numbers}")
}
