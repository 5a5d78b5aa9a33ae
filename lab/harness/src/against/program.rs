//! Asks another build of this program what it is, and tells two files apart.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wait_timeout::ChildExt;

use crate::error::LabError;
use crate::lab::Lab;
use crate::machine::Versions;

/// The hidden command that says what a program is.
pub(crate) const DESCRIBE: &str = "describe-build";
/// A program that has not answered by then is no build of ours.
const PATIENCE: Duration = Duration::from_secs(20);
/// As many bytes of an answer are read at most.
const LONGEST: u64 = 1 << 20;

/// What a program says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Build {
    /// The name of the laboratory.
    pub(crate) lab: String,
    /// Compiler, allocator, contestants.
    pub(crate) versions: Versions,
}

impl Build {
    /// This program.
    pub(crate) fn of(lab: &Lab) -> Self {
        Self {
            lab: lab.name.to_owned(),
            versions: lab.versions(),
        }
    }

    /// Why figures of the two cannot be compared, if they cannot.
    pub(crate) fn refusal(&self, baseline: &Self) -> Option<String> {
        let (own, other) = (&self.versions, &baseline.versions);
        if self.lab != baseline.lab {
            return Some(format!(
                "it is `{}`, and this program is `{}`",
                baseline.lab, self.lab
            ));
        }
        if own.profile != other.profile {
            return Some(format!(
                "it is a {} build, and this program a {} build: build both alike",
                other.profile, own.profile
            ));
        }
        None
    }

    /// What else differs, a sentence each.
    pub(crate) fn differences(&self, baseline: &Self) -> Vec<String> {
        let (own, other) = (&self.versions, &baseline.versions);
        let mut found = Vec::new();
        for (what, own, other) in [
            ("compiler", &own.rustc, &other.rustc),
            ("allocator", &own.allocator, &other.allocator),
        ] {
            if own != other {
                found.push(format!("Another {what}: {other} in the baseline, {own} here."));
            }
        }
        found
    }
}

/// The child's side: prints what this program is.
pub(crate) fn describe(lab: &Lab) -> Result<(), LabError> {
    let text = serde_json::to_string(&Build::of(lab)).map_err(io::Error::from)?;
    Ok(writeln!(io::stdout(), "{text}")?)
}

/// Asks a program what it is; `None` if it is an older build, which does not know the question.
///
/// # Errors
///
/// It does not start, or its answer is not that of a program like this one.
pub(crate) fn ask(program: &Path) -> Result<Option<Build>, LabError> {
    let refused = |reason: &str| LabError::file("compare with", program, reason);
    let start = Command::new(program)
        .arg(DESCRIBE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = start.map_err(|error| {
        refused(&format!(
            "it is no baseline in JSON, and no program that starts: {error}"
        ))
    })?;
    let (output, complaints) = (child.stdout.take(), child.stderr.take());
    let output = thread::spawn(move || start_of(output));
    let complaints = thread::spawn(move || start_of(complaints));
    let status = child.wait_timeout(PATIENCE)?;
    if status.is_none() {
        // It fails only if the child has just ended.
        drop(child.kill());
        child.wait()?;
        return Err(refused("it does not answer: name another build of this program"));
    }
    let output = output.join().unwrap_or_default();
    let complaints = complaints.join().unwrap_or_default();
    match serde_json::from_str(output.trim()) {
        Ok(build) => Ok(Some(build)),
        Err(_) if complaints.contains("none of the commands") => Ok(None),
        Err(error) => Err(refused(&format!(
            "its answer is not that of a build of this program: {error}"
        ))),
    }
}

/// The start of what a pipe says. A program that writes more finds the pipe closed.
fn start_of(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // A pipe that breaks has said what it said.
        drop(pipe.take(LONGEST).read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A number of the contents of a file, in hexadecimal. It differs between builds; it is no proof against
/// a file that was made to look the same.
pub(crate) fn digest(path: &Path) -> Result<String, LabError> {
    let refused = |error: io::Error| LabError::file("read the program", path, &error);
    let mut file = io::BufReader::with_capacity(1 << 16, fs::File::open(path).map_err(refused)?);
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    loop {
        let bytes = file.fill_buf().map_err(refused)?;
        if bytes.is_empty() {
            return Ok(format!("{hash:016x}"));
        }
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let read = bytes.len();
        file.consume(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lab;

    #[test]
    fn builds_that_cannot_be_compared_are_refused_with_the_reason() {
        let own = Build::of(lab());
        assert_eq!(own.refusal(&own), None);
        assert!(own.differences(&own).is_empty());
        let mut other = own.clone();
        other.versions.profile = String::from("sketch");
        assert!(own.refusal(&other).unwrap().contains("sketch build"));
        let mut other = own.clone();
        other.lab = String::from("elsewhere");
        assert!(own.refusal(&other).unwrap().contains("`elsewhere`"));
        let mut other = own.clone();
        other.versions.rustc = String::from("rustc 0.1");
        assert_eq!(own.refusal(&other), None);
        assert!(own.differences(&other)[0].contains("rustc 0.1 in the baseline"));
    }

    #[test]
    #[cfg(unix)]
    fn a_program_that_is_no_build_of_this_one_is_refused() {
        let text = |program: &str| ask(Path::new(program)).unwrap_err().to_string();
        assert!(text("/nowhere/at/all").contains("no program that starts"));
        assert!(text("/bin/true").contains("not that of a build"));
        assert!(text("/").contains("no program that starts"));
    }

    #[test]
    fn the_digest_tells_files_apart() {
        let file = |bytes: &[u8]| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(bytes).unwrap();
            digest(file.path()).unwrap()
        };
        assert_eq!(file(b"a"), "af63dc4c8601ec8c");
        assert_ne!(file(b"ab"), file(b"ba"));
        assert!(digest(Path::new("/nowhere/at/all")).is_err());
    }
}
