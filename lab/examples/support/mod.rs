//! What the incidents share: arguments, a child process with a time limit, and the one line that is printed.
//!
//! ```text
//!  incident_592 rayon 2 ──▶ the same, as a child ──▶ says how it went, or hangs, or dies
//!         └────────── prints that line, and kills the child after 10 s ◀──┘
//! ```

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fmt};

/// How a program went that came to its end: what it has to say, as an error if the incident showed.
pub(crate) type Answer = Result<String, String>;

/// A program on one of the two: takes the number of workers.
pub(crate) type Program = fn(usize) -> Answer;

/// A child that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(10);
/// How often the parent looks.
const LOOK: Duration = Duration::from_millis(5);
/// Set for the child.
const CHILD: &str = "WARPWEFT_INCIDENT_CHILD";

/// Reads the arguments, runs the program in a child, prints one line. Success is an end without the incident.
pub(crate) fn main(rayon: Program, warpweft: Program) -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let Some((program, workers)) = parse(&words, rayon, warpweft) else {
        return complain("usage: rayon|warpweft [WORKERS, from 1 to 64; 2 if not given]");
    };
    if env::var_os(CHILD).is_some() {
        return run(program, workers);
    }
    match observe(&words) {
        Ok((line, fine)) => {
            println!("{line}");
            ExitCode::from(u8::from(!fine))
        }
        Err(error) => complain(&format!("the program cannot be started: {error}")),
    }
}

fn complain(what: &str) -> ExitCode {
    eprintln!("error: {what}");
    ExitCode::from(2)
}

fn parse(words: &[String], rayon: Program, warpweft: Program) -> Option<(Program, usize)> {
    let (name, workers) = match words {
        [name] => (name, 2),
        [name, workers] => (name, workers.parse().ok()?),
        _ => return None,
    };
    let program = match name.as_str() {
        "rayon" => rayon,
        "warpweft" => warpweft,
        _ => return None,
    };
    (1..=64).contains(&workers).then_some((program, workers))
}

/// The child: runs the program and says how it went.
fn run(program: Program, workers: usize) -> ExitCode {
    let start = Instant::now();
    let answer = program(workers);
    let took = Took(start.elapsed());
    let (line, code) = match answer {
        Ok(what) => (format!("completed in {took}: {what}"), ExitCode::SUCCESS),
        Err(what) => (format!("completed in {took}, but {what}"), ExitCode::FAILURE),
    };
    // The parent reads it; without a parent there is no reader.
    drop(writeln!(io::stdout(), "{line}"));
    code
}

/// The parent: what became of the child, and whether that is how it should be.
fn observe(words: &[String]) -> io::Result<(String, bool)> {
    let mut child = Command::new(env::current_exe()?)
        .args(words)
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let Some(status) = wait(&mut child)? else {
        return Ok((format!("hung: stopped after {} s", LIMIT.as_secs()), false));
    };
    let (said, complained) = (read(child.stdout.take())?, read(child.stderr.take())?);
    let mut lines = said.lines().filter(|line| line.starts_with("completed"));
    Ok(match lines.next() {
        Some(line) => (line.to_owned(), status.success()),
        None => (died(status, &complained), false),
    })
}

/// Waits for the child up to the limit, and ends it then.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// What a child that has ended left in a pipe: a line or two, for which the pipe has room.
fn read(pipe: Option<impl Read>) -> io::Result<String> {
    let mut text = String::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_string(&mut text)?;
    }
    Ok(text)
}

fn died(status: ExitStatus, complained: &str) -> String {
    let complaint = complained.lines().find(|line| !line.trim().is_empty());
    match complaint {
        Some(complaint) => format!("died: {status}: {}", complaint.trim()),
        None => format!("died: {status}"),
    }
}

/// A time with three digits.
pub(crate) struct Took(pub(crate) Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0.as_secs_f64() {
            seconds if seconds >= 1.0 => (seconds, "s"),
            seconds => (seconds * 1e3, "ms"),
        };
        let digits = match value {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            _ => 2,
        };
        write!(f, "{value:.digits$} {unit}")
    }
}

/// rayon's pool.
pub(crate) fn rayon_pool(workers: usize) -> rayon::ThreadPool {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
    pool.expect("the system has threads")
}

/// Warpweft's pool.
pub(crate) fn warpweft_runtime(workers: usize) -> warpweft::Runtime {
    let runtime = warpweft::Runtime::builder().workers(workers).build();
    runtime.expect("the system has threads")
}
