//! A session: all cells of a plan (a cell is a contestant with a number of workers), each run several times.
//!
//! ```text
//!  round 0   A B C D      not kept: caches are cold, pages are fresh
//!  round 1   C A D B      shuffled, the same way in each session
//!  round 2   B D A C      backwards
//!  round 3   A C B D
//! ```
//!
//! A run leaves traces: memory that is given back, threads that end. In a shuffled order they do not always
//! meet the same cell. Cells interleave, so a disturbance of a second meets all of them. Comparisons are made
//! within a round. Runs with more than one worker are preceded by a probe; a run that began in a slow phase
//! is set aside and tried again, a few times.

use std::time::{Duration, Instant};

use super::isolate;
use super::machine::{Machine, Usage, Versions};
use super::probe::Prober;
use super::record::{Outcome, Record};
use crate::budget::Rounds;
use crate::error::LabError;
use crate::interrupt;
use crate::lab::{Chosen, Lab, Simulator};
use crate::progress::Progress;
use crate::simulation::SimulatedMachine;
use crate::workload::{Caveat, Request};

/// The retries, within its round, of a run that began in a slow phase.
const RETRIES: usize = 2;
/// Retries of a whole session, per cell.
const RETRIES_PER_CELL: usize = 4;

/// Reads a line of `bench` into jobs.
pub(crate) type ReadJobs = fn(&Lab, &str) -> Result<Vec<Job>, LabError>;

/// A contestant with a number of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The runtime.
    pub runtime: &'static str,
    /// Its policy, for the one that has policies.
    pub policy: Option<String>,
    /// Worker threads.
    pub workers: usize,
}

impl Cell {
    /// Runtime and policy.
    pub fn contestant(&self) -> String {
        match &self.policy {
            Some(policy) => policy.clone(),
            None => self.runtime.to_owned(),
        }
    }
}

/// The number of rounds of a session, and its limits of time.
#[derive(Clone, Debug)]
pub struct SessionLimits {
    /// Rounds; the first is not kept unless it is the only one.
    pub rounds: usize,
    /// No round is begun that would probably end later than this, but for the first one, or the first two if
    /// there is no advice.
    pub budget: Option<Duration>,
    /// True if advice is given, which needs rounds: too few are said as soon as that is known.
    pub advises: bool,
    /// Rounds that count which are needed to show a difference.
    pub needed: usize,
    /// A run that takes longer is ended.
    pub limit: Duration,
    /// True if all runs share this process: for profilers.
    pub in_process: bool,
}

/// What a command runs: a workload, contestants and limits.
pub struct Job {
    /// The workload with its parameters.
    pub chosen: Chosen,
    /// A request to which runtime, policy and workers are still to be filled in.
    pub template: Request,
    /// The contestants with their worker counts.
    pub cells: Vec<Cell>,
    /// Its rounds and limits.
    pub limits: SessionLimits,
    /// The command line, for the records.
    pub command: String,
}

/// All runs of one cell.
#[derive(Debug)]
pub(crate) struct CellRuns {
    /// The cell.
    pub(crate) cell: Cell,
    /// The request of each run.
    pub(crate) request: Request,
    /// A remark that a reader must know.
    pub(crate) remark: Option<Caveat>,
    /// The runs, in order.
    pub(crate) records: Vec<Record>,
    /// The reason if there are no more of them.
    pub(crate) failure: Option<String>,
}

impl CellRuns {
    /// The runs that count. Where fewer than two are left because the machine was slow, all of the kept
    /// rounds are taken rather than none.
    pub(crate) fn counted(&self) -> Vec<&Record> {
        let kept: Vec<&Record> = self.records.iter().filter(|record| record.kept).collect();
        let fast: Vec<&Record> = kept
            .iter()
            .copied()
            .filter(|record| record.set_aside.is_none())
            .collect();
        if fast.len() >= 2.min(kept.len()) && !fast.is_empty() {
            fast
        } else {
            kept
        }
    }

    /// Returns true if runs that began in a slow phase count, for want of others.
    pub(crate) fn has_slow_figures(&self) -> bool {
        self.counted().iter().any(|record| record.set_aside.is_some())
    }

    /// One figure of the runs that count.
    pub(crate) fn sample(&self, figure: impl Fn(&Outcome) -> Option<f64>) -> Vec<f64> {
        self.counted()
            .into_iter()
            .filter_map(|record| figure(&record.outcome))
            .collect()
    }

    /// One figure round by round, for pairs; `None` where no run of the round counts.
    pub(crate) fn by_round(
        &self,
        rounds: usize,
        figure: impl Fn(&Outcome) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let mut values = vec![None; rounds];
        for record in self.counted() {
            values[record.round] = figure(&record.outcome);
        }
        values
    }

    /// Returns the number of runs that were set aside.
    pub(crate) fn set_aside(&self) -> usize {
        self.records
            .iter()
            .filter(|record| record.set_aside.is_some())
            .count()
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Session {
    /// The name of the command.
    pub(crate) program: &'static str,
    /// The cells in the order of the plan.
    pub(crate) cells: Vec<CellRuns>,
    /// Rounds begun.
    pub(crate) rounds: usize,
    /// Rounds that were asked for.
    pub(crate) rounds_asked: usize,
    /// The usual cache-line round trip.
    pub(crate) probe_usual_ns: Option<f64>,
    /// The machine.
    pub(crate) machine: Machine,
    /// Compiler and contestants.
    pub(crate) versions: Versions,
    /// The share of the machine that other processes used meanwhile.
    pub(crate) others: Option<f64>,
    /// The length of the session.
    pub(crate) elapsed: Duration,
    /// The name of the machine if it was simulated.
    pub(crate) simulated: Option<String>,
    /// What helps if the rounds were too few for advice.
    pub(crate) hint: Option<String>,
    /// True if ctrl-C ended it early.
    pub(crate) interrupted: bool,
}

impl Session {
    /// Rounds that count.
    pub(crate) fn counted_rounds(&self) -> usize {
        if self.rounds > 1 && self.simulated.is_none() {
            self.rounds - 1
        } else {
            self.rounds
        }
    }

    /// All runs, round by round.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.cells.iter().flat_map(|cell| &cell.records)
    }

    /// Returns the number of runs that were set aside.
    pub(crate) fn set_aside(&self) -> usize {
        self.cells.iter().map(CellRuns::set_aside).sum()
    }
}

/// Prepares the cells of a plan: those that cannot run here are given back as notes.
pub(crate) fn prepare(
    lab: &Lab,
    template: &Request,
    cells: Vec<Cell>,
) -> Result<(Vec<CellRuns>, Vec<String>), LabError> {
    let mut prepared = Vec::new();
    let mut notes = Vec::new();
    for cell in cells {
        let workload = lab.workload_of(template)?;
        let mut request = Request {
            runtime: cell.runtime.to_owned(),
            policy: cell.policy.clone(),
            workers: cell.workers,
            ..template.clone()
        };
        workload.fit(&mut request);
        if let Some(reason) = workload.refusal(&request)? {
            let note = format!("{} is left out: {reason}", cell.runtime);
            if !notes.contains(&note) {
                notes.push(note);
            }
            continue;
        }
        let simulated = || request.simulation.as_ref().map(|_| Caveat::same("simulated"));
        let remark = workload.caveat(&request).or_else(simulated);
        prepared.push(CellRuns {
            cell,
            request,
            remark,
            records: Vec::new(),
            failure: None,
        });
    }
    if prepared.is_empty() {
        return Err(LabError::Usage(format!(
            "nothing is left to run\n  {}",
            notes.join("\n  ")
        )));
    }
    Ok((prepared, notes))
}

/// The order in which the cells run in a round: shuffled, and reversed in the next round. So of two cells
/// each comes first as often as the other.
pub(crate) fn order(cells: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cells).collect();
    if round > 0 {
        fastrand::Rng::with_seed(round.div_ceil(2) as u64).shuffle(&mut order);
    }
    if round > 0 && round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// Runs all cells, round by round.
pub(crate) fn run(
    lab: &Lab,
    mut cells: Vec<CellRuns>,
    limits: &SessionLimits,
    progress: &mut Progress,
) -> Result<Session, LabError> {
    for cell in &cells {
        lab.peer(cell.cell.runtime)?.prepare()?;
    }
    let start = Instant::now();
    let usage = Usage::now();
    let simulated = simulated(lab, &cells)?;
    let machine = simulated.as_ref().map_or_else(Machine::here, Machine::simulated);
    let versions = lab.versions();
    let mut prober = if simulated.is_none() && cells.iter().any(|cell| cell.cell.workers > 1) {
        Prober::new()
    } else {
        Prober::default()
    };
    let mut retries = RETRIES_PER_CELL * cells.len();
    let total = cells.len() * limits.rounds;
    let mut time = Rounds::new(limits.budget, cells.len(), limits.rounds, limits.needed);
    let (mut rounds, mut made) = (0, 0);
    'rounds: while rounds < limits.rounds {
        let cell_count = cells.len();
        for (place, at) in order(cell_count, rounds).into_iter().enumerate() {
            let cell = &mut cells[at];
            if cell.failure.is_some() {
                continue;
            }
            for attempt in 0..=RETRIES {
                progress.begins(
                    rounds * cell_count + place,
                    cell_count,
                    total,
                    &cell.request.contestant(),
                );
                // Each round has a seed of its own.
                let mut request = cell.request.clone();
                if let Some(simulation) = &mut request.simulation {
                    simulation.seed = simulation.seed.wrapping_add(rounds as u64);
                }
                let probe = if simulated.is_none() && cell.cell.workers > 1 {
                    prober.probe()
                } else {
                    None
                };
                let slow = probe.filter(|probe| prober.is_slow(*probe));
                let outcome = if limits.in_process {
                    lab.run(&request)
                } else {
                    isolate::run_apart(&request, limits.limit)
                };
                if interrupt::is_asked() {
                    // The run was ended by it, so nothing is known of the contestant.
                    break 'rounds;
                }
                let mut outcome = match outcome {
                    Ok(outcome) => outcome,
                    Err(error @ (LabError::Run { .. } | LabError::Wrong(_) | LabError::TooLong(_))) => {
                        let reason = error.to_string();
                        progress.say(&format!("did not complete: {reason}"));
                        cell.failure = Some(reason);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                outcome
                    .remarks
                    .extend(cell.remark.map(|remark| remark.text.to_owned()));
                let record = Record {
                    workload: cell.request.workload.clone(),
                    parameters: cell.request.params.clone(),
                    capture: recorded(lab, &cell.request)?,
                    runtime: cell.request.runtime.clone(),
                    policy: cell.request.policy.clone(),
                    workers: cell.request.workers,
                    round: rounds,
                    kept: rounds > 0 || limits.rounds == 1 || simulated.is_some(),
                    set_aside: slow.map(|probe| {
                        format!(
                            "began in a slow phase: a cache line took {probe:.0} ns to another core and back"
                        )
                    }),
                    probe_ns: probe,
                    probe_usual_ns: prober.usual(),
                    outcome,
                    versions: versions.clone(),
                    machine: machine.clone(),
                };
                progress.ran(&record)?;
                let again = limits.rounds > 1
                    && record.kept
                    && record.set_aside.is_some()
                    && attempt < RETRIES
                    && retries > 0;
                cell.records.push(record);
                if !again {
                    break;
                }
                retries -= 1;
            }
            made += 1;
            if let Some(warning) = time.warning(made).filter(|_| limits.advises) {
                progress.say(&warning);
            }
        }
        rounds += 1;
        let least = if limits.advises { 1 } else { 2 };
        if rounds >= least && !time.has_room(rounds) || cells.iter().all(|cell| cell.failure.is_some()) {
            break;
        }
    }
    let interrupted = interrupt::is_asked();
    if interrupted && rounds == 0 {
        return Err(LabError::Interrupted(String::from("no round was finished")));
    }
    for cell in &mut cells {
        // A round that was interrupted does not count, and the only one does.
        cell.records.retain(|record| record.round < rounds);
        if rounds == 1 {
            cell.records.iter_mut().for_each(|record| record.kept = true);
        }
    }
    Ok(Session {
        program: lab.name,
        cells,
        rounds,
        rounds_asked: limits.rounds,
        probe_usual_ns: prober.usual(),
        machine,
        versions,
        simulated: simulated.as_ref().map(|machine| machine.name.clone()),
        others: usage
            .filter(|_| simulated.is_none())
            .zip(Usage::now())
            .and_then(|(before, after)| after.others_since(&before)),
        elapsed: start.elapsed(),
        hint: time.advice(start.elapsed(), rounds),
        interrupted,
    })
}

/// The simulated machine of a session, if it has one.
fn simulated(lab: &Lab, cells: &[CellRuns]) -> Result<Option<SimulatedMachine>, LabError> {
    let simulation = cells.iter().find_map(|cell| cell.request.simulation.as_ref());
    match (simulation, lab.simulator) {
        (None, _) => Ok(None),
        (Some(simulation), Simulator::Here(read)) => read(simulation).map(Some),
        (Some(_), _) => Err(LabError::Usage(String::from(
            "this program is not built for the simulator",
        ))),
    }
}

/// The file that records name, if this workload has one and it was named.
fn recorded(lab: &Lab, request: &Request) -> Result<Option<String>, LabError> {
    let flags = lab.workload_of(request)?.about().files.iter();
    let mut paths = flags
        .filter(|flag| flag.recorded)
        .filter_map(|flag| request.files.one(flag.name));
    Ok(paths.next().map(|path| path.display().to_string()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::{chosen, lab};

    /// A record of one made-up run.
    pub(crate) fn record(round: usize, kept: bool, slow: bool, throughput: f64) -> Record {
        Record {
            workload: String::from("packet"),
            parameters: Default::default(),
            capture: None,
            runtime: String::from("rayon"),
            policy: None,
            workers: 2,
            round,
            kept,
            set_aside: slow.then(|| String::from("slow")),
            probe_ns: Some(60.0),
            probe_usual_ns: Some(60.0),
            outcome: Outcome {
                throughput,
                ..Outcome::default()
            },
            versions: lab().versions(),
            machine: Machine::here(),
        }
    }

    /// A cell of made-up runs.
    pub(crate) fn cell(
        runtime: &'static str,
        policy: Option<&str>,
        workers: usize,
        records: Vec<Record>,
    ) -> CellRuns {
        let chosen = chosen("packet", true, &[]).unwrap();
        let request = Request {
            runtime: runtime.to_owned(),
            policy: policy.map(str::to_owned),
            workers,
            ..chosen.request(Default::default())
        };
        let cell = Cell {
            runtime,
            policy: policy.map(str::to_owned),
            workers,
        };
        CellRuns {
            cell,
            request,
            remark: None,
            records,
            failure: None,
        }
    }

    #[test]
    fn slow_runs_and_the_first_round_do_not_count() {
        let runs = cell(
            "rayon",
            None,
            2,
            vec![
                record(0, false, false, 1.0),
                record(1, true, true, 2.0),
                record(1, true, false, 3.0),
                record(2, true, false, 4.0),
            ],
        );
        assert_eq!(runs.sample(|outcome| Some(outcome.throughput)), [3.0, 4.0]);
        assert_eq!(
            runs.by_round(3, |outcome| Some(outcome.throughput)),
            [None, Some(3.0), Some(4.0)]
        );
        assert_eq!(runs.set_aside(), 1);
        assert!(!runs.has_slow_figures());
    }

    #[test]
    fn a_machine_that_is_always_slow_still_gives_figures() {
        let runs = cell(
            "rayon",
            None,
            2,
            vec![record(1, true, true, 2.0), record(2, true, true, 3.0)],
        );
        assert_eq!(runs.sample(|outcome| Some(outcome.throughput)), [2.0, 3.0]);
        assert!(runs.has_slow_figures());
    }

    #[test]
    fn what_cannot_run_is_left_out_with_a_reason() {
        let template = cell("rayon", None, 1, Vec::new()).request;
        let parked = Request {
            workload: String::from("wait"),
            ..template
        };
        let cells = |runtimes: &[&'static str]| {
            runtimes
                .iter()
                .map(|runtime| Cell {
                    runtime,
                    policy: None,
                    workers: 1,
                })
                .collect::<Vec<_>>()
        };
        let (prepared, notes) = prepare(lab(), &parked, cells(&["rayon", "tokio"])).unwrap();
        assert_eq!((prepared.len(), notes.len()), (1, 1));
        assert!(notes[0].contains("rayon is left out"));
        let error = prepare(lab(), &parked, cells(&["rayon"]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("nothing is left to run"), "{error}");
    }

    #[test]
    fn nobody_follows_the_same_neighbour_most_of_the_time() {
        for cells in 2..=16 {
            let mut follows = std::collections::BTreeMap::new();
            for round in 1..=16 {
                let order = order(cells, round);
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..cells), "each once: {order:?}");
                for pair in order.windows(2) {
                    *follows.entry((pair[0], pair[1])).or_insert(0) += 1;
                }
            }
            let most = follows.values().max().copied().unwrap_or_default();
            assert!(most <= 8, "{cells} cells: one pair in {most} of 16 rounds");
        }
        assert_eq!(order(3, 0), [0, 1, 2]);
    }
}
