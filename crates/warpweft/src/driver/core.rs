//! The sources and timers of one pool, and the role of the thread that polls for them.
//!
//! ```text
//!   role:  FREE ──take──▶ TAKEN ─ wait (perhaps asleep until `sleep_deadline`) ─ hand out ─▶ FREE
//! ```
//!
//! The driver does not depend on workers: the thread that takes the role polls. See the [module](super) for
//! which thread does.
//!
//! # Invariants
//!
//! - Only the holder of the role waits in the poller, and touches its event buffer.
//! - [`sleep_deadline`](super::sleep_deadline) is the time until which the holder may sleep.
//! - Wakers are called with no lock held, and their panics end here.

use super::poller::{Events, Poller};
use super::progress::{Progress, Rest, nanoseconds, taken};
use super::sleep_deadline::SleepDeadline;
use super::source::Source;
use super::sources::Sources;
use super::timers::{NEVER, TimerKey, Timers};
use crate::observe::raw::RawWait;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;
use warpweft_platform::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, spin_loop};
use warpweft_platform::panics::contain;
use warpweft_platform::process::end_child_if;
use warpweft_platform::sync::Mutex;
use warpweft_platform::{delay, process};

/// Without an event from the poller for this time, a holder of the role looks there, whatever its engine has.
const LOOK_NS: u64 = 100_000;
const FREE: u32 = 0;
const TAKEN: u32 = 1;

#[derive(Debug)]
pub(crate) struct Driver {
    poller: Poller,
    sources: Sources,
    timers: Timers,
    role: AtomicU32,
    /// No thread takes the role any more.
    closed: AtomicBool,
    sleep_deadline: SleepDeadline,
    events: Mutex<EventBuffer>,
    /// The time of the last look at the poller.
    looked_ns: AtomicU64,
    /// The generation of the process that polls.
    generation: u64,
    progress: OnceLock<ProgressHook>,
    /// The poller was notified since the last sleep there. Only a holder of the role that calls its engine
    /// again and again reads it.
    notified: AtomicBool,
}

struct ProgressHook(Arc<dyn Progress>);

impl fmt::Debug for ProgressHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressHook").finish_non_exhaustive()
    }
}

/// What only the holder of the role needs.
#[derive(Debug)]
struct EventBuffer {
    events: Events,
    wakers: Vec<Waker>,
}

/// The role of the thread that polls. Dropping it gives the role up.
#[derive(Debug)]
pub(crate) struct PollTurn<'a> {
    driver: &'a Driver,
    /// It looked at the poller.
    polled: bool,
}

impl Driver {
    /// # Errors
    ///
    /// The system gives no poller; usually it is out of descriptors.
    pub(crate) fn new(workers: usize) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            poller: Poller::new()?,
            sources: Sources::default(),
            timers: Timers::new(workers),
            role: AtomicU32::new(FREE),
            closed: AtomicBool::new(false),
            sleep_deadline: SleepDeadline::new(),
            events: Mutex::new(EventBuffer {
                events: Events::new(),
                wakers: Vec::new(),
            }),
            looked_ns: AtomicU64::new(0),
            generation: process::generation(),
            progress: OnceLock::new(),
            notified: AtomicBool::new(false),
        }))
    }

    pub(crate) fn take(&self) -> Option<PollTurn<'_>> {
        // Ordering: Acquire pairs with the Release at the end of a turn.
        (!self.is_closed()
            && self.role.load(Ordering::Relaxed) == FREE
            && self
                .role
                .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                .is_ok())
        // Lazily: dropping a turn gives the role up.
        .then(|| PollTurn { driver: self, polled: false })
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.role.load(Ordering::Relaxed) == TAKEN
    }

    /// Ends the present sleep of the holder of the role, or the next one.
    pub(crate) fn unpark(&self) {
        // Ordering: Relaxed. It shortens a wait that ends soon in any case; the poller's own state wakes.
        self.notified.store(true, Ordering::Relaxed);
        self.poller.notify();
    }

    /// Has the holder of the role call `progress` from now on.
    ///
    /// # Errors
    ///
    /// There is one already.
    pub(crate) fn set_progress(&self, progress: Arc<dyn Progress>) -> io::Result<()> {
        self.progress.set(ProgressHook(progress)).map_err(|_| taken())?;
        self.notify_progress();
        Ok(())
    }

    /// Ends the sleep of the holder of the role, if it sleeps. The caller has published what it is to see.
    pub(crate) fn notify_progress(&self) {
        if self.sleep_deadline.is_late_for(0) {
            self.unpark();
        }
    }

    /// Returns the time of the last look, by the poller's clock.
    pub(crate) fn looked_ns(&self) -> u64 {
        self.looked_ns.load(Ordering::Relaxed)
    }

    /// Returns the time of the poller's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        self.poller.now_ns()
    }

    /// Checks whether a wait in this driver can end.
    ///
    /// # Errors
    ///
    /// This is a forked child: the poller belongs to the parent.
    pub(crate) fn check(&self) -> io::Result<()> {
        if process::generation() == self.generation {
            Ok(())
        } else {
            Err(super::forked())
        }
    }

    /// Returns true if no thread polls any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Registers a new source.
    ///
    /// # Errors
    ///
    /// The runtime has shut down, or this is a forked child.
    pub(crate) fn enter(&self) -> io::Result<(usize, Arc<Source>)> {
        self.check()?;
        self.sources.insert()
    }

    pub(crate) fn strike(&self, key: usize) {
        self.sources.remove(key);
    }

    pub(crate) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// Sets a timer; `worker` is the caller's worker. Returns `None` if the pool has shut down.
    pub(crate) fn set_timer(&self, worker: Option<usize>, deadline: u64, waker: Waker) -> Option<TimerKey> {
        let (key, first) = self.timers.insert(worker, deadline, waker)?;
        if first {
            delay::point("driver.set_timer: inserted");
            if self.sleep_deadline.is_late_for(deadline) {
                self.unpark();
            }
        }
        Some(key)
    }

    /// Returns the numbers of sources and of timers.
    pub(crate) fn lens(&self) -> (usize, usize) {
        (self.sources.len(), self.timers.len())
    }

    /// Calls `see` for each task that waits for a source or a timer.
    pub(crate) fn each(&self, see: &mut dyn FnMut(RawWait)) {
        self.sources.each(see);
        self.timers.each(see);
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Closes the driver: no thread will poll any more. All waiting tasks are woken and find that out.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.unpark();
        let mut wakers = Vec::new();
        self.sources.close(&mut wakers);
        self.timers.close(&mut wakers);
        wake(&mut wakers);
    }
}

impl PollTurn<'_> {
    /// Takes the events that happened. Sleeps until there is one, a timer expires, another thread wakes it,
    /// or `at_most_ns` nanoseconds are over.
    pub(crate) fn wait(&mut self, at_most_ns: Option<u64>) {
        let driver = self.driver;
        let mut now = driver.poller.now_ns();
        let limit = at_most_ns.map_or(NEVER, |ns| now.saturating_add(ns));
        if let Some(engine) = driver.progress.get() {
            if self.spin(engine, limit) && now.saturating_sub(driver.looked_ns()) < LOOK_NS {
                return;
            }
            now = driver.poller.now_ns();
        }
        let mut ns = Some(0);
        if limit > now {
            let until = driver.sleep_deadline.set(|| {
                // After the announcement: a thread that sets the engine, or begins a wait in it, after this
                // look notifies this sleeper.
                let rest = driver
                    .progress
                    .get()
                    .map_or(NEVER, |engine| match self.turn(engine) {
                        Some(Rest::Asleep) => NEVER,
                        Some(Rest::Within(time)) => now.saturating_add(nanoseconds(time)),
                        None => now,
                    });
                driver.timers.next().min(limit).min(rest)
            });
            ns = (until != NEVER).then(|| until.saturating_sub(now));
            // With timers left to sort it does not sleep, and comes back.
            if until > now && driver.timers.tidy() {
                ns = Some(0);
            }
        }
        let mut events = driver.events.lock();
        let waited = driver.poller.wait(&mut events.events, ns);
        drop(events);
        self.polled = true;
        driver.sleep_deadline.clear();
        driver.notified.store(false, Ordering::Relaxed);
        if waited.is_err() {
            // The system took the poller away: it is out of memory, or the descriptor was closed from
            // outside. No thread can sleep in it, so all waiting tasks are woken.
            driver.close();
        }
    }

    /// Calls the engine until it has something, wants to sleep, the poller is notified, or `limit` is over.
    /// Returns true if it has something.
    fn spin(&self, engine: &ProgressHook, limit: u64) -> bool {
        let driver = self.driver;
        loop {
            let rest = self.turn(engine);
            if rest.is_none() {
                return true;
            }
            if rest != Some(Rest::Within(Duration::ZERO)) || driver.notified.load(Ordering::Relaxed) {
                return false;
            }
            let now = driver.poller.now_ns();
            if now >= limit.min(driver.timers.next()) {
                return false;
            }
            spin_loop();
        }
    }

    /// Calls the engine. Returns for how long the caller may sleep, or `None` if the engine has something.
    fn turn(&self, engine: &ProgressHook) -> Option<Rest> {
        let mut events = self.driver.events.lock();
        let rest = engine.0.turn(&mut events.wakers);
        events.wakers.is_empty().then_some(rest)
    }

    /// Wakes each task for which something happened, and ends the turn. Returns the number of tasks.
    pub(crate) fn hand_out(self) -> usize {
        let driver = self.driver;
        let mut events = driver.events.lock();
        let mut wakers = std::mem::take(&mut events.wakers);
        driver.sources.happened(events.events.iter(), &mut wakers);
        events.events.clear();
        drop(events);
        let now = driver.poller.now_ns();
        if self.polled {
            driver.looked_ns.store(now, Ordering::Relaxed);
        }
        let mut woken = 0;
        loop {
            let more = driver.timers.expire(now, &mut wakers);
            woken += wakers.len();
            wake(&mut wakers);
            if !more {
                break;
            }
        }
        // A waker may have forked the process: in the child the thread has nothing to return to.
        end_child_if(driver.check().is_err());
        driver.events.lock().wakers = wakers;
        woken
    }
}

impl Drop for PollTurn<'_> {
    fn drop(&mut self) {
        // Ordering: Release pairs with the Acquire in `take`.
        self.driver.role.store(FREE, Ordering::Release);
    }
}

/// Calls all wakers. The vector keeps its memory for the next turn.
fn wake(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        // A waker may be foreign code. Its panic does not concern the other wakers or the thread that polls.
        contain(|| waker.wake());
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Driver;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    #[test]
    fn only_one_has_the_role() {
        let driver = Driver::new(1).expect("a poller");
        let turn = driver.take().expect("it is free");
        assert!(driver.take().is_none());
        assert!(
            driver.take().is_none(),
            "who fails to take it does not give it up"
        );
        drop(turn);
        drop(driver.take().expect("it is free again"));
        driver.close();
        assert!(driver.take().is_none());
    }

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            assert!(
                self.0.fetch_add(1, Ordering::Relaxed) > 0,
                "the first call panics"
            );
        }
    }

    #[test]
    fn a_waker_that_panics_harms_nobody() {
        let driver = Driver::new(1).expect("a poller");
        let counts = Arc::new(Counts::default());
        for deadline in 1..=3 {
            let waker = Waker::from(Arc::clone(&counts));
            assert!(driver.set_timer(Some(0), deadline, waker).is_some());
        }
        let mut turn = driver.take().expect("it is free");
        while driver.now_ns() < 3 {}
        turn.wait(None);
        assert_eq!(turn.hand_out(), 3);
        assert_eq!(counts.0.load(Ordering::Relaxed), 3);
        assert!(driver.take().is_some());
    }
}
