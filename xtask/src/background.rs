//! The models of the checkers in processes of their own, where the other checks leave the processors idle.
//!
//! Tests sleep, and the end of a build keeps one processor busy: that is a fifth of all processor time.
//! Models look at no clock. So they come at the lowest priority, one checker after the other.

use crate::models::Checker;
use crate::repo::Repo;
use crate::run::{self, End};
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// How long the models of a checker, or one of them, may take while others have the processors.
const LIMIT: Duration = Duration::from_secs(3600);

/// The models that run beside the other checks.
pub(crate) struct Background {
    /// How each checker's models ended, and what they wrote: in the order of [`Checker::OF_MODELS`].
    ended: Receiver<Result<(End, String)>>,
    /// The processor time of those that have ended, in milliseconds.
    used: Arc<AtomicU64>,
}

impl Background {
    /// Starts the models of all checkers.
    pub(crate) fn start(repo: &Repo) -> Self {
        let (tell, ended) = channel();
        let used = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&used);
        let (root, logs) = (repo.root.clone(), repo.target.join("xtask"));
        thread::spawn(move || {
            for checker in Checker::OF_MODELS {
                let log = logs.join(format!("{}.log", checker.name()));
                let ended = explore(&root, checker, &log);
                if let Ok((_, said)) = &ended {
                    let ms = last_line(said).map_or(0.0, |(_, seconds)| seconds * 1000.0);
                    sum.fetch_add(ms as u64, Ordering::Relaxed);
                }
                if tell.send(ended).is_err() {
                    return;
                }
            }
        });
        Self { ended, used }
    }

    /// Returns the processor time of all models that have ended, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.used.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Waits for the next checker's models, and prints what they wrote. Returns what they came to.
    pub(crate) fn next(&self) -> (String, Result<()>) {
        let ended = self.ended.recv().context("the thread of the models has ended");
        match ended.flatten() {
            Ok((end, said)) => {
                println!("{said}");
                let count = last_line(&said).map_or_else(String::new, |(count, _)| count.to_owned());
                (count, verdict(end, &said))
            }
            Err(error) => (String::new(), Err(error)),
        }
    }
}

/// Runs the models of one checker by the command that a person would use.
fn explore(root: &Path, checker: Checker, log: &Path) -> Result<(End, String)> {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(std::env::current_exe()?);
    command.arg("--root").arg(root).arg(checker.name());
    command.args(["--clippy", "--limit", &LIMIT.as_secs().to_string()]);
    let (end, _) = run::limited(&mut command, log, LIMIT)?;
    Ok((end, run::read_log(log)?))
}

fn verdict(end: End, said: &str) -> Result<()> {
    // What failed is said again at the end: see `models::ModelTally::verdict`.
    let from = said.rfind("\nerror: ").map_or(said.len(), |at| at + 1);
    ensure!(
        end == End::Success,
        "the models ended with {end:?}\n{}",
        &said[from..]
    );
    Ok(())
}

/// Finds `299 models passed, 0 failed, in 169.63 s, 513 s of CPU`, and the last number of it.
fn last_line(said: &str) -> Option<(&str, f64)> {
    let line = said.lines().rfind(|line| line.contains(" models passed, "))?;
    let (_, line) = line.split_once(": ")?;
    let seconds = line.strip_suffix(" s of CPU")?.rsplit_once(", ")?.1;
    Some((line, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{last_line, verdict};
    use crate::run::End;

    const SAID: &str = "loom: 298 models passed, 1 failed, in 1.50 s, 513 s of CPU\nerror: 1 of 299\n";

    #[test]
    fn counts_and_seconds_are_found() {
        let count = "298 models passed, 1 failed, in 1.50 s, 513 s of CPU";
        assert_eq!(last_line(SAID), Some((count, 513.0)));
        assert_eq!(last_line("error: no model\n"), None);
    }

    #[test]
    fn failures_are_said_again() {
        assert!(verdict(End::Success, SAID).is_ok());
        let error = verdict(End::Failure, SAID).expect_err("it failed").to_string();
        assert!(error.ends_with("error: 1 of 299\n"), "{error}");
    }
}
