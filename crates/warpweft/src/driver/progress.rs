//! An engine that moves on only when it is called, such as MPI, beside the system's poller.
//!
//! ```text
//!   holder of the role:  turn ── waits are over? ── hand them out
//!                         │ nothing yet
//!                         ├─ At once:  turn again, until another thread notifies the poller
//!                         ├─ Within t: sleep in the poller for at most t, and turn again
//!                         └─ Asleep:   sleep in the poller; a notification ends the sleep
//! ```
//!
//! # Invariants
//!
//! - Only the holder of the role calls the engine's turn.
//! - The sleeper announces its sleep, then turns; a task registers its wait, then notifies. With a fence on
//!   both sides, one of them sees the other (`sleep_deadline`).

use super::core::Driver;
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

/// An engine that moves on only when it is called: see
/// [`Runtime::set_progress`](crate::Runtime::set_progress).
///
/// The thread that polls for the runtime's sockets and timers calls it. So calls never overlap, and a worker
/// that has other tasks runs those. A busy pool calls it every 100 µs, an idle one as [`Rest`] says.
pub trait Progress: Send + Sync {
    /// Moves the engine on, without waiting. Adds the waker of each task whose wait is over; the caller wakes
    /// them. Says when it wants its next turn.
    ///
    /// It holds up whatever else the runtime polls for, so it should take few microseconds. It must not
    /// panic, wake or drop a waker, nor use the runtime.
    fn turn(&self, wakers: &mut Vec<Waker>) -> Rest;
}

/// When an engine wants its next turn, if the runtime has nothing else to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest {
    /// Nothing is outstanding, or something else will [notify](ProgressNotifier::notify) or wake the poller.
    /// An idle runtime makes no wake-ups.
    Asleep,
    /// After that time at the latest. Zero is at once: the thread does not sleep, so an engine should say so
    /// for some 20 µs only.
    Within(Duration),
}

/// Ends the sleep of the thread that polls, for an engine's next turn.
#[derive(Clone)]
pub struct ProgressNotifier {
    /// Weak: the driver keeps the engine, and the engine usually keeps this.
    driver: Weak<Driver>,
}

impl ProgressNotifier {
    pub(crate) fn new(driver: &Arc<Driver>) -> Self {
        let driver = Arc::downgrade(driver);
        Self { driver }
    }

    /// Has the next turn come now, whatever [`Rest`] the last one asked for. Called after the engine can see
    /// what is new. Costs two changes of a counter, a fence and a load; a system call if a thread sleeps.
    /// When the runtime has ended it does nothing. If it ends meanwhile, this call may drop the engine.
    pub fn notify(&self) {
        if let Some(driver) = self.driver.upgrade() {
            driver.notify_progress();
        }
    }
}

impl fmt::Debug for ProgressNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressNotifier").finish_non_exhaustive()
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the error of a second engine in one runtime.
pub(crate) fn taken() -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        "this runtime has an engine already (`Runtime::set_progress`): build a runtime for the second one",
    )
}
