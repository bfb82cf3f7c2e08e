//! When growth began. A trend that is fitted to the whole run is bent by whatever growth does later,
//! by pauses above all; its beginning is asked of its first half alone. Several beginnings may
//! explain the knots about as well, so that the answer is the time that suits most of them.

use super::floor::Floor;
use super::signals::Signals;
use super::stats::{isotonic, weighted_median};
use super::trend::{self, SHAPES, Trend};

/// The parts of the growth that are asked about its beginning, each with the same say.
const FIRST_PARTS: [f64; 2] = [0.5, 1.0];
/// Fewest knots that are asked, whatever part of the growth they show.
const MIN_KNOTS: usize = 12;
/// The part of the growth that is over when it is said to have begun.
const BEGUN: f64 = 0.03;

/// When the growth of a trend began, in seconds.
pub(super) fn of(floor: &Floor, trend: &Trend, signals: &Signals) -> f64 {
    let rising = isotonic(&trend::levels_of(floor));
    let mut said: Vec<(f64, f64)> = FIRST_PARTS
        .into_iter()
        .flat_map(|part| {
            let line = trend.level + part * trend.grown;
            let over = rising.partition_point(|&level| level < line) + 1;
            let first = Floor {
                knots: floor.knots[..over.max(MIN_KNOTS).min(floor.knots.len())].to_vec(),
                ..floor.clone()
            };
            said_by(&first, trend.level + trend.grown, signals)
        })
        .collect();
    weighted_median(&mut said)
}

/// Beginnings that a first part of the floor allows, each with its likelihood, if the growth ends at
/// a level.
fn said_by(first: &Floor, end_level: f64, signals: &Signals) -> Vec<(f64, f64)> {
    let mut fits = Trend::all(first, signals, &SHAPES);
    fits.retain(|fit| fit.grown > 0.0 && end_level > fit.level);
    let best = fits.iter().map(|f| f.misfit).fold(f64::INFINITY, f64::min);
    // The misfit is a sum of absolute deviations in units of the scatter, which is the logarithm of
    // a likelihood.
    let weight = |fit: &Trend| (best - fit.misfit).exp();
    let all: f64 = fits.iter().map(weight).sum();
    fits.iter()
        .map(|fit| {
            let begun = BEGUN * (end_level - fit.level) / fit.grown;
            (fit.reached(begun.min(1.0)), weight(fit) / all)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::floor::Knot;
    use super::super::signals;
    use super::super::sketch::{a_rank, run_of};
    use super::*;

    const GIB: f64 = 1_073_741_824.0;

    /// When growth began on a floor of a plain run of 400 seconds.
    fn onset_of(grown: impl Fn(f64) -> f64) -> f64 {
        let run = run_of([a_rank(0)]);
        let signals = &signals::read(&run)[0];
        let knot = |k: u32| {
            let t = f64::from(k) * 4.0;
            let scatter = f64::from(k * 7 % 5) * 0.02;
            Knot {
                t,
                level: GIB * (20.0 + scatter + grown(t)),
            }
        };
        let floor = Floor {
            knots: (10..100).map(knot).collect(),
            noise: 0.03 * GIB,
            period: 8.0,
        };
        let trend = Trend::fit(&floor, signals, &SHAPES).unwrap();
        of(&floor, &trend, signals)
    }

    #[test]
    fn even_growth_begins_where_it_does() {
        let onset = onset_of(|t| 0.01 * (t - 180.0).max(0.0));
        assert!((170.0..=200.0).contains(&onset), "{onset}");
    }

    #[test]
    fn later_pauses_do_not_move_the_beginning() {
        let paused = |t: f64| {
            let since = (t - 160.0).max(0.0);
            0.01 * (since - (since - 60.0).clamp(0.0, 40.0) - (since - 130.0).clamp(0.0, 40.0))
        };
        let onset = onset_of(paused);
        assert!((145.0..=185.0).contains(&onset), "{onset}");
    }

    #[test]
    fn growth_since_the_first_step_began_then() {
        let onset = onset_of(|t| 0.01 * t);
        assert!((10.0..=60.0).contains(&onset), "{onset}");
    }
}
