//! Go: a program of its own, `lab/peers/go`, built when it is first asked for and kept beside this one.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs, io};

use serde::Deserialize;
use serde_json::Value;

use harness::{LabError, Outcome, Peer, PeerInfo, Request, empty_histogram};

use super::Contestant;
use crate::idioms::{HttpPool, Idiom};
use crate::kit::backends::Addresses;
use crate::program::Program;

/// Go.
pub(crate) struct Go;

impl Peer for Go {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "go",
            about: "Go, a program of its own, built when it is first asked for",
            packages: &[],
        }
    }

    fn missing(&self) -> Option<String> {
        missing()
    }

    fn prepare(&self) -> Result<(), LabError> {
        program().map(drop)
    }
}

impl Contestant for Go {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        Some(match idiom {
            Idiom::Forks => "it has no join, only goroutines and channels",
            Idiom::Scope => "it has no scope, only goroutines and channels",
            _ => "it has no program for this workload",
        })
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let idiom = P::idiom(&request.params);
        if matches!(idiom, Idiom::Http | Idiom::Mixed) {
            let server = Server::new(request);
            let mut outcome = match idiom {
                Idiom::Http => program.http(&server)?,
                _ => program.at(server.serve(None).map_err(|error| request.failed(&error))?)?,
            };
            outcome.remarks.extend(server.version.get().cloned());
            return Ok(outcome);
        }
        Ok(program.judged(answered(request)?))
    }
}

/// The program, by the names of its files.
const FILES: &[(&str, &str)] = &[
    ("main.go", include_str!("../../peers/go/main.go")),
    ("bimodal.go", include_str!("../../peers/go/bimodal.go")),
    ("options.go", include_str!("../../peers/go/options.go")),
    ("waits.go", include_str!("../../peers/go/waits.go")),
    ("remote.go", include_str!("../../peers/go/remote.go")),
    ("micro.go", include_str!("../../peers/go/micro.go")),
    ("http.go", include_str!("../../peers/go/http.go")),
    ("mixed.go", include_str!("../../peers/go/mixed.go")),
    ("mixer.go", include_str!("../../peers/go/mixer.go")),
    ("apps.go", include_str!("../../peers/go/apps.go")),
    ("compute.go", include_str!("../../peers/go/compute.go")),
    ("go.mod", include_str!("../../peers/go/go.mod")),
];

/// What the program answers.
#[derive(Deserialize)]
pub(crate) struct Answer {
    version: String,
    operations: u64,
    nanos: u64,
    latencies: Option<BTreeMap<String, u64>>,
    heavy: Option<BTreeMap<String, u64>>,
    measures: BTreeMap<String, f64>,
}

/// Why there is no Go here, if so.
fn missing() -> Option<String> {
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
fn program() -> Result<PathBuf, LabError> {
    let mut hasher = DefaultHasher::new();
    FILES.hash(&mut hasher);
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
    for (name, text) in FILES {
        fs::write(workshop.join(name), text)?;
    }
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
fn answered(request: &Request) -> Result<Outcome, LabError> {
    let question = serde_json::to_value(request).map_err(|error| request.failed(&error))?;
    let (child, pipe) = ask(&question).map_err(|error| request.failed(&error))?;
    let output = child.wait_with_output().map_err(|error| request.failed(&error))?;
    drop(pipe);
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(request.failed(&format!(
            "the Go program ended with {}: {}",
            output.status,
            complaint.lines().next().unwrap_or_default()
        )));
    }
    let answer: Answer = serde_json::from_slice(&output.stdout).map_err(|error| request.failed(&error))?;
    Ok(outcome(answer))
}

/// Starts the program with a question. The pipe stays open as long as it is to live: it ends when that is closed.
fn ask(question: &Value) -> io::Result<(Child, Option<ChildStdin>)> {
    let program = program().map_err(io::Error::other)?;
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut pipe = child.stdin.take();
    if let Some(pipe) = &mut pipe {
        // A program that has ended already says why, and that is what counts.
        drop(serde_json::to_writer(&mut *pipe, question).map(|()| pipe.flush()));
    }
    Ok((child, pipe))
}

/// The program as a server.
struct Server<'a> {
    request: &'a Request,
    /// The running program, with the pipe that keeps it alive.
    running: Cell<Option<(Child, Option<ChildStdin>)>>,
    version: OnceCell<String>,
}

/// What the program says when it serves.
#[derive(Deserialize)]
struct Serves {
    version: String,
    address: SocketAddr,
}

impl<'a> Server<'a> {
    fn new(request: &'a Request) -> Self {
        Self {
            request,
            running: Cell::new(None),
            version: OnceCell::new(),
        }
    }
}

impl HttpPool for Server<'_> {
    fn serve(&self, backends: Option<Addresses>) -> io::Result<SocketAddr> {
        let mut question = serde_json::to_value(self.request)?;
        question["backends"] = serde_json::to_value(backends)?;
        let (mut child, pipe) = ask(&question)?;
        let mut said = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut said)?;
        }
        let mut complaint = String::new();
        if let (true, Some(mut output)) = (said.is_empty(), child.stderr.take()) {
            output.read_to_string(&mut complaint)?;
        }
        self.running.set(Some((child, pipe)));
        let serves: Serves = serde_json::from_str(&said).map_err(|_| {
            let words = complaint.lines().next().unwrap_or_else(|| said.trim());
            io::Error::other(format!("the Go program says `{words}`"))
        })?;
        // A pool serves once.
        let _ = self.version.set(serves.version);
        Ok(serves.address)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some((mut child, pipe)) = self.running.take() {
            drop(pipe);
            // It fails if the program has ended before: then it is waited for already.
            drop(child.wait());
        }
    }
}

pub(crate) fn outcome(answer: Answer) -> Outcome {
    let histogram = |latencies: &Option<BTreeMap<String, u64>>| {
        let mut histogram = empty_histogram();
        for (nanos, count) in latencies.iter().flatten() {
            histogram.saturating_record_n(nanos.parse().unwrap_or(u64::MAX), *count);
        }
        histogram
    };
    let mut outcome = Outcome::new(answer.operations, Duration::from_nanos(answer.nanos.max(1)))
        .with_latencies_apart(&histogram(&answer.latencies), &histogram(&answer.heavy));
    outcome.measures.extend(answer.measures);
    outcome.remarks.push(answer.version);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_an_outcome() {
        let answer: Answer = serde_json::from_str(
            r#"{"version":"go1","operations":3,"nanos":1000,"latencies":{"100":2},"heavy":{"900":1},"measures":{"x":1.5}}"#,
        )
        .unwrap();
        let outcome = outcome(answer);
        let latency = outcome.latency.unwrap();
        assert_eq!((latency.count, latency.p50, latency.max), (3, 100, 900));
        assert!((outcome.throughput - 3e6).abs() < 1.0 && outcome.measures["x"] == 1.5);
        assert_eq!(outcome.measures["light_p99_us"], 0.1);
    }
}
