//! Runs each program in a child process with a time limit, and checks how the child ends.
#![forbid(unsafe_code)]

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::{Builder, Runtime};

/// The number of workers, for the child. It is not set in the parent.
const WORKERS: &str = "WARPWEFT_ADVERSARY_WORKERS";
const SCALE: &str = "WARPWEFT_ADVERSARY_SCALE";
const LIMIT: &str = "WARPWEFT_ADVERSARY_LIMIT";
const WRAPPER: &str = "WARPWEFT_ADVERSARY_WRAPPER";

/// What a child prints last. A child that ends without it has not come to the end of its program.
const END: &str = "the program has come to its end";

/// Set: each program runs with 1, 2 and 4 workers, and otherwise with 2. Continuous integration sets it.
const ALL: &str = "WARPWEFT_ADVERSARY_ALL";

/// What a program is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    pub(crate) workers: usize,
}

impl World {
    /// A builder with the number of workers of this run.
    pub(crate) fn builder(self) -> Builder {
        Runtime::builder().workers(self.workers)
    }

    /// A runtime with the default policy.
    pub(crate) fn runtime(self) -> Runtime {
        self.builder().build().expect("a runtime")
    }

    /// A count, reduced where a checker makes the program slow. At least 2.
    pub(crate) fn count(self, full: usize) -> usize {
        (full / variable(SCALE).unwrap_or(1).max(1)).max(2)
    }
}

/// How a child is expected to end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ends {
    /// It comes to its end.
    Well,
    /// It comes to its end. It calls functions with arguments that they do not promise to check, so they may
    /// panic.
    Misusing,
    /// It comes to its end, and its standard error has this text.
    Saying(&'static str),
    /// It aborts, and its standard error has this text.
    Aborting(&'static str),
}

/// The body of a test: runs `$body` in child processes. `$ends` defaults to [`Ends::Well`].
macro_rules! program {
    ($body:expr) => {
        program!($crate::child::Ends::Well, $body)
    };
    ($ends:expr, $body:expr) => {{
        fn marker() {}
        $crate::child::run(std::any::type_name_of_val(&marker), $ends, $body)
    }};
}

/// The number in an environment variable.
fn variable(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// In the parent: runs the test `path` again for each number of workers. In a child: runs `body`.
///
/// `path` is that of a function inside the test, as `type_name_of_val` gives it.
pub(crate) fn run(path: &str, ends: Ends, body: impl FnOnce(World)) {
    if let Some(workers) = variable(WORKERS) {
        body(World { workers });
        eprintln!("{END}");
        return;
    }
    let test = path
        .split_once("::")
        .and_then(|(_, rest)| rest.rsplit_once("::"))
        .map(|(test, _)| test)
        .expect("the path of a function in a test");
    let counts = if std::env::var_os(ALL).is_some() {
        &[1, 2, 4][..]
    } else {
        &[2]
    };
    let failures: Vec<_> = counts
        .iter()
        .filter_map(|&workers| one(test, workers, ends).err())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs one child to its end. The error says what was wrong.
fn one(test: &str, workers: usize, ends: Ends) -> Result<(), String> {
    let limit = Duration::from_secs(variable(LIMIT).unwrap_or(20) as u64);
    let mut command = command();
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(WORKERS, workers.to_string())
        // A report of a panic with the names of all callers takes more than a fiber's stack.
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // The children of a child end with it.
        .process_group(0);
    let mut child = command.spawn().expect("a child process");
    let mut output = child.stderr.take().expect("a pipe");
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        // A process that a child leaves behind keeps the pipe open; it is killed below.
        let _ = output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let ended = wait(&mut child, limit);
    let threads = if ended.is_none() {
        threads(child.id())
    } else {
        String::new()
    };
    crate::system::kill_group(child.id());
    let status = child.wait().expect("its status");
    let said = reader.join().expect("what it said");
    let verdict = match ended {
        None => Err(format!("did not end within {limit:?}; its threads:\n{threads}")),
        Some(_) => judge(status, &said, ends),
    };
    verdict.map_err(|wrong| format!("with {workers} workers the child {wrong}\n{}", tail(&said)))
}

/// The command that runs this test binary, with a wrapper if one is wanted.
fn command() -> Command {
    let program: PathBuf = std::env::current_exe().expect("this program");
    let wrapper = std::env::var(WRAPPER).unwrap_or_default();
    let mut words = wrapper.split_whitespace();
    match words.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(words).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Waits for the end of a child. `None`: it has not ended at the limit.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child of this process") {
            return Some(status);
        }
        if start.elapsed() > limit {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn judge(status: ExitStatus, said: &str, ends: Ends) -> Result<(), String> {
    let ended_well = status.success() && said.contains(END);
    if !matches!(ends, Ends::Misusing)
        && let Some(line) = broken_assertion(said)
    {
        return Err(format!("broke an assertion of the library: {line}"));
    }
    match ends {
        Ends::Well | Ends::Misusing if ended_well => Ok(()),
        Ends::Saying(text) if ended_well && said.contains(text) => Ok(()),
        Ends::Saying(text) if ended_well => Err(format!("did not say {text:?}")),
        Ends::Aborting(text) if status.signal() == Some(libc::SIGABRT) && said.contains(text) => Ok(()),
        _ => Err(format!("ended with {status}, and {ends:?} was expected")),
    }
}

/// A panic of the library that only a defect of the library raises, such as one of `debug_assert!`.
///
/// Such a panic often closes a pool and is caught, so that the program itself does not notice it.
fn broken_assertion(said: &str) -> Option<String> {
    const DEFECTS: [&str; 8] = [
        "assertion failed: ",
        "internal error",
        "index out of bounds",
        "attempt to ",
        "already ",
        "called `",
        "unsafe precondition",
        "a claimed slot was empty",
    ];
    let is_defect = |message: &str| {
        // An assertion that compares has its reason behind it, if it is one that a user may break.
        let compares = message.starts_with("assertion `") && message.ends_with("` failed");
        compares || DEFECTS.iter().any(|defect| message.starts_with(defect))
    };
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        let is_ours = line
            .split_once("panicked at ")
            .is_some_and(|(_, place)| place.contains("crates/warpweft") && place.contains("/src/"));
        if is_ours
            && let Some(message) = lines.next()
            && is_defect(message)
        {
            return Some(format!("{line} {message}"));
        }
    }
    None
}

/// What the threads of a process do, a line for each.
fn threads(process: u32) -> String {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return String::new();
    };
    let line = |path: PathBuf| {
        let read = |file: &str| std::fs::read_to_string(path.join(file)).unwrap_or_default();
        let state = read("stat")
            .rsplit_once(") ")
            .map(|(_, rest)| rest.chars().take(1).collect::<String>());
        let state = state.unwrap_or_default();
        format!("  {:16} {state} {}\n", read("comm").trim(), read("wchan"))
    };
    entries.flatten().map(|entry| line(entry.path())).collect()
}

/// The last lines of what a child said.
fn tail(said: &str) -> String {
    let lines: Vec<_> = said.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
