//! `compat/rayon-programs`, built twice: with the original rayon-core, and with ours by one line.

use super::{copy, patch};
use crate::repo::Repo;
use crate::run;
use crate::turns::{self, Quartiles};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings of the comparison of times.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Speed {
    /// Only programs with this text in their name
    name: Option<String>,
    /// How often each pair runs
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// The number of threads of rayon's pool
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Fail if the geometric mean is above 0.97, or a program above 1.05
    #[arg(long)]
    strict: bool,
}

/// The bounds of `--strict`: multiples of the original's time.
const MEAN: f64 = 0.97;
const WORST: f64 = 1.05;

/// A program that is beyond the bound, to either side, is run this many times as often once more, and all
/// pairs count.
const AGAIN: usize = 3;

/// Compiler flags of both builds, so that the place of a loop in the program's file does not count. Without
/// them the same instructions of `matmul` took 1.6 times as long in one of two builds: on some of Intel's
/// processors a jump that crosses a boundary of 32 bytes is decoded anew each time.
const SAME_PLACES: &str = if cfg!(target_arch = "x86_64") {
    "-C llvm-args=-x86-branches-within-32B-boundaries -C llvm-args=-align-loops=64"
} else {
    "-C llvm-args=-align-loops=64"
};

/// The two builds.
struct Twins {
    original: PathBuf,
    ours: PathBuf,
}

/// Builds both, with these arguments of cargo.
fn build(repo: &Repo, profile: &str, arguments: &[&str]) -> Result<Twins> {
    let source = repo.root.join("compat/rayon-programs");
    let one = |name: &str, line: &str| -> Result<PathBuf> {
        let folder = repo.target.join("rayon").join(name);
        copy(&source.join("src"), &folder.join("src"))?;
        let manifest = fs::read_to_string(source.join("Cargo.toml"))?;
        fs::write(folder.join("Cargo.toml"), manifest + line)?;
        // Both have the same dependencies, but for those of the one line.
        fs::copy(source.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        let target = repo.target.join("rayon").join(format!("{name}-target"));
        run::run(
            run::cargo(&folder)
                .args(["build", "--profile", profile])
                .args(arguments)
                .env("RUSTFLAGS", SAME_PLACES)
                .env("CARGO_TARGET_DIR", &target),
        )?;
        Ok(target.join(profile).join("rayon-programs"))
    };
    Ok(Twins {
        original: one("original", "")?,
        ours: one("ours", &patch(repo))?,
    })
}

/// The build with our rayon-core, in the release profile.
pub(crate) fn ours(repo: &Repo) -> Result<PathBuf> {
    Ok(build(repo, "release", &[])?.ours)
}

fn output(program: &Path, arguments: &[&str], threads: Option<usize>) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(threads) = threads {
        command.env("RAYON_NUM_THREADS", threads.to_string());
    }
    String::from_utf8(run::capture(&mut command)?).context("programs print text")
}

/// Programs that index arrays by thread, and keep values per thread.
pub(super) fn threads(repo: &Repo) -> Result<()> {
    let twins = build(repo, "release", &[])?;
    for (name, program) in [("original", &twins.original), ("ours", &twins.ours)] {
        println!("{name}:");
        run::run(Command::new(program).arg("threads"))?;
    }
    Ok(())
}

/// As [`real`], unless their packages cannot be fetched: then it says so, and nothing was compared.
pub(crate) fn real_if_fetched(repo: &Repo) -> Result<String> {
    let folder = repo.root.join("compat/rayon-programs");
    let fetched = run::run(run::cargo(&folder).args(["fetch", "--locked"]));
    if let Err(error) = fetched {
        return Ok(format!(
            "SKIPPED: the packages of oxipng, tokei, jwalk, tokenizers and polars cannot be fetched: {error:#}"
        ));
    }
    real(repo)
}

/// Other people's programs, whose results must be equal.
pub(super) fn real(repo: &Repo) -> Result<String> {
    let twins = build(repo, "real", &["--features", "polars"])?;
    let folder = repo.root.join("crates");
    let folder = folder.to_str().context("the path of the tree is not text")?;
    let original = rows(&output(&twins.original, &["real", folder], None)?)?;
    let ours = rows(&output(&twins.ours, &["real", folder], None)?)?;
    ensure!(original.len() == ours.len(), "they ran different programs");
    for ((name, theirs, expected), (_, time, digest)) in original.iter().zip(&ours) {
        println!("{name:12} {theirs:>9.1} ms on the original, {time:>9.1} ms on ours");
        ensure!(digest == expected, "{name} has another result on ours");
    }
    Ok(format!("{} programs have the same results", ours.len()))
}

/// Lines of a name, a time and a digest.
fn rows(text: &str) -> Result<Vec<(String, f64, String)>> {
    let rows = text.lines().map(|line| {
        let [name, time, digest] = line.split(' ').collect::<Vec<_>>()[..] else {
            bail!("this is not a name, a time and a digest: {line}");
        };
        Ok((name.to_owned(), time.parse()?, digest.to_owned()))
    });
    rows.collect()
}

/// Times of all programs, by turns, as a table.
pub(super) fn speed(repo: &Repo, options: &Speed) -> Result<String> {
    ensure!(options.rounds >= 3, "quartiles want at least 3 rounds");
    ensure!(options.threads > 0, "a pool has at least 1 thread");
    let twins = build(repo, "release", &[])?;
    let names = output(&twins.ours, &["speed"], None)?;
    let wanted = |name: &&str| options.name.as_ref().is_none_or(|part| name.contains(part));
    let names: Vec<&str> = names.lines().filter(wanted).collect();
    ensure!(!names.is_empty(), "no program has that name");
    println!(
        "| program | rayon-core, ms | ours, ms | ours ÷ theirs, median (quartiles) | pairs |\n|---|---|---|---|---|"
    );
    let mut logarithms = 0.0;
    let mut worst = (0.0, "");
    let mut medians = Vec::new();
    for &name in &names {
        let mut pairs = Vec::new();
        pair(&twins, name, options.threads, options.rounds, &mut pairs)?;
        // One program of forty seems slow by chance, and one fast. What is slow or fast stays so. Both are
        // measured again: else chance would only be taken out of the losses.
        if is_beyond(quartiles(&pairs, ratio).median) {
            pair(&twins, name, options.threads, AGAIN * options.rounds, &mut pairs)?;
        }
        let ratios = quartiles(&pairs, ratio);
        println!(
            "| {name} | {:.3} | {:.3} | {} | {} |",
            quartiles(&pairs, |pair| pair.0).median,
            quartiles(&pairs, |pair| pair.1).median,
            ratios.text(2),
            pairs.len(),
        );
        let median = ratios.median;
        logarithms += median.ln();
        medians.push(median);
        if median > worst.0 {
            worst = (median, name);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "there are few programs")]
    let mean = (logarithms / names.len() as f64).exp();
    let summary = format!(
        "{} programs, {} threads, {} rounds: geometric mean {mean:.2}, the median program {:.2}, the worst {:.2} ({})",
        names.len(),
        options.threads,
        options.rounds,
        quartiles(&medians, |median| *median).median,
        worst.0,
        worst.1
    );
    let breaches = breaches(mean, worst.0);
    if !breaches.is_empty() && options.strict {
        bail!("{summary}: {}", breaches.join(", "));
    }
    Ok(summary)
}

/// Runs a program on both, by turns, and adds the times in milliseconds: the original's and ours.
fn pair(twins: &Twins, name: &str, threads: usize, rounds: usize, pairs: &mut Vec<(f64, f64)>) -> Result<()> {
    let time = |program: &Path| -> Result<(f64, String)> {
        let text = output(program, &["speed", name], Some(threads))?;
        let (time, digest) = text.trim().split_once(' ').context("a time and a digest")?;
        Ok((time.parse()?, digest.to_owned()))
    };
    for [original, ours] in turns::rounds(rounds, &[&twins.original, &twins.ours], |program| time(program))? {
        ensure!(original.1 == ours.1, "{name} has another result on ours");
        pairs.push((original.0, ours.0));
    }
    Ok(())
}

/// Returns true if a ratio is beyond the bound for the worst, to either side.
fn is_beyond(ratio: f64) -> bool {
    !(1.0 / WORST..=WORST).contains(&ratio)
}

fn ratio((original, ours): &(f64, f64)) -> f64 {
    ours / original
}

/// The quartiles of a quantity of at least one.
fn quartiles<T>(all: &[T], key: fn(&T) -> f64) -> Quartiles {
    Quartiles::of(all.iter().map(key)).expect("there is one")
}

/// What is beyond the bounds.
fn breaches(mean: f64, worst: f64) -> Vec<String> {
    let bounds = [("the mean", mean, MEAN), ("the worst", worst, WORST)];
    bounds
        .into_iter()
        .filter(|(_, ratio, bound)| ratio > bound)
        .map(|(what, ratio, bound)| format!("{what} is {ratio:.3}, more than {bound}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{breaches, is_beyond};

    #[test]
    fn what_is_fast_is_measured_again_as_well() {
        assert!(is_beyond(1.06) && is_beyond(0.95) && is_beyond(0.3));
        assert!(!is_beyond(1.04) && !is_beyond(1.0) && !is_beyond(0.96));
    }

    #[test]
    fn each_bound_is_checked() {
        assert!(breaches(0.97, 1.05).is_empty());
        assert_eq!(breaches(0.98, 1.0).len(), 1);
        assert_eq!(breaches(0.9, 1.06), ["the worst is 1.060, more than 1.05"]);
        assert_eq!(breaches(1.2, 1.3).len(), 2);
    }
}
