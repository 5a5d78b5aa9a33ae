//! A program that was started.

use super::ending::Ending;
use super::orphans;
use super::pipes::{ChildStderr, ChildStdin, ChildStdout};
use crate::driver::forked;
use crate::io::both::both;
use crate::io::named::named;
use rustix::io::Errno;
use std::io;
use std::process::{ExitStatus, Output};
use warpweft_platform::process::generation;

/// A program that was started by [`Command::spawn`](super::Command::spawn).
///
/// ```
/// use warpweft::process::{Command, Stdio};
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
///     let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
///     stdin.write_all(b"one\ntwo\n").await?;
///     drop(stdin);
///     let mut lines = stdout.lines();
///     assert_eq!(lines.next().await?.as_deref(), Some("one"));
///     assert_eq!(lines.next().await?.as_deref(), Some("two"));
///     assert!(child.wait().await?.success());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it does not end the program, unless [`kill_on_drop`](super::Command::kill_on_drop) was set. It is
/// reaped when it ends: see the [module](super).
#[derive(Debug)]
pub struct Child {
    /// The pipe to the child's input, if it was [`piped`](super::Stdio::piped).
    pub stdin: Option<ChildStdin>,
    /// The pipe from the child's output, if it was [`piped`](super::Stdio::piped).
    pub stdout: Option<ChildStdout>,
    /// The pipe from the child's errors, if it was [`piped`](super::Stdio::piped).
    pub stderr: Option<ChildStderr>,
    /// `None` only while it is dropped.
    running: Option<RunningChild>,
    kill_on_drop: bool,
    /// The process that started it.
    here: u64,
}

#[derive(Debug)]
struct RunningChild {
    child: std::process::Child,
    ending: Ending,
}

impl Child {
    /// Takes over a child of `std`, with its pipes.
    ///
    /// # Errors
    ///
    /// As [`Command::spawn`](super::Command::spawn). The child is killed.
    pub(super) fn new(mut child: std::process::Child, kill_on_drop: bool) -> io::Result<Self> {
        match Self::parts(&mut child) {
            Ok((stdin, stdout, stderr, ending)) => Ok(Self {
                stdin,
                stdout,
                stderr,
                running: Some(RunningChild { child, ending }),
                kill_on_drop,
                here: generation(),
            }),
            Err(error) => {
                // It has not ended: nothing has waited for it.
                let _ = child.kill();
                orphans::leave(child);
                Err(error)
            }
        }
    }

    #[expect(clippy::type_complexity, reason = "it is taken apart at once")]
    fn parts(
        child: &mut std::process::Child,
    ) -> io::Result<(
        Option<ChildStdin>,
        Option<ChildStdout>,
        Option<ChildStderr>,
        Ending,
    )> {
        Ok((
            child.stdin.take().map(ChildStdin::new).transpose()?,
            child.stdout.take().map(ChildStdout::new).transpose()?,
            child.stderr.take().map(ChildStderr::new).transpose()?,
            Ending::of(child)?,
        ))
    }

    fn running(&mut self) -> &mut RunningChild {
        match &mut self.running {
            Some(running) => running,
            None => unreachable!("only `drop` takes it"),
        }
    }

    /// Returns the number of the process. After a wait has returned its status, the system may give the
    /// number to another process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.running.as_ref().map_or(0, |running| running.child.id())
    }

    /// Closes the child's input if it is still here, and waits until the child has ended. Every further call
    /// returns the same status. A child that writes more into a pipe than fits (64 KiB on Linux) ends only
    /// when that is read: see [`wait_with_output`](Self::wait_with_output).
    ///
    /// A wait that is dropped loses nothing but the input, which is closed.
    ///
    /// # Errors
    ///
    /// The runtime has shut down; or another part of the program has reaped the child, with the number of the
    /// process.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        if generation() != self.here {
            return Err(forked());
        }
        let running = self.running();
        let ended = running.ending.wait(&mut running.child).await;
        ended.map_err(|error| explain(error, &running.child))
    }

    /// Returns the status if the child has ended.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if generation() != self.here {
            return Err(forked());
        }
        let child = &mut self.running().child;
        let ended = child.try_wait();
        ended.map_err(|error| explain(error, child))
    }

    /// Reads the output and the errors that are piped, and waits until the child has ended. The child's input
    /// is closed first.
    ///
    /// If the future is dropped, the child is dropped.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait), or of a pipe.
    pub async fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let all_out = async {
            let mut bytes = Vec::new();
            if let Some(pipe) = stdout {
                pipe.read_to_end(&mut bytes).await?;
            }
            Ok(bytes)
        };
        let all_err = async {
            let mut bytes = Vec::new();
            if let Some(pipe) = stderr {
                pipe.read_to_end(&mut bytes).await?;
            }
            Ok(bytes)
        };
        let (stdout, stderr) = both(all_out, all_err).await?;
        let status = self.wait().await?;
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }

    /// Ends the program by `SIGKILL`, and does not wait: call [`wait`](Self::wait) for its status. Does
    /// nothing if it has ended.
    ///
    /// # Errors
    ///
    /// The system's error, for instance that the program has changed its user. In a forked child: the program
    /// is the parent's, and its number may be that of another one by now.
    pub fn kill(&mut self) -> io::Result<()> {
        if generation() != self.here {
            return Err(forked());
        }
        self.running().child.kill()
    }
}

/// Says which child is gone, and why.
#[cold]
fn explain(error: io::Error, child: &std::process::Child) -> io::Error {
    if error.raw_os_error() != Some(Errno::CHILD.raw_os_error()) {
        return error;
    }
    let gone =
        "whose status another part of the program has taken, or the system because `SIGCHLD` is ignored";
    named(error, format!("wait for process {}, {gone}", child.id()))
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(RunningChild { mut child, ending }) = self.running.take() else {
            return;
        };
        // In a forked child it is a child of the parent.
        if generation() != self.here {
            return;
        }
        if self.kill_on_drop {
            // One that has ended is not an error. One that has changed its user lives on.
            let _ = child.kill();
        }
        if let Ok(None) = child.try_wait() {
            orphans::adopt(child, ending);
        }
    }
}
