//! What a thread asks of its pool, whatever the pool's policy is.

use super::thread_handle::ThreadHandle;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::pool::PoolHeader;

/// A pool, for its threads.
pub(crate) trait PoolRef: Send + Sync {
    /// The header of the pool, for its tasks. The pointer is good for the whole pool.
    fn header(&self) -> NonNull<PoolHeader>;
    /// Whether this is a forked child of the process that the workers run in.
    fn is_forked(&self) -> bool;
    /// Whether spawns are refused.
    fn is_closing(&self) -> bool;
    /// Something became visible that only the thread that carries that worker looks at.
    fn wake_worker(&self, worker: usize);
    /// A thread that waits without a worker needs one: sees to it that some worker is given to it.
    fn send_worker_to(&self, thread: &Arc<ThreadHandle>);
    /// The life of a thread that carries workers.
    fn run_thread(self: Arc<Self>, thread: Arc<ThreadHandle>);
    /// The life of the thread of that number for closures that block.
    fn run_blocking_thread(self: Arc<Self>, number: usize);
    /// The life of the monitor's thread.
    fn run_monitor(self: Arc<Self>);
}
