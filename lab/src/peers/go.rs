//! Go: a separate program, `lab/peers/go`. It is built when it is first asked for and kept beside this one.

use std::cell::{Cell, OnceCell};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use harness::{LabError, Outcome, Peer, PeerInfo, Request};
use serde::Deserialize;
use serde_json::Value;

use super::Contestant;
use crate::idioms::{HttpPool, Idiom};
use crate::kit::backends::Addresses;
use crate::kit::foreign::{Foreign, answered};
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
        PROGRAM.built().map(drop)
    }
}

impl Contestant for Go {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        Some(match idiom {
            Idiom::Forks => "it has no join, only goroutines and channels",
            Idiom::Scope => "it has no scope, only goroutines and channels",
            Idiom::Loops => "it has no parallel loops, only goroutines and channels",
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
        let question = serde_json::to_value(request).map_err(|error| request.failed(&error))?;
        let child = ask(&question).map_err(|error| request.failed(&error))?;
        Ok(program.judged(answered(request, child)?))
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

/// The compiler and the sources of the program.
static PROGRAM: Foreign = Foreign {
    language: "go",
    files: FILES,
    product: "peer",
    compiler: || {
        let mut compiler = Command::new("go");
        compiler.args(["build", "-o", "peer", "."]);
        Ok(compiler)
    },
};

/// Returns the reason if there is no Go here.
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

/// Starts the program with a question. It ends when its standard input is closed.
fn ask(question: &Value) -> io::Result<Child> {
    let program = PROGRAM.built().map_err(io::Error::other)?;
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(pipe) = &mut child.stdin {
        // A program that has ended already says why, and that is what counts.
        drop(serde_json::to_writer(&mut *pipe, question).map(|()| pipe.flush()));
    }
    Ok(child)
}

/// The program as a server.
struct Server<'a> {
    request: &'a Request,
    /// The running program.
    running: Cell<Option<Child>>,
    version: OnceCell<String>,
}

/// The line that the program prints when it serves.
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
        let mut child = ask(&question)?;
        let mut said = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut said)?;
        }
        let mut complaint = String::new();
        if let (true, Some(mut output)) = (said.is_empty(), child.stderr.take()) {
            output.read_to_string(&mut complaint)?;
        }
        self.running.set(Some(child));
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
        if let Some(mut child) = self.running.take() {
            // Waiting closes the standard input, which ends the program. It fails if that has ended before.
            drop(child.wait());
        }
    }
}
