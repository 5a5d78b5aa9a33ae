//! The measures of `lab/mpi`: the contestants of a workload take turns, in several rounds, with each MPI and
//! over each path.

use super::launchers::{self, Launcher, Path};
use super::{build, goals, table};
use crate::repo::Repo;
use crate::run::{self, End};
use crate::text;
use crate::turns;
use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use std::process::Command;
use std::time::{Duration, Instant};

/// A job of the slowest contestant takes a minute here.
const LIMIT: Duration = Duration::from_secs(600);
const SMOKE_LIMIT: Duration = Duration::from_secs(60);

/// What is to be measured.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// Parts of workloads' names, with commas between them. Empty for all.
    pub(super) filter: &'a str,
    pub(super) rounds: usize,
    /// Empty for all.
    pub(super) contestants: &'a [String],
}

/// A workload on a contestant, as `ranks list` describes it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Catalogue {
    pub(super) workload: String,
    pub(super) contestant: String,
    pub(super) ranks: usize,
    pub(super) workers: usize,
    /// An amount of work that takes milliseconds.
    pub(super) smoke: usize,
    /// Why the contestant has no program for it.
    pub(super) lacks: Option<String>,
}

/// A figure of one run.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Sample {
    pub(super) workload: String,
    pub(super) contestant: String,
    pub(super) ranks: usize,
    pub(super) workers: usize,
    pub(super) figure: String,
    pub(super) value: f64,
    pub(super) unit: String,
    pub(super) is_less_better: bool,
    pub(super) extra: String,
    #[serde(default)]
    pub(super) round: usize,
}

/// Measures, and prints a table for each MPI and path. Returns how many jobs ran.
pub(super) fn run(repo: &Repo, plan: &Plan<'_>) -> Result<String> {
    let mut count = 0;
    for launcher in launchers::all(repo).0 {
        let job = Job::new(repo, &launcher, true)?;
        let chosen = chosen(job.catalogue()?, plan)?;
        for path in &launcher.paths {
            run::heading(&format!("{}, {path:?}", launcher.name));
            let samples = rounds(&job, *path, &chosen, plan.rounds)?;
            let jobs = chosen.iter().filter(|entry| entry.lacks.is_none()).count();
            count += plan.rounds * jobs;
            let (table, left_out) = (table::table(&samples), table::left_out(&chosen));
            run::print(&format!(
                "\n{table}\n{left_out}\n{}",
                goals::table(&samples, *path)
            ))?;
        }
    }
    ensure!(count > 0, "there is no MPI, and none could be installed");
    Ok(format!("{count} jobs"))
}

/// Runs each workload on each contestant once, with little work and two ranks at most. Returns how many ran.
pub(super) fn smoke(repo: &Repo, launcher: &Launcher) -> Result<usize> {
    let job = Job::new(repo, launcher, false)?;
    let (begin, mut count) = (Instant::now(), 0);
    for entry in job.catalogue()? {
        if entry.lacks.is_none() && entry.ranks <= 2 {
            job.run(launcher.paths[0], &entry, Some(entry.smoke), SMOKE_LIMIT)?;
            count += 1;
        }
    }
    let took = run::seconds(begin.elapsed());
    println!("workloads on contestants: {count} passed ({took})");
    Ok(count)
}

/// The entries that the plan asks for.
fn chosen(all: Vec<Catalogue>, plan: &Plan<'_>) -> Result<Vec<Catalogue>> {
    for name in plan.contestants {
        let is_known = all.iter().any(|entry| entry.contestant == *name);
        ensure!(
            is_known,
            "there is no contestant `{name}`: {}",
            names(&all, |entry| &entry.contestant)
        );
    }
    let is_chosen = |entry: &Catalogue| {
        text::is_named(&entry.workload, plan.filter)
            && (plan.contestants.is_empty() || plan.contestants.contains(&entry.contestant))
    };
    let workloads = names(&all, |entry| &entry.workload);
    let chosen: Vec<Catalogue> = all.into_iter().filter(is_chosen).collect();
    ensure!(
        !chosen.is_empty(),
        "no workload has a part of `{}` in its name: {workloads}",
        plan.filter
    );
    Ok(chosen)
}

fn names(all: &[Catalogue], name: impl Fn(&Catalogue) -> &String) -> String {
    let mut names: Vec<&str> = Vec::new();
    for entry in all {
        if !names.contains(&name(entry).as_str()) {
            names.push(name(entry));
        }
    }
    names.join(", ")
}

/// The turns of a round: the contestants of a job one after the other.
fn turns(entries: &[Catalogue], round: usize) -> Vec<&Catalogue> {
    let same =
        |a: &Catalogue, b: &Catalogue| (&a.workload, a.ranks, a.workers) == (&b.workload, b.ranks, b.workers);
    let groups = entries.chunk_by(same).map(|group| {
        let group: Vec<&Catalogue> = group.iter().filter(|entry| entry.lacks.is_none()).collect();
        turns::order(group.len(), round).map(move |which| group[which])
    });
    groups.flatten().collect()
}

fn rounds(job: &Job<'_>, path: Path, entries: &[Catalogue], rounds: usize) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for round in 0..rounds {
        for entry in turns(entries, round) {
            for sample in job.run(path, entry, None, LIMIT)? {
                println!(
                    "round {round}: {}, {} × {}, {}, {}: {} {} {}",
                    sample.workload,
                    sample.ranks,
                    sample.workers,
                    sample.contestant,
                    sample.figure,
                    table::short(sample.value),
                    sample.unit,
                    sample.extra
                );
                samples.push(Sample { round, ..sample });
            }
        }
    }
    Ok(samples)
}

/// The program of the lab, and who starts it.
struct Job<'a> {
    repo: &'a Repo,
    launcher: &'a Launcher,
    program: std::path::PathBuf,
}

impl<'a> Job<'a> {
    fn new(repo: &'a Repo, launcher: &'a Launcher, release: bool) -> Result<Self> {
        let mut arguments = vec!["build", "-p", "warpweft-lab-mpi", "--bin", "ranks"];
        arguments.extend(release.then_some("--release"));
        Ok(Self {
            repo,
            launcher,
            program: build(repo, launcher, &arguments)?,
        })
    }

    fn catalogue(&self) -> Result<Vec<Catalogue>> {
        let list = run::capture(Command::new(&self.program).arg("list"))?;
        let list = String::from_utf8_lossy(&list);
        let entries = list.lines().map(serde_json::from_str::<Catalogue>);
        entries
            .collect::<Result<_, _>>()
            .context("`ranks list` prints lines of JSON")
    }

    /// Runs one job. Returns its figures.
    fn run(
        &self,
        path: Path,
        entry: &Catalogue,
        amount: Option<usize>,
        limit: Duration,
    ) -> Result<Vec<Sample>> {
        let log = self.repo.target.join("mpi.log");
        let mut command = self.launcher.command(path, entry.ranks);
        command.arg(&self.program);
        command.args([&entry.workload, &entry.contestant, &entry.workers.to_string()]);
        command.args(amount.map(|amount| amount.to_string()));
        let (end, _) = run::limited(&mut command, &log, limit)?;
        let samples = samples(&run::read_log(&log)?);
        if end != End::Success || samples.is_empty() {
            println!("{}", run::tail(&log, 60));
            bail!(
                "{} on {} over {path:?}, {} ranks × {} workers: {end:?}, {} figures",
                entry.workload,
                entry.contestant,
                entry.ranks,
                entry.workers,
                samples.len()
            );
        }
        Ok(samples)
    }
}

/// The figures among the lines of a job.
fn samples(log: &str) -> Vec<Sample> {
    log.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Catalogue, Plan, chosen, samples, turns};

    fn entry(workload: &str, contestant: &str, lacks: Option<&str>) -> Catalogue {
        Catalogue {
            workload: workload.into(),
            contestant: contestant.into(),
            ranks: 2,
            workers: 1,
            smoke: 1,
            lacks: lacks.map(Into::into),
        }
    }

    fn catalogue() -> Vec<Catalogue> {
        vec![
            entry("t1", "a", None),
            entry("t1", "b", None),
            entry("t1", "c", Some("has no steals")),
            entry("t3", "a", None),
        ]
    }

    #[test]
    fn contestants_take_turns_and_each_begins_once() {
        let order = |round| {
            let turns: Vec<String> = turns(&catalogue(), round)
                .iter()
                .map(|entry| format!("{}{}", entry.workload, entry.contestant))
                .collect();
            turns.join(" ")
        };
        assert_eq!(order(0), "t1a t1b t3a");
        assert_eq!(order(1), "t1b t1a t3a");
    }

    #[test]
    fn a_plan_chooses_by_name_and_names_what_there_is() {
        let plan = |filter, contestants| Plan {
            filter,
            rounds: 1,
            contestants,
        };
        let b = [String::from("b")];
        let some = chosen(catalogue(), &plan("t", &b)).unwrap();
        assert_eq!(some.len(), 1);
        assert_eq!(chosen(catalogue(), &plan("x,3", &[])).unwrap().len(), 1);
        let error = chosen(catalogue(), &plan("x", &[])).unwrap_err().to_string();
        assert!(error.contains("t1, t3"), "{error}");
        let nobody = [String::from("d")];
        let error = chosen(catalogue(), &plan("", &nobody)).unwrap_err().to_string();
        assert!(error.contains("`d`: a, b, c"), "{error}");
    }

    #[test]
    fn figures_are_found_among_other_lines() {
        let log = "a launcher warns\n\
                   {\"workload\":\"idle\",\"contestant\":\"warpweft\",\"ranks\":2,\"workers\":1,\
                   \"figure\":\"wake-ups\",\"value\":0.5,\"unit\":\"/s\",\"is_less_better\":true,\"extra\":\"\"}\n\
                   {\"workload\":\"idle\",\"lacks\":\"has no such thing\"}\n";
        let samples = samples(log);
        assert_eq!(samples.len(), 1);
        assert_eq!((samples[0].value, samples[0].round), (0.5, 0));
    }
}
