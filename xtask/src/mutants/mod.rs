//! Mutants: each entry of `mutants/*.toml` is put into a copy of the tree, and its test must find it.
//!
//! ```text
//!  format   the files of mutants        switch   many bugs in one source, and one of them on
//!  scratch  copies of the tree, and what is built of them
//! ```

mod format;
mod scratch;
mod switch;

pub(crate) use format::{HELP, Tested, fit, tested};

use crate::models::{self, Binary, Checker};
use crate::repo::Repo;
use crate::run::{self, End};
use anyhow::{Context as _, Result, ensure};
use format::Mutant;
use scratch::{Placed, Scratch};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct Options {
    /// Only mutants with this text in their name, or one of several with commas between them.
    pub(crate) name: Option<String>,
    /// Only the mutants of this structure: the name of a file in `mutants/`, without `.toml`.
    #[arg(long)]
    pub(crate) structure: Option<String>,
    /// Only those that are found under this checker.
    #[arg(long)]
    pub(crate) checker: Option<Checker>,
    /// Seconds after which a test is stopped; a test that gives no verdict has not found the bug.
    #[arg(long, default_value_t = 300)]
    pub(crate) limit: u64,
    /// Only this number of them, evenly spread over all files.
    #[arg(long)]
    pub(crate) sample: Option<usize>,
}

/// How many bugs were found, and which were not.
#[derive(Debug, Default)]
pub(crate) struct MutantTally {
    pub(crate) found: usize,
    pub(crate) survivors: Vec<String>,
}

impl MutantTally {
    pub(crate) fn verdict(&self) -> Result<()> {
        ensure!(
            self.survivors.is_empty(),
            "{} of {} mutants survive: {}",
            self.survivors.len(),
            self.found + self.survivors.len(),
            self.survivors.join(", ")
        );
        Ok(())
    }
}

struct Verdict<'a> {
    mutant: &'a Mutant,
    found: bool,
    note: &'static str,
    time: Duration,
}

/// Runs the test of every mutant that matches, and prints a table of what found it.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<MutantTally> {
    let mutants = spread(format::load(repo, options)?, options.sample);
    let places = format::places(repo, &mutants)?;
    let places = places.into_iter().collect::<Result<Vec<_>>>()?;
    let limit = Duration::from_secs(options.limit);
    let (mut verdicts, mut alone) = (Vec::new(), Vec::new());
    for checker in [Checker::Std, Checker::Loom, Checker::Shuttle, Checker::Sim] {
        let placed = mutants.iter().zip(&places);
        let placed: Vec<_> = placed
            .filter(|(mutant, _)| mutant.checker == checker)
            .map(|(mutant, place)| Placed { mutant, place })
            .collect();
        if !placed.is_empty() {
            let (found, left) = together(repo, checker, &placed, limit)?;
            verdicts.extend(found);
            alone.push((checker, left));
        }
    }
    // They take the longest.
    for (checker, placed) in alone {
        verdicts.extend(one_by_one(repo, checker, &placed, limit)?);
    }
    Ok(table(&mutants, &verdicts))
}

/// Most mutants are in one build, behind switches.
///
/// The second part of the result are those without a place for one, those whose test notices the switches,
/// and those that nobody has found: only alone they count as such.
fn together<'a>(
    repo: &Repo,
    checker: Checker,
    placed: &[Placed<'a>],
    limit: Duration,
) -> Result<(Vec<Verdict<'a>>, Vec<Placed<'a>>)> {
    let start = Instant::now();
    let scratch = Scratch::of_many(repo, checker)?;
    let (binaries, mut alone) = scratch.grow_all(placed)?;
    let is_alone = |alone: &[Placed<'_>], name: &str| alone.iter().any(|one| one.mutant.name == name);
    let together = placed.iter().filter(|one| !is_alone(&alone, &one.mutant.name));
    let together: Vec<_> = together.copied().collect();
    println!(
        "{}: {} mutants in one build, {} alone ({})",
        checker.name(),
        together.len(),
        alone.len(),
        run::seconds(start.elapsed())
    );
    let sick = sick(&scratch, &binaries, &together, limit)?;
    let (unfit, together): (Vec<_>, Vec<_>) = together.into_iter().partition(|one| sick.contains(&test(one)));
    alone.extend(unfit);
    let mut verdicts = Vec::new();
    for (one, verdict) in run::parallel(together, run::jobs(None), |one| {
        let mut command = test_of(binary(&binaries, one.mutant)?, &one.mutant.test);
        command.env(switch::VARIABLE, &one.mutant.name);
        Ok((one, try_test(&scratch, one.mutant, &mut command, limit)?))
    })? {
        if verdict.found {
            verdicts.push(verdict);
        } else {
            alone.push(one);
        }
    }
    Ok((verdicts, alone))
}

/// Builds each mutant by itself. While the test of one runs, the next is compiled.
fn one_by_one<'a>(
    repo: &Repo,
    checker: Checker,
    placed: &[Placed<'a>],
    limit: Duration,
) -> Result<Vec<Verdict<'a>>> {
    if placed.is_empty() {
        return Ok(Vec::new());
    }
    let scratch = Scratch::of_one(repo, checker)?;
    let sick = sick(&scratch, &scratch.build(&tests(placed))?, placed, limit)?;
    let (builds, ready) = mpsc::channel::<(Placed<'a>, Binary)>();
    thread::scope(|scope| {
        let (scratch, sick) = (&scratch, &sick);
        let tester = scope.spawn(move || {
            let verdicts = ready.into_iter().map(|(one, binary)| {
                let mut command = test_of(&binary, &one.mutant.test);
                let mut verdict = try_test(scratch, one.mutant, &mut command, limit)?;
                if sick.contains(&test(&one)) {
                    (verdict.found, verdict.note) = (false, "the test does not pass without a mutant");
                }
                fs::remove_file(&binary.path)?;
                Ok(verdict)
            });
            verdicts.collect()
        });
        let built = placed.iter().try_for_each(|&one| {
            let binary = scratch.grow(one);
            let binary = binary.with_context(|| format!("mutant {}", one.mutant.name))?;
            // If no thread receives, the tester has failed and says why.
            drop(builds.send((one, binary)));
            anyhow::Ok(())
        });
        drop(builds);
        let verdicts: Result<Vec<_>> = tester
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        built.and(verdicts)
    })
}

/// `sample` of the mutants, evenly spread; all of them if there are not more.
fn spread<T>(mutants: Vec<T>, sample: Option<usize>) -> Vec<T> {
    let count = mutants.len();
    let sample = sample.unwrap_or(count).clamp(1, count.max(1));
    let chosen = |index: usize| (index + 1) * sample / count != index * sample / count;
    let mutants = mutants.into_iter().enumerate();
    mutants
        .filter(|(index, _)| chosen(*index))
        .map(|(_, mutant)| mutant)
        .collect()
}

fn table(mutants: &[Mutant], verdicts: &[Verdict<'_>]) -> MutantTally {
    let width = mutants
        .iter()
        .map(|mutant| mutant.structure.len() + mutant.name.len() + 2)
        .max()
        .unwrap_or(0);
    println!("\n{:width$}  {:>9}  found by", "mutant", "seconds");
    for verdict in verdicts {
        let mutant = verdict.mutant;
        let name = format!("{}: {}", mutant.structure, mutant.name);
        let by = if verdict.found {
            format!("{} {}::{}", mutant.checker.name(), mutant.target, mutant.test)
        } else {
            format!("NOBODY: {}\n    {}", verdict.note, mutant.why)
        };
        println!("{name:width$}  {:>9.2}  {by}", verdict.time.as_secs_f64());
    }
    let survivors: Vec<_> = verdicts
        .iter()
        .filter(|verdict| !verdict.found)
        .map(|verdict| verdict.mutant.name.clone())
        .collect();
    let tally = MutantTally {
        found: verdicts.len() - survivors.len(),
        survivors,
    };
    println!(
        "mutants: {} bugs found, {} survived",
        tally.found,
        tally.survivors.len()
    );
    tally
}

/// Where the test of a mutant is, and its name.
fn test<'a>(one: &Placed<'a>) -> (&'a str, &'a str, &'a str) {
    let mutant = one.mutant;
    (mutant.test_package(), &mutant.target, &mutant.test)
}

/// The executables that have the tests of these mutants.
fn tests<'a>(placed: &[Placed<'a>]) -> Vec<(&'a str, &'a str)> {
    let all = placed.iter().map(|one| (test(one).0, test(one).1));
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

fn binary<'a>(binaries: &'a [Binary], mutant: &Mutant) -> Result<&'a Binary> {
    let (package, target) = (mutant.test_package(), mutant.target.as_str());
    let mut binaries = binaries.iter();
    let found =
        binaries.find(|binary| (binary.package.as_str(), binary.target.as_str()) == (package, target));
    found.with_context(|| format!("{package} has no test target {target}"))
}

/// The tests that do not pass without a bug; an error if one does not exist.
fn sick<'a>(
    scratch: &Scratch,
    binaries: &[Binary],
    placed: &[Placed<'a>],
    limit: Duration,
) -> Result<BTreeSet<(&'a str, &'a str, &'a str)>> {
    let start = Instant::now();
    let mut listed = BTreeMap::new();
    let mut tests = BTreeMap::new();
    for one in placed {
        let (package, target, name) = test(one);
        let binary = binary(binaries, one.mutant)?;
        let listed = match listed.entry((package, target)) {
            Entry::Occupied(listed) => listed.into_mut(),
            Entry::Vacant(place) => place.insert(models::list(binary)?),
        };
        let is_there = listed.iter().any(|listed| listed == name);
        ensure!(is_there, "{package}: {target} has no test {name}");
        tests.insert((package, target, name), binary);
    }
    let count = tests.len();
    let failed = run::parallel(tests.into_iter().collect(), run::jobs(None), |(test, binary)| {
        let (_, target, name) = test;
        let log = scratch.log(&format!("healthy.{target}.{}", name.replace("::", ".")));
        let (end, _) = run::limited(&mut test_of(binary, name), &log, limit)?;
        if end == End::Success {
            return Ok(None);
        }
        print!(
            "{target}::{name} does not pass without a mutant\n{}",
            run::tail(&log, 40)
        );
        Ok(Some(test))
    })?;
    let failed: BTreeSet<_> = failed.into_iter().flatten().collect();
    println!(
        "{} of {count} tests pass without a mutant ({})",
        count - failed.len(),
        run::seconds(start.elapsed())
    );
    Ok(failed)
}

fn try_test<'a>(
    scratch: &Scratch,
    mutant: &'a Mutant,
    test: &mut Command,
    limit: Duration,
) -> Result<Verdict<'a>> {
    let log = scratch.log(&mutant.name);
    let (end, time) = run::limited(test, &log, limit)?;
    // A test that is not there passes; `--exact` then runs none.
    let ran = run::read_log(&log)?.contains("running 1 test");
    let (found, note) = match end {
        End::Failure if ran => (true, ""),
        End::Failure => (false, "the test did not run"),
        End::Success => (false, "the test passes"),
        End::Limit => (false, "no verdict within the limit"),
    };
    println!("{:>9}  {}", if found { "found" } else { "not yet" }, mutant.name);
    Ok(Verdict {
        mutant,
        found,
        note,
        time,
    })
}

/// A test as `xtask shuttle` runs it, but with enough schedules that chance does not decide whether a bug is
/// found.
fn test_of(binary: &Binary, test: &str) -> Command {
    let mut command = models::one(binary, test);
    if std::env::var_os(ITERATIONS).is_none() {
        command.env(ITERATIONS, "5000");
    }
    command
}

const ITERATIONS: &str = "WARPWEFT_SHUTTLE_ITERATIONS";

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn a_sample_is_spread_evenly() {
        assert_eq!(spread((0..10).collect(), Some(3)), [3, 6, 9]);
        assert_eq!(spread((0..3).collect(), Some(10)), [0, 1, 2]);
        assert_eq!(spread((0..3).collect(), None), [0, 1, 2]);
        assert_eq!(spread(Vec::<u8>::new(), Some(3)), [0_u8; 0]);
    }
}
