//! What a thread needs of its pool, whatever the pool's policy is.

use super::thread_handle::ThreadHandle;
use crate::observe::recorder::snapshot::Snapshot;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::pool::PoolHeader;

/// What a thread that has entered a pool leaves it by.
pub(crate) trait LeavesPool {
    /// Returns true if no frame of the calling thread, which has entered, needs the worker afterwards.
    fn may_leave(&self) -> bool;

    /// Leaves, or panics in a frame that may not: then the thread stays.
    fn leave(self: Box<Self>);
}

/// A pool, as its threads see it.
pub(crate) trait PoolRef: Send + Sync {
    /// Returns the header of the pool, for its tasks. The pointer is valid for access to the whole pool.
    fn header(&self) -> NonNull<PoolHeader>;
    /// Returns true in a forked child of the process that the workers run in.
    fn is_in_forked_child(&self) -> bool;
    fn is_closing(&self) -> bool;
    /// Returns true if the calling thread belongs to a pool.
    fn is_entered(&self) -> bool;
    /// Wakes the worker for something visible that only the thread that carries it looks at.
    fn wake_worker(&self, worker: usize);
    /// Makes sure that a worker is given to a thread that waits without one.
    fn send_worker_to(&self, thread: &Arc<ThreadHandle>);
    /// Records that the calling thread wakes the fiber of that task, which is another thread's, if steps are
    /// recorded.
    fn note_fiber_woken(&self, task: usize);
    /// Runs a thread that carries workers, until it ends.
    fn run_thread(self: Arc<Self>, thread: Arc<ThreadHandle>);
    /// Makes the calling thread carry the worker that `thread` is given. The result ends this, on the same
    /// thread.
    fn enter_thread(self: Arc<Self>, thread: Arc<ThreadHandle>) -> Box<dyn LeavesPool>;
    /// Closes the pool, because `thread` will never run. The calling thread ends the worker that it is given,
    /// and calls no hook of the program.
    fn abandon_thread(self: Arc<Self>, thread: &Arc<ThreadHandle>);
    /// Runs the thread with that number for closures that block, until it ends.
    fn run_blocking_thread(self: Arc<Self>, number: usize);
    fn run_monitor(self: Arc<Self>);
    /// Returns a copy of what the flight recorder has of this pool.
    fn snapshot(&self) -> Snapshot;
}
