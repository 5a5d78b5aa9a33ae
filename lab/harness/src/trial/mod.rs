//! A trial: one program under several settings (a policy, and a number of workers), compared with how it is
//! without any.
//!
//! ```text
//!  Plan ── settings, rounds ──▶ run: round by round, each setting once, in shuffled order ──▶ Trial
//!                                 └── a function makes one run: a child process, or a closure
//! ```
//!
//! # Invariants
//!
//! - The first setting is the baseline, the program as it is. All others are compared with it, within rounds.
//! - A setting that fails once is not run again. The others continue.

mod advice;
mod child;
mod delays;
mod print;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::budget::Rounds;
use crate::error::LabError;
use crate::interrupt;
use crate::machine::{Machine, Usage, cpus};
use crate::progress::Progress;
use crate::session::order;
use crate::stats::{Ratio, Spread, family_error, paired_ratio, paired_ratio_within, pairs_needed, spread};
use crate::text::workers;

pub(crate) use child::{Child, Ending, Pool, Process};
pub use delays::{BucketCounts, Delays, Quantiles};
pub(crate) use print::{TIME_HEADINGS, time_cells};

/// The numbers of workers that are tried if none are named: one, half of the machine's, and all of them.
pub fn usual_workers() -> Vec<usize> {
    let all = cpus();
    let mut counts = vec![1, (all / 2).max(1), all];
    counts.dedup();
    counts
}

/// A policy and a number of workers. `None` is what the program has without being told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The policy, as text.
    pub policy: Option<String>,
    /// The number of workers.
    pub workers: Option<usize>,
}

impl Setting {
    /// Returns the setting in words: "`lifo` on 2 workers".
    pub(crate) fn words(&self) -> String {
        match (&self.policy, self.workers) {
            (None, None) => String::from("as it is"),
            (Some(policy), None) => format!("`{policy}`"),
            (None, Some(count)) => format!("its own policy on {}", workers(count)),
            (Some(policy), Some(count)) => format!("`{policy}` on {}", workers(count)),
        }
    }
}

/// One run that ended well.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ran {
    /// From its start to its end.
    pub wall: Duration,
    /// The processor time of all its threads, where the system reports it.
    pub cpu: Option<Duration>,
    /// What its pools have counted, summed by name.
    pub counters: Vec<(String, f64)>,
    /// How long its steps took and waited, if that was measured.
    pub delays: Delays,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Tried {
    /// It ended well.
    Ran(Ran),
    /// It cannot have this setting: that is no fault, and the setting is left out.
    LeftOut(String),
    /// It failed.
    Failed(String),
}

/// What is tried, and how often.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the program, for the table and the report.
    pub title: String,
    /// The settings; the first is the baseline.
    pub settings: Vec<Setting>,
    /// Rounds at most; the first is not counted unless it is the only one.
    pub rounds: usize,
    /// No round but the first is begun that would probably end later than this.
    pub budget: Option<Duration>,
    /// The share of the machine that others may use before no advice is given.
    pub most_load: f64,
    /// True if it is measured how long steps take and wait.
    pub measures: bool,
    /// How a user gets advice in spite of the load: a flag, or a method.
    pub despite: &'static str,
}

impl Plan {
    /// Eleven rounds of these settings within that time, with no advice on a machine that others use.
    pub fn new(title: impl Into<String>, settings: Vec<Setting>, budget: Option<Duration>) -> Self {
        Self {
            title: title.into(),
            settings,
            rounds: 11,
            budget,
            most_load: crate::table::LOADED,
            measures: true,
            despite: "`Plan::most_load`",
        }
    }
}

/// All runs under one setting.
#[derive(Clone, Debug)]
pub(crate) struct SettingRuns {
    pub(crate) setting: Setting,
    /// What the program has without being told, in words, for the baseline.
    pub(crate) detail: String,
    /// The runs that count, by round.
    runs: Vec<Option<Ran>>,
    /// The run of the first round, which counts if there is no other round.
    first: Option<Ran>,
    /// The last run, whether or not it counts.
    last: Option<Ran>,
    /// The reason if it failed.
    pub(crate) failure: Option<String>,
    left_out: bool,
}

impl SettingRuns {
    fn new(setting: Setting) -> Self {
        Self {
            setting,
            detail: String::new(),
            runs: Vec::new(),
            first: None,
            last: None,
            failure: None,
            left_out: false,
        }
    }

    /// Keeps the rounds that were finished: one that was interrupted does not count, and the only one does.
    fn keep(&mut self, rounds: usize) {
        self.runs.truncate(rounds);
        if rounds == 1 && self.failure.is_none() && !self.left_out {
            // Not the last one: a second round may have begun, and some settings have a warm run of it.
            self.runs = vec![self.first.clone()];
        }
    }

    fn figure(&self, figure: impl Fn(&Ran) -> Option<f64>) -> Vec<Option<f64>> {
        self.runs
            .iter()
            .map(|run| run.as_ref().and_then(&figure))
            .collect()
    }

    fn spread_of(&self, figure: impl Fn(&Ran) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.figure(figure).into_iter().flatten().collect();
        spread(&values)
    }

    /// Wall time in seconds.
    pub(crate) fn wall(&self) -> Option<Spread> {
        self.spread_of(seconds)
    }

    /// Processor time in seconds.
    pub(crate) fn cpu(&self) -> Option<Spread> {
        self.spread_of(cpu_seconds)
    }

    /// How many times as fast as that other one.
    pub(crate) fn speed_up(&self, over: &Self) -> Option<Ratio> {
        paired_ratio(&over.figure(seconds), &self.figure(seconds))
    }

    /// How many times as fast as that other one, as one of `comparisons`.
    pub(crate) fn speed_up_among(&self, over: &Self, comparisons: usize) -> Option<Ratio> {
        let error = family_error(comparisons);
        paired_ratio_within(&over.figure(seconds), &self.figure(seconds), error)
    }

    /// The processor time over that of that other one, as one of `comparisons`.
    pub(crate) fn cpu_ratio_among(&self, over: &Self, comparisons: usize) -> Option<Ratio> {
        let error = family_error(comparisons);
        paired_ratio_within(&self.figure(cpu_seconds), &over.figure(cpu_seconds), error)
    }

    /// The processor time over that of that other one.
    pub(crate) fn cpu_ratio(&self, over: &Self) -> Option<Ratio> {
        paired_ratio(&self.figure(cpu_seconds), &over.figure(cpu_seconds))
    }

    /// The counters of the last run.
    pub(crate) fn counters(&self) -> &[(String, f64)] {
        self.last.as_ref().map_or(&[], |run| &run.counters)
    }

    /// The delays in all runs that count.
    pub(crate) fn delays(&self) -> Delays {
        let mut all = Delays::default();
        self.runs.iter().flatten().for_each(|run| all.add(&run.delays));
        all
    }

    pub(crate) fn count(&self) -> usize {
        self.runs.iter().flatten().count()
    }
}

fn seconds(run: &Ran) -> Option<f64> {
    Some(run.wall.as_secs_f64())
}

fn cpu_seconds(run: &Ran) -> Option<f64> {
    run.cpu.map(|cpu| cpu.as_secs_f64())
}

/// What was tried, with its figures.
#[derive(Debug)]
pub struct Trial {
    pub(crate) title: String,
    pub(crate) cells: Vec<SettingRuns>,
    /// Rounds begun.
    pub(crate) rounds: usize,
    rounds_asked: usize,
    /// What a reader must know, such as settings that were left out.
    pub(crate) notes: Vec<String>,
    pub(crate) machine: Machine,
    /// The share of the machine that other processes used meanwhile.
    others: Option<f64>,
    most_load: f64,
    despite: &'static str,
    elapsed: Duration,
    /// What helps if the rounds were too few for advice.
    hint: Option<String>,
    /// True if ctrl-C ended it early.
    interrupted: bool,
}

impl Trial {
    /// Makes the runs, by calling `run` for each. The flag asks it to measure delays, as the plan says.
    ///
    /// # Errors
    ///
    /// `run` returns an error that concerns all settings, such as a program that cannot be started.
    pub fn run(
        plan: &Plan,
        mut run: impl FnMut(&Setting, bool) -> Result<Tried, LabError>,
    ) -> Result<Self, LabError> {
        let mut progress = Progress::new(false, plan.budget);
        let mut cells: Vec<SettingRuns> = plan.settings.iter().cloned().map(SettingRuns::new).collect();
        let mut notes = Vec::new();
        let (start, usage) = (Instant::now(), Usage::now());
        let needed = pairs_needed(cells.len().saturating_sub(1));
        let mut time = Rounds::new(plan.budget, cells.len(), plan.rounds, needed);
        let (mut rounds, mut made) = (0, 0);
        'rounds: while rounds < plan.rounds {
            let kept = rounds > 0 || plan.rounds == 1;
            for (place, at) in order(cells.len(), rounds).into_iter().enumerate() {
                let count = cells.len();
                let cell = &mut cells[at];
                if cell.failure.is_some() || cell.left_out {
                    continue;
                }
                progress.begins(
                    rounds * count + place,
                    count,
                    count * plan.rounds,
                    &cell.setting.words(),
                );
                let mut counted = None;
                let tried = run(&cell.setting, plan.measures);
                if interrupt::is_asked() {
                    // The run was ended by it, so nothing is known of the program.
                    break 'rounds;
                }
                match tried? {
                    Tried::Ran(ran) => {
                        cell.last = Some(ran.clone());
                        cell.first.get_or_insert_with(|| ran.clone());
                        counted = kept.then_some(ran);
                    }
                    Tried::LeftOut(reason) => {
                        let without_workers = Setting {
                            workers: None,
                            policy: cell.setting.policy.clone(),
                        };
                        let note = format!("{} is left out: {reason}", without_workers.words());
                        // The reason is the same for all numbers of workers.
                        if !notes.contains(&note) {
                            notes.push(note);
                        }
                        cell.left_out = true;
                    }
                    Tried::Failed(reason) => {
                        let failure = format!("{}: {reason}", cell.setting.words());
                        progress.say(&format!("did not complete: {failure}"));
                        cell.failure = Some(failure);
                    }
                }
                // A round in which it has no run leaves a gap, so that runs pair up by round.
                cell.runs.resize(rounds, None);
                cell.runs.push(counted);
                made += 1;
                if let Some(warning) = time.warning(made) {
                    progress.say(&warning);
                }
            }
            rounds += 1;
            let is_over = cells.iter().all(|cell| cell.failure.is_some() || cell.left_out);
            if is_over || !time.has_room(rounds) {
                break;
            }
        }
        progress.end();
        let interrupted = interrupt::is_asked();
        if interrupted && rounds == 0 {
            return Err(LabError::Interrupted(String::from("no round was finished")));
        }
        for cell in &mut cells {
            cell.keep(rounds);
        }
        let others = usage.zip(Usage::now());
        cells.retain(|cell| !cell.left_out);
        Ok(Self {
            title: plan.title.clone(),
            cells,
            rounds,
            rounds_asked: plan.rounds,
            notes,
            machine: Machine::here(),
            others: others.and_then(|(before, after)| after.others_since(&before)),
            most_load: plan.most_load,
            despite: plan.despite,
            elapsed: start.elapsed(),
            hint: time.advice(start.elapsed(), rounds),
            interrupted,
        })
    }

    /// Says what the program has without a setting, in words, such as "`fifo` on 2 workers".
    pub fn describe_baseline(&mut self, detail: impl Into<String>) {
        if let Some(baseline) = self
            .cells
            .first_mut()
            .filter(|cell| cell.setting == Setting::default())
        {
            baseline.detail = detail.into();
        }
    }

    /// The program as it is.
    pub(crate) fn baseline(&self) -> Option<&SettingRuns> {
        self.cells
            .first()
            .filter(|cell| cell.setting == Setting::default())
    }

    /// Returns true if ctrl-C ended it early. Only the command handles ctrl-C.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Returns the settings that failed, each with the reason.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().filter_map(|cell| cell.failure.as_deref())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A setting of that policy.
    pub(crate) fn policy(name: &str) -> Setting {
        Setting {
            policy: Some(name.to_owned()),
            workers: None,
        }
    }

    /// A trial in which each setting takes that many milliseconds; `others` is the load of the machine.
    pub(crate) fn trial(times: &[(&str, f64)], rounds: usize, others: f64) -> Trial {
        let settings = std::iter::once(Setting::default());
        let settings = settings.chain(times.iter().skip(1).map(|(name, _)| policy(name)));
        let plan = Plan {
            rounds,
            ..Plan::new("./program", settings.collect(), None)
        };
        let mut runs = 0.0;
        let run = |setting: &Setting, measures: bool| {
            let name = setting.policy.as_deref().unwrap_or("as it is");
            let found = times.iter().find(|(other, _)| *other == name);
            // A thousandth of noise.
            runs += 1.0;
            let seconds = found.map_or(0.0, |(_, ms)| ms / 1e3 * (1.0 + (runs % 3.0) / 1e3));
            Ok(Tried::Ran(Ran {
                wall: Duration::from_secs_f64(seconds),
                cpu: Some(Duration::from_secs_f64(seconds * 2.0)),
                counters: vec![(String::from("ran"), 7.0)],
                delays: Delays {
                    run_time: [(1500, 4), (21_000, 3)]
                        .into_iter()
                        .filter(|_| measures)
                        .collect(),
                    ..Delays::default()
                },
            }))
        };
        let mut trial = Trial::run(&plan, run).unwrap();
        trial.others = Some(others);
        trial
    }

    #[test]
    fn settings_take_turns_and_one_that_fails_or_is_left_out_is_not_run_again() {
        let settings = vec![
            Setting::default(),
            policy("hangs"),
            policy("absent"),
            policy("fifo"),
        ];
        let plan = Plan {
            rounds: 4,
            ..Plan::new("./program", settings, None)
        };
        let mut calls = Vec::new();
        let trial = Trial::run(&plan, |setting, _| {
            let name = setting.policy.clone().unwrap_or_default();
            calls.push(name.clone());
            Ok(match name.as_str() {
                "hangs" => Tried::Failed(String::from("no end within 1 s")),
                "absent" => Tried::LeftOut(String::from("it needs a feature")),
                _ => Tried::Ran(Ran::default()),
            })
        })
        .unwrap();
        let count = |name: &str| calls.iter().filter(|call| *call == name).count();
        assert_eq!(
            (count(""), count("fifo"), count("hangs"), count("absent")),
            (4, 4, 1, 1)
        );
        let counted: Vec<usize> = trial.cells.iter().map(SettingRuns::count).collect();
        assert_eq!(counted, [3, 0, 3], "the first round does not count");
        assert_eq!(
            trial.failures().collect::<Vec<_>>(),
            ["`hangs`: no end within 1 s"]
        );
        assert_eq!(trial.notes, ["`absent` is left out: it needs a feature"]);
    }

    #[test]
    fn the_time_that_is_given_ends_it_after_the_first_round_which_counts_then() {
        let plan = Plan::new(
            "./program",
            vec![Setting::default(), policy("lifo")],
            Some(Duration::ZERO),
        );
        let trial = Trial::run(&plan, |_, _| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(Tried::Ran(Ran::default()))
        })
        .unwrap();
        assert_eq!((trial.rounds, trial.cells[0].count()), (1, 1));
        let advice = trial.advice();
        assert!(
            advice.contains("(1 counted, 6 are needed)") && advice.contains("`--budget 1`"),
            "{advice}"
        );
    }

    #[test]
    fn an_interrupt_in_the_second_round_leaves_the_runs_of_the_first() {
        let ran = |seconds| {
            Some(Ran {
                wall: Duration::from_secs(seconds),
                ..Ran::default()
            })
        };
        // The first of two settings has run twice, and neither run counted so far.
        let kept = [(2, 1), (2, 2)].map(|(first, last)| {
            let mut cell = SettingRuns::new(policy("fifo"));
            (cell.first, cell.last) = (ran(first), ran(last));
            cell.runs = [None, ran(last)][..if first == last { 1 } else { 2 }].to_vec();
            cell.keep(1);
            cell.runs
        });
        assert_eq!(kept, [vec![ran(2)], vec![ran(2)]]);
    }

    #[test]
    fn a_policy_that_is_left_out_is_said_once() {
        let workers = |count| Setting {
            workers: Some(count),
            ..policy("absent")
        };
        let settings = vec![Setting::default(), workers(1), workers(2), workers(4)];
        let plan = Plan::new("./program", settings, None);
        let trial = Trial::run(&plan, |setting, _| {
            Ok(match setting.policy {
                Some(_) => Tried::LeftOut(String::from("it needs a feature")),
                None => Tried::Ran(Ran::default()),
            })
        })
        .unwrap();
        assert_eq!(trial.notes, ["`absent` is left out: it needs a feature"]);
    }
}
