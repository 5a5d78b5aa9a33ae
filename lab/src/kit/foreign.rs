//! Programs in other languages: built when they are first asked for, kept beside this program, asked in a
//! process apart.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use harness::{LabError, Outcome, Request, empty_histogram};
use serde::Deserialize;

/// A program in another language.
pub(crate) struct Foreign {
    /// The language, as in the name of its folder.
    pub(crate) language: &'static str,
    /// Its source, by the names of its files.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// The file that the compiler makes in the folder of the source.
    pub(crate) product: &'static str,
    /// The compiler, to be run in that folder.
    pub(crate) compiler: fn() -> io::Result<Command>,
}

impl Foreign {
    /// Returns the program; makes it if there is none of this source yet.
    pub(crate) fn built(&self) -> Result<PathBuf, LabError> {
        let mut hasher = DefaultHasher::new();
        self.files.hash(&mut hasher);
        let own = env::current_exe()
            .map_err(|error| LabError::file("find the program", Path::new("warpweft"), &error))?;
        let folder = own.with_file_name(format!("{}-peer-{:016x}", self.language, hasher.finish()));
        let product = folder.join(self.product);
        if !product.exists() {
            self.build(&folder, &product)
                .map_err(|error| LabError::file("build the program in", &folder, &error))?;
        }
        Ok(product)
    }

    /// Builds under a name of this process, then renames: two processes may build at the same time.
    fn build(&self, folder: &Path, product: &Path) -> io::Result<()> {
        let workshop = folder.join(format!("build-{}", std::process::id()));
        fs::create_dir_all(&workshop)?;
        for (name, text) in self.files {
            fs::write(workshop.join(name), text)?;
        }
        let mut compiler = (self.compiler)()?;
        let output = compiler.current_dir(&workshop).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let said = [output.stderr, output.stdout].concat();
            return Err(io::Error::other(String::from_utf8_lossy(&said).into_owned()));
        }
        if let Err(error) = fs::rename(workshop.join(self.product), product)
            && !product.exists()
        {
            return Err(error);
        }
        fs::remove_dir_all(&workshop)
    }
}

/// The answer of such a program.
#[derive(Deserialize)]
struct Answer {
    version: String,
    operations: u64,
    nanos: u64,
    latencies: Option<BTreeMap<String, u64>>,
    heavy: Option<BTreeMap<String, u64>>,
    measures: BTreeMap<String, f64>,
}

/// Waits for the answer of a program that runs. It lives as long as its standard input is open.
pub(crate) fn answered(request: &Request, mut child: Child) -> Result<Outcome, LabError> {
    let pipe = child.stdin.take();
    let output = child.wait_with_output().map_err(|error| request.failed(&error))?;
    drop(pipe);
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint = complaint.lines().next().unwrap_or("it said nothing");
        return Err(request.failed(&format!("the program ended with {}: {complaint}", output.status)));
    }
    let answer = serde_json::from_slice(&output.stdout).map_err(|error| request.failed(&error))?;
    Ok(outcome(answer))
}

fn outcome(answer: Answer) -> Outcome {
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
