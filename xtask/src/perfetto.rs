//! The trace files of the flight recorder, read by Perfetto's own schema: the package `perfetto` of
//! Python's, in a separate environment below the target folder.

use crate::counts::Tests;
use crate::repo::Repo;
use crate::run;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Turns the skip of the test into a failure: the interpreter that has the package.
const VARIABLE: &str = "WARPWEFT_PERFETTO_PYTHON";
const TEST: &str = "perfetto::perfettos_schema_agrees_where_it_is_installed";

/// Installs the package, unless it is there, and runs the test with it. Says so if it cannot be installed.
pub(crate) fn run(repo: &Repo) -> Result<String> {
    let python = match installed(&repo.target.join("perfetto")) {
        Ok(python) => python,
        Err(reason) => {
            println!("Perfetto's schema cannot be had: {reason:#}");
            return Ok(String::from("1 skipped: no package `perfetto`"));
        }
    };
    let mut tests = Tests::default();
    let mut command = run::cargo(&repo.root);
    command.args([
        "test", "-p", "warpweft", "--test", "recorder", "--", "--exact", TEST,
    ]);
    let success = run::tee(command.env(VARIABLE, &python), |line| {
        tests.add(line);
    })?;
    ensure!(
        success,
        "Perfetto's schema does not agree\n{}",
        tests.failures.join("\n")
    );
    ensure!(tests.passed == 1, "the test {TEST} is gone");
    Ok(String::from("1 passed"))
}

/// Returns the interpreter of an environment that has the package.
fn installed(folder: &Path) -> Result<PathBuf> {
    let python = run::python(folder);
    if has_package(&python) {
        return Ok(python);
    }
    run::pip_install(folder, "perfetto")?;
    ensure!(has_package(&python), "it is installed and has no schema");
    Ok(python)
}

fn has_package(python: &Path) -> bool {
    let import = "from perfetto.protos.perfetto.trace import perfetto_trace_pb2";
    run::succeeds(Command::new(python).args(["-c", import]))
}
