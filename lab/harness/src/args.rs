//! The arguments that commands share, and the jobs that they ask for.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use crate::error::LabError;
use crate::lab::{Lab, check_workers};
use crate::params::variations;
use crate::session::{Cell, Job, SessionLimits};
use crate::stats::PAIRS_NEEDED;
use crate::workload::{About, Files};

/// What is run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Settings of the workload, KEY=VALUE; `list` shows the keys. One may have several values, KEY=A,B,C:
    /// each is measured by itself
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,

    /// How many packets or tasks: short for n=N
    #[arg(short, long, value_name = "N")]
    pub(crate) n: Option<String>,

    /// Packets under way at most, 0 for no bound: short for window=N
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<String>,

    /// Files that flags of workloads name.
    #[arg(skip)]
    pub(crate) files: Files,

    /// A runtime, or `all`; may be repeated, or a list with commas
    #[arg(short, long = "runtime", value_name = "NAME", value_delimiter = ',')]
    pub(crate) runtimes: Vec<String>,

    /// A policy, for the runtime that has policies, such as lifo+steal=one; may be repeated, or a list with
    /// commas
    #[arg(short, long = "policy", value_name = "POLICY", value_delimiter = ',')]
    pub(crate) policies: Vec<String>,

    /// Worker threads: a number, a list with commas, or 1..64: the least, its doubles, and the most
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    pub(crate) workers: Vec<WorkerCounts>,

    /// Seconds after which a single run is ended [default: 120]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) limit: Option<u64>,

    /// All runs in this process, for profilers; runs then inherit each other's heap
    #[arg(long, hide = true)]
    pub(crate) in_process: bool,
}

/// Numbers of workers: `8`, or `1..64`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerCounts(pub(crate) Vec<usize>);

impl FromStr for WorkerCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.parse::<usize>();
            number.map_err(|error| format!("{text:?} is no number of workers: {error}"))
        };
        let Some((least, most)) = text.split_once("..") else {
            return Ok(Self(vec![number(text)?]));
        };
        let (least, most) = (number(least)?, number(most)?);
        if least == 0 || least > most {
            return Err(String::from("a range is LEAST..MOST, from 1 on: 1..64"));
        }
        let doubles = std::iter::successors(Some(least), |count| count.checked_mul(2));
        let mut counts: Vec<usize> = doubles.take_while(|count| *count < most).collect();
        counts.push(most);
        Ok(Self(counts))
    }
}

/// The defaults of a command.
pub(crate) struct Defaults {
    pub(crate) runtimes: Usual,
    pub(crate) policies: Vec<String>,
    pub(crate) workers: Vec<usize>,
}

/// The contestants that take part if none are named.
#[derive(Clone, Copy)]
pub(crate) enum Usual {
    /// The first of the list.
    First,
    /// Those that the workload names.
    Explored,
    /// All.
    All,
}

impl Usual {
    fn runtimes(self, lab: &Lab, about: &About) -> Vec<&'static str> {
        let all = lab.peers.iter().map(|peer| peer.info().name);
        match self {
            Self::First => all.take(1).collect(),
            Self::Explored if !about.explored.is_empty() => about.explored.to_vec(),
            Self::Explored | Self::All => all.collect(),
        }
    }
}

/// Reads a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| String::from("a whole number of seconds from 0 on is needed, such as 60"))
}

impl Selection {
    /// The limits of a session with at most `rounds` rounds.
    pub(crate) fn limits(&self, rounds: usize, budget: Option<Duration>) -> Result<SessionLimits, LabError> {
        if rounds == 0 {
            return Err(LabError::Usage(String::from(
                "--repeat 0: at least one round is needed",
            )));
        }
        // Not clap's default: the bare command has no arguments to parse.
        let limit = self.limit.unwrap_or(120);
        if limit == 0 {
            return Err(LabError::Usage(String::from("--limit 0: a run needs some time")));
        }
        Ok(SessionLimits {
            rounds,
            budget,
            advises: false,
            needed: PAIRS_NEEDED,
            limit: Duration::from_secs(limit),
            in_process: self.in_process,
        })
    }

    /// A job for each value of the setting that has several, which share the budget.
    pub(crate) fn jobs(
        &self,
        lab: &Lab,
        workload: &str,
        smoke: bool,
        defaults: &Defaults,
        limits: &SessionLimits,
    ) -> Result<Vec<Job>, LabError> {
        let mut settings = self.settings.clone();
        settings.extend(self.n.iter().map(|n| format!("n={n}")));
        settings.extend(self.window.iter().map(|window| format!("window={window}")));
        let variations = variations(&settings)?;
        let parts = u32::try_from(variations.len()).unwrap_or(u32::MAX);
        let limits = SessionLimits {
            budget: limits.budget.map(|budget| budget / parts),
            ..limits.clone()
        };
        variations
            .iter()
            .map(|settings| self.job(lab, workload, smoke, defaults, &limits, settings))
            .collect()
    }

    fn job(
        &self,
        lab: &Lab,
        workload: &str,
        smoke: bool,
        defaults: &Defaults,
        limits: &SessionLimits,
        settings: &[String],
    ) -> Result<Job, LabError> {
        let chosen = lab.choose(workload, smoke, settings, &self.files, limits.limit)?;
        let cells = self.cells(lab, chosen.workload.about(), defaults)?;
        let template = chosen.request(self.files.clone());
        let command = std::iter::once(lab.name.to_owned())
            .chain(std::env::args().skip(1))
            .collect::<Vec<_>>();
        Ok(Job {
            chosen,
            template,
            cells,
            limits: limits.clone(),
            command: command.join(" "),
        })
    }

    /// All contestants with all worker counts.
    fn cells(&self, lab: &Lab, about: &About, defaults: &Defaults) -> Result<Vec<Cell>, LabError> {
        let usual = defaults.runtimes.runtimes(lab, about);
        let home = lab.home().map(|(name, _)| name);
        let runtimes = match self.runtimes.as_slice() {
            [] if !self.policies.is_empty() && home.is_some_and(|home| !usual.contains(&home)) => {
                home.into_iter().collect()
            }
            [] => usual,
            names if names.iter().any(|name| name == "all") => Usual::All.runtimes(lab, about),
            names => {
                let named = |name: &String| Ok(lab.peer(name)?.info().name);
                names.iter().map(named).collect::<Result<_, LabError>>()?
            }
        };
        if !self.policies.is_empty() && home.is_none_or(|home| !runtimes.contains(&home)) {
            return Err(LabError::Usage(format!(
                "--policy chooses a policy of the runtime {}, and --runtime leaves that out",
                home.unwrap_or("that has policies")
            )));
        }
        let policies = match self.policies.as_slice() {
            [] => &defaults.policies,
            policies => policies,
        };
        for policy in policies {
            lab.check_policy(policy)?;
        }
        let named = self.workers.iter().flat_map(|counts| counts.0.iter().copied());
        let mut workers: Vec<usize> = named.collect();
        if workers.is_empty() {
            workers.clone_from(&defaults.workers);
        }
        let mut cells: Vec<Cell> = Vec::new();
        for workers in workers {
            check_workers(workers)?;
            for &runtime in &runtimes {
                let policies: Vec<Option<String>> = if home == Some(runtime) {
                    policies.iter().cloned().map(Some).collect()
                } else {
                    vec![None]
                };
                for policy in policies {
                    let cell = Cell {
                        runtime,
                        policy,
                        workers,
                    };
                    if !cells.contains(&cell) {
                        cells.push(cell);
                    }
                }
            }
        }
        Ok(cells)
    }
}
