//! What to start, and how.

use super::child::Child;
use super::orphans;
use super::{ExitStatus, Output, Stdio};
use crate::io::named::named;
use crate::runtime::current_driver::current_driver;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;

/// A program to start, with its arguments, environment and pipes.
///
/// It has the methods of [`std::process::Command`]. What a system adds to those is reached through
/// [`as_std_mut`](Self::as_std_mut). A command may be started several times.
///
/// ```
/// use warpweft::process::Command;
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let status = runtime.block_on(Command::new("sh").args(["-c", "exit 3"]).status())?;
/// assert_eq!(status.code(), Some(3));
/// // A closure waits in place.
/// let status = runtime.spawn_job(|| warpweft::block_on(Command::new("true").status()));
/// assert!(status.wait()??.success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Command {
    std: std::process::Command,
    kill_on_drop: bool,
    /// True for each of input, output and errors that was chosen.
    chosen: [bool; 3],
}

impl Command {
    /// Returns a command for `program`: a path, or a name that is looked for in the folders of `PATH`. Its
    /// arguments are none, its environment, folder, input and output are those of this process.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self::from(std::process::Command::new(program))
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.std.args(arguments);
        self
    }

    /// Sets a variable of its environment.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.std.env(name, value);
        self
    }

    /// Sets variables of its environment.
    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Self {
        self.std.envs(variables);
        self
    }

    /// Removes a variable from its environment.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.std.env_remove(name);
        self
    }

    /// Removes all variables from its environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    /// Sets the folder in which it starts.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.std.current_dir(folder);
        self
    }

    /// Sets its input; by default this process's, but none for [`output`](Self::output).
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.chosen[0] = true;
        self.std.stdin(stdin);
        self
    }

    /// Sets its output; by default this process's, but a pipe for [`output`](Self::output).
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.chosen[1] = true;
        self.std.stdout(stdout);
        self
    }

    /// Sets its errors; by default this process's, but a pipe for [`output`](Self::output).
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.chosen[2] = true;
        self.std.stderr(stderr);
        self
    }

    /// Sets whether the program is killed, by `SIGKILL`, when its [`Child`] is dropped; by default it is not.
    /// So a time limit around [`output`](Self::output) or [`status`](Self::status) ends the program. Programs
    /// that it has started in turn live on.
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Self {
        self.kill_on_drop = kill;
        self
    }

    /// Returns the command of `std`.
    #[must_use]
    pub fn as_std(&self) -> &std::process::Command {
        &self.std
    }

    /// Returns the command of `std`, for what a system adds: `process_group`, `uid`, `pre_exec` and others.
    /// Set the three streams here and not there: [`output`](Self::output) knows only of those.
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.std
    }

    /// Starts the program, and returns when the system has loaded it. That takes some 0.2 ms, and longer if
    /// it comes from a disk. Then another thread takes over the tasks of this worker: see
    /// [`Builder::stuck_after`](crate::Builder::stuck_after).
    ///
    /// # Errors
    ///
    /// With the name of the program: there is none of that name, or it must not be started, or there is no
    /// folder as [`current_dir`](Self::current_dir) says. Also: no more descriptors or processes; and as
    /// [`Async::new`](crate::io::Async::new).
    pub fn spawn(&mut self) -> io::Result<Child> {
        // A child could not be waited for.
        current_driver()?;
        orphans::sweep();
        let started = self.std.spawn();
        let child = started.map_err(|error| self.explain(error))?;
        Child::new(child, self.kill_on_drop)
    }

    /// Starts the program, and waits until it has ended. If the future is dropped, the program lives on,
    /// unless [`kill_on_drop`](Self::kill_on_drop) was set. Pipes for its output are closed at once: no
    /// caller has them.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn) and [`Child::wait`].
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + Send + use<> {
        let child = self.spawn();
        async move {
            let mut child = child?;
            // No caller has them, so the program must not wait for room in them.
            drop((child.stdout.take(), child.stderr.take()));
            child.wait().await
        }
    }

    /// Starts the program, and collects what it writes until it has ended. If the future is dropped, the
    /// program lives on, unless [`kill_on_drop`](Self::kill_on_drop) was set.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + Send + use<> {
        let [stdin, stdout, stderr] = self.chosen;
        if !stdin {
            self.std.stdin(Stdio::null());
        }
        if !stdout {
            self.std.stdout(Stdio::piped());
        }
        if !stderr {
            self.std.stderr(Stdio::piped());
        }
        let child = self.spawn();
        // What was not chosen is not chosen for the next start either.
        if !stdin {
            self.std.stdin(Stdio::inherit());
        }
        if !stdout {
            self.std.stdout(Stdio::inherit());
        }
        if !stderr {
            self.std.stderr(Stdio::inherit());
        }
        async move { child?.wait_with_output().await }
    }

    /// Says what could not be started, and what is missing.
    fn explain(&self, error: io::Error) -> io::Error {
        let program = self.std.get_program();
        let mut attempt = format!("start `{}`", program.display());
        let is_missing = error.kind() == ErrorKind::NotFound;
        let folder = self.std.get_current_dir();
        let may_be_folder = is_missing || error.kind() == ErrorKind::NotADirectory;
        if let Some(folder) = folder.filter(|folder| may_be_folder && !folder.is_dir()) {
            attempt.push_str(&format!(" in `{}`, which is no folder", folder.display()));
        } else if is_missing && !program.as_encoded_bytes().contains(&b'/') {
            attempt.push_str(", which no folder of `PATH` has, or whose interpreter is missing");
        } else if let Some(folder) = folder {
            attempt.push_str(&format!(" in `{}`", folder.display()));
        }
        named(error, attempt)
    }
}

impl From<std::process::Command> for Command {
    /// Takes over a command whose input, output and errors were not chosen: [`output`](Command::output)
    /// chooses them.
    fn from(std: std::process::Command) -> Self {
        Self {
            std,
            kill_on_drop: false,
            chosen: [false; 3],
        }
    }
}
