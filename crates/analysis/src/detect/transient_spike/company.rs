//! Checks whether other ranks show the same rise of memory at the same time. A rise that other
//! ranks share is part of the program and not a problem of one rank.

use super::excursion::Excursion;
use crate::detect::evidence::signals::seconds_between;
use crate::detect::evidence::{Channel, Evidence, Subject};
use crate::stats::median;
use crate::timeline;

/// Maximum number of other ranks that a rank is compared with. Comparing with more ranks would not
/// change the result.
const MOST_ASKED: usize = 32;
/// An excursion (a short rise of memory) of one rank can count as shared only if at least this many
/// other ranks have samples from the same time.
const FEWEST_ASKED: usize = 2;
/// An excursion counts as shared when at least this share of the compared ranks shows it.
const USUAL_SHARE: f64 = 0.5;
/// Share of an excursion's height that another rank must reach to count as showing the same
/// excursion.
const SAME_HEIGHT: f64 = 0.5;
/// Time error allowed for the alignment of the ranks' clocks: a number of sampling intervals plus a
/// share of the run.
const SLACK_INTERVALS: f64 = 2.0;
const SLACK_SHARE: f64 = 0.005;

/// The ranks of a run, with their clocks aligned so that their memory can be compared at the same
/// moment.
pub(super) struct Company<'e> {
    members: Vec<Member<'e>>,
}

struct Member<'e> {
    subject: &'e Subject<'e>,
    /// Seconds to subtract from a time of the rank's track to get the time on the common clock,
    /// which starts with the first track.
    ahead: f64,
    /// Median of the rank's allocated bytes, which differs slightly between ranks.
    typical: f64,
    /// Median of the bytes in use on the rank's device outside the allocator (hidden memory).
    typical_hidden: f64,
}

impl<'e> Company<'e> {
    pub(super) fn of(evidence: &'e Evidence<'e>) -> Self {
        let subjects: Vec<&Subject> = evidence.subjects.iter().collect();
        let origin = subjects.first().map_or(0, |s| s.signals.start_ns);
        let members =
            timeline::clocks::ahead(&subjects.iter().map(|s| s.signals.track).collect::<Vec<_>>())
                .into_iter()
                .zip(&subjects)
                .map(|(ahead, subject)| Member {
                    subject,
                    ahead: ahead - seconds_between(origin, subject.signals.start_ns),
                    typical: median(&subject.signals.allocated.y),
                    typical_hidden: median(&subject.signals.hidden.y),
                })
                .collect();
        Self { members }
    }

    /// Whether the other ranks share an excursion of `subject`: at the same time, at least half of
    /// the compared ranks rose by at least half of the excursion's height.
    pub(super) fn shares(
        &self,
        subject: &Subject,
        channel: Channel,
        standing_out: &Excursion,
    ) -> bool {
        let rank = subject.signals.track.rank;
        let is_own = |member: &&Member| std::ptr::eq(member.subject, subject);
        let Some(own) = self.members.iter().find(is_own) else {
            return false;
        };
        let others: Vec<&Member> = self
            .members
            .iter()
            .filter(|m| m.subject.signals.track.rank != rank && m.typical > 0.0)
            .collect();
        let every = others.len().div_ceil(MOST_ASKED).max(1);
        let limit = standing_out.lowest() - (1.0 - SAME_HEIGHT) * standing_out.height;
        let slack = SLACK_INTERVALS * subject.signals.interval + SLACK_SHARE * subject.signals.span;
        let (from, to) = (standing_out.from - slack, standing_out.to + slack);
        let answers: Vec<bool> = others
            .iter()
            .step_by(every)
            .filter_map(|m| {
                let shift = m.ahead - own.ahead;
                let series = m.subject.signals.recorded(channel);
                let samples = series.between(from + shift, to + shift);
                let highest = samples.iter().copied().reduce(f64::max)?;
                Some(highest >= m.as_high_as(limit, own, channel))
            })
            .collect();
        let raised = answers.iter().filter(|&&raised| raised).count();
        answers.len() >= FEWEST_ASKED && raised as f64 >= USUAL_SHARE * answers.len() as f64
    }
}

impl Member<'_> {
    /// Converts a memory level of another rank to the equivalent level of this rank. Allocated
    /// memory is scaled by the ratio of the medians of the two ranks; hidden memory is shifted by
    /// the difference of their medians.
    fn as_high_as(&self, level: f64, other: &Self, channel: Channel) -> f64 {
        match channel {
            Channel::Allocated => level * self.typical / other.typical.max(1.0),
            Channel::Hidden => level - other.typical_hidden + self.typical_hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::excursion;
    use super::*;
    use crate::detect::tests::sketch::{Sketch, a_rank, gib, run_of};

    fn shared(ranks: impl IntoIterator<Item = Sketch>) -> bool {
        let run = run_of(ranks);
        let evidence = Evidence::of(&run);
        let subject = &evidence.subjects[0];
        let found = excursion::find(&subject.signals, Channel::Allocated, &subject.allocated);
        Company::of(&evidence).shares(subject, Channel::Allocated, &found[0])
    }

    #[test]
    fn what_half_of_the_others_do_is_shared() {
        let raised = |rank| a_rank(rank).spikes(gib(5), 250, 4);
        assert!(shared([
            raised(0),
            raised(1),
            raised(2),
            a_rank(3),
            a_rank(4)
        ]));
        assert!(!shared([
            raised(0),
            raised(1),
            a_rank(2),
            a_rank(3),
            a_rank(4)
        ]));
    }

    #[test]
    fn what_others_do_at_other_times_is_not() {
        let later = |rank| a_rank(rank).spikes(gib(5), 320, 4);
        assert!(!shared([
            a_rank(0).spikes(gib(5), 250, 4),
            later(1),
            later(2)
        ]));
    }

    #[test]
    fn hidden_memory_is_compared_apart() {
        let run = run_of((0..4).map(|rank| a_rank(rank).hidden_spikes(gib(3), 250, 3)));
        let evidence = Evidence::of(&run);
        let subject = &evidence.subjects[0];
        let found = excursion::find(&subject.signals, Channel::Hidden, &subject.hidden);
        let company = Company::of(&evidence);
        assert!(company.shares(subject, Channel::Hidden, &found[0]));
    }

    #[test]
    fn one_other_rank_cannot_say() {
        let raised = |rank| a_rank(rank).spikes(gib(5), 250, 4);
        assert!(!shared([raised(0), raised(1)]));
    }
}
