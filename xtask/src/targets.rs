//! The library on systems other than this one: compiled, not run.

use crate::repo::Repo;
use crate::{publish, run};
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// A target, and why it is checked.
const TARGETS: [(&str, &str); 4] = [
    (
        "x86_64-pc-windows-gnu",
        "sockets instead of descriptors, a poller without edges",
    ),
    ("aarch64-apple-darwin", "kqueue"),
    (
        "aarch64-unknown-linux-gnu",
        "another processor: stacks by corosensei",
    ),
    ("x86_64-unknown-linux-musl", "another C library"),
];
/// The target on which the library is also checked without its features, as `compat/rayon-core` uses it.
const BARE: &str = "x86_64-pc-windows-gnu";
/// Packages for Linux alone.
const LINUX: [&str; 1] = ["warpweft-mpi"];

/// Compiles the library for each target. A warning is a failure.
///
/// Returns what came of it. A target whose standard library cannot be had is no failure, but it is said.
pub(crate) fn run(repo: &Repo) -> Result<String> {
    let sysroot = sysroot(repo)?;
    let packages = publish::library(repo)?;
    let (mut checked, mut skipped) = (Vec::new(), Vec::new());
    for (target, why) in TARGETS {
        println!("{target}: {why}");
        if !has(&sysroot, target) && !install(repo, &sysroot, target) {
            println!("skipped: the standard library of {target} is not installed and cannot be");
            skipped.push(target);
            continue;
        }
        let here = |name: &str| target.contains("linux") || !LINUX.contains(&name);
        let names = packages.iter().map(|package| package.name.as_str());
        let names = names.filter(|name| here(name)).flat_map(|name| ["-p", name]);
        check(repo, &repo.root, target, names)
            .with_context(|| format!("the library does not compile for {target}"))?;
        if target == BARE {
            check(repo, &repo.root.join("compat/rayon-core"), target, [])
                .with_context(|| format!("rayon-core does not compile for {target}"))?;
        }
        checked.push(target);
    }
    ensure!(
        !checked.is_empty(),
        "no target was checked: none of {skipped:?} is installed, and none can be"
    );
    let mut outcome = format!("{} targets", checked.len());
    if !skipped.is_empty() {
        outcome.push_str(&format!(", skipped as not installed: {}", skipped.join(", ")));
    }
    Ok(outcome)
}

fn check<'a>(
    repo: &Repo,
    folder: &Path,
    target: &str,
    packages: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    let mut command = run::cargo(folder);
    command
        .args(["check", "--locked", "--target", target])
        .args(packages)
        .env("CARGO_TARGET_DIR", repo.target.join("targets"))
        .env(
            "RUSTFLAGS",
            format!("{} -D warnings", run::rustflags(None)).trim(),
        );
    run::run(&mut command)
}

/// Returns where the compiler has its standard libraries.
fn sysroot(repo: &Repo) -> Result<String> {
    let output = Command::new("rustc")
        .current_dir(&repo.root)
        .args(["--print", "sysroot"])
        .output()
        .context("no rustc")?;
    ensure!(output.status.success(), "`rustc --print sysroot` failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn has(sysroot: &str, target: &str) -> bool {
    Path::new(sysroot)
        .join("lib/rustlib")
        .join(target)
        .join("lib")
        .is_dir()
}

fn install(repo: &Repo, sysroot: &str, target: &str) -> bool {
    println!("$ rustup target add {target}");
    let added = Command::new("rustup")
        .current_dir(&repo.root)
        .args(["target", "add", target])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    added.is_ok_and(|status| status.success()) && has(sysroot, target)
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn a_target_without_a_standard_library_is_not_there() {
        let sysroot = std::env::temp_dir().join(format!("warpweft-sysroot-{}", std::process::id()));
        let there = sysroot.join("lib/rustlib/some-target/lib");
        std::fs::create_dir_all(&there).expect("a folder");
        let text = sysroot.to_str().expect("text");
        assert!(has(text, "some-target"));
        assert!(!has(text, "other-target"));
        std::fs::remove_dir_all(&sysroot).expect("it is there");
    }
}
