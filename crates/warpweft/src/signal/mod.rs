//! Signals of the operating system, as futures: [`ctrl_c`] everywhere; on Unix also `terminate`, `hangup`,
//! and `Signals`, which hears several, also between two waits. Chapter 20 of the guide has a program that
//! ends gracefully.

#[cfg_attr(unix, path = "by_pipe.rs")]
#[cfg_attr(not(unix), path = "by_thread.rs")]
mod interrupt;

#[cfg(unix)]
mod dump;
#[cfg(unix)]
mod listener;
#[cfg(unix)]
mod on_signal;
#[cfg(unix)]
mod record;

#[cfg(unix)]
pub use dump::{DumpOnSignal, dump_on_signal};
#[cfg(unix)]
pub use listener::{Signal, Signals, hangup, terminate};
#[cfg(unix)]
pub use record::{RecordOnSignal, record_on_signal};

use signal_hook_registry::{SigId, unregister};
use std::io;

/// The number of the signal that Ctrl-C sends: the same on every Unix, and in Windows' C library.
const SIGINT: i32 = 2;

/// Waits for the next Ctrl-C.
///
/// After its first poll, Ctrl-C does not end the process any more, even if no task waits for it. A program
/// that still wants to end calls [`exit`](std::process::exit). All tasks that wait at that moment are woken.
/// On Unix it costs two descriptors while it waits. On Windows a second Ctrl-C within the same moment can
/// still end the process, because the system forgets the handler at each one.
///
/// # Errors
///
/// The system provides no descriptors, or as [`Async::new`](crate::io::Async::new).
///
/// ```no_run
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// runtime.block_on(warpweft::signal::ctrl_c())?;
/// runtime.shutdown();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn ctrl_c() -> io::Result<()> {
    interrupt::wait().await
}

/// Unregisters the action when dropped.
#[derive(Debug)]
struct Registered(SigId);

impl Drop for Registered {
    fn drop(&mut self) {
        unregister(self.0);
    }
}
