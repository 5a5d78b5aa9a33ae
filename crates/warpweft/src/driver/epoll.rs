//! The system's poller on Linux: `epoll`, with one system call per look.
//!
//! ```text
//!   epoll ◀── sources       both directions, edge-triggered, registered once
//!         ◀── `wakeup`        an event descriptor: each write is an edge, so no thread reads it
//!         ◀── `sleep_deadline`  a timer descriptor, for sleeps below `COARSE_NS`; each expiry is an edge
//! ```
//!
//! The [`Source`](super::source::Source) remembers what has become ready. Other systems use `poller.rs`, over
//! `polling`. That one re-arms its waker and its deadline at each look, which costs four more system calls
//! (decision 0017).

use super::pollable::Pollable;
use super::source::Direction;
use super::sources::Ready;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use warpweft_platform::clock;
use warpweft_platform::timer::Timer;

/// The most events that one look takes. The rest comes with the next look.
const EVENTS: usize = 1024;
/// The key of the wake-up and of the deadline. No source has it.
const OWN: u64 = u64::MAX;
/// Sleeps of at least this length use the time-out of `epoll`: they end a little early, and the timer
/// descriptor covers the rest. Shorter sleeps set the timer descriptor, at the price of a system call.
const COARSE_NS: u64 = 10_000_000;
/// The kernel may end such a sleep late, so that it wakes less often: by a thousandth of its length, or five
/// in a nice process, at most by 100 ms and at least by 50 µs (`select_estimate_accuracy`). So it is set to
/// end early by a little more than that.
const SLACK: u64 = 180;
const MOST_SLACK_NS: u64 = 100 * MS;
const LEAST_SLACK_NS: u64 = 60_000;
const MS: u64 = 1_000_000;
/// The longest sleep that every kernel accepts, 24 days in milliseconds. A longer one needs a system call
/// from 2021, which sandboxes refuse.
const LONGEST_MS: u64 = i32::MAX as u64;

#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    wakeup: OwnedFd,
    sleep_deadline: Timer,
}

/// The events of one look.
pub(crate) struct Events(Vec<epoll::Event>);

// SAFETY: an event has flags and the number that `add` or `new` put in. It could hold a pointer instead, but
// this file puts none in.
unsafe impl Send for Events {}

/// True if the poller sets [`Ready::marked`].
#[cfg(feature = "net")]
pub(crate) const TELLS_ENDS: bool = true;

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(EVENTS))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready> {
        use epoll::EventFlags as Flags;
        let ends = Flags::HUP | Flags::ERR;
        self.0
            .iter()
            // The event is packed: its fields are copied out.
            .map(|event| (event.data.u64(), event.flags))
            .filter(|(key, _)| *key != OWN)
            .map(move |(key, flags)| Ready {
                key: key as usize,
                readable: flags.intersects(Flags::IN | Flags::PRI | Flags::RDHUP | ends),
                writable: flags.intersects(Flags::OUT | ends),
                marked: flags.intersects(Flags::RDHUP | Flags::PRI | ends),
            })
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let poller = Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            wakeup: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            sleep_deadline: Timer::new()?,
        };
        for own in [poller.wakeup.as_fd(), poller.sleep_deadline.as_fd()] {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&poller.epoll, own, epoll::EventData::new_u64(OWN), flags)?;
        }
        Ok(poller)
    }

    /// Reports the events of `io` under `key`, those that have happened already included.
    ///
    /// # Safety
    ///
    /// `io` is deleted before it is closed. (`kqueue` asks for that; `epoll` would merely report it under its
    /// old key while a duplicate of it is open.)
    pub(crate) unsafe fn add(&self, io: Pollable<'_>, key: usize) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        let flags = Flags::IN | Flags::OUT | Flags::PRI | Flags::RDHUP | Flags::HUP | Flags::ERR | Flags::ET;
        Ok(epoll::add(
            &self.epoll,
            io,
            epoll::EventData::new_u64(key as u64),
            flags,
        )?)
    }

    pub(crate) fn delete(&self, io: Pollable<'_>, _key: usize) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, io)?)
    }

    /// Prepares for a wait, as the portable poller must. Here an edge is reported without that.
    #[inline]
    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "other systems' pollers need it"
    )]
    pub(crate) fn arm(&self, _io: Pollable<'_>, _key: usize, _direction: Direction) -> io::Result<()> {
        Ok(())
    }

    /// Sleeps until an event happens, `notify` is called or was called since the last wait, or `ns`
    /// nanoseconds are over. May end early.
    pub(crate) fn wait(&self, events: &mut Events, ns: Option<u64>) -> io::Result<()> {
        let limit = match ns {
            None => None,
            Some(0) => Some(0),
            Some(ns) if ns >= COARSE_NS => Some(coarse_ms(ns)),
            Some(ns) => {
                self.sleep_deadline.set(ns)?;
                None
            }
        };
        let limit = limit.map(|ms| timespec(ms * MS));
        events.0.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut events.0), limit.as_ref()) {
            // A signal: the caller looks at its state and comes back.
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn notify(&self) {
        // The write fails only after 2⁶⁴ - 2 calls. The event descriptor would then stay readable without a
        // new edge. So it is emptied, and the next write is an edge again.
        if rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes()).is_err() {
            let _ = rustix::io::read(&self.wakeup, &mut [0; 8]);
            let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
        }
    }

    /// Returns the time of the clock that deadlines use.
    #[allow(clippy::unused_self, reason = "the checkers' model has its own time")]
    pub(crate) fn now_ns(&self) -> u64 {
        clock::now_ns()
    }
}

/// Returns the length of the coarse sleep in milliseconds. With the kernel's slack it ends early.
fn coarse_ms(ns: u64) -> u64 {
    let early = (ns / SLACK).min(MOST_SLACK_NS) + LEAST_SLACK_NS;
    ((ns - early) / MS).min(LONGEST_MS)
}

fn timespec(ns: u64) -> Timespec {
    const SECOND: u64 = 1_000_000_000;
    Timespec {
        tv_sec: (ns / SECOND) as i64,
        tv_nsec: (ns % SECOND) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::{COARSE_NS, Events, MS, Poller, coarse_ms};
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use warpweft_platform::clock::now_ns;

    fn took(poller: &Poller, events: &mut Events, ns: Option<u64>) -> u64 {
        let start = now_ns();
        poller.wait(events, ns).expect("it waits");
        now_ns() - start
    }

    #[test]
    fn each_ring_ends_one_wait() {
        let (poller, mut events) = (Poller::new().expect("a poller"), Events::new());
        for _ in 0..3 {
            poller.notify();
            poller.notify();
            poller.wait(&mut events, None).expect("it was rung before");
            assert_eq!(events.iter().count(), 0, "the waker is no source");
            let slept = took(&poller, &mut events, Some(2_000_000));
            assert!(slept >= 2_000_000, "rung again: {slept} ns");
        }
    }

    #[test]
    fn a_short_sleep_is_never_early_and_a_long_one_by_less_than_a_millisecond() {
        let (poller, mut events) = (Poller::new().expect("a poller"), Events::new());
        for ns in [1, 1000, 999_999, COARSE_NS - 1] {
            assert!(took(&poller, &mut events, Some(ns)) >= ns);
        }
        assert!(took(&poller, &mut events, Some(COARSE_NS + 999_999)) >= COARSE_NS);
    }

    #[test]
    fn a_sleep_of_years_is_one_that_every_kernel_knows() {
        for ns in [COARSE_NS, 3_600_000 * MS, u64::MAX / 2, u64::MAX] {
            let ms = coarse_ms(ns);
            assert!(ms <= ns / MS && i32::try_from(ms).is_ok(), "{ms}");
        }
        assert_eq!(coarse_ms(3_600_000 * MS), 3_599_899);
        // Not late, with all the slack that the kernel may take, and not much too early.
        for ns in (10..200_000)
            .step_by(7)
            .flat_map(|ms| [ms * MS, ms * MS + 11_200])
        {
            let slept = coarse_ms(ns) * MS;
            let slack = (slept / 200).clamp(50_000, 100 * MS);
            assert!(slept + slack <= ns && slept + 2 * slack + MS >= ns, "{ns}");
        }
    }

    #[test]
    fn every_arrival_is_an_edge_also_if_nothing_was_read() {
        let (poller, mut events) = (Poller::new().expect("a poller"), Events::new());
        let (mut theirs, mut ours) = UnixStream::pair().expect("a pair");
        // SAFETY: it is deleted below, before it is closed.
        unsafe { poller.add(ours.as_fd(), 7) }.expect("a socket");
        poller.wait(&mut events, Some(0)).expect("it looks");
        assert!(
            events
                .iter()
                .all(|ready| ready.key == 7 && ready.writable && !ready.readable)
        );
        for _ in 0..3 {
            theirs.write_all(b"x").expect("room");
            poller.wait(&mut events, None).expect("it looks");
            assert_eq!(events.iter().filter(|ready| ready.readable).count(), 1);
            poller.wait(&mut events, Some(0)).expect("it looks");
            assert_eq!(events.iter().count(), 0, "edges, not levels");
        }
        let mut all = [0; 3];
        ours.read_exact(&mut all).expect("they are there");
        poller.delete(ours.as_fd(), 7).expect("it was added");
    }
}
