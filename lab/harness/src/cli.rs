//! The command line: reads it, and runs the command that it names.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};

use crate::against::program;
use crate::bench::{self, BenchArgs};
use crate::compare::{self, CompareArgs};
use crate::error::{LabError, choose};
use crate::explore::{self, ExploreArgs};
use crate::isolate;
use crate::lab::Lab;
use crate::list::{self, ListArgs};
use crate::results::{self, ResultsArgs};
use crate::session::Job;
use crate::simulate::{self, SimulateArgs};
use crate::trace::{self, TraceArgs};
use crate::try_command::{self, TryArgs};
use crate::workload::{Files, Workload};

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
    /// Run a workload on a simulated machine with up to 256 cores: as `bench`, and all figures are simulated
    Simulate(SimulateArgs),
    /// Run the whole set of comparisons of schedulers and write one report, with what was published beside
    /// it; or compare this program with a baseline
    Compare(CompareArgs),
    /// Run a program of yours under each policy: its times, its counters, and which policy to take
    Try(TryArgs),
    /// Measure the lines of the results document and write their tables into it
    Results(ResultsArgs),
    /// Look at a trace of the flight recorder
    Trace(TraceArgs),
    /// List the workloads, their parameters, the runtimes and the policies
    List(ListArgs),
    /// Print the completions of a shell: `source <(warpweft completions bash)`
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// One run, asked for as JSON on standard input: how the others make their runs
    #[command(name = isolate::COMMAND, hide = true)]
    RunOne,
    /// What this program is, as JSON: how another build of it finds out what it compares with
    #[command(name = program::DESCRIBE, hide = true)]
    DescribeBuild,
}

impl Default for Command {
    fn default() -> Self {
        Self::Explore(ExploreArgs::default())
    }
}

/// The commands that are not hidden.
const COMMANDS: [&str; 9] = [
    "explore",
    "bench",
    "simulate",
    "compare",
    "try",
    "results",
    "trace",
    "list",
    "completions",
];

/// Examples of each command; `$` means the name of the program.
const EXPLORE: &str =
    "Ctrl-C ends the run that is under way, prints the figures of the rounds before, and exits \
with 130; a second one ends at once.

Examples:
  $ explore                                      the usual workload, all that differs most
  $ explore packet/heavier --open                and the report in the browser
  $ explore packet n=1m --policy fifo,lifo -w 2  two policies on two workers
  $ explore packet window=64,1024                two values of a parameter, each by itself
  $ explore trace:my.perfetto-trace              what a flight recorder saw, replayed
  $ explore packet --runs all.csv                each run as a line";
const BENCH: &str = "Examples:
  $ bench spawn                                  the default policy on all processors
  $ bench packet --runtime all --workers 1,2
  $ bench packet --policy lifo+steal=one --json  a line of JSON for each run
  $ bench packet --report packet.html --open";
const SIMULATE: &str = "Examples:
  $ simulate packet --workers 1..256 --policy fifo,negele
  $ simulate transfer/yield --workers 64 --policy cforall --lines 5 --hooks
  $ simulate packet --workers 80 --policy negele --owners lines.svg     which core had which line when
  $ simulate --calibrate this.toml                                       measures this machine for --machine this.toml
  $ simulate packet --set other_socket=140 --repeats 5 --json            another cost, five seeds";
const COMPARE: &str = "Examples:
  $ compare --quick
  $ compare churn --runtime warpweft,tokio --minutes 10
  $ compare --against ../old/target/release/$ --fail-above 3%   another build, in turns
  $ compare --set ground --baseline base.json                   a baseline in a file, with a copy of this program
  $ compare --against base.json http/hello --budget 300";
const TRY: &str = "The program says neither policy nor workers itself (Runtime::builder() without them, the default runtime, \
or rayon by our rayon-core), or only as defaults (Builder::default_policy). It must end by itself. \
Ctrl-C ends the run that is under way, prints the figures of the rounds before, and exits with 130; a second one \
ends at once.

Examples:
  $ try -- ./program --its flags
  $ try --policies fifo,lifo,slot:4 --workers 1,2,4 -- ./program
  $ try --timeout 10 --input words.txt -- ./program
  $ try --despite-load --budget 30 -- cargo run --release";
const TRACE: &str = "Examples:
  $ trace slowest my.perfetto-trace --top 3      why these tasks took so long
  $ trace view my.perfetto-trace                 a page with the timeline
  $ trace svg my.perfetto-trace --from 3 --to 5  two milliseconds of it as a picture";
const LIST: &str = "Examples:
  $ list packet                                  workloads, runtimes and policies with this in their names
  $ list policies
  $ list --json";

/// Reads the command line and does what it says.
pub(crate) fn run(lab: &Lab) -> Result<(), LabError> {
    let Some(asked) = parse(lab, std::env::args_os())? else {
        return Ok(());
    };
    match asked {
        Command::Explore(arguments) => explore::run(lab, &arguments),
        Command::Bench(arguments) => bench::run(lab, &arguments),
        Command::Simulate(arguments) => simulate::run(lab, &arguments),
        Command::Compare(arguments) => compare::run(lab, &arguments, plan),
        Command::Try(arguments) => try_command::run(lab, &arguments),
        Command::Results(arguments) => results::run(lab, &arguments, plan),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::List(arguments) => list::run(lab, &arguments),
        Command::Completions { shell } => {
            // Into memory first: `generate` panics where the reader has gone.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut visible(lab), lab.name, &mut script);
            Ok(io::Write::write_all(&mut io::stdout(), &script)?)
        }
        Command::RunOne => isolate::answer(lab),
        Command::DescribeBuild => program::describe(lab),
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
    command.mut_subcommands(|one| {
        let examples = match one.get_name() {
            "explore" => EXPLORE,
            "bench" => BENCH,
            "simulate" => SIMULATE,
            "compare" => COMPARE,
            "try" => TRY,
            "trace" => TRACE,
            "list" => LIST,
            _ => "",
        };
        let one = match one.get_name() {
            "bench" | "explore" => flags(one),
            _ => one,
        };
        one.after_help(examples.replace('$', lab.name))
    })
}

/// The same without what is hidden, which completions would show.
fn visible(lab: &Lab) -> clap::Command {
    let all = command(lab);
    let commands = all.get_subcommands().filter(|one| !one.is_hide_set());
    clap::Command::new(lab.name).subcommands(commands.cloned())
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

/// Spells the short form of a workload out that has a file by its own name: `explore trace:FILE` is
/// `explore trace --trace FILE`.
fn spelled_out(lab: &Lab, words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut spelled = Vec::new();
    let mut command = None;
    for (at, word) in words.into_iter().enumerate() {
        if at == 1 {
            command = Some(word.clone());
        }
        let runs = at > 1
            && command
                .as_ref()
                .is_some_and(|name| name == "explore" || name == "bench");
        let (name, file) = word
            .to_str()
            .and_then(|word| word.split_once(':'))
            .unwrap_or_default();
        let is_short = |one: &&dyn Workload| {
            let about = one.about();
            about.name == name && about.files.iter().any(|flag| flag.name == name)
        };
        if runs && lab.workloads.iter().any(is_short) {
            spelled.extend([name.into(), format!("--{name}").into(), file.into()]);
        } else {
            spelled.push(word);
        }
    }
    spelled
}

/// Parses the command line; `None` if it asked for help or the version and has it.
fn parse(lab: &Lab, words: impl IntoIterator<Item = OsString>) -> Result<Option<Command>, LabError> {
    let words = spelled_out(lab, words);
    let is_of_trace = words.get(1).is_some_and(|word| word == "trace");
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
            if is_of_trace {
                choose("commands of trace", given, &trace::COMMANDS)?;
            }
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

/// Returns the jobs of a command line without running them.
pub(crate) fn plan(lab: &Lab, line: &str) -> Result<Vec<Job>, LabError> {
    let words = std::iter::once(lab.name).chain(line.split_whitespace());
    match parse(lab, words.map(OsString::from))? {
        Some(Command::Bench(arguments)) => arguments.jobs(lab),
        Some(Command::Simulate(arguments)) => arguments.jobs(lab),
        Some(Command::Explore(arguments)) => arguments.jobs(lab),
        Some(Command::Compare(arguments)) => {
            let (jobs, _) = arguments.jobs(lab)?;
            Ok(jobs.into_iter().map(|(_, job)| job).collect())
        }
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Cell;
    use crate::testing::lab;
    use std::time::Duration;

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
            (bare.limits.limit, bare.cells.len()),
            (said.limits.limit, said.cells.len())
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
        assert_eq!(job.limits.rounds, 11);
    }

    #[test]
    fn a_setting_may_have_several_values_which_share_the_budget() {
        let jobs = plan(lab(), "explore wait wait=1,50 n=7 --budget 60").unwrap();
        let waits: Vec<u64> = jobs.iter().map(|job| job.chosen.params.number("wait")).collect();
        assert_eq!(waits, [1, 50]);
        for job in jobs {
            assert_eq!(job.template.params.number("n"), 7);
            assert_eq!(job.limits.budget, Some(Duration::from_secs(30)));
        }
    }

    #[test]
    fn explore_takes_several_policies_and_worker_counts() {
        let job = job("explore").unwrap();
        assert!(
            job.cells.iter().filter(|cell| cell.policy.is_some()).count()
                >= 2 * lab().home().unwrap().1.explored().len()
        );
        assert!(job.limits.budget.is_some());
    }

    #[test]
    fn a_comparison_has_the_size_and_the_contestants_that_are_asked_for() {
        let quick = job("compare churn --quick").unwrap();
        assert_eq!(quick.chosen.params.number("ms"), 100);
        let slow = job("compare churn").unwrap();
        assert_eq!(slow.chosen.params.number("ms"), 400);
        assert!(slow.cells.len() > quick.cells.len() && slow.limits.rounds > quick.limits.rounds);
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
        assert!(error("explore --budget -1").contains("a whole number of seconds from 0 on"));
        assert!(error("bench packet --repeat 0").contains("at least one"));
        assert!(error("bench packet --policy fifo --runtime rayon").contains("leaves that out"));
        assert!(error("bench spawn --list x.csv").contains("is for the workload packet"));
        assert!(error("trace slowst x").contains("did you mean `slowest`?"));
        assert!(error("trace sl x").contains("commands of trace: view, slowest, svg"));
        assert!(error("compare chrun").contains("did you mean `churn`?"));
        assert!(error("compare churn --runtime rayon").contains("takes part in none"));
        assert!(error("compare churn --minutes 0").contains("some time"));
        assert!(error("compare --runtime tokio --policy fifo").contains("leaves that out"));
        assert!(error("bench packet --policy filo").contains("fifo"));
        assert!(error("bench packet --workers two").contains("two"));
    }
}
