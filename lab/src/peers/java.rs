//! The JVM's virtual threads: a separate program, `lab/peers/java`. It is compiled when it is first asked for
//! and kept beside this one.
//!
//! It reads the request as words, KEY=VALUE, and answers as Go's program does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs, io};

use harness::{LabError, Outcome, Peer, PeerInfo, Request};

use super::Contestant;
use crate::idioms::Idiom;
use crate::kit::foreign::{Foreign, answered};
use crate::program::Program;

/// The JVM's virtual threads.
pub(crate) struct Java;

impl Peer for Java {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "java",
            about: "the JVM's virtual threads, a program of its own, for tasks that switch and wait; as many carriers as workers",
            packages: &[],
        }
    }

    fn missing(&self) -> Option<String> {
        missing()
    }

    fn prepare(&self) -> Result<(), LabError> {
        PROGRAM.built().map(drop)
    }
}

impl Contestant for Java {
    fn lacks(&self, _: Idiom) -> Option<&'static str> {
        Some(NO_PROGRAM)
    }

    fn play<P: Program>(&self, request: &Request, _: &P) -> Result<Outcome, LabError> {
        run(request)
    }
}

/// The program, by the names of its files.
const FILES: &[(&str, &str)] = &[
    ("Lab.java", include_str!("../../peers/java/Lab.java")),
    ("Micro.java", include_str!("../../peers/java/Micro.java")),
    ("Apps.java", include_str!("../../peers/java/Apps.java")),
    ("Compute.java", include_str!("../../peers/java/Compute.java")),
];
/// The class with `main`.
const MAIN: &str = "lab.Lab";
/// The name of the compiler.
const COMPILER: &str = "jdk.compiler/com.sun.tools.javac.Main";
/// The reason that it does not run the other workloads.
const NO_PROGRAM: &str = "its programs are those whose tasks switch and wait for each other: see cycle, yield, churn, locality, \
     transfer, lock, and from create to token-ring";

/// The first version whose virtual threads are no preview.
const LEAST_VERSION: u32 = 21;
/// The folder of the versions that are not on the path.
const KEPT: &str = "/usr/lib/jvm";

/// The virtual machine: the one that `JAVA_HOME` names, that on the path, or one that the system keeps, the
/// first that is new enough.
fn java() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let home = env::var_os("JAVA_HOME").map(PathBuf::from);
        let kept = fs::read_dir(KEPT)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let homes = home.into_iter().map(|home| home.join("bin/java"));
        let kept = kept.map(|home| home.join("bin/java"));
        let mut candidates = homes.chain([PathBuf::from("java")]).chain(kept);
        candidates.find(|java| version(java).is_some_and(|version| version >= LEAST_VERSION))
    };
    FOUND.get_or_init(find).as_deref()
}

/// The major version, if it is one that runs.
fn version(java: &Path) -> Option<u32> {
    let output = Command::new(java)
        .arg("-version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    major(&String::from_utf8_lossy(&output.stderr))
}

/// The number after `version "`.
fn major(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("version \"")?;
    rest.split(|letter: char| !letter.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Returns the reason if there is no JVM here.
fn missing() -> Option<String> {
    let text = format!(
        "not installed: there is no `java` of version {LEAST_VERSION} or later, neither in JAVA_HOME, nor on the path, nor in {KEPT}"
    );
    java().is_none().then_some(text)
}

/// The compiler and the sources of the program.
static PROGRAM: Foreign = Foreign {
    language: "java",
    files: FILES,
    product: "classes",
    compiler: || {
        let java = java().ok_or_else(|| io::Error::other("there is no `java`"))?;
        let mut compiler = Command::new(java);
        compiler.args([
            "--module",
            COMPILER,
            "--release",
            &LEAST_VERSION.to_string(),
            "-d",
            "classes",
        ]);
        compiler.args(FILES.iter().map(|(name, _)| name));
        Ok(compiler)
    },
};

/// Runs a request in a virtual machine.
fn run(request: &Request) -> Result<Outcome, LabError> {
    let failed = |reason: &str| request.failed(reason);
    let java = java().ok_or_else(|| failed("there is no `java`"))?;
    let classes = PROGRAM.built()?;
    let mut command = Command::new(java);
    for property in ["parallelism", "maxPoolSize"] {
        command.arg(format!(
            "-Djdk.virtualThreadScheduler.{property}={}",
            request.workers
        ));
    }
    command
        .arg("--class-path")
        .arg(classes)
        .arg(MAIN)
        .arg(format!("kind={}", request.kind))
        .arg(format!("workers={}", request.workers));
    command.args(
        request
            .params
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    let ran = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    answered(request, ran.map_err(|error| request.failed(&error))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(major("openjdk version \"25.0.3\" 2026-04-21 LTS"), Some(25));
        assert_eq!(major("openjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(major("java version \"1.8.0_392\""), Some(1));
        assert_eq!(major("command not found"), None);
    }
}
