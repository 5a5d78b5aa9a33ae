//! What rayon's users have, on `compat/rayon-core`: rayon's own tests, its incidents, and programs that are
//! built with the original and with ours, and compared.

mod incidents;
mod tests;
mod twins;

use crate::repo::Repo;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;

pub(crate) use tests::ours;
pub(crate) use twins::ours as programs_on_ours;
pub(crate) use twins::real_if_fetched;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Option<RayonCommand>,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum RayonCommand {
    /// The tests of rayon, and of rayon-core
    Tests,
    /// The programs of open incidents of rayon, and programs that index arrays by thread
    Programs,
    /// The time of each program on ours, as a ratio to that on the original, run by turns
    Speed(twins::Speed),
    /// Other people's programs on both: the results must be equal. It compiles them for minutes
    Real,
}

/// Runs what was asked for: the tests and the programs, if nothing was.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<String> {
    match &options.what {
        Some(RayonCommand::Tests) => tests::run(repo),
        Some(RayonCommand::Programs) => programs(repo),
        Some(RayonCommand::Speed(speed)) => twins::speed(repo, speed),
        Some(RayonCommand::Real) => twins::real(repo),
        None => all(repo),
    }
}

/// The tests and the programs.
pub(crate) fn all(repo: &Repo) -> Result<String> {
    Ok(format!("{}; {}", tests::run(repo)?, programs(repo)?))
}

fn programs(repo: &Repo) -> Result<String> {
    let incidents = incidents::run(repo)?;
    twins::threads(repo)?;
    Ok(incidents)
}

/// The lines that let a package find our crate under the name of the original.
fn patch(repo: &Repo) -> String {
    let ours = repo.root.join("compat/rayon-core");
    format!(
        "\n[patch.crates-io]\nrayon-core = {{ path = {:?} }}\n",
        ours.display().to_string()
    )
}

/// Copies a folder; what was there before is replaced.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::write(&target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}
