//! The long explorations, for the night before a release.

use crate::models::{self, Checker};
use crate::repo::Repo;
use crate::{adversary, mutants, publish, rayon, run, trials};
use anyhow::{Result, ensure};
use std::process::Command;

/// One of the explorations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Job {
    /// The loom models, with more preemptions.
    Loom,
    /// The shuttle models, with more schedules.
    Shuttle,
    /// The tests with random delays at the named points.
    Chaos,
    /// Tasks that hog their workers, in ten thousand forms.
    Hogs,
    /// A million tokens that are cancelled at random moments, alone and beside as many sizes and priorities.
    Cancellations,
    /// Ten thousand sizes of a pool under load, for each policy.
    Sizes,
    /// A million signals to a thread that panics and unwinds.
    Signals,
    /// A million dumps beside tasks that begin, wait and end.
    Dumps,
    /// The tests with the switch of stacks of other processors.
    Corosensei,
    /// The tests of sockets and timers with the pollers of other systems.
    Pollers,
    /// The hostile programs with AddressSanitizer.
    Asan,
    /// The hostile programs under valgrind.
    Valgrind,
    /// The hostile programs with ThreadSanitizer.
    Tsan,
    /// The command, installed from its package.
    Install,
    /// rayon's own tests and its incidents, on our rayon-core.
    Rayon,
    /// Other people's programs that use rayon, on the original and on ours.
    Programs,
    /// `warpweft try` with three programs: the advice of a short trial, and that of a long one.
    Trials,
    /// All mutants.
    Mutants,
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Only this exploration; may be given several times.
    #[arg(long)]
    only: Vec<Job>,
    /// Preemptions per execution of the loom models.
    #[arg(long, default_value_t = 5)]
    preemptions: u32,
    /// Schedules per shuttle model and scheduler.
    #[arg(long, default_value_t = 1_000_000)]
    iterations: u64,
    /// How often the tests run with random delays at the named points.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Seconds after which one model is stopped and counts as failed.
    #[arg(long, default_value_t = 4 * 3600)]
    limit: u64,
}

/// An exploration, its heading, and what runs it.
type Exploration<'a> = (Job, &'static str, &'a dyn Fn() -> Result<()>);

/// All of them, each also when one before it failed.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<()> {
    let models = models::Options {
        limit: options.limit,
        ..models::Options::default()
    };
    let mutants = mutants::Options {
        limit: 300,
        ..mutants::Options::default()
    };
    let bound = [("LOOM_MAX_PREEMPTIONS", options.preemptions.to_string())];
    let number = [("WARPWEFT_SHUTTLE_ITERATIONS", options.iterations.to_string())];
    let explore = |checker, variables: &[(&str, String)]| {
        models::run_with(repo, checker, &models, variables).and_then(|tally| tally.verdict())
    };
    let jobs: [Exploration<'_>; 18] = [
        (Job::Loom, "loom, deep", &|| explore(Checker::Loom, &bound)),
        (Job::Shuttle, "shuttle, deep", &|| {
            explore(Checker::Shuttle, &number)
        }),
        (Job::Chaos, "tests with random delays", &|| {
            chaos(repo, options.rounds)
        }),
        (Job::Hogs, "tasks that hog their workers", &|| hogs(repo)),
        (Job::Cancellations, "a million cancellations", &|| {
            cancellations(repo)
        }),
        (Job::Sizes, "ten thousand sizes of a pool", &|| sizes(repo)),
        (
            Job::Signals,
            "a million signals to a thread that unwinds",
            &|| signals(repo),
        ),
        (Job::Dumps, "a million dumps under load", &|| dumps(repo)),
        (Job::Corosensei, "fibers as on other processors", &|| {
            elsewhere(repo, "warpweft_corosensei", &["--tests"])
        }),
        (Job::Pollers, "sockets as on other systems", &|| pollers(repo)),
        (Job::Asan, "hostile programs with AddressSanitizer", &|| {
            adversary::address(repo)
        }),
        (Job::Valgrind, "hostile programs under valgrind", &|| {
            adversary::valgrind(repo)
        }),
        (Job::Tsan, "hostile programs with ThreadSanitizer", &|| {
            adversary::thread(repo)
        }),
        (Job::Install, "the command from its package", &|| {
            publish::install_lab(repo)
        }),
        (Job::Rayon, "rayon's own tests and incidents", &|| {
            rayon::all(repo).map(|outcome| println!("{outcome}"))
        }),
        (Job::Programs, "other people's programs that use rayon", &|| {
            rayon::real_if_fetched(repo).map(|outcome| println!("{outcome}"))
        }),
        (Job::Trials, "the advice of trials, short and long", &|| {
            trials::full(repo).map(|outcome| println!("{outcome}"))
        }),
        (Job::Mutants, "mutants", &|| {
            mutants::run(repo, &mutants).and_then(|tally| tally.verdict())
        }),
    ];
    let mut failed = Vec::new();
    for (job, heading, run) in jobs {
        if !options.only.is_empty() && !options.only.contains(&job) {
            continue;
        }
        run::heading(heading);
        if let Err(error) = run() {
            println!("{error:#}");
            failed.push(format!("{job:?}").to_lowercase());
        }
    }
    run::complain("of the long explorations failed", &failed)
}

/// How often each program of a waiting task runs on each kind of pool.
const PROGRAM_ROUNDS: u32 = 2_000;

/// How many programs with tasks that hog their workers are made.
const SEEDS: u32 = 10_000;
/// How many tokens are cancelled, or not, in a storm.
const CANCELLATIONS: u32 = 1_000_000;
/// How often a pool under load gets another size.
const RESIZES: u32 = 10_000;
/// How many signals a thread gets while it unwinds.
const SIGNALS: u32 = 1_000_000;

/// How many dumps look at tasks that begin, wait and end.
const DUMPS: u32 = 1_000_000;

/// `cargo test --quiet` with these words behind it. It may have random delays at the named points.
fn tests(repo: &Repo, words: &str, has_delays: bool) -> Command {
    let mut command = run::cargo(&repo.root);
    command.args(["test", "--quiet"]).args(words.split(' '));
    if has_delays {
        command.env("RUSTFLAGS", run::rustflags(Some("warpweft_chaos")));
        command.env("CARGO_TARGET_DIR", repo.target.join("chaos"));
    }
    command
}

/// Runs tests that read from a variable how often they do something.
fn many(mut tests: Command, (variable, count): (&str, u32), failure: &str) -> Result<()> {
    tests.env(variable, count.to_string());
    ensure!(run::tee(&mut tests, |_| {})?, "one of {count} {failure}");
    Ok(())
}

/// The program of tokio#4730 in this number of forms, with random delays: none of them may hang.
fn hogs(repo: &Repo) -> Result<()> {
    println!("{SEEDS} seeds");
    let tests = tests(repo, "-p warpweft --test policies busy_wakers", true);
    many(tests, ("WARPWEFT_SEEDS", SEEDS), "seeds hangs")
}

/// Cancels a million tokens at random moments, and counts what is left.
fn cancellations(repo: &Repo) -> Result<()> {
    let words = "--release -p warpweft --test cancel random_cancellations";
    let count = ("WARPWEFT_CANCELLATIONS", CANCELLATIONS);
    many(tests(repo, words, false), count, "cancellations went wrong")
}

/// Resizes a pool of each policy ten thousand times, beside tasks of every kind.
fn sizes(repo: &Repo) -> Result<()> {
    let words = "--release -p warpweft --test threads nothing_is_lost_in_a_storm_of_sizes";
    let count = ("WARPWEFT_RESIZES", RESIZES);
    many(tests(repo, words, false), count, "sizes went wrong")
}

/// A thread panics and unwinds all the time, and its stack is copied a million times.
fn signals(repo: &Repo) -> Result<()> {
    let words = "--release -p warpweft-platform --test stack_copy -- signals_come threads_end";
    let count = ("WARPWEFT_SIGNALS", SIGNALS);
    many(tests(repo, words, false), count, "signals was too many")
}

/// Dumps in a loop, without and with random delays: none of them may hang or accuse a task.
fn dumps(repo: &Repo) -> Result<()> {
    let words = "--release -p warpweft --test dump -- a_thousand_dumps_beside_tasks dumps_of_a";
    for (has_delays, count) in [(false, DUMPS), (true, DUMPS / 10)] {
        let tests = tests(repo, words, has_delays);
        many(tests, ("WARPWEFT_DUMPS", count), "dumps was wrong")?;
    }
    Ok(())
}

/// The runtime's tests with a part that other systems or processors have instead of ours.
fn elsewhere(repo: &Repo, cfg: &str, tests: &[&str]) -> Result<()> {
    let mut command = run::cargo(&repo.root);
    command.args(["test", "--quiet", "-p", "warpweft"]).args(tests);
    command
        .env("RUSTFLAGS", run::rustflags(Some(cfg)))
        .env("CARGO_TARGET_DIR", repo.target.join("elsewhere"));
    ensure!(run::tee(&mut command, |_| {})?, "tests fail with `--cfg {cfg}`");
    Ok(())
}

/// The portable poller with edges, as on macOS, and without them, as on Windows.
fn pollers(repo: &Repo) -> Result<()> {
    let tests = ["--lib", "--test", "io", "--test", "io_faults"];
    elsewhere(repo, "warpweft_polling", &tests)?;
    elsewhere(repo, "warpweft_polling --cfg warpweft_oneshot", &tests)
}

/// The tests of the library with `--cfg warpweft_chaos`, again and again: each round has other delays.
fn chaos(repo: &Repo, rounds: u32) -> Result<()> {
    let packages = repo.library().map(|package| format!(" -p {}", package.name));
    let words = format!("--tests{}", packages.collect::<String>());
    let mut failed = 0;
    for round in 1..=rounds {
        println!("round {round} of {rounds}");
        failed += u32::from(!run::tee(&mut tests(repo, &words, true), |_| {})?);
    }
    // The programs that wait for each other are short: each runs on six kinds of pools, ten thousand times
    // and more.
    println!("joins, scopes and waits, each {PROGRAM_ROUNDS} times");
    let words = "-p warpweft --test fork_join --test blocking -- joins:: scopes:: direct_waits::";
    let mut tests = tests(repo, words, true);
    tests.env("WARPWEFT_ROUNDS", PROGRAM_ROUNDS.to_string());
    failed += u32::from(!run::tee(&mut tests, |_| {})?);
    ensure!(failed == 0, "{failed} of the runs with random delays failed");
    Ok(())
}
