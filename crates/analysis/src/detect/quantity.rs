//! The quantity that a diagnosis is about: the memory whose values show the leading finding.
//! Pictures, pages, lists and the terminal interface all draw this quantity first.

use stormlog_format::whole;

use super::diagnosis::Diagnosis;
use super::evidence::Channel;
use super::evidence::series::Series;
use super::evidence::signals::{self, Signals};
use super::finding::{Finding, Kind, Severity, words};
use super::host_leak::{self, HostGrowth, Part};
use crate::stats::median;
use crate::timeline::{Run, Track, float};

/// The kind of memory that a quantity consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Bytes in live tensors.
    Allocated,
    /// Bytes that the allocator reserved.
    Reserved,
    /// Bytes in use on the device outside the allocator.
    Hidden,
    /// Bytes in use on the device, by the process or, where its share is unknown, by all processes.
    Used,
    /// Host memory of a process or of all processes of a rank.
    Host,
    /// Anonymous host memory.
    AnonymousHost,
    /// Shared host memory.
    SharedHost,
    /// Page-locked host memory.
    PinnedHost,
}

impl Memory {
    /// The name of the memory in titles.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocated => "allocated memory",
            Self::Reserved => "memory reserved by the allocator",
            Self::Hidden => "memory outside the allocator",
            Self::Used => "device memory in use",
            Self::Host => "host memory",
            Self::AnonymousHost => "anonymous host memory",
            Self::SharedHost => "shared host memory",
            Self::PinnedHost => "pinned host memory",
        }
    }

    /// Whether the memory is host memory and not memory of a device.
    #[must_use]
    pub const fn is_host(self) -> bool {
        matches!(
            self,
            Self::Host | Self::AnonymousHost | Self::SharedHost | Self::PinnedHost
        )
    }
}

/// Which samples the values of a quantity come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Samples {
    /// All samples.
    #[default]
    All,
    /// The samples at the ends of training steps.
    StepEnds,
    /// The floor of all samples, the memory that is held between steps. It is used where memory
    /// rises and falls within each step by far more than its floor grows.
    Floor,
}

/// A straight line through growing values, from the onset of the growth to its end. Times are on the
/// clock of the quantity's track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trend {
    /// When the growth began, in nanoseconds since 1970.
    pub onset_ns: i64,
    /// The last sample of the growth, in nanoseconds since 1970.
    pub end_ns: i64,
    /// The level at the onset, in bytes.
    pub from_bytes: i64,
    /// The level at the end, in bytes.
    pub to_bytes: i64,
}

/// The level at which the memory is full if nothing but the quantity grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// The level in bytes.
    pub bytes: i64,
    /// Seconds from the end of the trend until the level is reached.
    pub after_s: f64,
}

impl Limit {
    /// The limit in a few words: `full after another 2.1 h at this rate`.
    #[must_use]
    pub fn words(&self) -> String {
        let after = words::duration(self.after_s);
        format!("full after another {after} at this rate")
    }
}

/// The memory whose values show the leading finding of a diagnosis.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// The kind of memory.
    pub memory: Memory,
    /// The index of the track in [`Run::tracks`] whose clock and rank the quantity has.
    pub track: usize,
    /// The pid and the name of the process; `None` for the memory of a device, or of all processes
    /// of a rank together.
    pub process: Option<(i64, String)>,
    /// Which samples the values come from.
    pub samples: Samples,
    /// The times of the values in ascending order, in nanoseconds since 1970.
    pub t_ns: Vec<i64>,
    /// The values in bytes.
    pub bytes: Vec<i64>,
    /// The finding that the quantity shows: the leading finding, or for memory that runs out, the
    /// growth or the jump that fills it.
    pub finding: Finding,
    /// The growth of the values, for a finding about growth.
    pub trend: Option<Trend>,
    /// When the growth fills the memory, if it does.
    pub limit: Option<Limit>,
}

impl Quantity {
    /// The quantity that shows the leading finding; `None` if nothing was found, or only notes.
    #[must_use]
    pub fn of(run: &Run, diagnosis: &Diagnosis) -> Option<Self> {
        let findings = diagnosis.findings();
        let leading = *findings.first()?;
        if leading.severity == Severity::Info {
            return None;
        }
        let shown = cause_among(leading, &findings);
        let index = run.tracks.iter().position(|track| is_of(shown, track))?;
        let track = &run.tracks[index];
        let mut quantity = if track.is_host_of_run() {
            of_host(run, track, shown)
        } else {
            of_device(track, shown)?
        };
        if quantity.t_ns.is_empty() {
            return None;
        }
        quantity.track = index;
        // Memory that ran out needs no forecast, also where growth filled it.
        let has_run_out =
            leading.kind == Kind::OomRisk && leading.time_to_full_s.is_none_or(|left| left <= 0.0);
        quantity.limit = quantity.limit.filter(|_| !has_run_out);
        Some(quantity)
    }
}

/// The finding whose quantity is shown: for memory that ran out or will run out, the growth or the
/// jump that fills it, if that was found too.
fn cause_among<'a>(leading: &'a Finding, findings: &[&'a Finding]) -> &'a Finding {
    if leading.kind != Kind::OomRisk {
        return leading;
    }
    let fills = |other: &&&Finding| {
        let is_same_place =
            other.session_id == leading.session_id && other.device_id == leading.device_id;
        let is_same_rank = other.rank.is_none() || other.rank == leading.rank;
        let kinds = [
            Kind::AllocatorLeak,
            Kind::HiddenDrift,
            Kind::HostLeak,
            Kind::Fragmentation,
            Kind::StepChange,
        ];
        other.severity > Severity::Info
            && kinds.contains(&other.kind)
            && (is_same_place || is_same_rank && (other.device_id < 0) == (leading.device_id < 0))
    };
    findings.iter().find(fills).copied().unwrap_or(leading)
}

fn is_of(finding: &Finding, track: &Track) -> bool {
    track.session_id == finding.session_id
        && track.device_id == finding.device_id
        && finding.rank.is_none_or(|rank| rank == track.rank)
        && !track.t_ns.is_empty()
}

fn of_host(run: &Run, track: &Track, finding: &Finding) -> Quantity {
    let pid = finding.evidence.iter().find(|(name, _)| *name == "pid");
    let pid = pid.map(|(_, pid)| whole(*pid));
    let growths = if finding.kind == Kind::HostLeak {
        host_leak::growths_of(run, track)
    } else {
        Vec::new()
    };
    let is_pid = |growth: &&HostGrowth<'_>| growth.pid() == pid;
    let growth = growths.iter().find(is_pid).or(growths.first());
    let memory = growth.map_or(Memory::Host, |growth| match growth.part {
        Part::All => Memory::Host,
        Part::Anonymous => Memory::AnonymousHost,
        Part::Shared => Memory::SharedHost,
        Part::Pinned => Memory::PinnedHost,
    });
    let series = match growth {
        Some(growth) => growth.recorded(run),
        None => host_leak::series_of(&track.t_ns, |i| track.allocated.get(i)),
    };
    let start_ns = growth.map_or_else(
        || track.t_ns.first().copied().unwrap_or(0),
        |growth| growth.start_ns,
    );
    let process = growth.and_then(HostGrowth::process_name);
    let at = |t: f64| start_ns.saturating_add(whole(t * 1e9));
    draw_from(finding, memory, &series, &series, at, process)
}

fn of_device(track: &Track, finding: &Finding) -> Option<Quantity> {
    let signals = signals::read_tracks(&[track]).pop()?;
    let memory = memory_of(&signals, finding);
    let reserved: Series;
    let used: Series;
    let (series, floor) = match memory {
        Memory::Hidden => (signals.recorded(Channel::Hidden), Channel::Hidden),
        Memory::Reserved => {
            reserved = values(&signals, |i| track.reserved.get(i));
            (&reserved, Channel::Allocated)
        }
        Memory::Used => {
            let column = if track.knows_own() {
                &track.own
            } else {
                &track.used
            };
            used = values(&signals, |i| column.get(i));
            (&used, Channel::Hidden)
        }
        _ => (signals.recorded(Channel::Allocated), Channel::Allocated),
    };
    // The growth of a floor is a line through the floor's knots.
    let (_, floor) = signals.channel(floor);
    let knots: Series = floor
        .knots
        .iter()
        .map(|knot| (knot.t, knot.level))
        .collect();
    let is_floor = matches!(memory, Memory::Allocated | Memory::Hidden) && !signals.is_stepped;
    let has_floor = is_floor && knots.len() > 2;
    let under = if has_floor { &knots } else { series };
    let at = |t: f64| signals.ns(t);
    let is_growth = finding.kind.detector().is_growth;
    let samples = if signals.is_stepped && memory == Memory::Allocated {
        Samples::StepEnds
    } else if has_floor && is_growth && swings_beyond(series, &signals, finding) {
        Samples::Floor
    } else {
        Samples::All
    };
    let drawn = if samples == Samples::Floor {
        &knots
    } else {
        series
    };
    let mut quantity = draw_from(finding, memory, drawn, under, at, None);
    quantity.samples = samples;
    if track.is_host() && memory == Memory::Allocated {
        quantity.memory = Memory::Host;
    }
    Some(quantity)
}

/// The known values of the samples of a track, over the seconds since its first sample.
fn values(signals: &Signals<'_>, value: impl Fn(usize) -> Option<i64>) -> Series {
    let mut last = f64::NEG_INFINITY;
    let mut series = Series::default();
    for sample in signals.track.in_time_order() {
        let t = signals.seconds(signals.track.t_ns[sample]);
        if let Some(bytes) = value(sample).filter(|_| t > last) {
            series.push(t, float(bytes));
            last = t;
        }
    }
    series
}

/// The memory that a finding about a device is about. Jumps do not name their memory, so the one
/// that rose by the size of the jump is chosen.
fn memory_of(signals: &Signals<'_>, finding: &Finding) -> Memory {
    let known = |channel| signals.recorded(channel).len() > 0;
    let wanted = match finding.kind {
        Kind::HiddenDrift => Memory::Hidden,
        // A request fails if it does not fit beside what the allocator has reserved.
        Kind::Fragmentation | Kind::OomRisk => Memory::Reserved,
        Kind::StepChange | Kind::TransientSpike | Kind::RankFirstCause => {
            let risen = |channel| rise_after(signals.recorded(channel), signals, finding);
            if known(Channel::Hidden) && risen(Channel::Hidden) > risen(Channel::Allocated) {
                Memory::Hidden
            } else {
                Memory::Allocated
            }
        }
        Kind::AllocatorLeak | Kind::HostLeak | Kind::RankImbalance => Memory::Allocated,
    };
    match wanted {
        Memory::Allocated if !known(Channel::Allocated) => Memory::Used,
        Memory::Hidden if !known(Channel::Hidden) => Memory::Used,
        Memory::Reserved if signals.track.reserved.known() == 0 => {
            if known(Channel::Allocated) {
                Memory::Allocated
            } else {
                Memory::Used
            }
        }
        wanted => wanted,
    }
}

/// If the values since the onset span more than this many times the growth, its floor is shown.
const MOST_SWING: f64 = 2.0;

/// Whether the values since the onset of growth rise and fall by far more than the growth.
fn swings_beyond(series: &Series, signals: &Signals<'_>, finding: &Finding) -> bool {
    let Some((onset_ns, grown)) = finding.onset_ns.zip(finding.magnitude_bytes) else {
        return false;
    };
    let since = &series.y[series.index_at(signals.seconds(onset_ns))..];
    let least = since.iter().copied().fold(f64::INFINITY, f64::min);
    let most = since.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most - least > MOST_SWING * float(grown)
}

/// By how many bytes the typical value after the onset is above the typical value before it.
fn rise_after(series: &Series, signals: &Signals<'_>, finding: &Finding) -> f64 {
    let onset = finding.onset_ns.map_or(0.0, |at| signals.seconds(at));
    let middle = series.index_at(onset);
    let (before, after) = series.y.split_at(middle);
    if before.is_empty() || after.is_empty() {
        return 0.0;
    }
    median(after) - median(before)
}

/// Makes the quantity of a series. The trend is a line with the size of the finding through the
/// values of `under`.
fn draw_from(
    finding: &Finding,
    memory: Memory,
    series: &Series,
    under: &Series,
    at: impl Fn(f64) -> i64,
    process: Option<(i64, String)>,
) -> Quantity {
    let trend = trend_of(finding, under, &at);
    let is_reached = finding.time_to_full_s.filter(|left| left.is_finite());
    let limit = trend.zip(is_reached).and_then(|(trend, after_s)| {
        let seconds = float(trend.end_ns.saturating_sub(trend.onset_ns)) / 1e9;
        let grown = float(trend.to_bytes.saturating_sub(trend.from_bytes));
        let rate = finding
            .rate_bytes_per_s
            .unwrap_or(grown / seconds.max(1e-9));
        let bytes = trend.to_bytes.saturating_add(whole(rate * after_s));
        (after_s > 0.0).then_some(Limit { bytes, after_s })
    });
    Quantity {
        memory,
        track: 0,
        process,
        samples: Samples::All,
        t_ns: series.t.iter().map(|t| at(*t)).collect(),
        bytes: series.y.iter().map(|bytes| whole(bytes.round())).collect(),
        finding: finding.clone(),
        trend,
        limit,
    }
}

fn trend_of(finding: &Finding, under: &Series, at: &impl Fn(f64) -> i64) -> Option<Trend> {
    if !finding.kind.detector().is_growth {
        return None;
    }
    let (onset_ns, grown) = (finding.onset_ns?, float(finding.magnitude_bytes?));
    let last = *under.t.last()?;
    let end_ns = finding.end_ns.unwrap_or_else(|| at(last)).max(onset_ns);
    let length = float(end_ns.saturating_sub(onset_ns));
    let share = |t: f64| float(at(t).saturating_sub(onset_ns)) / length.max(1.0);
    let samples = under.t.iter().zip(&under.y);
    // The last samples of a program may show that it frees its memory at its end.
    let since = samples.filter(|(t, _)| (onset_ns..=end_ns).contains(&at(**t)));
    let levels: Vec<f64> = since.map(|(t, y)| y - grown * share(*t)).collect();
    if levels.is_empty() {
        return None;
    }
    // Growth may become faster or slower, so the line joins its ends and not its middle.
    let near = levels.len().div_ceil(10);
    let ends = [&levels[..near], &levels[levels.len() - near..]];
    let from = median(&ends.map(median));
    Some(Trend {
        onset_ns,
        end_ns,
        from_bytes: whole(from.round()).max(0),
        to_bytes: whole((from + grown).round()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::diagnosis::diagnose;
    use super::super::options::Options;
    use super::super::tests::sketch::{Sketch, a_rank, gib, mib, run_of};
    use super::*;

    fn quantity(sketches: impl IntoIterator<Item = Sketch>) -> Option<Quantity> {
        let run = run_of(sketches);
        Quantity::of(&run, &diagnose(&run, &Options::default()))
    }

    #[test]
    fn a_leak_is_shown_by_allocated_memory_with_its_trend() {
        let found = quantity([a_rank(0).grows(mib(8), 160)]).unwrap();
        assert_eq!(found.memory, Memory::Allocated);
        let trend = found.trend.unwrap();
        let grown = trend.to_bytes - trend.from_bytes;
        assert!((mib(8 * 200)..mib(8 * 260)).contains(&grown), "{trend:?}");
        // The trend passes the memory held between steps: values lie above it, hardly any below.
        let below = found.t_ns.iter().zip(&found.bytes).filter(|(at, bytes)| {
            let share = float(**at - trend.onset_ns) / float(trend.end_ns - trend.onset_ns);
            share > 0.0 && float(**bytes) < float(trend.from_bytes) + share * float(grown) - 1e8
        });
        assert!(below.count() < found.t_ns.len() / 20);
        assert!(found.limit.unwrap().bytes > trend.to_bytes);
    }

    #[test]
    fn the_rank_of_the_finding_is_shown() {
        let found = quantity([
            a_rank(0),
            a_rank(1).grows(mib(30), 100),
            a_rank(2),
            a_rank(3),
        ]);
        assert_eq!(found.unwrap().track, 1);
    }

    #[test]
    fn a_drift_is_shown_by_hidden_memory() {
        let found = quantity([a_rank(0).hidden_grows(mib(4), 200)]).unwrap();
        assert_eq!(found.memory, Memory::Hidden);
    }

    #[test]
    fn without_a_finding_there_is_none() {
        assert_eq!(quantity([a_rank(0)]), None);
        assert_eq!(
            quantity([a_rank(0).jumps(gib(2), 230)]).map(|_| ()),
            Some(())
        );
    }
}
