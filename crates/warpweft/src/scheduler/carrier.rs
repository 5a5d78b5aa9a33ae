//! What a thread of a pool does around the [loop](super::worker_loop) of its worker: how it enters the pool,
//! gets workers, gives them back, and leaves.

use crate::execution::enter_guard::EnterGuard;
use crate::execution::stack_context::{Occupied, StackContext};
use crate::execution::thread_fibers::ThreadFibers;
use crate::execution::wait::BLOCKING_HOOKS;
use crate::pool::dyn_pool::DynPool;
use crate::threads::pool_ref::{LeavesPool, PoolRef};
use crate::threads::thread_context::{EnteredContexts, ThreadRole};
use crate::threads::thread_handle::ThreadHandle;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::process::end_child_if;
use warpweft_platform::thread::keep_until_exit;

/// Gives the calling thread the worker that it was assigned. It runs no loop: what it runs by itself counts
/// as a task of that worker.
fn enter(pool: &dyn DynPool, context: &StackContext) -> EnteredContexts {
    let carried = context.thread_handle().handoff.wait();
    context.acquire_worker(carried);
    carried.map_or_else(EnteredContexts::none, |worker| start(pool, worker))
}

/// Enters the contexts of the pool on a thread that has got its first worker, and calls the hook of the
/// program.
fn start(pool: &dyn DynPool, worker: usize) -> EnteredContexts {
    let hooks = pool.core().threads.hooks();
    let contexts = hooks.contexts.enter(ThreadRole::Worker(worker));
    hooks.on_start(worker);
    contexts
}

/// Takes the worker from a thread that has [entered](enter) the pool: another thread continues it. If there
/// is none, the pool closes. At last it leaves `contexts`.
fn exit(pool: &Arc<dyn DynPool>, context: &StackContext, contexts: EnteredContexts) {
    // While the worker is here: its offer is the next thread's, and what this stack has there is taken back.
    context.promote_forks_of_stack();
    if let Some(worker) = context.worker_ref().and_then(|worker_ref| worker_ref.worker) {
        let any: Arc<dyn PoolRef> = Arc::clone(pool) as _;
        let is_closing = pool.core().lifecycle.is_closing();
        let spare = (!is_closing).then(|| pool.core().threads.reserve(&any).ok());
        if let Some(spare) = spare.flatten() {
            context.release_worker();
            context.acquire_worker(None);
            spare.handoff.assign(Some(worker));
        } else {
            pool.core().close();
            // SAFETY: this thread occupies `context`, and no hook is on its stack.
            unsafe { pool.leave_from(context) };
        }
        pool.core().threads.hooks().on_stop(worker);
    }
    context.fibers().unwind_all(context);
    drop(contexts);
    if pool.core().lifecycle.is_closing() {
        pool.core().lifecycle.wait_for_accesses();
    }
}

/// What a thread that has [entered](enter) a pool has of it, and how it leaves.
pub(super) struct Entered {
    pool: Arc<dyn DynPool>,
    thread: Arc<ThreadHandle>,
    contexts: EnteredContexts,
    occupied: Occupied,
    /// Dropped before the fibers, to which it refers.
    context: Box<StackContext>,
    fibers: Box<ThreadFibers>,
}

impl Entered {
    pub(super) fn new(pool: Arc<dyn DynPool>, thread: Arc<ThreadHandle>) -> Self {
        let fibers = Box::new(fibers_of(&pool, &thread));
        // SAFETY: the fibers belong to this thread, and outlive the context: they are kept by `leave`.
        let context = Box::new(unsafe { StackContext::new(NonNull::from(&*fibers), std::ptr::null()) });
        let occupied = context.enter_thread();
        let contexts = enter(&*pool, &context);
        Self {
            pool,
            thread,
            contexts,
            occupied,
            context,
            fibers,
        }
    }
}

impl LeavesPool for Entered {
    fn may_leave(&self) -> bool {
        self.context.may_leave_pool()
    }

    fn leave(self: Box<Self>) {
        if !self.may_leave() {
            // As if the program had leaked what it drops.
            std::mem::forget(self);
            panic!("a thread leaves its pool in a frame that needs the worker: see PoolThread::enter");
        }
        let Self {
            pool,
            thread,
            contexts,
            occupied,
            context,
            fibers,
        } = *self;
        exit(&pool, &context, contexts);
        drop(occupied);
        // Frames of this thread may still refer to them: nothing keeps a program from leaving the pool inside
        // of a fork. The context is dropped first.
        keep_until_exit(Box::new((context, fibers)));
        pool.core().threads.retire(&thread);
    }
}

/// Makes the fibers of the calling thread, whose handle is `thread`.
fn fibers_of(pool: &Arc<dyn DynPool>, thread: &Arc<ThreadHandle>) -> ThreadFibers {
    ThreadFibers::new(Arc::clone(pool), Arc::clone(thread), &BLOCKING_HOOKS)
}

/// Makes the calling thread one of the pool for as long as `run` runs.
fn as_thread_of(pool: &Arc<dyn DynPool>, thread: &Arc<ThreadHandle>, run: &dyn Fn(&StackContext)) {
    let fibers = fibers_of(pool, thread);
    // SAFETY: the fibers belong to this thread, and outlive the context here.
    let context = unsafe { StackContext::new(NonNull::from(&fibers), std::ptr::null()) };
    let occupied = context.enter_thread();
    run(&context);
    drop(occupied);
    drop(fibers);
    pool.core().threads.retire(thread);
}

/// See [`PoolRef::abandon_thread`].
pub(super) fn abandon_thread(pool: &Arc<dyn DynPool>, thread: &Arc<ThreadHandle>) {
    as_thread_of(pool, thread, &|context| {
        pool.core().close();
        let assigned = context.thread_handle().handoff.wait();
        context.acquire_worker(assigned);
        // SAFETY: this thread occupies `context`, and no hook is on its stack.
        unsafe { pool.leave_from(context) };
        pool.core().lifecycle.wait_for_accesses();
    });
}

/// See [`PoolRef::run_blocking_thread`].
pub(super) fn run_blocking_thread(pool: &dyn DynPool, number: usize) {
    let threads = &pool.core().threads;
    threads.settle_anywhere();
    let external = pool.external();
    // SAFETY: the thread keeps the pool alive, and the value is dropped at the end of this function.
    let _entered = unsafe { EnterGuard::new(&external) };
    let _contexts = threads.hooks().contexts.enter(ThreadRole::Blocking(number));
    threads.blocking().run_thread(pool, &pool.core().recorder, number);
}

/// See [`PoolRef::run_thread`]. `work` runs tasks until the thread has to give its worker back, or has given
/// it away.
pub(super) fn run_thread(pool: &Arc<dyn DynPool>, thread: &Arc<ThreadHandle>, work: &dyn Fn(&StackContext)) {
    as_thread_of(pool, thread, &|context| carry_workers(&**pool, context, work));
}

/// Runs a thread of the pool. It waits for a worker, carries it until it gives it away or the pool closes,
/// and becomes a spare.
fn carry_workers(pool: &dyn DynPool, context: &StackContext, work: &dyn Fn(&StackContext)) {
    let mut assigned = Some(context.thread_handle().handoff.wait());
    let mut started = None;
    while let Some(carried) = assigned {
        context.acquire_worker(carried);
        if let Some(worker) = carried {
            let recorder = &pool.core().recorder;
            // A worker that rested is awake now.
            // SAFETY: this thread carries the worker.
            unsafe { recorder.worker(worker).unpark(recorder) };
        }
        if started.is_none() {
            started = carried.map(|worker| (worker, start(pool, worker)));
        }
        work(context);
        end_child_if(pool.core().is_in_forked_child());
        if pool.core().lifecycle.is_closing() {
            // SAFETY: this thread occupies `context`; if a hook has panicked it is not on the stack any more.
            unsafe { pool.leave_from(context) };
        } else if let Some(worker) = context.release_worker() {
            if worker < pool.core().asked {
                // A worker rests after its thread has become a spare one, which may have to continue it.
                let rest = || pool.rest(worker);
                assigned = pool.core().threads.rest_after(context.thread_handle(), rest);
                continue;
            }
            pool.retire_compensating(worker);
        }
        end_child_if(pool.core().is_in_forked_child());
        assigned = pool.core().threads.rest(context.thread_handle());
    }
    // No thread gives this one a worker any more: the pool has ended, or it has no fibers.
    context.fibers().unwind_all(context);
    if let Some((worker, contexts)) = started {
        pool.core().threads.hooks().on_stop(worker);
        drop(contexts);
    }
    // An external thread that has sent this one to its end may still be inside the pool.
    if pool.core().lifecycle.is_closing() {
        pool.core().lifecycle.wait_for_accesses();
    }
}

impl dyn DynPool + '_ {
    /// Retires the worker that the calling thread carries, if it carries one, because the pool closes. The
    /// last one ends the pool.
    ///
    /// # Safety
    ///
    /// The calling thread occupies `context`, a stack context of this pool, and no hook of the policy is on
    /// its stack.
    pub(crate) unsafe fn leave_from(&self, context: &StackContext) {
        if let Some(id) = context.release_worker() {
            // Spawns and wakes in the `Drop` of the tasks and the policy come from outside from here on.
            context.acquire_worker(None);
            // SAFETY: this thread carried the worker, no hook is on its stack, and this is its last use.
            unsafe { self.retire_worker(id) };
            end_child_if(self.is_in_forked_child());
            while self.end_sleeping(id) {}
            self.leave(1);
        }
    }
}
