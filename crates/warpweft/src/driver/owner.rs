//! The owner of a pool's driver. It decides when the driver is made, which thread polls, and when it ends.
//!
//! There is no driver until the first socket or timer. From then on, with [`Io::Inline`], an idle worker
//! sleeps in the poller (`idle`), and busy ones look there now and then (`PollInterval`). With [`Io::Thread`]
//! a separate thread polls and does nothing else.
//!
//! While a pool closes, its workers leave, or are in their last tasks, and these, destructors and external
//! threads may still wait. So from then on a separate thread polls in any case, until the driver closes.

use super::core::{Driver, PollTurn};
use super::standby::StandbyPoller;
use super::{Io, shut_down};
use crate::idle::Idle;
use std::io;
use std::sync::{Arc, OnceLock};
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::sync::Mutex;
use warpweft_platform::thread::{JoinHandle, pause, set_slice, spawn_named};
use warpweft_platform::thread_word;

/// How long the thread that polls waits for a worker that does.
const TAKEN_NS: u64 = 100_000;

#[derive(Debug)]
pub(crate) struct DriverOwner {
    form: Io,
    name: String,
    /// Set under the lock of `thread`.
    driver: OnceLock<Arc<Driver>>,
    /// The pool closes. Changed under the lock of `thread`, as is the next one.
    closing: AtomicBool,
    /// No driver may be made any more.
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) standby: StandbyPoller,
}

// The driver for which this thread polls; the thread does nothing else.
thread_word!(static POLLS_FOR: *const Driver = std::ptr::null());

impl DriverOwner {
    pub(crate) fn new(form: Io, name: String) -> Self {
        Self {
            form,
            name,
            driver: OnceLock::new(),
            closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            thread: Mutex::new(None),
            standby: StandbyPoller::new(),
        }
    }

    /// Returns the driver. The first call makes it.
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
            // Under the lock: either `close` finds the driver, or this call sees `closed`. Until then tasks
            // that still run in a closing pool may wait. If sleeps ended at once, a task that sleeps in a
            // loop would never end.
            if self.closed.load(Ordering::Relaxed) {
                return Err(shut_down());
            }
            let driver = Driver::new(workers)?;
            match self.form {
                Io::Inline => {
                    if self.closing.load(Ordering::Relaxed) {
                        // As in `begin_close`.
                        *thread = self.start(&driver).ok();
                    }
                    let sleeper = Arc::clone(&driver);
                    idle.unpark_by(move || sleeper.unpark());
                }
                Io::Thread => *thread = Some(self.start(&driver)?),
            }
            self.driver.get_or_init(|| driver).clone()
        };
        if self.form == Io::Inline {
            // If all workers sleep, one has to move into the poller.
            idle.wake_one();
        }
        Ok(driver)
    }

    /// Starts the thread that polls.
    fn start(&self, driver: &Arc<Driver>) -> io::Result<JoinHandle<()>> {
        let polled = Arc::clone(driver);
        spawn_named(&format!("{}-io", self.name), None, move || poll_for(&polled))
    }

    /// Notes that the pool closes. If there is a driver, a thread polls from now on.
    pub(crate) fn begin_close(&self) {
        // A waker has forked, and this is the child: the poller is the parent's.
        if self.driver.get().is_some_and(|driver| driver.check().is_err()) {
            return;
        }
        let Some(mut thread) = self.thread.lock_unless_lost() else {
            return;
        };
        if self.closing.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(driver) = self.driver.get()
            && thread.is_none()
        {
            // The system may have no thread. Then the workers look as long as there are any.
            *thread = self.start(driver).ok();
        }
        drop(thread);
        self.unpark();
    }

    /// Returns the driver, if there is one and the workers poll.
    #[inline]
    fn polled(&self) -> Option<&Driver> {
        self.driver
            .get()
            .map(|driver| &**driver)
            .filter(|_| self.form == Io::Inline)
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&Driver> {
        self.driver.get().map(|driver| &**driver)
    }

    /// Takes the poller as a place to sleep, if it is free.
    pub(crate) fn poller_park(&self) -> Option<PollTurn<'_>> {
        self.polled().and_then(Driver::take)
    }

    /// Returns true if the workers poll. Then an idle worker sleeps at once. If it searched for longer, it
    /// would hold a processor that the peers need to send something, and the poller reports when they have.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled().is_some()
    }

    /// Looks for events and hands them out. Returns true if there were any.
    pub(crate) fn look(&self, idle: &Idle, hand_out: impl FnOnce(PollTurn<'_>) -> bool) -> bool {
        let Some(mut turn) = self.poller_park() else {
            return false;
        };
        turn.wait(Some(0));
        let happened = hand_out(turn);
        // A worker that went to sleep meanwhile found the poller taken. The free poller counts as work.
        idle.wake_one();
        happened
    }

    /// Returns true if tasks take long, the poller is empty, and no worker is about to sleep in it.
    pub(crate) fn wants_standby(&self) -> bool {
        self.standby.is_wanted()
            && (self.standby.is_there() || self.polled().is_some_and(|driver| !driver.is_taken()))
    }

    /// Sleeps in the poller as the compensating worker `worker`, unless `must_wake` returns true. Returns
    /// true if anything happened there, and false if the poller is taken. `slice_ns` is the length of the
    /// slices of CPU time that the thread asks the system for.
    pub(crate) fn poll_standby(
        &self,
        worker: usize,
        slice_ns: u64,
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
        // Until this thread acquires another worker (`StackContext::acquire_worker`).
        set_slice(slice_ns);
        if !self.standby.try_sleep(worker) {
            return false;
        }
        let turn = self.poller_park();
        let Some(mut turn) = turn else {
            self.standby.wake();
            return false;
        };
        // After the poller was taken: a thread that ends the pool, or has something for this thread, notifies
        // the poller, or has published it before.
        if !must_wake() {
            turn.wait(None);
        }
        self.standby.wake();
        let happened = hand_out(turn);
        // As in `look`.
        idle.wake_one();
        happened
    }

    /// Wakes the standby poller if it is in the poller, because a worker goes to sleep and takes its place.
    pub(crate) fn unpark_standby(&self) {
        if self.standby.is_parked() {
            self.unpark();
        }
    }

    /// Wakes the standby poller if it carries the compensating worker `worker` and sleeps in the poller.
    /// Something is ready that only its thread can do.
    pub(crate) fn wake_standby(&self, worker: usize) {
        if self.standby.must_wake(worker) {
            self.unpark();
        }
    }

    pub(crate) fn unpark(&self) {
        if let Some(driver) = self.polled() {
            driver.unpark();
        }
    }

    /// Closes the driver: no worker is left to poll. Tasks and external threads that still wait are woken.
    pub(crate) fn close(&self) {
        let thread = self.thread.lock();
        self.closed.store(true, Ordering::Relaxed);
        drop(thread);
        if let Some(driver) = self.driver.get() {
            driver.close();
        }
    }

    /// Returns true if the calling thread is the one that polls for this pool.
    pub(crate) fn is_here(&self) -> bool {
        let here = POLLS_FOR.with(std::cell::Cell::get);
        self.driver
            .get()
            .is_some_and(|driver| std::ptr::eq(Arc::as_ptr(driver), here))
    }

    /// Waits for the thread that polls. A closed driver lets it end.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // The thread catches wakers' panics, so its result says nothing.
            let _ = thread.join();
        }
    }
}

/// Polls until the driver closes.
fn poll_for(driver: &Arc<Driver>) {
    POLLS_FOR.with(|word| word.set(Arc::as_ptr(driver)));
    while !driver.is_closed() {
        if let Some(mut turn) = driver.take() {
            turn.wait(None);
            turn.hand_out();
        } else {
            // A worker has not left the poller yet, or looks there between its last tasks.
            pause(TAKEN_NS);
        }
    }
}
