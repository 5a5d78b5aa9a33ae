//! The system's poller: `epoll` or `kqueue`, through `polling`.
//!
//! Sources are registered once, edge-triggered, for both directions: that costs no system call per wait. The
//! [`Source`](super::source::Source) remembers what has become ready.

use super::sources::Ready;
use polling::{Event, PollMode};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;
use warpweft_platform::clock;

/// The most events that one look takes. The rest comes with the next look.
const EVENTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

#[derive(Debug)]
pub(crate) struct Poller(polling::Poller);

/// The events of one look.
#[derive(Debug)]
pub(crate) struct Events(polling::Events);

/// True if the poller sets [`Ready::marked`]. `polling` does not report the end of a stream separately on all
/// systems.
#[cfg(feature = "net")]
pub(crate) const TELLS_ENDS: bool = false;

impl Events {
    pub(crate) fn new() -> Self {
        Self(polling::Events::with_capacity(EVENTS))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready> {
        self.0.iter().map(|event| Ready {
            key: event.key,
            readable: event.readable,
            writable: event.writable,
            marked: false,
        })
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let poller = polling::Poller::new()?;
        if !poller.supports_edge() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this system's poller does not report edges",
            ));
        }
        Ok(Self(poller))
    }

    /// Reports the events of `fd` under `key`, those that have happened already included.
    ///
    /// # Safety
    ///
    /// `fd` is deleted before it is closed.
    pub(crate) unsafe fn add(&self, fd: BorrowedFd<'_>, key: usize) -> io::Result<()> {
        // SAFETY: by contract.
        unsafe {
            self.0
                .add_with_mode(fd.as_raw_fd(), Event::all(key), PollMode::Edge)
        }
    }

    pub(crate) fn delete(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.0.delete(fd)
    }

    /// Sleeps until an event happens, `notify` is called or was called since the last wait, or `ns`
    /// nanoseconds are over. Signals do not end the sleep.
    pub(crate) fn wait(&self, events: &mut Events, ns: Option<u64>) -> io::Result<()> {
        self.0.wait(&mut events.0, ns.map(Duration::from_nanos)).map(drop)
    }

    pub(crate) fn notify(&self) {
        // It writes to its own event descriptor. That fails only at the counter's end, and then the
        // descriptor is readable.
        let _ = self.0.notify();
    }

    /// Returns the time of the clock that deadlines use.
    #[allow(clippy::unused_self, reason = "the checkers' model has its own time")]
    pub(crate) fn now_ns(&self) -> u64 {
        clock::now_ns()
    }
}
