//! Progress on standard error: a bar on a terminal, and now and then a line elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::LabError;
use crate::record::Record;

/// Without a terminal, lines are at least this far apart.
const SILENCE: Duration = Duration::from_secs(15);

/// A bar on a terminal, a line now and then elsewhere.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    records: bool,
    /// No run begins much later than this after the start.
    budget: Option<Duration>,
    start: Instant,
    said: Instant,
}

impl Progress {
    /// A bar if standard error is a terminal; with `records` each run is printed as JSON as well.
    pub(crate) fn new(records: bool, budget: Option<Duration>) -> Self {
        let start = Instant::now();
        Self {
            bar: io::stderr().is_terminal().then(Self::bar),
            records,
            budget,
            start,
            said: start,
        }
    }

    fn bar() -> ProgressBar {
        // Drawn at most four times a second, by this thread: nothing ticks while a run is being measured.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
        let style = ProgressStyle::with_template("  {bar:30} {pos}/{len}  {elapsed}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar
    }

    /// Shows the run that begins, and about how much time is left. `round` is the number of runs in a round.
    pub(crate) fn begins(&mut self, done: usize, round: usize, total: usize, what: &str) {
        let elapsed = self.start.elapsed();
        let left = left(elapsed, done, round, total, self.budget);
        let left = left.map_or_else(String::new, |left| format!(", about {} s left", left.as_secs()));
        if let Some(bar) = &self.bar {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            bar.set_message(format!("{what}{left}"));
        } else if self.said.elapsed() >= SILENCE {
            self.said = Instant::now();
            let seconds = elapsed.as_secs();
            self.say(&format!("{done} of about {total} runs in {seconds} s{left}"));
        }
    }

    /// A run is over.
    pub(crate) fn ran(&self, record: &Record) -> Result<(), LabError> {
        if self.records {
            let line = serde_json::to_string(record).map_err(io::Error::from)?;
            let mut output = io::stdout().lock();
            writeln!(output, "{line}")?;
            output.flush()?;
        }
        Ok(())
    }

    /// A line above the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            // Nothing can be done if standard error is closed.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// About how much time the rest takes: as much for each run as until now. A round that would end beyond the
/// budget is not begun, and one that was begun is finished. `None` before the first run has ended.
fn left(
    elapsed: Duration,
    done: usize,
    round: usize,
    total: usize,
    budget: Option<Duration>,
) -> Option<Duration> {
    let each = elapsed / u32::try_from(done).ok().filter(|done| *done > 0)?;
    let time = |runs: usize| u32::try_from(runs).ok().map(|runs| each * runs);
    let rest = time(total.saturating_sub(done))?;
    let of_round = time((round - done % round.max(1)) % round.max(1))?;
    Some(budget.map_or(rest, |budget| {
        let further = budget.saturating_sub(elapsed + of_round).as_secs_f64();
        let rounds = (further / time(round).unwrap_or_default().as_secs_f64().max(1e-9)) as usize;
        rest.min(of_round + time(rounds.saturating_mul(round).min(total)).unwrap_or_default())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was_done_without_rounds_beyond_the_budget() {
        let seconds = Duration::from_secs;
        assert_eq!(left(seconds(3), 0, 5, 10, None), None);
        assert_eq!(left(seconds(8), 2, 5, 10, None), Some(seconds(32)));
        assert_eq!(left(seconds(8), 2, 5, 10, Some(seconds(40))), Some(seconds(32)));
        // The second round of 20 s would end after 40 s.
        assert_eq!(left(seconds(8), 2, 5, 10, Some(seconds(39))), Some(seconds(12)));
        // The first round is finished in any case.
        assert_eq!(left(seconds(24), 2, 5, 10, Some(seconds(25))), Some(seconds(36)));
        assert_eq!(left(seconds(60), 5, 5, 10, Some(seconds(25))), Some(seconds(0)));
    }
}
