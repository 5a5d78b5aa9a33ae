//! The command line, and what it asks for as data.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};

use crate::error::{LabError, choose};
use crate::harness::isolate;
use crate::harness::machine::cpus;
use crate::harness::session::{Cell, Pace};
use crate::peers::{self, RUNTIMES, Runtime};
use crate::workloads::spec::{self, Chosen, Kind};
use crate::workloads::{Request, capture};
use crate::{bench, explore, list};

/// Workloads x runtimes x scheduling policies: what each policy does to throughput and tail latency.
///
/// Without a command it explores the bundled capture of HTTP traffic: a table here and a report in HTML.
#[derive(Parser)]
#[command(name = "warpweft", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Compare policies, worker counts and peers on a workload: table, HTML report, and which policy to take
    Explore(ExploreArgs),
    /// Run a workload and print its figures
    Bench(BenchArgs),
    /// List the workloads, their parameters, the runtimes and the policies
    List,
    /// One run, asked for as JSON on standard input: how the others make their runs
    #[command(name = isolate::COMMAND, hide = true)]
    RunOne,
}

/// The commands that are not hidden.
const COMMANDS: [&str; 3] = ["explore", "bench", "list"];

/// What is run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Settings of the workload, KEY=VALUE; `warpweft list` shows the keys
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,

    /// How many packets or tasks: short for n=N
    #[arg(short, long, value_name = "N")]
    n: Option<String>,

    /// Packets under way at most, 0 for no bound: short for window=N
    #[arg(long, value_name = "N")]
    window: Option<String>,

    /// The capture that the workload `pcap` replays, pcap or pcapng with Ethernet frames [default: the bundled one]
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// A runtime, or `all`; may be repeated, or a list with commas
    #[arg(short, long = "runtime", value_name = "NAME", value_delimiter = ',')]
    runtimes: Vec<String>,

    /// A policy of the warpweft runtime, such as lifo+steal=one; may be repeated, or a list with commas
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

/// `warpweft bench`.
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

/// `warpweft explore`.
#[derive(Args, Debug, Default)]
pub(crate) struct ExploreArgs {
    /// A workload, with a variant if you like: packet, packet/heavier [default: pcap]
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

/// What a command is to run.
pub(crate) struct Job {
    /// The workload with its parameters.
    pub(crate) chosen: Chosen,
    /// A request to which runtime, policy and workers are still to be filled in.
    pub(crate) template: Request,
    /// The contestants with their worker counts.
    pub(crate) cells: Vec<Cell>,
    /// How often and how long.
    pub(crate) pace: Pace,
    /// The command line, for the records.
    pub(crate) command: String,
}

/// Reads the command line and does what it says.
pub(crate) fn run() -> Result<(), LabError> {
    let Some(arguments) = parse()? else { return Ok(()) };
    match arguments.command {
        None => explore::run(&ExploreArgs::default()),
        Some(Command::Explore(arguments)) => explore::run(&arguments),
        Some(Command::Bench(arguments)) => bench::run(&arguments),
        Some(Command::List) => list::run(),
        Some(Command::RunOne) => isolate::answer(),
    }
}

/// Parses the command line; `None` if it asked for help or the version and has it.
fn parse() -> Result<Option<Cli>, LabError> {
    match Cli::try_parse() {
        Ok(arguments) => Ok(Some(arguments)),
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

impl BenchArgs {
    /// What to run.
    pub(crate) fn job(&self) -> Result<Job, LabError> {
        let defaults = Defaults {
            runtimes: |_| vec![Runtime::Warpweft],
            policies: vec![peers::default_policy()],
            workers: vec![cpus()],
        };
        let pace = self.selection.pace(self.repeat, None)?;
        self.selection.job(&self.workload, false, defaults, pace)
    }
}

impl ExploreArgs {
    /// What to run.
    pub(crate) fn job(&self) -> Result<Job, LabError> {
        let cpus = cpus();
        // `explore n=1000`: the first word is a setting already, the workload is the default.
        let mut selection = self.selection.clone();
        let workload = match self.workload.as_deref() {
            Some(setting) if setting.contains('=') => {
                selection.settings.insert(0, setting.to_owned());
                spec::DEFAULT
            }
            Some(workload) => workload,
            None => spec::DEFAULT,
        };
        let (repeat, budget) = if self.smoke { (1, None) } else { (11, Some(75)) };
        let budget = self.budget.or(budget).map(Duration::from_secs);
        let pace = self.selection.pace(self.repeat.unwrap_or(repeat), budget)?;
        let defaults = Defaults {
            runtimes: if self.smoke {
                |_| RUNTIMES.to_vec()
            } else {
                peers::explored
            },
            policies: peers::explored_policies(),
            workers: BTreeSet::from([1, cpus, 2 * cpus]).into_iter().collect(),
        };
        selection.job(workload, self.smoke, defaults, pace)
    }
}

/// What is taken when nothing is said.
struct Defaults {
    runtimes: fn(Kind) -> Vec<Runtime>,
    policies: Vec<String>,
    workers: Vec<usize>,
}

impl Selection {
    fn pace(&self, rounds: usize, budget: Option<Duration>) -> Result<Pace, LabError> {
        if rounds == 0 {
            return Err(LabError::Usage(String::from(
                "--repeat 0: at least one round is needed",
            )));
        }
        // Not clap's default: `warpweft` alone has no arguments to parse.
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

    fn job(&self, workload: &str, smoke: bool, defaults: Defaults, pace: Pace) -> Result<Job, LabError> {
        let mut settings = self.settings.clone();
        settings.extend(self.n.iter().map(|n| format!("n={n}")));
        settings.extend(self.window.iter().map(|window| format!("window={window}")));
        let chosen = spec::parse(workload, smoke, &settings)?;
        if let Some(path) = &self.pcap {
            if chosen.workload.kind != Kind::Pcap {
                return Err(LabError::Usage(format!(
                    "--pcap is read by the workload pcap, not by {}",
                    chosen.name
                )));
            }
            // A file that is no capture is refused now, not by every run.
            capture::Capture::load(Some(path))?;
        }
        let cells = self.cells(chosen.workload.kind, defaults)?;
        let template = Request {
            workload: chosen.name.clone(),
            kind: chosen.workload.kind,
            params: chosen.params.clone(),
            capture: self.pcap.clone(),
            runtime: String::new(),
            policy: None,
            workers: 0,
        };
        let command = std::iter::once(String::from("warpweft"))
            .chain(std::env::args().skip(1))
            .collect::<Vec<_>>();
        Ok(Job {
            chosen,
            template,
            cells,
            pace,
            command: command.join(" "),
        })
    }

    /// All contestants with all worker counts.
    fn cells(&self, kind: Kind, defaults: Defaults) -> Result<Vec<Cell>, LabError> {
        let usual = (defaults.runtimes)(kind);
        let runtimes = match self.runtimes.as_slice() {
            [] if !self.policies.is_empty() && !usual.contains(&Runtime::Warpweft) => {
                vec![Runtime::Warpweft]
            }
            [] => usual,
            names if names.iter().any(|name| name == "all") => RUNTIMES.to_vec(),
            names => names
                .iter()
                .map(|name| Runtime::parse(name))
                .collect::<Result<_, _>>()?,
        };
        if !self.policies.is_empty() && !runtimes.contains(&Runtime::Warpweft) {
            return Err(LabError::Usage(String::from(
                "--policy chooses a policy of the runtime warpweft, and --runtime leaves that out",
            )));
        }
        let policies = if self.policies.is_empty() {
            defaults.policies
        } else {
            self.policies.clone()
        };
        for policy in &policies {
            peers::check_policy(policy)?;
        }
        let workers = if self.workers.is_empty() {
            defaults.workers
        } else {
            self.workers.clone()
        };
        let mut cells: Vec<Cell> = Vec::new();
        for workers in workers {
            peers::check_workers(workers)?;
            for runtime in &runtimes {
                let policies: Vec<Option<String>> = match runtime {
                    Runtime::Warpweft => policies.iter().cloned().map(Some).collect(),
                    _ => vec![None],
                };
                for policy in policies {
                    let cell = Cell {
                        runtime: *runtime,
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
    use clap::CommandFactory;

    fn job(line: &str) -> Result<Job, LabError> {
        let words = std::iter::once("warpweft").chain(line.split_whitespace());
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Some(Command::Bench(arguments))) => arguments.job(),
            Ok(Some(Command::Explore(arguments))) => arguments.job(),
            Ok(_) => panic!("{line} is no bench or explore"),
            Err(error) => Err(LabError::Usage(error.to_string())),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        let command = Cli::command();
        command.clone().debug_assert();
        let visible: Vec<&str> = command
            .get_subcommands()
            .filter(|one| !one.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(visible, COMMANDS);
    }

    #[test]
    fn without_words_it_explores_the_bundled_capture() {
        let bare = ExploreArgs::default().job().unwrap();
        let said = job("explore").unwrap();
        assert_eq!(bare.template.kind, Kind::Pcap);
        assert_eq!(
            (bare.pace.limit, bare.cells.len()),
            (said.pace.limit, said.cells.len())
        );
    }

    #[test]
    fn contestants_are_runtimes_times_policies_times_workers() {
        let job = job("bench packet n=10 --runtime warpweft,rayon --policy fifo --policy lifo --workers 1,2")
            .unwrap();
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
    fn explore_takes_several_policies_and_worker_counts() {
        let job = job("explore").unwrap();
        assert_eq!(job.chosen.name, "pcap");
        assert!(
            job.cells.iter().filter(|cell| cell.policy.is_some()).count()
                >= 2 * peers::explored_policies().len()
        );
        assert!(job.pace.budget.is_some());
    }

    #[test]
    fn joins_are_explored_against_what_joins() {
        let names = |line: &str| -> BTreeSet<&str> {
            let cells = job(line).unwrap().cells;
            cells.iter().map(|cell| cell.runtime.name()).collect()
        };
        assert_eq!(
            names("explore fork-join"),
            BTreeSet::from(["warpweft", "rayon", "chili", "forte", "sequential"])
        );
        assert_eq!(
            names("explore packet"),
            BTreeSet::from(["warpweft", "rayon", "tokio"])
        );
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
        assert!(error("bench packet --pcap x.pcap").contains("read by the workload pcap"));
        assert!(error("bench packet --policy filo").contains("fifo"));
        assert!(error("bench packet --workers two").contains("two"));
    }
}
