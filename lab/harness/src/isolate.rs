//! Each run has its own process: no contestant inherits the heap, the threads or the luck of another.
//!
//! ```text
//!  lab bench …                            lab run-one   (hidden)
//!    │ spawn, request as JSON on stdin ──▶  │ runs the request, prints the outcome as JSON
//!    │ ◀── stdout until it ends ────────────┘
//!    └ kills it after the time limit
//! ```
//!
//! The parent sleeps meanwhile: it does not poll. A run that panics ends its process with the message; one
//! that hangs is killed; both become an error of that contestant, not of the whole session. The child ends
//! when its standard input is closed, so it does not outlive a parent that was killed.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::record::Outcome;
use crate::error::LabError;
use crate::interrupt::{self, Running};
use crate::lab::Lab;
use crate::workload::Request;

/// The hidden command of the child.
pub(crate) const COMMAND: &str = "run-one";
/// The child's exit code after a panic.
const PANICKED: i32 = 101;

/// The answer of the child.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ran(Box<Outcome>),
    Failed(String),
}

/// The file of this program.
pub(crate) fn own_program() -> Result<PathBuf, LabError> {
    env::current_exe().map_err(|error| LabError::file("find the program", Path::new("this command"), &error))
}

/// Makes a run in its own process.
pub(crate) fn run_apart(request: &Request, limit: Duration) -> Result<Outcome, LabError> {
    run_by(&own_program()?, request, limit)
}

/// Makes a run in a process of that program, which may be another build of this one.
pub(crate) fn run_by(program: &Path, request: &Request, limit: Duration) -> Result<Outcome, LabError> {
    let failed = |reason: String| request.failed(&reason);
    let mut command = Command::new(program);
    command
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    interrupt::own_group(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| LabError::file("start a process of", program, &error))?;
    let _running = Running::new(&child);
    let (pipe, output) = talk(&mut child, request).map_err(|error| failed(error.to_string()))?;
    let heard = output.recv_timeout(limit);
    if heard.is_err() {
        // It hangs, or its output broke: either way it must not continue. Killing fails only if it has ended.
        drop(child.kill());
    }
    drop(pipe);
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    let Ok((answer, complaint)) = heard else {
        return Err(failed(format!("no result within {} s", limit.as_secs())));
    };
    if !status.success() {
        return Err(failed(match complaint.trim() {
            "" => format!("its process ended with {status}"),
            complaint => complaint.to_owned(),
        }));
    }
    match serde_json::from_str(&answer) {
        Ok(Answer::Ran(outcome)) => Ok(*outcome),
        Ok(Answer::Failed(reason)) => Err(failed(reason)),
        Err(error) => Err(failed(format!("its answer is not understood: {error}"))),
    }
}

/// The pipe that keeps the child alive, and where its output and its complaints arrive when both are
/// complete.
type Conversation = (Option<std::process::ChildStdin>, mpsc::Receiver<(String, String)>);

fn talk(child: &mut Child, request: &Request) -> Result<Conversation, io::Error> {
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    let mut pipe = child.stdin.take();
    if let Some(pipe) = &mut pipe {
        pipe.write_all(line.as_bytes())?;
        pipe.flush()?;
    }
    let (output, complaints) = (child.stdout.take(), child.stderr.take());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let complaints = thread::spawn(move || read_all(complaints));
        let answer = read_all(output);
        let complaint = complaints.join().unwrap_or_default();
        // The receiver is gone if the time was up: then the answer is not wanted.
        drop(sender.send((answer, complaint)));
    });
    Ok((pipe, receiver))
}

/// Everything a pipe says; what is no text is shown as such.
fn read_all(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // A pipe that breaks has said what it said.
        drop(pipe.read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The child's side: reads a request from standard input, runs it, prints the outcome.
pub(crate) fn answer(lab: &Lab) -> Result<(), LabError> {
    panic::set_hook(Box::new(|panic| {
        // A contestant's threads may be in any state: end at once, with the reason. Nothing else can be done
        // if it cannot be printed.
        drop(writeln!(io::stderr(), "{panic}"));
        std::process::exit(PANICKED);
    }));
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line).map_err(|error| {
        LabError::Usage(format!(
            "`{COMMAND}` reads one request as JSON on standard input: {error}"
        ))
    })?;
    thread::spawn(move || {
        let mut rest = Vec::new();
        drop(input.read_to_end(&mut rest));
        std::process::exit(0);
    });
    let answer = match lab.run(&request) {
        Ok(outcome) => Answer::Ran(Box::new(outcome)),
        Err(LabError::Run { reason, .. }) => Answer::Failed(reason),
        Err(error) => Answer::Failed(error.to_string()),
    };
    let answer = serde_json::to_string(&answer).map_err(io::Error::from)?;
    let mut output = io::stdout().lock();
    writeln!(output, "{answer}")?;
    output.flush()?;
    Ok(())
}
