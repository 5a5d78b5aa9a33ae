//! The JVM's virtual threads: programs of their own, `lab/peers/java`, compiled from their source whenever they run.
//!
//! A further program is a file there and an entry of [`source`]. It reads the request as words, KEY=VALUE, and answers as Go's program does.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs, io};

use super::{go, not_built};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::workloads::spec::Kind;
use crate::workloads::{Request, micro};

/// The first version whose virtual threads are no preview.
const LEAST_VERSION: u32 = 21;
/// Where systems keep the versions that are not on the path.
const KEPT: &str = "/usr/lib/jvm";

/// The program for a workload: the name of its file, and its text.
fn source(kind: Kind) -> Option<(&'static str, &'static str)> {
    micro::is_micro(kind).then_some(("Micro.java", include_str!("../../peers/java/Micro.java")))
}

/// Whether there is a program for it.
pub(crate) fn has_program(kind: Kind) -> bool {
    source(kind).is_some()
}

/// The virtual machine: the one that `JAVA_HOME` names, that on the path, or one that the system keeps, the first that is new enough.
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

/// Why there is no JVM here, if so.
pub(super) fn missing() -> Option<String> {
    let text = format!(
        "not installed: there is no `java` of version {LEAST_VERSION} or later, neither in JAVA_HOME, nor on the path, nor in {KEPT}"
    );
    java().is_none().then_some(text)
}

/// The file with that program; written if there is none of this source yet.
fn file((name, text): (&str, &str)) -> Result<PathBuf, LabError> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let own = env::current_exe()
        .map_err(|error| LabError::file("find the program", Path::new("warpweft"), &error))?;
    let folder = own.with_file_name(format!("java-peer-{:016x}", hasher.finish()));
    let file = folder.join(name);
    if !file.exists() {
        // Under a name of this process, then renamed: two may write at the same time.
        let draft = folder.join(format!("{}-{name}", std::process::id()));
        let written = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&draft, text))
            .and_then(|()| fs::rename(&draft, &file));
        written.map_err(|error| LabError::file("write the Java program to", &file, &error))?;
    }
    Ok(file)
}

/// Runs a request in a virtual machine.
pub(super) fn run(request: &Request) -> Result<Outcome, LabError> {
    let failed = |reason: &str| not_built(request, reason);
    let source = source(request.kind).ok_or_else(|| failed("there is no Java program for it"))?;
    let java = java().ok_or_else(|| failed("there is no `java`"))?;
    let file = file(source)?;
    let kind = serde_json::to_value(request.kind).map_err(|error| failed(&error.to_string()))?;
    let mut command = Command::new(java);
    for property in ["parallelism", "maxPoolSize"] {
        command.arg(format!(
            "-Djdk.virtualThreadScheduler.{property}={}",
            request.workers
        ));
    }
    command
        .arg(file)
        .arg(format!("kind={}", kind.as_str().unwrap_or_default()))
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
    let mut child = ran.map_err(|error| failed(&error.to_string()))?;
    // It lives as long as the pipe is open.
    let pipe = child.stdin.take();
    let output: io::Result<_> = child.wait_with_output();
    drop(pipe);
    let output = output.map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(failed(
            complaint
                .lines()
                .next()
                .unwrap_or("the Java program failed and said nothing"),
        ));
    }
    let answer = serde_json::from_slice(&output.stdout).map_err(|error| failed(&error.to_string()))?;
    Ok(go::outcome(answer))
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
