//! Rules of the repository that neither the compiler nor clippy checks.

mod directions;
mod doors;
mod lengths;
mod links;
mod locks;
mod named_files;
mod records;
pub(crate) mod rooms;
mod tables;
mod widths;
mod words;

use crate::repo::Repo;
use crate::{mutants, run, tests_index};
use anyhow::Result;

/// A rule and what it says; it lists what breaks it.
type Rule = (&'static str, fn(&Repo) -> Result<Vec<String>>);

/// Checks all rules and lists what breaks them.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let rules: [Rule; 13] = [
        ("files are short", lengths::check),
        ("comments and documents are narrow", widths::check),
        ("retired words are gone", words::check),
        ("one door to std and the checkers", doors::check),
        ("arrows point downwards", directions::check),
        ("imports form no circles", rooms::check),
        ("links lead somewhere", links::check),
        ("tables of files are complete", tables::check),
        ("files that documents name exist", named_files::check),
        ("records that are named exist", records::check),
        ("lock files fit", locks::check),
        ("mutants fit their sources", mutants::fit),
        ("the index of tests is current", tests_index::check),
    ];
    let mut complaints = Vec::new();
    for (name, rule) in rules {
        let broken = rule(repo)?;
        println!(
            "{name}: {}",
            if broken.is_empty() {
                "ok".to_owned()
            } else {
                format!("{} broken", broken.len())
            }
        );
        complaints.extend(broken);
    }
    run::complain("breaches of the house rules", &complaints)
}
