//! Finds processes of a tree whose anonymous memory keeps rising.
//!
//! This module only selects the processes whose memory mappings are inspected while the processes
//! run. Whether a rise is a leak is decided later by the analysis, which sees the whole run.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long after its start the memory of a process may rise without being reported, because a
/// process first loads code and data.
const START_UP: Duration = Duration::from_secs(2);

/// Lengths of the time windows: the memory of a process keeps rising when the lowest level of each
/// window is above the lowest level of the window before. Long time windows find slow leaks.
const WINDOWS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(8),
    Duration::from_mins(1),
];

/// How many windows in a row must have a lowest level above that of the window before.
const RISES: usize = 3;

/// The lowest level must rise by at least [`LEAST_RISE`] bytes from one window to the next, and by
/// [`LEAST_IN_ALL`] over all windows. The heap of a program without a leak fluctuates too, but by
/// less than these two limits.
const LEAST_RISE: u64 = 128 << 10;
const LEAST_IN_ALL: u64 = 4 << 20;

/// The largest number of processes whose memory is followed; further processes are ignored.
const MOST_PROCESSES: usize = 256;

/// Follows the anonymous memory of processes and keeps less than 200 bytes for each process.
#[derive(Debug, Default)]
pub struct Rising {
    processes: BTreeMap<u32, Course>,
}

#[derive(Debug)]
struct Course {
    first: Duration,
    scales: [Scale; WINDOWS.len()],
}

/// The lowest memory levels of a process in its last time windows. A process has one `Scale` for
/// each length in [`WINDOWS`].
#[derive(Debug)]
struct Scale {
    ends: Duration,
    low: u64,
    lows: [u64; RISES],
    known: usize,
}

impl Rising {
    /// Adds the memory levels of all processes at one time and returns the pids of the processes
    /// whose memory keeps rising. The pid of a process is returned again only after its memory has
    /// risen through another full series of windows.
    pub fn observe(&mut self, now: Duration, levels: &[(u32, u64)]) -> Vec<u32> {
        self.processes
            .retain(|pid, _| levels.iter().any(|(known, _)| known == pid));
        let mut rising = Vec::new();
        for &(pid, level) in levels {
            if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&pid) {
                continue;
            }
            let course = self
                .processes
                .entry(pid)
                .or_insert_with(|| Course::new(now));
            if course.observe(now, level) {
                rising.push(pid);
            }
        }
        rising
    }
}

impl Course {
    fn new(now: Duration) -> Self {
        let scale = |window: Duration| Scale {
            ends: now + START_UP + window,
            low: u64::MAX,
            lows: [0; RISES],
            known: 0,
        };
        Self {
            first: now,
            scales: WINDOWS.map(scale),
        }
    }

    fn observe(&mut self, now: Duration, level: u64) -> bool {
        if now.saturating_sub(self.first) < START_UP {
            return false;
        }
        let mut rises = false;
        for (scale, window) in self.scales.iter_mut().zip(WINDOWS) {
            rises |= scale.observe(now, level, window);
        }
        rises
    }
}

impl Scale {
    fn observe(&mut self, now: Duration, level: u64, window: Duration) -> bool {
        if now < self.ends {
            self.low = self.low.min(level);
            return false;
        }
        // If the recorder pauses, the current window lasts until the pause ends. No windows without
        // a level are added for the pause.
        let low = std::mem::replace(&mut self.low, level);
        self.ends = now + window;
        if low == u64::MAX {
            return false;
        }
        let last = self.known.checked_sub(1).map(|last| self.lows[last]);
        if last.is_some_and(|last| low < last.saturating_add(LEAST_RISE)) {
            self.lows[0] = low;
            self.known = 1;
            return false;
        }
        if self.known < RISES {
            self.lows[self.known] = low;
            self.known += 1;
            return false;
        }
        let rise = low - self.lows[0].min(low);
        self.lows.rotate_left(1);
        self.lows[RISES - 1] = low;
        if rise < LEAST_IN_ALL {
            return false;
        }
        self.known = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The times, in seconds, at which the memory of the test's process, sampled ten times a
    /// second, is found to keep rising.
    fn found(seconds: u32, level: impl Fn(f64) -> u64) -> Vec<u64> {
        let mut rising = Rising::default();
        let mut found = Vec::new();
        for tick in 0..seconds * 10 {
            let now = Duration::from_millis(u64::from(tick) * 100);
            if rising.observe(now, &[(7, level(now.as_secs_f64()))]) == [7] {
                found.push(now.as_secs());
            }
        }
        found
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the levels are small and positive"
    )]
    fn mib(value: f64) -> u64 {
        (value * 1_048_576.0) as u64
    }

    #[test]
    fn a_leak_is_found_in_seconds() {
        assert_eq!(found(20, |t| mib(50.0 + 4.0 * t)).first(), Some(&6));
        // The program of the test leaks 2 MiB/s, and its ordinary work takes and frees 30 MiB at a
        // time.
        let busy = |t: f64| mib(50.0 + 2.0 * t + 30.0 * (t * 5.0).fract());
        assert_eq!(found(20, busy).first(), Some(&6));
    }

    #[test]
    fn a_slow_leak_is_found_in_long_windows() {
        let found = found(120, |t| mib(50.0 + 0.3 * t));
        assert!(
            found
                .first()
                .is_some_and(|&first| (20..60).contains(&first)),
            "{found:?}"
        );
    }

    #[test]
    fn start_up_steps_and_steady_work_are_not_looked_at() {
        assert!(found(30, |t| mib(500.0 * t.min(3.0))).is_empty());
        assert!(found(30, |t| mib(100.0 * (t / 3.0).floor())).is_empty());
        assert!(found(300, |t| mib(100.0 + 40.0 * (t * 0.7).fract())).is_empty());
        assert!(found(300, |t| mib(100.0 + 0.005 * t)).is_empty());
    }

    #[test]
    fn processes_that_ended_are_forgotten() {
        let mut rising = Rising::default();
        let levels: Vec<(u32, u64)> = (0..1000).map(|pid| (pid, MIB)).collect();
        rising.observe(Duration::ZERO, &levels);
        assert_eq!(rising.processes.len(), MOST_PROCESSES);
        rising.observe(Duration::from_secs(1), &[]);
        assert!(rising.processes.is_empty());
    }
}
