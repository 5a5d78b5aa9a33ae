//! The workloads, one file each, and who runs them. A new one takes its `mod` line and its line in `TYPES`.

mod calls;
mod drops;
mod idle;
mod outstanding;
mod overlap;
mod ping_pong;
mod remote_data;
mod stencil;
mod tree;

use crate::contestants::{Contestant, blocking, lacks, plain, rayon, tokio, warpweft};
use crate::workload::{Report, Setting, Workload};
use serde_json::{Value, json};

/// Calls `$then!` with each contestant.
macro_rules! contestants {
    ($then:ident) => {
        $then!(
            warpweft::Warpweft,
            tokio::Tokio,
            rayon::Rayon,
            plain::Plain,
            blocking::Blocking
        )
    };
}

/// What the table of workloads knows of one.
#[derive(Clone, Copy)]
struct Entry {
    settings: &'static [Setting],
    run: fn(&'static Setting, &str, usize, usize) -> Result<Report, String>,
    lines: fn(&'static Setting) -> Vec<Value>,
}

const TYPES: [Entry; 9] = [
    entry::<ping_pong::PingPong>(),
    entry::<outstanding::Outstanding>(),
    entry::<remote_data::RemoteData>(),
    entry::<overlap::Overlap>(),
    entry::<stencil::Stencil>(),
    entry::<tree::TreeSearch>(),
    entry::<calls::RemoteCalls>(),
    entry::<idle::Idle>(),
    entry::<drops::Drops>(),
];

const fn entry<W: Workload>() -> Entry {
    Entry {
        settings: W::SETTINGS,
        run: run_on::<W>,
        lines: lines_of::<W>,
    }
}

fn all() -> impl Iterator<Item = (Entry, &'static Setting)> {
    TYPES
        .into_iter()
        .flat_map(|entry| entry.settings.iter().map(move |setting| (entry, setting)))
}

/// Runs a workload by its name, in its usual amount unless there is another one.
///
/// # Errors
///
/// There is no such workload or contestant, or no MPI.
pub(crate) fn run(
    name: &str,
    contestant: &str,
    workers: usize,
    amount: Option<usize>,
) -> Result<Report, String> {
    let Some((entry, setting)) = all().find(|(_, setting)| setting.name == name) else {
        let names: Vec<&str> = all().map(|(_, setting)| setting.name).collect();
        return Err(format!("there is no workload `{name}`: {}", names.join(", ")));
    };
    (entry.run)(setting, contestant, workers, amount.unwrap_or(setting.amount))
}

fn run_on<W: Workload>(
    setting: &'static Setting,
    contestant: &str,
    workers: usize,
    amount: usize,
) -> Result<Report, String> {
    let workload = W::new(setting, amount);
    macro_rules! run {
        ($($contestant:ty),*) => {{
            $(if contestant == <$contestant>::NAME {
                return <$contestant>::run(workload, workers).map_err(|error| error.to_string());
            })*
            let names = [$(<$contestant>::NAME),*];
            Err(format!("there is no contestant `{contestant}`: {}", names.join(", ")))
        }};
    }
    contestants!(run)
}

/// Describes each workload on each contestant, in lines of JSON.
pub(crate) fn list() -> Vec<Value> {
    all()
        .flat_map(|(entry, setting)| (entry.lines)(setting))
        .collect()
}

fn lines_of<W: Workload>(setting: &'static Setting) -> Vec<Value> {
    let workload = W::new(setting, setting.amount);
    let mut lines = Vec::new();
    for (ranks, workers) in setting.jobs.iter().copied() {
        macro_rules! line {
            ($($contestant:ty),*) => {
                $(lines.push(json!({
                    "workload": setting.name, "about": setting.about, "smoke": setting.smoke,
                    "ranks": ranks, "workers": workers, "contestant": <$contestant>::NAME,
                    "lacks": lacks::<$contestant>(&workload, ranks, workers),
                }));)*
            };
        }
        contestants!(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{all, list, run};
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_each_workload_has_a_contestant() {
        let names: HashSet<&str> = all().map(|(_, setting)| setting.name).collect();
        assert_eq!(names.len(), all().count());
        let lines = list();
        for name in names {
            let able = |line: &&serde_json::Value| line["workload"] == name && line["lacks"].is_null();
            assert!(lines.iter().any(|line| able(&line)), "{name}");
        }
    }

    #[test]
    fn a_reason_says_what_a_contestant_has_not() {
        for line in list() {
            if let Some(reason) = line["lacks"].as_str() {
                assert!(reason.starts_with("has no "), "{line}");
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_there_are() {
        let error = run("nothing", "plain", 1, None).expect_err("no such workload");
        assert!(
            error.contains("ping-pong") && error.contains("remote-data"),
            "{error}"
        );
        let error = run("ping-pong", "nothing", 1, None).expect_err("no such contestant");
        assert!(
            error.contains("warpweft, tokio, rayon, plain, blocking"),
            "{error}"
        );
    }
}
