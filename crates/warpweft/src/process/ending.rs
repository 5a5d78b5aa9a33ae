//! How a process learns that a child has ended, without polling.
//!
//! # Invariants
//!
//! - The child is asked for its status only after what announces its end is registered, and after each
//!   announcement. So no end is missed.
//! - The number of a child names no other process until its status was taken, which only its owner does.

use crate::io::handle::Async;
use signal_hook_registry::{SigId, register, unregister};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus};
use std::task::{Context, Poll};
use warpweft_platform::process::generation;

/// What announces the end of a child.
#[derive(Debug)]
pub(super) enum Ending {
    /// The descriptor of the process, which is readable when it has ended.
    Descriptor(Async<OwnedFd>),
    /// A pipe with a byte for each `SIGCHLD`, of whichever child.
    /// The action is dropped first: it writes to the pipe while somebody can read it.
    Signal(
        #[expect(dead_code, reason = "dropping it unregisters")] Registered,
        Async<UnixStream>,
    ),
}

/// Unregisters the action when dropped.
#[derive(Debug)]
pub(super) struct Registered(SigId);

impl Drop for Registered {
    fn drop(&mut self) {
        unregister(self.0);
    }
}

impl Ending {
    /// Listens for the end of a child that was not waited for.
    ///
    /// # Errors
    ///
    /// The system has no more descriptors, or refuses the handler; or as [`Async::new`].
    pub(super) fn of(child: &Child) -> io::Result<Self> {
        match descriptor(child) {
            Ok(descriptor) => Async::new_nonblocking(descriptor).map(Self::Descriptor),
            // A system without such descriptors, or none left: the signal works everywhere.
            Err(_) => Self::by_signal(),
        }
    }

    fn by_signal() -> io::Result<Self> {
        let (writer, reader) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        let reader = Async::new(reader)?;
        let here = generation();
        let tell = move || {
            // A forked child shares the pipe, but its children are not those of this process.
            if generation() == here {
                // One byte is enough: if the pipe is full, it has bytes already.
                let _ = rustix::io::write(&writer, &[0]);
            }
        };
        // SAFETY: the action does only what a signal handler may do: it reads an atomic and writes to a
        // descriptor that it owns, which does not block.
        let registered = unsafe { register(libc::SIGCHLD, tell) }?;
        Ok(Self::Signal(Registered(registered), reader))
    }

    /// Waits until `child` has ended, and reaps it.
    ///
    /// # Errors
    ///
    /// The runtime has shut down, or another part of the program has reaped the child.
    pub(super) async fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        match self {
            Self::Descriptor(descriptor) => descriptor.read_with(|_| status(child)).await,
            Self::Signal(_, reader) => reader.read_with(|pipe| after(pipe, child)).await,
        }
    }

    /// The poll form of [`wait`](Self::wait).
    pub(super) fn poll(&self, cx: &mut Context<'_>, child: &mut Child) -> Poll<io::Result<ExitStatus>> {
        match self {
            Self::Descriptor(descriptor) => descriptor.poll_read_with(cx, |_| status(child)),
            Self::Signal(_, reader) => reader.poll_read_with(cx, |pipe| after(pipe, child)),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn descriptor(child: &Child) -> io::Result<OwnedFd> {
    warpweft_platform::process::descriptor_of(child.id())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn descriptor(_: &Child) -> io::Result<OwnedFd> {
    Err(ErrorKind::Unsupported.into())
}

fn status(child: &mut Child) -> io::Result<ExitStatus> {
    child.try_wait()?.ok_or_else(|| ErrorKind::WouldBlock.into())
}

/// Takes the announcements, and then looks.
fn after(mut pipe: &UnixStream, child: &mut Child) -> io::Result<ExitStatus> {
    let mut bytes = [0; 64];
    loop {
        match pipe.read(&mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return status(child),
            // The writer lives as long as the reader.
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Ending;
    use crate::Runtime;
    use crate::time::timeout;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// Both ways see both ends: one that came before the wait, and one that comes during it.
    #[test]
    fn an_end_is_seen_by_descriptor_and_by_signal() {
        let runtime = Runtime::builder().workers(1).build().expect("a worker");
        runtime.block_on(async {
            for by_signal in [false, true] {
                let mut early = Command::new("false").spawn().expect("it starts");
                let mut late = Command::new("cat")
                    .stdin(Stdio::piped())
                    .spawn()
                    .expect("it starts");
                let ending = |child| match by_signal {
                    true => Ending::by_signal(),
                    false => Ending::of(child),
                };
                let (of_early, of_late) = (ending(&early).expect("one"), ending(&late).expect("one"));
                assert_eq!(matches!(of_early, Ending::Signal(..)), by_signal);
                let limit = Duration::from_secs(60);
                let status = timeout(limit, of_early.wait(&mut early)).await.expect("in time");
                assert_eq!(status.expect("it is our child").code(), Some(1));
                let short = timeout(Duration::from_millis(5), of_late.wait(&mut late)).await;
                assert!(short.is_err(), "its input is open");
                drop(late.stdin.take());
                let status = timeout(limit, of_late.wait(&mut late)).await.expect("in time");
                assert!(status.expect("it is our child").success());
            }
        });
    }
}
