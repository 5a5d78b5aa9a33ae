//! The rounds of a comparison with a baseline: the baseline's program and this one take turns, row by row.
//!
//! ```text
//!  round 0   A ab  B ab  C ab     not counted: caches are cold, pages are fresh
//!  round 1   C ba  A ba  B ba     rows in shuffled order; within a row, the first program alternates
//!  round 2   B ab  A ab  C ab
//!  …         look at each row: those that are decided take no further part
//! ```
//!
//! # Invariants
//! - The two runs of a pair follow each other directly, and no pair is split by the end of the time.
//! - The first program alternates, so being second costs both the same.
//! - A pair with a run that began in a slow phase is set aside whole, counted, and tried again a few times.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::verdict::{Judged, Looks, cost};
use crate::error::LabError;
use crate::plan::Figure;
use crate::record::Outcome;
use crate::session::order;
use crate::workload::Request;

/// The retries, within its round, of a pair that was set aside.
const RETRIES: usize = 2;
/// Retries of a row in all.
const RETRIES_PER_ROW: usize = 6;

/// A row: one run, and the figures of it that are judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct JudgedRow {
    /// Its name with contestant and workers.
    pub(crate) name: String,
    /// The run.
    pub(crate) request: Request,
    /// The figures that are judged.
    pub(crate) figures: Vec<Figure>,
}

/// Whose run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    /// The baseline's program.
    Baseline,
    /// This program.
    This,
}

/// A run of a pair.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// Whose.
    pub(crate) side: Side,
    /// The judged figures, in the order of the row.
    pub(crate) figures: Vec<Option<f64>>,
    /// The cache-line round trip just before, in nanoseconds.
    pub(crate) probe_ns: Option<f64>,
    /// True if that was slow.
    pub(crate) slow: bool,
}

/// The runs of a row in one round: a pair, or one run if there is no baseline to run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunPair {
    /// The round, from 0; the first does not count.
    pub(crate) round: usize,
    /// The runs in the order in which they were made.
    pub(crate) runs: Vec<Run>,
    /// True if a run began in a slow phase, so that it does not count.
    pub(crate) set_aside: bool,
    /// The share of the machine that other processes used meanwhile.
    pub(crate) others: Option<f64>,
}

impl RunPair {
    /// A figure of one side.
    fn of(&self, side: Side, figure: usize) -> Option<f64> {
        let run = self.runs.iter().find(|run| run.side == side)?;
        run.figures.get(figure).copied().flatten()
    }
}

/// A row with all of its runs.
#[derive(Clone, Debug)]
pub(crate) struct RowRuns {
    /// The row.
    pub(crate) row: JudgedRow,
    /// Its turns, in order.
    pub(crate) turns: Vec<RunPair>,
    /// What all looks at each figure show.
    pub(crate) judged: Vec<Option<Judged>>,
    /// The reason if the baseline's program cannot run it.
    pub(crate) absent: Option<String>,
    /// The reason if this program cannot.
    pub(crate) failure: Option<String>,
    looks: u32,
    looked_at: usize,
    retries: usize,
    closed: bool,
    last: Duration,
}

/// What makes the runs; processes, but for tests.
pub(crate) trait Bench {
    /// Makes a run.
    fn run(&mut self, row: &JudgedRow, side: Side) -> Result<Outcome, LabError>;
    /// Passes a cache line to and fro: nanoseconds, and whether that is slow.
    fn probe(&mut self, row: &JudgedRow) -> Option<(f64, bool)>;
    /// The time since the start.
    fn elapsed(&self) -> Duration;
    /// The share of the machine that others used since the last call.
    fn others(&mut self) -> Option<f64>;
    /// Says how far it is.
    fn begins(&mut self, round: usize, open: usize, row: &JudgedRow);
}

/// How long a comparison takes at most, and what decides a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundLimits {
    /// Rounds that count, at most.
    pub(crate) rounds: usize,
    /// No pair is begun that would probably end later than this.
    pub(crate) budget: Option<Duration>,
    /// Differences below this share do not matter.
    pub(crate) margin: f64,
}

impl RowRuns {
    fn new(row: JudgedRow) -> Self {
        Self {
            judged: vec![None; row.figures.len()],
            row,
            turns: Vec::new(),
            absent: None,
            failure: None,
            looks: 0,
            looked_at: 0,
            retries: RETRIES_PER_ROW,
            closed: false,
            last: Duration::ZERO,
        }
    }

    /// Returns true if more rounds may change what can be said.
    fn is_open(&self) -> bool {
        !self.closed && self.absent.is_none() && self.failure.is_none()
    }

    /// The turns that count.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &RunPair> {
        self.turns.iter().filter(|turn| turn.round > 0 && !turn.set_aside)
    }

    /// The number of turns that were set aside.
    pub(crate) fn set_aside(&self) -> usize {
        self.turns.iter().filter(|turn| turn.set_aside).count()
    }

    /// A figure of one side, over the turns that count.
    pub(crate) fn values(&self, side: Side, figure: usize) -> Vec<f64> {
        self.counted().filter_map(|turn| turn.of(side, figure)).collect()
    }

    /// The costs of a figure, a pair each.
    pub(crate) fn costs(&self, figure: usize) -> Vec<f64> {
        let better = self.row.figures[figure].better;
        let pairs = self.counted().filter_map(|turn| {
            let (baseline, this) = (turn.of(Side::Baseline, figure)?, turn.of(Side::This, figure)?);
            cost(better, baseline, this)
        });
        pairs.collect()
    }

    /// Looks at the row if it has pairs enough, or if this is the last time.
    fn look(&mut self, looks: Looks, margin: f64, last: bool) {
        let pairs = self.counted().count();
        let due = pairs >= looks.pairs(self.looks) || (last && pairs > self.looked_at);
        if !due || !self.is_open() {
            return;
        }
        let error = looks.error(self.looks);
        let judged = (0..self.row.figures.len()).map(|figure| {
            let judged = Judged::of(&self.costs(figure), error)?;
            Some(self.judged[figure].map_or(judged, |earlier| judged.after(earlier)))
        });
        self.judged = judged.collect();
        self.looks += 1;
        self.looked_at = pairs;
        let open = |judged: &Option<Judged>| judged.is_some_and(|judged| judged.is_open(margin));
        self.closed = !self.judged.iter().any(open);
    }

    /// Makes the runs of one round.
    fn turn(&mut self, round: usize, sides: &[Side], bench: &mut dyn Bench) -> Result<(), LabError> {
        let start = bench.elapsed();
        for attempt in 0..=RETRIES {
            let Some(turn) = self.attempt(round, sides, bench)? else {
                return Ok(());
            };
            let again = turn.set_aside && round > 0 && attempt < RETRIES && self.retries > 0;
            self.turns.push(turn);
            if !again {
                break;
            }
            self.retries -= 1;
        }
        self.last = bench.elapsed().saturating_sub(start);
        Ok(())
    }

    /// Makes them once; `None` if one does not complete.
    fn attempt(
        &mut self,
        round: usize,
        sides: &[Side],
        bench: &mut dyn Bench,
    ) -> Result<Option<RunPair>, LabError> {
        let mut order = sides.to_vec();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut runs = Vec::new();
        bench.others();
        for side in order {
            let probe = bench.probe(&self.row);
            let outcome = match bench.run(&self.row, side) {
                Ok(outcome) => outcome,
                Err(error @ (LabError::Run { .. } | LabError::Wrong(_) | LabError::TooLong(_))) => {
                    let reason = match side {
                        Side::Baseline => &mut self.absent,
                        Side::This => &mut self.failure,
                    };
                    *reason = Some(error.to_string());
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            runs.push(Run {
                side,
                figures: self
                    .row
                    .figures
                    .iter()
                    .map(|figure| figure.of(&outcome))
                    .collect(),
                probe_ns: probe.map(|(nanos, _)| nanos),
                slow: probe.is_some_and(|(_, slow)| slow),
            });
        }
        Ok(Some(RunPair {
            round,
            set_aside: runs.iter().any(|run| run.slow),
            runs,
            others: bench.others(),
        }))
    }
}

/// The rows after their rounds.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The rows, in the order in which they were given.
    pub(crate) rows: Vec<RowRuns>,
    /// Rounds begun, the first one included.
    pub(crate) rounds: usize,
    /// True if the time was up before all rows were decided.
    pub(crate) time_was_up: bool,
}

/// Runs all rows round by round until they are decided, or the time is up.
pub(crate) fn measure(
    rows: Vec<JudgedRow>,
    sides: &[Side],
    pace: &RoundLimits,
    bench: &mut dyn Bench,
) -> Result<Rounds, LabError> {
    let looks = Looks::at(rows.iter().map(|row| row.figures.len()).sum());
    let mut rows: Vec<RowRuns> = rows.into_iter().map(RowRuns::new).collect();
    let paired = sides.len() > 1;
    let (mut rounds, mut time_was_up) = (0, false);
    'rounds: while rounds <= pace.rounds && rows.iter().any(RowRuns::is_open) {
        for at in order(rows.len(), rounds) {
            let open = rows.iter().filter(|row| row.is_open()).count();
            let row = &mut rows[at];
            if !row.is_open() {
                continue;
            }
            if pace
                .budget
                .is_some_and(|budget| bench.elapsed() + row.last > budget)
            {
                time_was_up = true;
                break 'rounds;
            }
            bench.begins(rounds, open, &row.row);
            row.turn(rounds, sides, bench)?;
        }
        rounds += 1;
        if paired {
            rows.iter_mut()
                .for_each(|row| row.look(looks, pace.margin, false));
        }
    }
    if paired {
        rows.iter_mut().for_each(|row| row.look(looks, pace.margin, true));
    }
    Ok(Rounds {
        rows,
        rounds,
        time_was_up,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::baseline::tests::row;
    use super::super::verdict::Verdict;
    use super::*;

    /// Runs of made-up rates; a run takes a second.
    pub(crate) struct Made<F> {
        pub(crate) rate: F,
        pub(crate) slow: fn(usize) -> bool,
        pub(crate) log: Vec<(String, Side)>,
        pub(crate) probes: usize,
    }

    impl<F: FnMut(&JudgedRow, Side, usize) -> Result<f64, LabError>> Made<F> {
        pub(crate) fn new(rate: F) -> Self {
            Self {
                rate,
                slow: |_| false,
                log: Vec::new(),
                probes: 0,
            }
        }
    }

    impl<F: FnMut(&JudgedRow, Side, usize) -> Result<f64, LabError>> Bench for Made<F> {
        fn run(&mut self, row: &JudgedRow, side: Side) -> Result<Outcome, LabError> {
            let at = self.log.len();
            self.log.push((row.name.clone(), side));
            let throughput = (self.rate)(row, side, at)?;
            Ok(Outcome {
                throughput,
                ..Outcome::default()
            })
        }

        fn probe(&mut self, _: &JudgedRow) -> Option<(f64, bool)> {
            self.probes += 1;
            Some((60.0, (self.slow)(self.probes)))
        }

        fn elapsed(&self) -> Duration {
            Duration::from_secs(self.log.len() as u64)
        }

        fn others(&mut self) -> Option<f64> {
            Some(0.0)
        }

        fn begins(&mut self, _: usize, _: usize, _: &JudgedRow) {}
    }

    pub(crate) const PACE: RoundLimits = RoundLimits {
        rounds: 64,
        budget: None,
        margin: 0.03,
    };
    pub(crate) const BOTH: &[Side] = &[Side::Baseline, Side::This];

    pub(crate) fn rows() -> Vec<JudgedRow> {
        vec![row("churn", &[Figure::RATE]), row("spawn", &[Figure::RATE])]
    }

    /// A rate that differs from run to run by a hundredth.
    fn noisy(middle: f64, at: usize) -> Result<f64, LabError> {
        Ok(middle * (1.0 + 0.01 * ((at * 7 % 11) as f64 / 11.0 - 0.5)))
    }

    #[test]
    fn both_programs_take_turns_and_who_is_first_alternates() {
        let mut bench = Made::new(|_, _, at| noisy(100.0, at));
        let pace = RoundLimits { rounds: 3, ..PACE };
        measure(rows(), BOTH, &pace, &mut bench).unwrap();
        assert_eq!(bench.log.len(), 2 * 2 * 4);
        for (pair, runs) in bench.log.chunks(2).enumerate() {
            assert_eq!(runs[0].0, runs[1].0, "a pair is of one row");
            let first = [Side::Baseline, Side::This][pair / 2 % 2];
            assert_eq!(
                (runs[0].1, runs[1].1 == first),
                (first, false),
                "round {}",
                pair / 2
            );
        }
    }

    #[test]
    fn a_loss_on_one_row_is_found_and_the_other_row_is_left_in_peace() {
        let mut bench = Made::new(|row, side, at| {
            let lost = side == Side::This && row.name.starts_with("churn");
            noisy(if lost { 90.0 } else { 100.0 }, at)
        });
        let found = measure(rows(), BOTH, &PACE, &mut bench).unwrap();
        let judged: Vec<Judged> = found.rows.iter().map(|runs| runs.judged[0].unwrap()).collect();
        assert_eq!(judged[0].verdict, Verdict::Loss);
        assert!(judged[0].loses_more_than(0.03));
        assert_eq!(judged[1].verdict, Verdict::NotToldApart);
        // Decided at the first look: no more rounds than that needs.
        assert_eq!(found.rounds, Looks::at(2).pairs(0) + 1);
        assert!(!found.time_was_up);
    }

    #[test]
    fn a_loss_that_is_proven_stays_one_at_the_last_look() {
        let mut runs = RowRuns::new(row("churn", &[Figure::RATE]));
        let looks = Looks::at(1);
        let add = |runs: &mut RowRuns, this: f64, until: usize| {
            while runs.turns.len() < until {
                let round = runs.turns.len() + 1;
                let run = |side, rate| Run {
                    side,
                    figures: vec![Some(rate)],
                    probe_ns: None,
                    slow: false,
                };
                runs.turns.push(RunPair {
                    round,
                    // A thousandth of noise.
                    runs: vec![
                        run(Side::Baseline, 100.0 + 0.1 * (round % 3) as f64),
                        run(Side::This, this),
                    ],
                    set_aside: false,
                    others: None,
                });
            }
        };
        let at = looks.pairs(0);
        add(&mut runs, 98.0, at / 2);
        add(&mut runs, 96.0, at);
        runs.look(looks, 0.03, false);
        assert_eq!(runs.judged[0].unwrap().verdict, Verdict::Loss);
        assert!(runs.is_open(), "it may be more than the margin");
        add(&mut runs, 101.0, 4 * at);
        runs.look(looks, 0.03, true);
        assert_eq!(runs.judged[0].unwrap().verdict, Verdict::Loss);
    }

    #[test]
    fn an_undecided_row_gets_more_rounds_alone() {
        let mut bench = Made::new(|row, _, at| match row.name.starts_with("churn") {
            true => Ok([100.0, 110.0, 120.0][at % 3]),
            false => Ok(100.0),
        });
        let pace = RoundLimits { rounds: 40, ..PACE };
        let found = measure(rows(), BOTH, &pace, &mut bench).unwrap();
        let turns: Vec<usize> = found.rows.iter().map(|runs| runs.turns.len()).collect();
        assert_eq!(turns, [41, Looks::at(2).pairs(0) + 1]);
        assert_eq!(found.rows[0].judged[0].unwrap().verdict, Verdict::NotToldApart);
    }

    #[test]
    fn the_time_ends_it_between_pairs() {
        let mut bench = Made::new(|_, _, at| noisy(100.0, at));
        let pace = RoundLimits {
            budget: Some(Duration::from_secs(9)),
            ..PACE
        };
        let found = measure(rows(), BOTH, &pace, &mut bench).unwrap();
        assert_eq!((bench.log.len(), found.time_was_up), (8, true));
        let judged = found.rows[0].judged[0].unwrap();
        assert_eq!((judged.cost.runs, judged.interval), (1, None));
    }

    #[test]
    fn slow_pairs_are_set_aside_counted_and_tried_again() {
        let mut bench = Made::new(|_, _, at| noisy(100.0, at));
        // The second probe of the second round's first pair.
        bench.slow = |probe| probe == 6;
        let pace = RoundLimits { rounds: 2, ..PACE };
        let found = measure(rows(), BOTH, &pace, &mut bench).unwrap();
        let set_aside: usize = found.rows.iter().map(RowRuns::set_aside).sum();
        assert_eq!((set_aside, bench.log.len()), (1, 2 * 2 * 3 + 2));
        for runs in &found.rows {
            assert_eq!(runs.costs(0).len(), 2, "{}", runs.row.name);
        }
    }

    #[test]
    fn a_machine_that_is_always_slow_gives_no_verdict() {
        let mut bench = Made::new(|_, side, _| Ok(if side == Side::This { 1.0 } else { 2.0 }));
        bench.slow = |_| true;
        let pace = RoundLimits { rounds: 12, ..PACE };
        let found = measure(rows(), BOTH, &pace, &mut bench).unwrap();
        for runs in &found.rows {
            assert_eq!((runs.costs(0).len(), runs.judged[0]), (0, None));
            assert_eq!(runs.set_aside(), 13 + RETRIES_PER_ROW);
        }
    }

    #[test]
    fn a_row_that_the_baseline_cannot_run_is_no_failure_of_this_program() {
        let broken = |row: &JudgedRow| row.request.failed("no such workload");
        let mut bench = Made::new(|row, side, at| match (row.name.starts_with("churn"), side) {
            (true, Side::Baseline) => Err(broken(row)),
            (false, Side::This) => Err(broken(row)),
            _ => noisy(100.0, at),
        });
        let found = measure(rows(), BOTH, &PACE, &mut bench).unwrap();
        let [churn, spawn] = &found.rows[..] else {
            panic!("two rows")
        };
        assert!(churn.absent.is_some() && churn.failure.is_none());
        assert!(spawn.absent.is_none() && spawn.failure.is_some());
        assert_eq!(found.rounds, 1);
        let mut bench = Made::new(|_, _, _| Err(LabError::Usage(String::from("no program"))));
        assert!(measure(rows(), BOTH, &PACE, &mut bench).is_err());
    }

    #[test]
    fn one_side_alone_is_measured_in_all_rounds() {
        let mut bench = Made::new(|_, _, at| noisy(100.0, at));
        let pace = RoundLimits { rounds: 5, ..PACE };
        let found = measure(rows(), &[Side::This], &pace, &mut bench).unwrap();
        assert_eq!(found.rows[0].values(Side::This, 0).len(), 5);
        assert!(found.rows[0].costs(0).is_empty() && found.rows[0].judged[0].is_none());
    }
}
