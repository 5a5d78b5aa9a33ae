//! One run of a program as a child process, with a setting in its environment, and what its pools wrote.
//!
//! The program writes a line of JSON for each of its pools to the file that the environment names. A child is
//! the head of its own process group, which is killed as a whole when the time is up. What is left of the
//! group when the child has ended is killed, too: it would disturb the next run. Its output is dropped; the
//! end of its standard error is quoted if it fails.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value};
use tempfile::TempDir;
use wait_timeout::ChildExt;

use super::{BucketCounts, Delays, Ran, Setting, Tried};
use crate::error::LabError;
use crate::interrupt::{self, Running};
use crate::machine::children_cpu;
use crate::text::workers;
use crate::workload::Variables;

/// How many lines of the program's standard error are quoted.
const QUOTED: usize = 6;

/// A program, and how it is run.
#[derive(Debug)]
pub(crate) struct Process {
    program: OsString,
    arguments: Vec<OsString>,
    /// Its standard input; nothing if there is none.
    input: Option<PathBuf>,
    timeout: Duration,
    variables: Variables,
    folder: TempDir,
}

/// A line that a pool of the program wrote, or the reason why there is no pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pool {
    pub(crate) pool: String,
    pub(crate) policy: String,
    pub(crate) policy_from: String,
    pub(crate) workers: usize,
    pub(crate) workers_from: String,
    counters: Map<String, Value>,
    queue_delay: Measured,
    wake_to_run: Measured,
    run_time: Measured,
    error: Option<String>,
}

/// How long steps of a pool took or waited. Older versions write no buckets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Measured {
    buckets: Vec<(u64, u64)>,
}

impl Measured {
    fn counts(&self) -> BucketCounts {
        self.buckets.iter().copied().collect()
    }
}

/// How a child ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Ending {
    Well,
    /// With the reason.
    Badly(String),
}

/// A child that has ended.
#[derive(Debug)]
pub(crate) struct Child {
    wall: Duration,
    cpu: Option<Duration>,
    pub(crate) ending: Ending,
    pub(crate) pools: Vec<Pool>,
    /// The reasons why pools were not built.
    errors: Vec<String>,
}

impl Process {
    /// A program with its arguments.
    ///
    /// # Errors
    ///
    /// The system has no room for temporary files, or the input cannot be read.
    pub(crate) fn new(
        words: &[OsString],
        input: Option<&PathBuf>,
        timeout: Duration,
        variables: Variables,
    ) -> Result<Self, LabError> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(LabError::Usage(String::from(
                "no program is named: try -- ./program",
            )));
        };
        if let Some(path) = input {
            File::open(path).map_err(|error| LabError::file("read the input", path, &error))?;
        }
        interrupt::watch();
        Ok(Self {
            program: program.clone(),
            arguments: arguments.to_vec(),
            input: input.cloned(),
            timeout,
            variables,
            folder: tempfile::tempdir()
                .map_err(|error| LabError::file("make a folder in", &std::env::temp_dir(), &error))?,
        })
    }

    /// Runs it with this setting.
    ///
    /// # Errors
    ///
    /// It cannot be started at all.
    pub(crate) fn run(&self, setting: &Setting, measures: bool) -> Result<Child, LabError> {
        let [stats, complaints] = ["stats", "stderr"].map(|name| self.folder.path().join(name));
        drop(fs::remove_file(&stats));
        let file = |path: &Path| File::create(path).map_err(|error| LabError::file("write", path, &error));
        let input = match &self.input {
            Some(path) => File::open(path)
                .map_err(|error| LabError::file("read the input", path, &error))?
                .into(),
            None => Stdio::null(),
        };
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(file(&complaints)?);
        let Variables {
            policy,
            workers,
            stats: figures,
            measure,
            cleared,
        } = self.variables;
        for variable in cleared {
            command.env_remove(variable);
        }
        set(&mut command, policy, setting.policy.clone());
        set(
            &mut command,
            workers,
            setting.workers.map(|count| count.to_string()),
        );
        command.env(figures, &stats);
        set(&mut command, measure, measures.then(|| String::from("1")));
        interrupt::own_group(&mut command);
        let (start, cpu) = (Instant::now(), children_cpu());
        let mut child = command.spawn().map_err(|error| {
            let path = Path::new(&self.program);
            LabError::file("start", path, &error)
        })?;
        let running = Running::new(&child);
        let failed = |error: std::io::Error| LabError::file("wait for", Path::new(&self.program), &error);
        let status = child.wait_timeout(self.timeout).map_err(failed)?;
        let wall = start.elapsed();
        if status.is_none() {
            // It fails only if the child has ended.
            drop(child.kill());
            child.wait().map_err(failed)?;
        }
        drop(running);
        // Whatever it has started.
        interrupt::kill_group(child.id());
        let cpu = cpu
            .zip(children_cpu())
            .map(|(before, after)| after.saturating_sub(before));
        let lines = fs::read(&stats).unwrap_or_default();
        let (mut pools, mut errors) = (Vec::new(), Vec::new());
        for line in String::from_utf8_lossy(&lines).lines() {
            // A line that was cut off by the end of the process says nothing.
            let Ok(pool) = serde_json::from_str::<Pool>(line) else {
                continue;
            };
            match pool.error {
                Some(error) => errors.push(error),
                None => pools.push(pool),
            }
        }
        let ending = match status {
            None => Ending::Badly(format!("no end within {} s", self.timeout.as_secs_f64())),
            Some(status) if status.success() => Ending::Well,
            Some(status) => Ending::Badly(complaint(status, &complaints)),
        };
        Ok(Child {
            wall,
            cpu,
            ending,
            pools,
            errors,
        })
    }

    /// Runs it, and looks whether its pools did as the setting says.
    pub(crate) fn attempt(&self, setting: &Setting, measures: bool) -> Result<Tried, LabError> {
        let child = self.run(setting, measures)?;
        // A policy that the build lacks is no fault of the program.
        if let Some(error) = child
            .errors
            .iter()
            .find(|error| error.contains("needs the feature"))
        {
            return Ok(Tried::LeftOut(error.clone()));
        }
        Ok(match child.disobeyed(setting, self.variables) {
            Some(reason) => Tried::Failed(reason),
            None => child.tried(),
        })
    }
}

fn set(command: &mut Command, variable: &str, text: Option<String>) {
    match text {
        Some(text) => command.env(variable, text),
        None => command.env_remove(variable),
    };
}

/// Exit status, and the end of the standard error.
fn complaint(status: ExitStatus, complaints: &Path) -> String {
    let text = fs::read(complaints).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    format!("it ended with {status}{}", quoted(&text))
}

/// The beginning of the first panic without its backtrace, or else the end of the text; a line each.
fn quoted(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = match lines.iter().position(|line| line.contains(" panicked at ")) {
        Some(panic) => panic,
        None => lines.len().saturating_sub(QUOTED),
    };
    let lines = lines[from..].iter().take(QUOTED);
    let lines = lines.take_while(|line| !line.starts_with("stack backtrace:"));
    lines.map(|line| format!("\n    {line}")).collect()
}

impl Child {
    /// The reason why the run does not count for this setting.
    fn disobeyed(&self, setting: &Setting, variables: Variables) -> Option<String> {
        if self.ending != Ending::Well || (setting.policy.is_none() && setting.workers.is_none()) {
            return None;
        }
        if self.pools.is_empty() {
            return Some(String::from(
                "no pool of it wrote a line, so it is not known whether it followed",
            ));
        }
        let policy =
            setting.policy.is_none() || self.pools.iter().any(|pool| pool.policy_from == variables.policy);
        let workers = setting.workers.is_none()
            || self
                .pools
                .iter()
                .any(|pool| pool.workers_from == variables.workers);
        match (policy, workers) {
            (true, true) => None,
            (false, _) => Some(String::from("the program sets the policy of each pool itself")),
            (_, false) => Some(String::from("the program sets the workers of each pool itself")),
        }
    }

    pub(crate) fn tried(self) -> Tried {
        match self.ending {
            Ending::Badly(reason) => Tried::Failed(reason),
            Ending::Well => {
                let mut counters: Vec<(String, f64)> = Vec::new();
                for (name, value) in self.pools.iter().flat_map(|pool| &pool.counters) {
                    let value = value.as_f64().unwrap_or(0.0);
                    match counters.iter_mut().find(|(other, _)| other == name) {
                        Some((_, sum)) => *sum += value,
                        None => counters.push((name.clone(), value)),
                    }
                }
                let mut delays = Delays::default();
                for pool in &self.pools {
                    delays.add(&Delays {
                        queue_delay: pool.queue_delay.counts(),
                        wake_to_run: pool.wake_to_run.counts(),
                        run_time: pool.run_time.counts(),
                    });
                }
                Tried::Ran(Ran {
                    wall: self.wall,
                    cpu: self.cpu,
                    counters,
                    delays,
                })
            }
        }
    }
}

impl Pool {
    /// The pool in words: "`fifo` on 2 workers". `text` gives the text of a policy, the short one if it has
    /// one; none for a policy that is a type of the program.
    pub(crate) fn words(&self, text: impl Fn(&str) -> Option<String>) -> String {
        let policy = text(&self.policy).map_or_else(
            || {
                format!(
                    "its own policy (the type `{}`, which no text names)",
                    without_paths(&self.policy)
                )
            },
            |text| format!("`{text}`"),
        );
        format!("{policy} on {}", workers(self.workers))
    }
}

/// The name of a type without the modules that its parts are in.
fn without_paths(name: &str) -> String {
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let parts = name.split_inclusive(|letter| !is_path(letter));
    parts
        .map(|part| part.rsplit("::").next().unwrap_or(part))
        .collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const VARIABLES: Variables = Variables {
        policy: "TEST_POLICY",
        workers: "TEST_WORKERS",
        stats: "TEST_STATS",
        measure: "TEST_MEASURE",
        cleared: &["TEST_CLEARED"],
    };

    /// Runs a shell script with the policy `lifo` on 3 workers.
    fn attempt(script: &str, millis: u64) -> Tried {
        let words = ["sh", "-c", script].map(OsString::from);
        let process = Process::new(&words, None, Duration::from_millis(millis), VARIABLES).unwrap();
        let setting = Setting {
            policy: Some(String::from("lifo")),
            workers: Some(3),
        };
        process.attempt(&setting, true).unwrap()
    }

    /// A script that writes the line of a pool.
    fn line(from: &str) -> String {
        format!(
            r#"echo '{{"warpweft":1,"pool":"p","policy":"lifo","policy_from":"{from}","workers":3,"workers_from":"TEST_WORKERS","counters":{{"ran":4}}}}' >> $TEST_STATS"#
        )
    }

    fn failed(script: &str, millis: u64) -> String {
        match attempt(script, millis) {
            Tried::Failed(reason) => reason,
            other => panic!("{script}: {other:?}"),
        }
    }

    #[test]
    fn a_run_has_its_times_and_the_counters_of_all_pools() {
        let line = line("TEST_POLICY");
        let script = format!("test $TEST_POLICY$TEST_WORKERS = lifo3 && {line} && {line} && sleep 0.05");
        let Tried::Ran(ran) = attempt(&script, 60_000) else {
            panic!("it ends well")
        };
        assert_eq!(ran.counters, [(String::from("ran"), 8.0)]);
        assert!(ran.wall >= Duration::from_millis(50) && ran.cpu.is_some_and(|cpu| cpu < ran.wall));
    }

    #[test]
    fn the_delays_are_those_of_all_pools() {
        let pool = |count: u64, end: u64| {
            let buckets = format!("[[9,{count}],[{end},1]]");
            let run_time = format!(r#""run_time":{{"count":{count},"p50_ns":9,"buckets":{buckets}}}"#);
            line("TEST_POLICY").replace(r#""counters""#, &format!(r#"{run_time},"counters""#))
        };
        let script = format!(
            "test $TEST_MEASURE = 1 && {} && {} && {}",
            pool(5, 70),
            pool(9, 80),
            pool(2, 99)
        );
        let Tried::Ran(ran) = attempt(&script, 60_000) else {
            panic!("it ends well")
        };
        let run_time = [(9, 16), (70, 1), (80, 1), (99, 1)].into_iter().collect();
        assert_eq!(
            ran.delays,
            Delays {
                run_time,
                ..Delays::default()
            }
        );
    }

    #[test]
    fn whatever_a_program_does_is_said() {
        assert!(failed("sleep 60 & sleep 60", 100).contains("no end within 0.1 s"));
        let text = failed("echo why >&2; exit 7", 60_000);
        assert!(
            text.contains("exit status: 7") && text.contains("\n    why"),
            "{text}"
        );
        assert!(failed("kill -SEGV $$", 60_000).contains("signal: 11"));
        assert!(failed("true", 60_000).contains("wrote a line"));
        assert!(failed(&line("program"), 60_000).contains("sets the policy of each pool itself"));
        assert!(
            failed(
                &format!("{}; echo '{{\"pool\":' >> $TEST_STATS", line("default")),
                60_000
            )
            .contains("itself")
        );
        let absent = r#"echo '{"error":"`lifo` needs the feature `policies`"}' >> $TEST_STATS; exit 1"#;
        assert!(matches!(attempt(absent, 60_000), Tried::LeftOut(_)));
    }

    #[test]
    fn a_policy_has_a_short_name() {
        let pool = |policy: &str| Pool {
            policy: policy.to_owned(),
            workers: 2,
            ..Pool::default()
        };
        let short = |text: &str| match text {
            "fifo+steal=half" => Some(String::from("fifo")),
            text => Some(text.to_owned()),
        };
        assert_eq!(pool("fifo+steal=half").words(short), "`fifo` on 2 workers");
        assert_eq!(
            pool("slot:4+steal=one").words(short),
            "`slot:4+steal=one` on 2 workers"
        );
    }

    #[test]
    fn a_panic_is_quoted_without_its_backtrace() {
        let text = "a\nthread 'main' panicked at x.rs:1:2:\nwhy\nstack backtrace:\n  0: y\n  1: z\n";
        assert_eq!(quoted(text), "\n    thread 'main' panicked at x.rs:1:2:\n    why");
        assert_eq!(
            quoted("1\n2\n3\n4\n5\n6\n7\n"),
            "\n    2\n    3\n    4\n    5\n    6\n    7"
        );
    }

    #[test]
    fn what_a_program_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let late = folder.path().join("late");
        let script = format!("(sleep 0.6; touch {}) & sleep 60", late.display());
        assert!(failed(&script, 100).contains("no end within 0.1 s"));
        std::thread::sleep(Duration::from_millis(1200));
        assert!(!late.exists(), "a process of the group outlived it");
    }

    #[test]
    fn what_a_program_leaves_behind_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let late = folder.path().join("late");
        let script = format!("(sleep 0.6; touch {}) & {}", late.display(), line("TEST_POLICY"));
        assert!(matches!(attempt(&script, 60_000), Tried::Ran(_)));
        std::thread::sleep(Duration::from_millis(1200));
        assert!(!late.exists(), "a process of the group outlived it");
    }

    #[test]
    fn a_policy_that_is_no_text_is_called_its_own() {
        let pool = Pool {
            policy: String::from("a::Stealing<b::StackOrder>"),
            workers: 2,
            ..Pool::default()
        };
        assert_eq!(
            pool.words(|_| None),
            "its own policy (the type `Stealing<StackOrder>`, which no text names) on 2 workers"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_of_all_settings() {
        let words = [OsString::from("./no-such-program")];
        let process = Process::new(&words, None, Duration::from_secs(1), VARIABLES).unwrap();
        let error = process.run(&Setting::default(), false).unwrap_err().to_string();
        assert!(error.contains("cannot start `./no-such-program`"), "{error}");
    }
}
