//! All checks of continuous integration, each also when one before it failed, and real counts at the end.

use crate::background::Background;
use crate::counts::Tests;
use crate::models::Checker;
use crate::repo::Repo;
use crate::{asm, check, ecosystem, mpi, mutants, perfetto, publish, rayon, rules, run, targets};
use anyhow::{Result, ensure};
use std::time::Instant;

/// How many of the mutants are tried each time.
const MUTANTS: usize = 4;

/// Runs the checks and prints what each came to.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    // All of them take hours: that is `cargo xtask deep`.
    let mutants = mutants::Options {
        limit: 300,
        sample: Some(MUTANTS),
        ..mutants::Options::default()
    };
    let models = Background::start(repo);
    let mut summary = Vec::new();
    let mut failed = Vec::new();
    // The output is long and may be read in part: so its end says all of it again that matters.
    let mut again = Vec::new();
    let mut step = |name: &str, work: &mut dyn FnMut() -> (String, Result<()>)| {
        run::heading(name);
        let (start, used, models_used) = (Instant::now(), run::children_seconds(), models.seconds());
        let (count, result) = work();
        if let Err(error) = &result {
            println!("{error:#}");
            failed.push(name.to_owned());
            again.push(format!("{name}: {error:#}"));
        }
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        let used = run::cpu_since(used, models.seconds() - models_used)
            .map_or_else(String::new, |used| format!("{used:.0} s of CPU"));
        summary.push(format!(
            "{name:14} {verdict:7} {:>10} {used:>14}  {count}",
            run::seconds(start.elapsed())
        ));
    };

    step("tests", &mut || {
        let mut tests = Tests::default();
        let result = test(repo, &mut tests);
        (
            format!(
                "{} passed, {} failed, {} ignored",
                tests.passed, tests.failed, tests.ignored
            ),
            result,
        )
    });
    step("own policy", &mut || (String::new(), check::own_policy(repo)));
    step("format", &mut || (String::new(), check::format(repo)));
    step("clippy", &mut || (String::new(), check::clippy(repo)));
    step("features", &mut || (String::new(), check::features(repo)));
    step("documentation", &mut || {
        (String::new(), check::documentation(repo))
    });
    for (name, work) in [
        ("packages", publish::package as fn(&Repo) -> Result<String>),
        ("oldest rustc", publish::msrv),
        ("targets", targets::run),
        ("rayon-core", rayon::ours),
        ("tokio crates", ecosystem::all),
        ("mpi", mpi::tests),
        ("perfetto", perfetto::run),
    ] {
        step(name, &mut || match work(repo) {
            Ok(count) => (count, Ok(())),
            Err(error) => (String::new(), Err(error)),
        });
    }
    step("rules", &mut || (String::new(), rules::run(repo)));
    for checker in Checker::OF_MODELS {
        step(checker.name(), &mut || models.next());
    }
    step("mutants", &mut || match mutants::run(repo, &mutants) {
        Ok(tally) => (
            format!("{} bugs found, {} survived", tally.found, tally.survivors.len()),
            tally.verdict(),
        ),
        Err(error) => (String::new(), Err(error)),
    });
    step("smoke", &mut || (String::new(), smoke(repo)));
    step("asm", &mut || {
        (String::new(), asm::run(repo, &asm::Options::default()))
    });

    if !again.is_empty() {
        run::heading("what failed");
        again.iter().for_each(|text| println!("{text}"));
    }
    run::heading("summary");
    summary.iter().for_each(|line| println!("{line}"));
    run::complain("of the checks failed", &failed)
}

/// What the README says, `cargo test`; the tests of the lab and of the checks; those of features that are
/// off.
fn test(repo: &Repo, tests: &mut Tests) -> Result<()> {
    let mut success = true;
    let packages = repo.not_by_default();
    let others: String = packages
        .map(|package| format!(" --package {}", package.name))
        .collect();
    let others = format!("test --no-fail-fast{others}");
    for arguments in [
        "test --no-fail-fast",
        &others,
        // By itself it is without its features, which the lab switches on for the whole workspace.
        "test --package warpweft-policy --lib spec::",
        "test --no-fail-fast --package warpweft-conformance --test presets_wide",
        "test --package warpweft-mpi --features raw --lib",
        // Features that nothing in the workspace switches on, because the lab measures without them; and a
        // test that is for this place alone.
        "test --no-fail-fast --package warpweft --features stacks,tracing --lib --test adversary --test spans \
         --test fibers --test effects --test stalls --test stalls_in_time --test dump_stacks --test threads",
        "test --package warpweft --features stacks,tracing --doc src/lib.rs",
    ] {
        let mut command = run::cargo(&repo.root);
        // The hostile programs with each number of workers; without it they are run with 2.
        command
            .args(arguments.split(' '))
            .env("WARPWEFT_ADVERSARY_ALL", "1");
        success &= run::tee(&mut command, |line| {
            tests.add(line);
        })?;
    }
    ensure!(success, "`cargo test` failed\n{}", tests.failures.join("\n"));
    ensure!(tests.passed > 0, "no test ran");
    Ok(())
}

/// The main job of the lab, small, and the one that waits and computes: `cargo lab explore`, but with the
/// program that the tests have built.
fn smoke(repo: &Repo) -> Result<()> {
    for workload in ["pcap", "mapreducefib"] {
        let arguments = format!("run --package warpweft-lab -- explore {workload} --smoke");
        run::run(run::cargo(&repo.root).args(arguments.split(' ')))?;
    }
    Ok(())
}
