//! What users get from a registry: the packages, and the oldest compiler that builds them.

use crate::repo::Repo;
use crate::run;
use anyhow::{Context as _, Result, ensure};
use cargo_metadata::Package;
use cargo_metadata::semver::Version;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The package with the command.
const LAB: &str = "warpweft-lab";

/// The packages that may be published: all but those with `publish = false`.
fn packages(repo: &Repo) -> Vec<&Package> {
    repo.packages()
        .filter(|package| package.publish.as_deref() != Some(&[]))
        .collect()
}

fn named<'a>(packages: &'a [&Package]) -> impl Iterator<Item = &'a str> {
    packages.iter().flat_map(|package| ["-p", package.name.as_str()])
}

/// Builds the package of each crate, unpacks all of them, and compiles them from there: files that are not
/// packaged are not seen.
///
/// `cargo package` would compile them, too, but from a cache that it fills once for each version.
/// Returns how many packages there are.
pub(crate) fn package(repo: &Repo) -> Result<String> {
    let packages = packages(repo);
    let lacks: Vec<_> = packages.iter().flat_map(|package| missing(package)).collect();
    run::complain("fields or files of packages are missing", &lacks)?;
    let mut command = run::cargo(&repo.root);
    // The working tree counts, as in every other check.
    command.args(["package", "--locked", "--allow-dirty", "--no-verify"]);
    run::run(command.args(named(&packages)))?;
    let folder = repo.target.join("unpacked");
    unpack(repo, &packages, &folder)?;
    let mut command = run::cargo(&folder);
    command
        .args(["check", "--workspace"])
        .env("CARGO_TARGET_DIR", repo.target.join("packages"));
    run::run(&mut command).context("the packages do not compile by themselves")?;
    Ok(format!("{} packages", packages.len()))
}

/// Builds the packages, installs the laboratory's from its unpacked package as a user does, and runs the
/// command in an empty folder, where nothing of this tree is found.
pub(crate) fn install_lab(repo: &Repo) -> Result<()> {
    package(repo)?;
    let lab = repo.packages().find(|package| package.name.as_str() == LAB);
    let lab = lab.context("the laboratory has no package")?;
    let folder = repo.target.join("unpacked");
    let (root, empty) = (repo.target.join("installed"), repo.target.join("installed/empty"));
    let mut command = run::cargo(&folder);
    // What is built without optimisation is built from the same files.
    command.args(["install", "--debug", "--locked", "--force", "--path"]);
    command
        .arg(format!("{}-{}", lab.name, lab.version))
        .arg("--root")
        .arg(&root);
    run::run(command.env("CARGO_TARGET_DIR", repo.target.join("packages")))?;
    fs::create_dir_all(&empty)?;
    for (arguments, part) in [
        (&["list", "--json"][..], "\"fifo\""),
        (&["list", "packet"], "packet"),
        (&["explore", "cycle", "--smoke"], "cycle"),
    ] {
        let mut command = Command::new(root.join("bin/warpweft"));
        let said = run::capture(command.args(arguments).current_dir(&empty))?;
        let said = String::from_utf8_lossy(&said);
        ensure!(
            said.contains(part),
            "the installed command does not say {part}: {said}"
        );
    }
    Ok(())
}

/// Makes a workspace of the packages' contents, in which they find each other instead of what a registry has.
fn unpack(repo: &Repo, packages: &[&Package], folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mut manifest =
        String::from("[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n");
    for package in packages {
        let name = format!("{}-{}", package.name, package.version);
        let archive = repo.target.join("package").join(format!("{name}.crate"));
        run::run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder))?;
        manifest.push_str(&format!("{} = {{ path = \"{name}\" }}\n", package.name));
    }
    fs::write(folder.join("Cargo.toml"), manifest)?;
    // The versions that every other check uses.
    fs::copy(repo.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}

/// What a package that is published must have, and this one lacks.
fn missing(package: &Package) -> Vec<String> {
    let folder = crate::repo::folder(package);
    let fields = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("repository", package.repository.is_some()),
        ("documentation", package.documentation.is_some()),
        ("rust-version", package.rust_version.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ];
    let files =
        ["README.md", "LICENSE-MIT", "LICENSE-APACHE"].map(|name| (name, folder.join(name).is_file()));
    fields
        .into_iter()
        .chain(files)
        .filter(|(_, there)| !there)
        .map(|(what, _)| format!("{}: no {what}", package.name))
        .collect()
}

/// Returns the packages of the library: those that may be published and promise the oldest compiler. What
/// promises a newer one, as the lab's harness does, is not a part of it.
pub(crate) fn library(repo: &Repo) -> Result<Vec<&Package>> {
    let packages = packages(repo);
    let oldest = packages
        .iter()
        .filter_map(|package| package.rust_version.as_ref())
        .min()
        .context("no package has a rust-version")?;
    Ok(packages
        .iter()
        .filter(|package| package.rust_version.as_ref() == Some(oldest))
        .copied()
        .collect())
}

/// Checks every package that may be published with the oldest compiler that its manifest promises.
///
/// Returns what came of it. A toolchain that cannot be had is no failure, but it is said.
pub(crate) fn msrv(repo: &Repo) -> Result<String> {
    let packages = library(repo)?;
    let version = packages
        .iter()
        .find_map(|package| package.rust_version.clone())
        .context("no package has a rust-version")?;
    let toolchain = toolchain(&version);
    if !has(&toolchain) && !install(&toolchain) {
        let skipped = format!("skipped: Rust {toolchain} is not installed and cannot be");
        println!("{skipped}; clippy's lint `incompatible_msrv` still looks for newer items of std");
        return Ok(skipped);
    }
    let mut command = Command::new("rustup");
    command
        .current_dir(&repo.root)
        .args(["run", &toolchain, "cargo", "check", "--locked"])
        .args(named(&packages))
        .env("CARGO_TARGET_DIR", repo.target.join("msrv"));
    // They name the newer compiler.
    for name in ["CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    run::run(&mut command)?;
    Ok(format!("{} packages with Rust {toolchain}", packages.len()))
}

/// The name by which rustup knows the newest patch of a version.
fn toolchain(version: &Version) -> String {
    format!("{}.{}", version.major, version.minor)
}

fn has(toolchain: &str) -> bool {
    succeeds(&["run", toolchain, "cargo", "--version"])
}

fn install(toolchain: &str) -> bool {
    println!("$ rustup toolchain install {toolchain} --profile minimal");
    succeeds(&["toolchain", "install", toolchain, "--profile", "minimal"])
}

fn succeeds(arguments: &[&str]) -> bool {
    Command::new("rustup")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::toolchain;
    use cargo_metadata::semver::Version;

    #[test]
    fn a_toolchain_is_named_without_its_patch() {
        assert_eq!(toolchain(&Version::new(1, 88, 0)), "1.88");
    }
}
