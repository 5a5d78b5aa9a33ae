//! The time that is given to rounds: whether another one fits, and what helps if too few do.

use std::time::{Duration, Instant};

/// The number of runs from which the length of a round is estimated.
const SAMPLE: usize = 3;

/// The rounds of a session or a trial, and the time for them.
#[derive(Debug)]
pub(crate) struct Rounds {
    budget: Option<Duration>,
    /// Runs in a round.
    runs: usize,
    /// Rounds at most.
    most: usize,
    /// Rounds that count which are needed for advice.
    needed: usize,
    start: Instant,
    is_said: bool,
}

impl Rounds {
    /// Begins now.
    pub(crate) fn new(budget: Option<Duration>, runs: usize, most: usize, needed: usize) -> Self {
        Self {
            budget,
            runs,
            most,
            needed,
            start: Instant::now(),
            is_said: false,
        }
    }

    /// Returns true if a round that follows `rounds` of them would probably end in time.
    pub(crate) fn has_room(&self, rounds: usize) -> bool {
        let elapsed = self.start.elapsed();
        self.budget
            .is_none_or(|budget| elapsed + each(elapsed, rounds) <= budget)
    }

    /// Returns a warning once, after the first runs, if too few rounds fit.
    pub(crate) fn warning(&mut self, runs: usize) -> Option<String> {
        if self.is_said || runs < SAMPLE.min(self.runs) {
            return None;
        }
        self.is_said = true;
        let round = each(self.start.elapsed(), runs) * u32::try_from(self.runs).unwrap_or(u32::MAX);
        // Few rounds are what was asked for.
        let is_meant = self.most <= self.needed;
        self.hint(round).filter(|_| !is_meant)
    }

    /// What helps if `rounds` rounds took that time.
    pub(crate) fn advice(&self, elapsed: Duration, rounds: usize) -> Option<String> {
        self.hint(each(elapsed, rounds))
    }

    /// "a round takes about 30 s, …", unless the rounds that are needed fit.
    fn hint(&self, round: Duration) -> Option<String> {
        // The first one does not count.
        let wanted = self.needed + 1;
        if self.most < wanted {
            return Some(format!("advice needs `--repeat {wanted}`"));
        }
        let budget = self.budget?;
        let whole = round * u32::try_from(wanted).unwrap_or(u32::MAX);
        if whole <= budget {
            return None;
        }
        // A tenth more, so that a slow round fits, too.
        let seconds = (whole.as_millis() * 11).div_ceil(10_000);
        let fit = (self.runs as f64 * budget.as_secs_f64() / whole.as_secs_f64() / 1.1) as usize;
        let fewer = match fit {
            0 | 1 => String::from("or shorter runs"),
            fit => format!("or at most {fit} settings (fewer policies, fewer numbers of workers)"),
        };
        Some(format!(
            "a round of {} runs takes about {:.1} s, and advice needs {wanted} rounds: `--budget {seconds}`, {fewer}",
            self.runs,
            round.as_secs_f64()
        ))
    }
}

/// The time of each of `count` rounds or runs.
fn each(elapsed: Duration, count: usize) -> Duration {
    elapsed / u32::try_from(count.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_is_said_with_numbers() {
        let seconds = Duration::from_secs;
        let rounds = Rounds::new(Some(seconds(75)), 21, 11, 6);
        assert_eq!(
            rounds.advice(seconds(60), 2).as_deref(),
            Some(
                "a round of 21 runs takes about 30.0 s, and advice needs 7 rounds: `--budget 231`, or at most 6 settings \
                 (fewer policies, fewer numbers of workers)"
            )
        );
        assert_eq!(rounds.advice(seconds(20), 2), None, "they fit");
        let few = Rounds::new(Some(seconds(75)), 21, 5, 6);
        assert_eq!(
            few.advice(seconds(1), 5).as_deref(),
            Some("advice needs `--repeat 7`")
        );
        assert!(
            Rounds::new(Some(seconds(1)), 2, 11, 6)
                .advice(seconds(30), 1)
                .is_some_and(|hint| hint.contains("shorter runs"))
        );
        assert_eq!(Rounds::new(None, 21, 11, 6).advice(seconds(60), 2), None);
    }

    #[test]
    fn no_round_begins_that_would_end_too_late() {
        let none = Rounds::new(Some(Duration::ZERO), 3, 11, 6);
        assert!(!none.has_room(1));
        assert!(Rounds::new(None, 3, 11, 6).has_room(1));
        assert!(Rounds::new(Some(Duration::from_secs(60)), 3, 11, 6).has_room(1));
    }

    #[test]
    fn a_warning_comes_once_after_the_first_runs() {
        let mut rounds = Rounds::new(Some(Duration::ZERO), 5, 11, 6);
        let warned = (1..=5).filter(|runs| rounds.warning(*runs).is_some());
        assert_eq!(warned.collect::<Vec<_>>(), [3]);
        assert_eq!(
            Rounds::new(Some(Duration::ZERO), 5, 2, 6).warning(3),
            None,
            "two are meant"
        );
    }
}
