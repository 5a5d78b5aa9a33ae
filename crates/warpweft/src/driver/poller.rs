//! The system's poller: `kqueue` or Windows' completion ports, through `polling`.
//!
//! ```text
//!   edges (kqueue)       registered once, for both directions: no system call per wait
//!   one shot (Windows)   before a wait its direction is armed, by a system call unless it is armed already;
//!                        an event disarms both directions
//! ```
//!
//! The [`Source`](super::source::Source) remembers what has become ready.
//!
//! # Invariants
//!
//! - One shot: a direction that is noted as armed is armed, or its event is on its way to `wait`. Both change
//!   under the lock. So a wait that need not arm has an event.
//! - One shot: an event is passed on as one of every armed direction, because it disarms them all. A task
//!   that was woken needlessly arms its direction again.

use super::pollable::Pollable;
use super::source::Direction;
use super::sources::Ready;
use polling::{Event, PollMode};
use std::collections::HashMap;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;
use warpweft_platform::clock;
use warpweft_platform::sync::Mutex;

#[cfg(unix)]
use std::os::fd::AsRawFd;
#[cfg(windows)]
use std::os::windows::io::AsRawSocket;

/// The most events that one look takes. The rest comes with the next look.
const EVENTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// True where the system reports no edges.
const ONE_SHOT: bool = cfg!(any(windows, warpweft_oneshot));

#[derive(Debug)]
pub(crate) struct Poller {
    polling: polling::Poller,
    /// What is armed, by key. Empty where the system reports edges.
    armed: Mutex<HashMap<usize, Armed>>,
}

/// The directions that are armed.
#[derive(Debug, Clone, Copy, Default)]
struct Armed {
    readable: bool,
    writable: bool,
}

/// The events of one look.
#[derive(Debug)]
pub(crate) struct Events {
    polled: polling::Events,
    ready: Vec<Ready>,
}

/// True if the poller sets [`Ready::marked`]. `polling` does not report the end of a stream separately on all
/// systems.
#[cfg(feature = "net")]
pub(crate) const TELLS_ENDS: bool = false;

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            polled: polling::Events::with_capacity(EVENTS),
            ready: Vec::with_capacity(EVENTS.get()),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.polled.clear();
        self.ready.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready> {
        self.ready.iter().copied()
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let polling = polling::Poller::new()?;
        if !ONE_SHOT && !polling.supports_edge() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this system's poller does not report edges",
            ));
        }
        Ok(Self {
            polling,
            armed: Mutex::default(),
        })
    }

    /// Reports the events of `io` under `key`, those that have happened already included. Where the system
    /// reports no edges, a direction is reported after [`arm`](Self::arm) only.
    ///
    /// # Safety
    ///
    /// `io` is deleted before it is closed.
    pub(crate) unsafe fn add(&self, io: Pollable<'_>, key: usize) -> io::Result<()> {
        #[cfg(unix)]
        let raw = io.as_raw_fd();
        #[cfg(windows)]
        let raw = io.as_raw_socket();
        let (interest, mode) = if ONE_SHOT {
            (Event::none(key), PollMode::Oneshot)
        } else {
            (Event::all(key), PollMode::Edge)
        };
        // SAFETY: by contract.
        unsafe { self.polling.add_with_mode(raw, interest, mode) }?;
        if ONE_SHOT {
            self.armed.lock().insert(key, Armed::default());
        }
        Ok(())
    }

    pub(crate) fn delete(&self, io: Pollable<'_>, key: usize) -> io::Result<()> {
        if ONE_SHOT {
            self.armed.lock().remove(&key);
        }
        self.polling.delete(io)
    }

    /// Has the direction of `io` reported, which may be ready already. Called before a wait. Costs a system
    /// call where the system reports no edges.
    #[inline]
    pub(crate) fn arm(&self, io: Pollable<'_>, key: usize, direction: Direction) -> io::Result<()> {
        if ONE_SHOT {
            self.arm_once(io, key, direction)
        } else {
            Ok(())
        }
    }

    fn arm_once(&self, io: Pollable<'_>, key: usize, direction: Direction) -> io::Result<()> {
        let mut armed = self.armed.lock();
        let Some(armed) = armed.get_mut(&key) else {
            unreachable!("a source is armed between its registration and its end")
        };
        let mut both = *armed;
        let this = match direction {
            Direction::In => &mut both.readable,
            Direction::Out => &mut both.writable,
        };
        if std::mem::replace(this, true) {
            return Ok(());
        }
        // Under the lock: of two threads, the second must not take the first one's direction back.
        self.polling
            .modify(io, Event::new(key, both.readable, both.writable))?;
        *armed = both;
        Ok(())
    }

    /// Sleeps until an event happens, `notify` is called or was called since the last wait, or `ns`
    /// nanoseconds are over. Signals do not end the sleep.
    pub(crate) fn wait(&self, events: &mut Events, ns: Option<u64>) -> io::Result<()> {
        events.clear();
        self.polling
            .wait(&mut events.polled, ns.map(Duration::from_nanos))?;
        let mut armed = ONE_SHOT.then(|| self.armed.lock());
        events.ready.extend(events.polled.iter().map(|event| {
            // Disarmed, and noted so before the tasks are woken.
            let armed = armed.as_mut().and_then(|armed| armed.get_mut(&event.key));
            let armed = armed.map(std::mem::take).unwrap_or_default();
            Ready {
                key: event.key,
                readable: event.readable | armed.readable,
                writable: event.writable | armed.writable,
                marked: false,
            }
        }));
        Ok(())
    }

    pub(crate) fn notify(&self) {
        // It writes to its own event descriptor. That fails only at the counter's end, and then the
        // descriptor is readable.
        let _ = self.polling.notify();
    }

    /// Returns the time of the clock that deadlines use.
    #[allow(clippy::unused_self, reason = "the checkers' model has its own time")]
    pub(crate) fn now_ns(&self) -> u64 {
        clock::now_ns()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::{Direction, Events, ONE_SHOT, Poller};
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    fn look(poller: &Poller, events: &mut Events, ns: Option<u64>) -> Vec<(bool, bool)> {
        poller.wait(events, ns).expect("it looks");
        events
            .iter()
            .inspect(|ready| assert_eq!(ready.key, 7))
            .map(|ready| (ready.readable, ready.writable))
            .collect()
    }

    #[test]
    fn a_direction_that_was_armed_is_reported_also_if_it_was_ready_before() {
        let (poller, mut events) = (Poller::new().expect("a poller"), Events::new());
        let (mut theirs, mut ours) = UnixStream::pair().expect("a pair");
        // SAFETY: it is deleted below, before it is closed.
        unsafe { poller.add(ours.as_fd(), 7) }.expect("a socket");
        if ONE_SHOT {
            assert_eq!(look(&poller, &mut events, Some(0)), [], "nothing is armed");
        } else {
            look(&poller, &mut events, Some(0));
        }
        for _ in 0..3 {
            theirs.write_all(b"x").expect("room");
            poller.arm(ours.as_fd(), 7, Direction::In).expect("it is there");
            poller.arm(ours.as_fd(), 7, Direction::In).expect("it is there");
            let ready = look(&poller, &mut events, None);
            assert!(ready.len() == 1 && ready[0].0, "{ready:?}");
            assert_eq!(look(&poller, &mut events, Some(0)), [], "once");
            ours.read_exact(&mut [0]).expect("it is there");
        }
        poller.delete(ours.as_fd(), 7).expect("it was added");
    }

    #[test]
    fn an_event_that_disarms_the_other_direction_is_one_of_that_direction() {
        let (poller, mut events) = (Poller::new().expect("a poller"), Events::new());
        let (_theirs, ours) = UnixStream::pair().expect("a pair");
        // SAFETY: it is deleted below, before it is closed.
        unsafe { poller.add(ours.as_fd(), 7) }.expect("a socket");
        poller.arm(ours.as_fd(), 7, Direction::In).expect("it is there");
        poller.arm(ours.as_fd(), 7, Direction::Out).expect("it is there");
        assert_eq!(look(&poller, &mut events, None), [(ONE_SHOT, true)]);
        poller.delete(ours.as_fd(), 7).expect("it was added");
    }
}
