//! The search of a worker without tasks: where it looks for work, and where it sleeps. This is what the idle
//! protocol needs of a worker.

use super::poll_interval::look;
use super::pool::TypedPool;
use super::worker::{Work, Worker};
use crate::driver::core::PollTurn;
use crate::idle::{Searcher, SleepHistory};
use crate::threads::thread_handle::ThreadHandle;
use warpweft_policy::{Count, Policy};

/// A worker that searches for work.
pub(crate) struct WorkSource<'a, P: Policy> {
    worker: &'a Worker<P>,
    pool: &'a TypedPool<P>,
    /// The handle of the thread that carries it.
    thread_handle: &'a ThreadHandle,
    /// The number of tasks that it had left to their owners at the last call.
    left: u64,
}

impl<'a, P: Policy> WorkSource<'a, P> {
    /// Contract: as [`Worker::call`], for as long as the value lives.
    pub(crate) unsafe fn new(worker: &'a Worker<P>, thread_handle: &'a ThreadHandle) -> Self {
        Self {
            worker,
            pool: worker.pool(),
            thread_handle,
            left: worker.counters().get(Count::StealsDeclined),
        }
    }

    fn fiber(&self) -> Option<Work> {
        self.thread_handle.mailbox().is_ready().then_some(Work::Fiber)
    }

    fn pinned(&self) -> Option<Work> {
        self.worker.pinned.pop().map(Work::Task)
    }

    fn found(&self, work: Option<Work>) -> Option<Work> {
        if work.is_some() {
            self.pool.core.offer_board.stop_watching(&self.worker.seen);
        }
        work
    }
}

impl<'a, P: Policy> Searcher for WorkSource<'a, P> {
    type Found = Work;
    type PollerPark = PollTurn<'a>;

    fn look(&mut self) -> Option<Work> {
        let (worker, pool) = (self.worker, self.pool);
        // SAFETY: by the contract of `new`.
        let task = unsafe { worker.call(P::search) }.map(Work::Task);
        let elsewhere = || {
            self.fiber()
                .or_else(|| worker.steal_fork())
                .or_else(|| self.pinned())
        };
        let mut work = task.or_else(elsewhere);
        if work.is_none() {
            self.searches(false);
            let happened = look(&pool.core.driver, &pool.core.idle);
            self.searches(true);
            if happened {
                // SAFETY: as above.
                work = unsafe { worker.call(P::next) }.map(Work::Task);
            }
        }
        self.found(work)
    }

    fn scan(&mut self) -> Option<Work> {
        // The task is not ended here: its `Drop` may wait, and this worker is announced as asleep.
        let lost = self.pool.take_lost().map(Work::Lost);
        let work = lost
            // SAFETY: by the contract of `new`.
            .or_else(|| unsafe { self.worker.call(P::scan) }.map(Work::Task))
            .or_else(|| self.pinned())
            .or_else(|| self.fiber())
            .or_else(|| self.worker.steal_fork());
        self.found(work)
    }

    fn stops(&self) -> bool {
        self.pool.core.lifecycle.is_closing() || self.worker.must_rest(self.pool)
    }

    fn parks(&self) {
        self.worker.counters().add(Count::Parks, 1);
        let recorder = &self.pool.core.recorder;
        // SAFETY: by the contract of `new` this thread carries the worker.
        unsafe { recorder.worker(self.worker.id()).park(recorder) };
    }

    fn unparks(&self) {
        let recorder = &self.pool.core.recorder;
        // SAFETY: as above.
        unsafe { recorder.worker(self.worker.id()).unpark(recorder) };
    }

    fn park_timeout_ns(&mut self) -> Option<u64> {
        self.pool.core.offer_board.park_timeout_ns(&self.worker.seen)
    }

    fn poller_park(&self, timed_parks: bool) -> Option<PollTurn<'a>> {
        let poller_park = self.pool.core.driver.poller_park();
        if poller_park.is_none() && !timed_parks {
            self.pool.core.driver.unpark_standby();
        }
        poller_park
    }

    fn is_in_haste(&self) -> bool {
        self.pool.core.driver.is_polled()
    }

    fn is_about_to_take(&self, since_ns: u64) -> bool {
        self.pool
            .core
            .offer_board
            .is_ripening(&self.worker.seen, since_ns)
    }

    fn woken(&self) {
        self.worker.seen.woken();
    }

    fn searches(&self, searches: bool) {
        self.worker.worker_ref().set_searches(searches);
    }

    fn sleep_history(&self) -> &SleepHistory {
        &self.worker.sleep_history
    }

    fn has_left(&mut self) -> bool {
        let left = self.worker.counters().get(Count::StealsDeclined);
        std::mem::replace(&mut self.left, left) != left
    }
}
