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
use crate::workloads::mixer::{self, Audio};
use crate::workloads::params::variations;
use crate::workloads::spec::{self, Chosen, Kind};
use crate::workloads::{Request, capture, options};
use crate::{bench, explore, list};

mod compare;

pub(crate) use compare::CompareArgs;

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
    /// Run the whole set of comparisons of schedulers and write one report, with what was published beside it
    Compare(CompareArgs),
    /// List the workloads, their parameters, the runtimes and the policies
    List,
    /// One run, asked for as JSON on standard input: how the others make their runs
    #[command(name = isolate::COMMAND, hide = true)]
    RunOne,
}

/// The commands that are not hidden.
const COMMANDS: [&str; 4] = ["explore", "bench", "compare", "list"];

/// What is run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Settings of the workload, KEY=VALUE; `warpweft list` shows the keys. One may have several values,
    /// KEY=A,B,C: each is measured by itself
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,

    /// How many packets or tasks: short for n=N
    #[arg(short, long, value_name = "N")]
    n: Option<String>,

    /// Packets under way at most, 0 for no bound: short for window=N
    #[arg(long, value_name = "N")]
    window: Option<String>,

    /// The capture that the workload `pcap` replays, pcap or pcapng with Ethernet frames [default: the
    /// bundled one]
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// The options that the workload `options` prices: a line for each, with the columns kind, spot, strike,
    /// rate, volatility, years [default: drawn at random, always the same ones]
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// What a participant of the workload `mixer` says: 8000 samples per second, mono, 16-bit or G.711; once
    /// per participant
    #[arg(long = "wav", value_name = "FILE")]
    wavs: Vec<PathBuf>,

    /// Where the workload `mixer` writes the mix of its first conference, as a WAV file
    #[arg(long, value_name = "FILE")]
    mix: Option<PathBuf>,

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
        Some(Command::Compare(arguments)) => crate::compare::run(&arguments),
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
    /// What to run, one after the other.
    pub(crate) fn jobs(&self) -> Result<Vec<Job>, LabError> {
        let defaults = Defaults {
            runtimes: |_| vec![Runtime::Warpweft],
            policies: vec![peers::default_policy()],
            workers: vec![cpus()],
        };
        let pace = self.selection.pace(self.repeat, None)?;
        self.selection.jobs(&self.workload, false, &defaults, &pace)
    }
}

impl ExploreArgs {
    /// What to run, one after the other.
    pub(crate) fn jobs(&self) -> Result<Vec<Job>, LabError> {
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
        selection.jobs(workload, self.smoke, &defaults, &pace)
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

    /// A job for each value of the setting that has several, which share the budget.
    fn jobs(
        &self,
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
            .map(|settings| self.job(workload, smoke, defaults, &pace, settings))
            .collect()
    }

    fn job(
        &self,
        workload: &str,
        smoke: bool,
        defaults: &Defaults,
        pace: &Pace,
        settings: &[String],
    ) -> Result<Job, LabError> {
        let mut chosen = spec::parse(workload, smoke, settings)?;
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
        if let Some(path) = &self.csv {
            if chosen.workload.kind != Kind::Options {
                return Err(LabError::Usage(format!(
                    "--csv is read by the workload options, not by {}",
                    chosen.name
                )));
            }
            options::check_file(&chosen.params, path)?;
        }
        let audio = self.audio(&mut chosen, smoke, settings, pace.limit)?;
        let cells = self.cells(chosen.workload.kind, defaults)?;
        let template = Request {
            workload: chosen.name.clone(),
            kind: chosen.workload.kind,
            params: chosen.params.clone(),
            capture: self.pcap.clone().or_else(|| self.csv.clone()),
            runtime: String::new(),
            policy: None,
            workers: 0,
            audio,
        };
        let command = std::iter::once(String::from("warpweft"))
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

    /// The files of the workload that mixes, checked; and whether its frames come within the limit of a run.
    fn audio(
        &self,
        chosen: &mut Chosen,
        smoke: bool,
        settings: &[String],
        limit: Duration,
    ) -> Result<Audio, LabError> {
        let audio = Audio {
            wavs: self.wavs.clone(),
            mix: self.mix.clone(),
        };
        if chosen.workload.kind == Kind::Mixer {
            let said = |name: &str| {
                let by_smoke = smoke && chosen.workload.smoke.iter().any(|(set, _)| *set == name);
                let assigned = |setting: &String| setting.split_once('=').is_some_and(|(key, _)| key == name);
                by_smoke || settings.iter().any(assigned)
            };
            audio.settle(&mut chosen.params, said)?;
            mixer::check_length(&chosen.params, limit)?;
        } else if !audio.is_none() {
            return Err(LabError::Usage(format!(
                "--wav and --mix are for the workload mixer, not for {}",
                chosen.name
            )));
        }
        Ok(audio)
    }

    /// All contestants with all worker counts.
    fn cells(&self, kind: Kind, defaults: &Defaults) -> Result<Vec<Cell>, LabError> {
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
            defaults.policies.clone()
        } else {
            self.policies.clone()
        };
        for policy in &policies {
            peers::check_policy(policy)?;
        }
        let workers = if self.workers.is_empty() {
            defaults.workers.clone()
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
        let mut jobs = jobs(line)?;
        assert_eq!(jobs.len(), 1, "{line}");
        Ok(jobs.remove(0))
    }

    fn jobs(line: &str) -> Result<Vec<Job>, LabError> {
        let words = std::iter::once("warpweft").chain(line.split_whitespace());
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Some(Command::Bench(arguments))) => arguments.jobs(),
            Ok(Some(Command::Explore(arguments))) => arguments.jobs(),
            Ok(Some(Command::Compare(arguments))) => arguments
                .jobs()
                .map(|(jobs, _)| jobs.into_iter().take(1).map(|(_, job)| job).collect()),
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
        let bare = ExploreArgs::default().jobs().unwrap().remove(0);
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
    fn a_setting_may_have_several_values_which_share_the_budget() {
        let jobs = jobs("explore mapreducefib wait=1,50 n=7 --budget 60").unwrap();
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
    fn a_comparison_has_the_size_and_the_contestants_that_are_asked_for() {
        let quick = job("compare churn --quick").unwrap();
        assert_eq!(quick.chosen.params.number("ms"), 100);
        let slow = job("compare churn").unwrap();
        assert_eq!(slow.chosen.params.number("ms"), 400);
        assert!(slow.cells.len() > quick.cells.len() && slow.pace.rounds > quick.pace.rounds);
        let fibers = job("compare cycle/fibers --workers 1 --policy fifo,lifo").unwrap();
        let names: Vec<String> = fibers.cells.iter().map(Cell::contestant).collect();
        assert_eq!(names, ["fifo", "lifo", "may"]);
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
        assert!(error("compare chrun").contains("did you mean `churn`?"));
        assert!(error("compare cycle --runtime rayon").contains("takes part in none"));
        assert!(error("compare cycle --minutes 0").contains("some time"));
        assert!(error("compare --runtime tokio --policy fifo").contains("leaves that out"));
        assert!(error("bench packet --policy filo").contains("fifo"));
        assert!(error("bench packet --workers two").contains("two"));
    }
}
