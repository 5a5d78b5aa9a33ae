//! Go: a program of its own, `lab/peers/go`, built when it is first asked for and kept beside this one.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs, io};

use serde::Deserialize;

use super::not_built;
use crate::error::LabError;
use crate::harness::latency::empty_histogram;
use crate::harness::record::Outcome;
use crate::workloads::Request;

/// The program.
const SOURCE: &str = include_str!("../../peers/go/main.go");
/// The part of it whose goroutines wait.
const WAITS: &str = include_str!("../../peers/go/waits.go");
/// The part of it whose goroutines wait and compute.
const REMOTE: &str = include_str!("../../peers/go/remote.go");
/// Its module file.
const MODULE: &str = include_str!("../../peers/go/go.mod");

/// What the program answers.
#[derive(Deserialize)]
struct Answer {
    version: String,
    operations: u64,
    nanos: u64,
    latencies: Option<BTreeMap<String, u64>>,
    measures: BTreeMap<String, f64>,
}

/// Why there is no Go here, if so.
pub(super) fn missing() -> Option<String> {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let version = Command::new("go")
            .arg("version")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        version.is_ok_and(|output| output.status.success())
    });
    (!found).then(|| String::from("not installed: there is no `go` on the path"))
}

/// The built program; builds it if there is none of this source yet.
pub(super) fn program() -> Result<PathBuf, LabError> {
    let mut hasher = DefaultHasher::new();
    (SOURCE, WAITS, REMOTE, MODULE).hash(&mut hasher);
    let own = env::current_exe()
        .map_err(|error| LabError::file("find the program", Path::new("warpweft"), &error))?;
    let folder = own.with_file_name(format!("go-peer-{:016x}", hasher.finish()));
    let program = folder.join("peer");
    if !program.exists() {
        build(&folder, &program)
            .map_err(|error| LabError::file("build the Go program in", &folder, &error))?;
    }
    Ok(program)
}

/// Builds under a name of this process, then renames: two processes may build at the same time.
fn build(folder: &Path, program: &Path) -> Result<(), io::Error> {
    let workshop = folder.join(format!("build-{}", std::process::id()));
    fs::create_dir_all(&workshop)?;
    fs::write(workshop.join("main.go"), SOURCE)?;
    fs::write(workshop.join("waits.go"), WAITS)?;
    fs::write(workshop.join("remote.go"), REMOTE)?;
    fs::write(workshop.join("go.mod"), MODULE)?;
    let output = Command::new("go")
        .args(["build", "-o", "peer", "."])
        .current_dir(&workshop)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    fs::rename(workshop.join("peer"), program)?;
    fs::remove_dir_all(&workshop)
}

/// Runs a request in the Go program.
pub(super) fn run(request: &Request) -> Result<Outcome, LabError> {
    let failed = |reason: String| not_built(request, &reason);
    let mut child = Command::new(program()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let question = serde_json::to_vec(request).map_err(|error| failed(error.to_string()))?;
    // The pipe stays open until the answer is there: the program ends when it is closed.
    let mut pipe = child.stdin.take();
    let asked = pipe.as_mut().map_or(Ok(()), |pipe| {
        pipe.write_all(&question).and_then(|()| pipe.flush())
    });
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    drop(pipe);
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!(
            "the Go program ended with {}: {}",
            output.status,
            complaint.lines().next().unwrap_or_default()
        )));
    }
    asked.map_err(|error| failed(error.to_string()))?;
    let answer: Answer = serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(outcome(answer))
}

fn outcome(answer: Answer) -> Outcome {
    let mut histogram = empty_histogram();
    for (nanos, count) in answer.latencies.iter().flatten() {
        histogram.saturating_record_n(nanos.parse().unwrap_or(u64::MAX), *count);
    }
    let mut outcome =
        Outcome::new(answer.operations, Duration::from_nanos(answer.nanos.max(1))).with_latency(&histogram);
    outcome.measures = answer.measures;
    outcome.remarks.push(answer.version);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_an_outcome() {
        let answer: Answer = serde_json::from_str(
            r#"{"version":"go1","operations":3,"nanos":1000,"latencies":{"100":2,"900":1},"measures":{"x":1.5}}"#,
        )
        .unwrap();
        let outcome = outcome(answer);
        let latency = outcome.latency.unwrap();
        assert_eq!((latency.count, latency.p50, latency.max), (3, 100, 900));
        assert!((outcome.throughput - 3e6).abs() < 1.0 && outcome.measures["x"] == 1.5);
    }
}
