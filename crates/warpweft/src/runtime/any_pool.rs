//! What a pool can do for whoever does not know its policy, and so not its type.

use super::current::WorkerRef;
use super::driver_owner::DriverOwner;
use super::monitor::Monitor;
use super::pool_info::PoolInfo;
use super::stack_context::StackContext;
use super::thread_set::ThreadSet;
use crate::fiber::Stacks;
use crate::fork::OfferBoard;
use crate::io::Driver;
use crate::observe::PoolCounters;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::pool::PoolHeader;
use warpweft_task::{Pending, Runnable};

/// A pool whose policy is not known to the holder.
pub(crate) trait AnyPool: Send + Sync {
    /// The reference of the pool, for its tasks.
    fn header(&self) -> NonNull<PoolHeader>;
    /// What free functions are to find on a thread that is no worker but has chosen this pool.
    fn external(&self) -> WorkerRef;
    /// Whether this is a forked child of the process that the workers run in.
    fn is_forked(&self) -> bool;
    /// Whether spawns are refused.
    fn is_closing(&self) -> bool;
    /// Begins the end.
    fn close(&self);
    /// What its policy did wrong, if it closed for that, or kept tasks beyond its end.
    fn fault(&self) -> Option<&str>;
    /// What it is called, and the like.
    fn info(&self) -> &PoolInfo;
    /// The task, which has a place, is this pool's.
    fn admit(&self, task: &mut Pending);
    /// What was counted so far.
    fn counters(&self) -> PoolCounters;
    /// How many workers search and sleep.
    fn idle(&self) -> (usize, usize);
    /// Its threads.
    fn thread_set(&self) -> &ThreadSet;
    /// The driver of its sockets and timers; made at the first call.
    fn driver(&self) -> io::Result<Arc<Driver>>;
    /// What drives it.
    fn driver_owner(&self) -> &DriverOwner;
    /// Who looks after workers that are stuck.
    fn monitor(&self) -> &Monitor;
    /// The life of the monitor's thread.
    fn watch(self: Arc<Self>);
    /// The reference of a worker.
    fn worker_ref(&self, worker: usize) -> NonNull<WorkerRef>;
    /// Where forks are on offer.
    fn offer_board(&self) -> &OfferBoard;
    /// A fork is on offer, and nobody would notice.
    fn wake_for_offer(&self);
    /// Something became visible that only the thread that carries that worker looks at.
    fn wake_worker(&self, worker: usize);
    /// The stacks of its fibers.
    fn stacks(&self) -> &Arc<Stacks>;
    /// A task that only that worker may run.
    fn push_pinned(&self, worker: usize, task: Runnable);
    /// The life of one of its threads.
    fn run_thread(&self, context: &StackContext);
    /// The pool closes, and the calling thread, which sits there, cannot end: its worker leaves without it.
    ///
    /// # Safety
    ///
    /// No hook of the policy is on the thread's stack.
    unsafe fn leave_from(&self, context: &StackContext);
}
