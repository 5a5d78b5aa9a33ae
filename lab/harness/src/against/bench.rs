//! Makes the runs of a comparison, each in its own process: of the baseline's program, or of this one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::rounds::{Bench, JudgedRow, Side};
use crate::error::LabError;
use crate::isolate::{own_program, run_by};
use crate::machine::Usage;
use crate::probe::Prober;
use crate::progress::Progress;
use crate::record::Outcome;

/// Runs in processes.
pub(crate) struct Processes {
    baseline: PathBuf,
    own: PathBuf,
    limit: Duration,
    prober: Prober,
    usage: Option<Usage>,
    progress: Progress,
    /// Turns begun, and the most that there can be.
    turns: (usize, usize),
    start: Instant,
}

impl Processes {
    /// Runs of at most `limit`; a baseline that is `None` has no runs.
    pub(crate) fn new(
        baseline: Option<PathBuf>,
        limit: Duration,
        budget: Option<Duration>,
        turns: usize,
    ) -> Result<Self, LabError> {
        let own = own_program()?;
        Ok(Self {
            baseline: baseline.unwrap_or_else(|| own.clone()),
            own,
            limit,
            prober: Prober::new(),
            usage: Usage::now(),
            progress: Progress::new(false, budget),
            turns: (0, turns),
            start: Instant::now(),
        })
    }

    /// The usual cache-line round trip, in nanoseconds.
    pub(crate) fn usual_probe(&self) -> Option<f64> {
        self.prober.usual()
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.progress.end();
    }
}

impl Bench for Processes {
    fn run(&mut self, row: &JudgedRow, side: Side) -> Result<Outcome, LabError> {
        let program = match side {
            Side::Baseline => &self.baseline,
            Side::This => &self.own,
        };
        run_by(program, &row.request, self.limit)
    }

    fn probe(&mut self, row: &JudgedRow) -> Option<(f64, bool)> {
        if row.request.workers < 2 {
            return None;
        }
        let nanos = self.prober.probe()?;
        Some((nanos, self.prober.is_slow(nanos)))
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn others(&mut self) -> Option<f64> {
        let now = Usage::now();
        let before = std::mem::replace(&mut self.usage, now);
        before
            .zip(now)
            .and_then(|(before, now)| now.others_since(&before))
    }

    fn begins(&mut self, round: usize, open: usize, row: &JudgedRow) {
        let (done, most) = self.turns;
        let what = format!("round {round}, {open} rows undecided: {}", row.name);
        self.progress.begins(done, 1, most.max(done), &what);
        self.turns.0 += 1;
    }
}
