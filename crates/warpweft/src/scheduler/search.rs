//! The search of a worker without tasks: where it looks for work, and where it sleeps. This is what the idle
//! protocol needs of a worker.

use super::poll_interval::look;
use super::worker::Work;
use crate::driver::core::PollTurn;
use crate::idle::{Searcher, SleepHistory, Waited};
use crate::pool::core::PoolCore;
use crate::pool::worker_core::WorkerCore;
use crate::threads::thread_handle::{Rests, ThreadHandle};
use warpweft_platform::atomic::spin_loop;
use warpweft_policy::Count;
use warpweft_task::TaskRef;

/// A hook of the policy that gives a worker a task.
pub(super) enum SearchHook {
    Next,
    Search,
    Scan,
}

/// Returns the next work of the worker, which the thread of that handle carries; sleeps until there is some.
/// Returns `None` if the pool closes. `call` calls a hook of the policy.
///
/// # Safety
///
/// The calling thread carries the worker.
pub(super) unsafe fn wait(
    worker: &WorkerCore,
    pool: &PoolCore,
    thread_handle: &ThreadHandle,
    call: &dyn Fn(SearchHook) -> Option<TaskRef>,
) -> Option<Work> {
    let _rests = Rests::of(thread_handle);
    if thread_handle.mailbox().is_ready() {
        return Some(Work::Fiber);
    }
    worker.counters().add(Count::Searches, 1);
    worker.worker_ref.running.set(0, std::ptr::null());
    let mut source = WorkSource {
        worker,
        pool,
        call,
        thread_handle,
        left: worker.counters().get(Count::StealsDeclined),
    };
    source.searches(true);
    let waited = pool.idle.wait(worker.id.0, &mut source);
    source.searches(false);
    pool.monitor.wake();
    match waited {
        Waited::Found(work) => Some(work),
        Waited::Unparked => Some(Work::Woken),
        Waited::Stop => None,
    }
}

/// A worker that searches for work. The calling thread carries it.
struct WorkSource<'a> {
    worker: &'a WorkerCore,
    pool: &'a PoolCore,
    call: &'a dyn Fn(SearchHook) -> Option<TaskRef>,
    /// The handle of the thread that carries it.
    thread_handle: &'a ThreadHandle,
    /// The number of tasks that it had left to their owners at the last call.
    left: u64,
}

impl WorkSource<'_> {
    fn task(&self, hook: SearchHook) -> Option<Work> {
        (self.call)(hook).map(Work::Task)
    }

    fn fiber(&self) -> Option<Work> {
        self.thread_handle.mailbox().is_ready().then_some(Work::Fiber)
    }

    fn pinned(&self) -> Option<Work> {
        self.worker.pinned.pop().map(Work::Task)
    }

    /// Takes a fork that another worker offers.
    fn steal_fork(&self) -> Option<Work> {
        let offer_board = &self.pool.offer_board;
        loop {
            let fork = offer_board.steal(self.worker.id.0, &self.worker.seen);
            if fork.is_some() || !offer_board.insists() {
                return fork.map(Work::Fork);
            }
            spin_loop();
        }
    }

    fn found(&self, work: Option<Work>) -> Option<Work> {
        if work.is_some() {
            self.pool.offer_board.stop_watching(&self.worker.seen);
        }
        work
    }
}

impl<'a> Searcher for WorkSource<'a> {
    type Found = Work;
    type PollerPark = PollTurn<'a>;

    fn look(&mut self) -> Option<Work> {
        let mut work = self
            .task(SearchHook::Search)
            .or_else(|| self.fiber())
            .or_else(|| self.steal_fork())
            .or_else(|| self.pinned());
        if work.is_none() {
            self.searches(false);
            let happened = look(&self.pool.driver, &self.pool.idle);
            self.searches(true);
            if happened {
                work = self.task(SearchHook::Next);
            }
        }
        self.found(work)
    }

    fn scan(&mut self) -> Option<Work> {
        // The task is not ended here: its `Drop` may wait, and this worker is announced as asleep.
        let lost = self.pool.take_lost().map(Work::Lost);
        let work = lost
            .or_else(|| self.task(SearchHook::Scan))
            .or_else(|| self.pinned())
            .or_else(|| self.fiber())
            .or_else(|| self.steal_fork());
        self.found(work)
    }

    fn stops(&self) -> bool {
        self.pool.lifecycle.is_closing() || self.pool.size.policy.rests(self.worker.id)
    }

    fn parks(&self) {
        self.worker.counters().add(Count::Parks, 1);
        let recorder = &self.pool.recorder;
        // SAFETY: by the contract of `wait` this thread carries the worker.
        unsafe { recorder.worker(self.worker.id.0).park(recorder) };
    }

    fn unparks(&self) {
        let recorder = &self.pool.recorder;
        // SAFETY: as above.
        unsafe { recorder.worker(self.worker.id.0).unpark(recorder) };
    }

    fn park_timeout_ns(&mut self) -> Option<u64> {
        self.pool.offer_board.park_timeout_ns(&self.worker.seen)
    }

    fn poller_park(&self, timed_parks: bool) -> Option<PollTurn<'a>> {
        let poller_park = self.pool.driver.poller_park();
        if poller_park.is_none() && !timed_parks {
            self.pool.driver.unpark_standby();
        }
        poller_park
    }

    fn is_in_haste(&self) -> bool {
        self.pool.driver.is_polled()
    }

    fn is_about_to_take(&self, since_ns: u64) -> bool {
        self.pool.offer_board.is_ripening(&self.worker.seen, since_ns)
    }

    fn woken(&self) {
        self.worker.seen.woken();
    }

    fn searches(&self, searches: bool) {
        self.worker.worker_ref.set_searches(searches);
    }

    fn sleep_history(&self) -> &SleepHistory {
        &self.worker.sleep_history
    }

    fn has_left(&mut self) -> bool {
        let left = self.worker.counters().get(Count::StealsDeclined);
        std::mem::replace(&mut self.left, left) != left
    }
}
