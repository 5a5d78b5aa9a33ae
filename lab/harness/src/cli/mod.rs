//! The command line, and what it asks for as data.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser,
};

use crate::error::{LabError, choose};
use crate::isolate;
use crate::lab::{Chosen, Lab, check_workers};
use crate::machine::cpus;
use crate::params::variations;
use crate::session::{Cell, Pace};
use crate::workload::{About, Files, Request};
use crate::{bench, explore, list, results};

mod compare;

pub(crate) use compare::CompareArgs;

/// Workloads x runtimes x scheduling policies: what each policy does to throughput and tail latency.
///
/// Without a command it explores the usual workload: a table here and a report in HTML.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Compare policies, worker counts and peers on a workload: table, HTML report, and which policy to take
    Explore(ExploreArgs),
    /// Run a workload and print its figures
    Bench(BenchArgs),
    /// Run the whole set of comparisons of schedulers and write one report, with what was published beside it
    Compare(CompareArgs),
    /// Measure the lines of the results document and write their tables into it
    Results(ResultsArgs),
    /// List the workloads, their parameters, the runtimes and the policies
    List,
    /// One run, asked for as JSON on standard input: how the others make their runs
    #[command(name = isolate::COMMAND, hide = true)]
    RunOne,
}

impl Default for Command {
    fn default() -> Self {
        Self::Explore(ExploreArgs::default())
    }
}

/// The commands that are not hidden.
const COMMANDS: [&str; 5] = ["explore", "bench", "compare", "results", "list"];

/// What is run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Settings of the workload, KEY=VALUE; `list` shows the keys. One may have several values, KEY=A,B,C:
    /// each is measured by itself
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,

    /// How many packets or tasks: short for n=N
    #[arg(short, long, value_name = "N")]
    n: Option<String>,

    /// Packets under way at most, 0 for no bound: short for window=N
    #[arg(long, value_name = "N")]
    window: Option<String>,

    /// Files that flags of workloads name.
    #[arg(skip)]
    files: Files,

    /// A runtime, or `all`; may be repeated, or a list with commas
    #[arg(short, long = "runtime", value_name = "NAME", value_delimiter = ',')]
    runtimes: Vec<String>,

    /// A policy, for the runtime that has policies, such as lifo+steal=one; may be repeated, or a list with
    /// commas
    #[arg(short, long = "policy", value_name = "POLICY", value_delimiter = ',')]
    policies: Vec<String>,

    /// Worker threads: a number, or a list with commas
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    workers: Vec<usize>,

    /// Seconds after which a single run is ended [default: 120]
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,

    /// All runs in this process, for profilers; runs then inherit each other's heap
    #[arg(long, hide = true)]
    in_process: bool,
}

/// `bench`.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// A workload, with a variant if you like: packet, packet/heavier
    #[arg(value_name = "WORKLOAD")]
    workload: String,

    #[command(flatten)]
    selection: Selection,

    /// Rounds; the first is not counted unless it is the only one
    #[arg(long, value_name = "N", default_value_t = 11)]
    repeat: usize,

    /// One JSON object per run on standard output; the summary goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
}

/// `explore`.
#[derive(Args, Debug, Default)]
pub(crate) struct ExploreArgs {
    /// A workload, with a variant if you like: packet, packet/heavier [default: the usual one]
    #[arg(value_name = "WORKLOAD")]
    workload: Option<String>,

    #[command(flatten)]
    selection: Selection,

    /// Rounds at most; the first is not counted unless it is the only one [default: 11]
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,

    /// No round is begun that would end later than this [default: 75]
    #[arg(long, value_name = "SECONDS")]
    budget: Option<u64>,

    /// Everything once, in tiny sizes: shows that all works, and nothing else
    #[arg(long)]
    smoke: bool,

    /// Where the report goes [default: reports/explore-WORKLOAD.html]
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Writes all runs and conclusions as one JSON document
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// `results`.
#[derive(Args, Debug)]
pub(crate) struct ResultsArgs {
    /// Which tables [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// The sizes and the rounds of a document that is published; without it, smaller ones
    #[arg(long)]
    pub(crate) full: bool,

    /// The document, in which the tables are between two markers
    #[arg(long, value_name = "FILE", default_value = "docs/RESULTS.md")]
    pub(crate) file: PathBuf,

    /// All runs in this process; runs then inherit each other's heap
    #[arg(long, hide = true)]
    pub(crate) in_process: bool,
}

/// What a command is to run.
pub struct Job {
    /// The workload with its parameters.
    pub chosen: Chosen,
    /// A request to which runtime, policy and workers are still to be filled in.
    pub template: Request,
    /// The contestants with their worker counts.
    pub cells: Vec<Cell>,
    /// How often and how long.
    pub pace: Pace,
    /// The command line, for the records.
    pub command: String,
}

/// Reads the command line and does what it says.
pub(crate) fn run(lab: &Lab) -> Result<(), LabError> {
    let Some(command) = parse(lab, std::env::args_os())? else {
        return Ok(());
    };
    match command {
        Command::Explore(arguments) => explore::run(lab, &arguments),
        Command::Bench(arguments) => bench::run(lab, &arguments),
        Command::Compare(arguments) => crate::compare::run(lab, &arguments),
        Command::Results(arguments) => results::run(lab, &arguments),
        Command::List => list::run(lab),
        Command::RunOne => isolate::answer(lab),
    }
}

/// The arguments as clap knows them, with the flags of the workloads.
fn command(lab: &Lab) -> clap::Command {
    let flags = |mut command: clap::Command| {
        for flag in lab.workloads.iter().flat_map(|workload| workload.about().files) {
            let action = if flag.many {
                ArgAction::Append
            } else {
                ArgAction::Set
            };
            let argument = Arg::new(flag.name).long(flag.name).help(flag.about);
            let path = value_parser!(PathBuf);
            command = command.arg(argument.value_name("FILE").value_parser(path).action(action));
        }
        command
    };
    let command = Cli::command().name(lab.name).bin_name(lab.name);
    command.mut_subcommands(|one| match one.get_name() {
        "bench" | "explore" => flags(one),
        _ => one,
    })
}

/// The files that were named.
fn files(lab: &Lab, matches: &ArgMatches) -> Files {
    let mut files = Files::default();
    for flag in lab.workloads.iter().flat_map(|workload| workload.about().files) {
        let named = matches.get_many::<PathBuf>(flag.name).into_iter().flatten();
        files.insert(flag.name, named.cloned().collect());
    }
    files
}

/// Parses the command line; `None` if it asked for help or the version and has it.
fn parse(lab: &Lab, words: impl IntoIterator<Item = OsString>) -> Result<Option<Command>, LabError> {
    let parsed = command(lab).try_get_matches_from(words).and_then(|matches| {
        let mut command = Cli::from_arg_matches(&matches)?.command.unwrap_or_default();
        match (&mut command, matches.subcommand()) {
            (Command::Bench(BenchArgs { selection, .. }), Some((_, matches)))
            | (Command::Explore(ExploreArgs { selection, .. }), Some((_, matches))) => {
                selection.files = files(lab, matches);
            }
            _ => {}
        }
        Ok(command)
    });
    match parsed {
        Ok(command) => Ok(Some(command)),
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let given = match error.get(ContextKind::InvalidSubcommand) {
                Some(ContextValue::String(given)) => given.as_str(),
                _ => "",
            };
            choose("commands", given, &COMMANDS)?;
            Err(LabError::Usage(error.to_string()))
        }
        Err(error) if error.use_stderr() => {
            // clap begins its messages with "error: ", as we do.
            let text = error.to_string();
            Err(LabError::Usage(
                text.strip_prefix("error: ")
                    .unwrap_or(&text)
                    .trim_end()
                    .to_owned(),
            ))
        }
        Err(help) => {
            help.print()?;
            Ok(None)
        }
    }
}

/// What a command line would run.
pub(crate) fn plan(lab: &Lab, line: &str) -> Result<Vec<Job>, LabError> {
    let words = std::iter::once(lab.name).chain(line.split_whitespace());
    match parse(lab, words.map(OsString::from))? {
        Some(Command::Bench(arguments)) => arguments.jobs(lab),
        Some(Command::Explore(arguments)) => arguments.jobs(lab),
        Some(Command::Compare(arguments)) => {
            let (jobs, _) = arguments.jobs(lab)?;
            Ok(jobs.into_iter().map(|(_, job)| job).collect())
        }
        _ => Ok(Vec::new()),
    }
}

impl BenchArgs {
    /// What to run, one after the other.
    pub(crate) fn jobs(&self, lab: &Lab) -> Result<Vec<Job>, LabError> {
        let defaults = Defaults {
            runtimes: Usual::First,
            policies: lab
                .home()
                .map(|(_, policies)| policies.usual().to_owned())
                .into_iter()
                .collect(),
            workers: vec![cpus()],
        };
        let pace = self.selection.pace(self.repeat, None)?;
        self.selection.jobs(lab, &self.workload, false, &defaults, &pace)
    }
}

impl ExploreArgs {
    /// What to run, one after the other.
    pub(crate) fn jobs(&self, lab: &Lab) -> Result<Vec<Job>, LabError> {
        let cpus = cpus();
        // `explore n=1000`: the first word is a setting already, the workload is the default.
        let mut selection = self.selection.clone();
        let workload = match self.workload.as_deref() {
            Some(setting) if setting.contains('=') => {
                selection.settings.insert(0, setting.to_owned());
                lab.usual
            }
            Some(workload) => workload,
            None => lab.usual,
        };
        let (repeat, budget) = if self.smoke { (1, None) } else { (11, Some(75)) };
        let budget = self.budget.or(budget).map(Duration::from_secs);
        let pace = self.selection.pace(self.repeat.unwrap_or(repeat), budget)?;
        let explored = lab.home().map(|(_, policies)| policies.explored());
        let defaults = Defaults {
            runtimes: if self.smoke { Usual::All } else { Usual::Explored },
            policies: explored.into_iter().flatten().map(ToString::to_string).collect(),
            workers: BTreeSet::from([1, cpus, 2 * cpus]).into_iter().collect(),
        };
        selection.jobs(lab, workload, self.smoke, &defaults, &pace)
    }
}

/// What is taken when nothing is said.
struct Defaults {
    runtimes: Usual,
    policies: Vec<String>,
    workers: Vec<usize>,
}

/// Which contestants take part if none are named.
#[derive(Clone, Copy)]
enum Usual {
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

impl Selection {
    fn pace(&self, rounds: usize, budget: Option<Duration>) -> Result<Pace, LabError> {
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
        Ok(Pace {
            rounds,
            budget,
            limit: Duration::from_secs(limit),
            in_process: self.in_process,
        })
    }

    /// A job for each value of the setting that has several, which share the budget.
    fn jobs(
        &self,
        lab: &Lab,
        workload: &str,
        smoke: bool,
        defaults: &Defaults,
        pace: &Pace,
    ) -> Result<Vec<Job>, LabError> {
        let mut settings = self.settings.clone();
        settings.extend(self.n.iter().map(|n| format!("n={n}")));
        settings.extend(self.window.iter().map(|window| format!("window={window}")));
        let variations = variations(&settings)?;
        let parts = u32::try_from(variations.len()).unwrap_or(u32::MAX);
        let pace = Pace {
            budget: pace.budget.map(|budget| budget / parts),
            ..pace.clone()
        };
        variations
            .iter()
            .map(|settings| self.job(lab, workload, smoke, defaults, &pace, settings))
            .collect()
    }

    fn job(
        &self,
        lab: &Lab,
        workload: &str,
        smoke: bool,
        defaults: &Defaults,
        pace: &Pace,
        settings: &[String],
    ) -> Result<Job, LabError> {
        let chosen = lab.choose(workload, smoke, settings, &self.files, pace.limit)?;
        let cells = self.cells(lab, chosen.workload.about(), defaults)?;
        let template = chosen.request(self.files.clone());
        let command = std::iter::once(lab.name.to_owned())
            .chain(std::env::args().skip(1))
            .collect::<Vec<_>>();
        Ok(Job {
            chosen,
            template,
            cells,
            pace: pace.clone(),
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
        let workers = match self.workers.as_slice() {
            [] => &defaults.workers,
            workers => workers,
        };
        let mut cells: Vec<Cell> = Vec::new();
        for &workers in workers {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lab;

    fn job(line: &str) -> Result<Job, LabError> {
        let mut jobs = plan(lab(), line)?;
        assert!(!jobs.is_empty(), "{line}");
        Ok(jobs.remove(0))
    }

    #[test]
    fn the_command_line_is_consistent() {
        let command = command(lab());
        command.clone().debug_assert();
        let visible: Vec<&str> = command
            .get_subcommands()
            .filter(|one| !one.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(visible, COMMANDS);
    }

    #[test]
    fn without_words_it_explores_the_usual_workload() {
        let bare = job("").unwrap();
        let said = job("explore").unwrap();
        assert_eq!(bare.chosen.name, "packet");
        assert_eq!(
            (bare.pace.limit, bare.cells.len()),
            (said.pace.limit, said.cells.len())
        );
    }

    #[test]
    fn contestants_are_runtimes_times_policies_times_workers() {
        let job =
            job("bench packet n=10 --runtime home,rayon --policy fifo --policy lifo --workers 1,2").unwrap();
        let cells: Vec<String> = job
            .cells
            .iter()
            .map(|cell| format!("{}/{}", cell.contestant(), cell.workers))
            .collect();
        assert_eq!(
            cells,
            ["fifo/1", "lifo/1", "rayon/1", "fifo/2", "lifo/2", "rayon/2"]
        );
        assert_eq!(job.chosen.params.number("n"), 10);
        assert_eq!(job.pace.rounds, 11);
    }

    #[test]
    fn a_setting_may_have_several_values_which_share_the_budget() {
        let jobs = plan(lab(), "explore wait wait=1,50 n=7 --budget 60").unwrap();
        let waits: Vec<u64> = jobs.iter().map(|job| job.chosen.params.number("wait")).collect();
        assert_eq!(waits, [1, 50]);
        for job in jobs {
            assert_eq!(job.template.params.number("n"), 7);
            assert_eq!(job.pace.budget, Some(Duration::from_secs(30)));
        }
    }

    #[test]
    fn explore_takes_several_policies_and_worker_counts() {
        let job = job("explore").unwrap();
        assert!(
            job.cells.iter().filter(|cell| cell.policy.is_some()).count()
                >= 2 * lab().home().unwrap().1.explored().len()
        );
        assert!(job.pace.budget.is_some());
    }

    #[test]
    fn a_comparison_has_the_size_and_the_contestants_that_are_asked_for() {
        let quick = job("compare churn --quick").unwrap();
        assert_eq!(quick.chosen.params.number("ms"), 100);
        let slow = job("compare churn").unwrap();
        assert_eq!(slow.chosen.params.number("ms"), 400);
        assert!(slow.cells.len() > quick.cells.len() && slow.pace.rounds > quick.pace.rounds);
        let both = job("compare churn --workers 1 --policy fifo,lifo").unwrap();
        let names: Vec<String> = both.cells.iter().map(Cell::contestant).collect();
        assert_eq!(names, ["fifo", "lifo", "tokio"]);
    }

    #[test]
    fn short_settings_and_long_ones_are_the_same() {
        let short = job("bench packet -n 5k --window 0").unwrap();
        let long = job("bench packet n=5000 window=0").unwrap();
        assert_eq!(short.chosen.params, long.chosen.params);
    }

    #[test]
    fn wrong_requests_say_what_would_be_right() {
        let error = |line: &str| job(line).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error("bench pakcet").contains("did you mean `packet`?"));
        assert!(error("bench packet --runtime tokyo").contains("did you mean `tokio`?"));
        assert!(error("bench packet --workers 0").contains("from 1 to"));
        assert!(error("bench packet --workers 1000000").contains("from 1 to"));
        assert!(error("bench packet --repeat 0").contains("at least one"));
        assert!(error("bench packet --policy fifo --runtime rayon").contains("leaves that out"));
        assert!(error("bench spawn --list x.csv").contains("is for the workload packet"));
        assert!(error("compare chrun").contains("did you mean `churn`?"));
        assert!(error("compare churn --runtime rayon").contains("takes part in none"));
        assert!(error("compare churn --minutes 0").contains("some time"));
        assert!(error("compare --runtime tokio --policy fifo").contains("leaves that out"));
        assert!(error("bench packet --policy filo").contains("fifo"));
        assert!(error("bench packet --workers two").contains("two"));
    }
}
