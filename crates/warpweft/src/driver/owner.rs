//! A pool's driver: when it comes to be, who polls, and its end.
//!
//! There is none until the first socket or timer. From then on, with [`Io::Inline`], a worker without work
//! sleeps in the poller (`idle`), and busy ones look there now and then (`PollInterval`); with [`Io::Thread`]
//! a thread does nothing else.

use super::core::{Driver, PollTurn};
use super::standby::StandbyPoller;
use super::{Io, shut_down};
use crate::idle::Idle;
use std::io;
use std::sync::{Arc, OnceLock};
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread::{JoinHandle, set_short_slice, spawn_named};
use warpweft_platform::thread_word;

#[derive(Debug)]
pub(crate) struct DriverOwner {
    form: Io,
    name: String,
    /// Set under the lock of `thread`.
    driver: OnceLock<Arc<Driver>>,
    /// No driver any more. Under the lock of `thread`, too.
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) standby: StandbyPoller,
}

// The driver that this thread polls for and nothing else.
thread_word!(static POLLS_FOR: *const Driver = std::ptr::null());

impl DriverOwner {
    pub(crate) fn new(form: Io, name: String) -> Self {
        Self {
            form,
            name,
            driver: OnceLock::new(),
            closed: AtomicBool::new(false),
            thread: Mutex::new(None),
            standby: StandbyPoller::new(),
        }
    }

    /// The driver; made at the first call.
    ///
    /// # Errors
    ///
    /// The system gives no poller or no thread, or the pool has ended.
    pub(crate) fn driver(&self, workers: usize, idle: &Idle) -> io::Result<Arc<Driver>> {
        if let Some(driver) = self.driver.get() {
            return Ok(Arc::clone(driver));
        }
        let driver = {
            let mut thread = self.thread.lock();
            if let Some(driver) = self.driver.get() {
                return Ok(Arc::clone(driver));
            }
            // Under the lock: `close` finds the driver, or this finds that it came. Until then tasks that
            // still run in a pool that closes may wait: one that sleeps again and again would never end if no
            // sleep took its time.
            if self.closed.load(Ordering::Relaxed) {
                return Err(shut_down());
            }
            let driver = Driver::new(workers)?;
            match self.form {
                Io::Inline => {
                    let sleeper = Arc::clone(&driver);
                    idle.unpark_by(move || sleeper.unpark());
                }
                Io::Thread => {
                    let polled = Arc::clone(&driver);
                    let name = format!("{}-io", self.name);
                    *thread = Some(spawn_named(&name, None, move || poll_for(&polled))?);
                }
            }
            self.driver.get_or_init(|| driver).clone()
        };
        if self.form == Io::Inline {
            // If everybody sleeps, one has to move into the poller.
            idle.wake_one();
        }
        Ok(driver)
    }

    /// The driver, if there is one and the workers poll.
    #[inline]
    fn polled(&self) -> Option<&Driver> {
        self.driver
            .get()
            .map(|driver| &**driver)
            .filter(|_| self.form == Io::Inline)
    }

    /// The driver, if there is one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Driver> {
        self.driver.get().map(|driver| &**driver)
    }

    /// The poller as a place to sleep, if nobody is in it.
    pub(crate) fn poller_park(&self) -> Option<PollTurn<'_>> {
        self.polled().and_then(Driver::take)
    }

    /// Whether the workers poll. Then one that has nothing to do sleeps at once: where it would search
    /// longer, for a short while, the peers that are to send something need the processor, and the poller
    /// tells when they have.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled().is_some()
    }

    /// Looks whether anything happened, and hands it out; whether it did.
    pub(crate) fn look(&self, idle: &Idle, hand_out: impl FnOnce(PollTurn<'_>) -> bool) -> bool {
        let Some(mut turn) = self.poller_park() else {
            return false;
        };
        turn.wait(Some(0));
        let happened = hand_out(turn);
        // Who went to sleep meanwhile found the bed taken: the free bed is like work.
        idle.wake_one();
        happened
    }

    /// Whether tasks take long, nobody is in the poller, and none of the workers is about to be.
    pub(crate) fn wants_standby(&self) -> bool {
        self.standby.is_wanted()
            && (self.standby.is_there() || self.polled().is_some_and(|driver| !driver.is_taken()))
    }

    /// The calling thread carries the compensating worker `worker` and sleeps in the poller, unless it
    /// `must_wake` at once; whether anything happened there. `false`, too, if somebody else is in it.
    pub(crate) fn poll_standby(
        &self,
        worker: usize,
        idle: &Idle,
        must_wake: impl FnOnce() -> bool,
        hand_out: impl FnOnce(PollTurn<'_>) -> bool,
    ) -> bool {
        if !self.standby.is_wanted() {
            return false;
        }
        if !self.standby.enlist(worker) {
            return false;
        }
        // Until this thread takes up another worker (`StackContext::acquire_worker`).
        set_short_slice(true);
        self.standby.try_sleep();
        let turn = self.poller_park();
        let Some(mut turn) = turn else {
            self.standby.wake();
            return false;
        };
        // After the bed was taken: who ends the pool, or has something for this thread, wakes who is in it,
        // or has said so before.
        if !must_wake() {
            turn.wait(None);
        }
        self.standby.wake();
        let happened = hand_out(turn);
        // As in `look`.
        idle.wake_one();
        happened
    }

    /// A worker goes to sleep, and somebody is in the poller: if that is the standby poller it rises.
    pub(crate) fn relieve(&self) {
        if self.standby.is_parked() {
            self.unpark();
        }
    }

    /// Something is ready that only the thread with the compensating worker `worker` can do: if that sleeps
    /// in the poller it rises.
    pub(crate) fn wake_standby(&self, worker: usize) {
        if self.standby.must_wake(worker) {
            self.unpark();
        }
    }

    /// Ends the sleep of who is in the poller.
    pub(crate) fn unpark(&self) {
        if let Some(driver) = self.polled() {
            driver.unpark();
        }
    }

    /// No worker is left to poll, nor a task to wait.
    pub(crate) fn close(&self) {
        let thread = self.thread.lock();
        self.closed.store(true, Ordering::Relaxed);
        drop(thread);
        if let Some(driver) = self.driver.get() {
            driver.close();
        }
    }

    /// Whether this is the thread that polls for this pool.
    pub(crate) fn is_here(&self) -> bool {
        let here = POLLS_FOR.with(std::cell::Cell::get);
        self.driver
            .get()
            .is_some_and(|driver| std::ptr::eq(Arc::as_ptr(driver), here))
    }

    /// Waits for the thread that polls, which a closed driver lets go.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // It keeps wakers' panics to itself: there is nothing to learn from its result.
            let _ = thread.join();
        }
    }
}

/// The life of a thread that polls.
fn poll_for(driver: &Arc<Driver>) {
    POLLS_FOR.with(|word| word.set(Arc::as_ptr(driver)));
    while let Some(mut turn) = driver.take() {
        turn.wait(None);
        turn.hand_out();
    }
}
