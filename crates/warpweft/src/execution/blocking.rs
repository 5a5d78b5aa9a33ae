//! Closures that may block in the system. Their thread gives its worker to another thread while they run.
//!
//! ```text
//!   this thread   ──task──┐ blocking(f) ┌──────── f runs, without a worker ────────┐          ┌──task─
//!                         │  assign(w)  │                                          │ runnable │ assign(w')
//!   a spare               └────────────▶└──other tasks run on worker w─────────────┴─────────▶┘
//! ```
//!
//! If `f` is done before the spare thread has come, this thread takes the worker back, and no hand-over takes
//! place. Fibers that have started on this thread wait until `f` ends, or waits in turn: they cannot move.
//!
//! # Invariants
//!
//! - As for every wait ([`stack_context`](super::stack_context)): latent forks are promoted and a spare is
//!   reserved before the worker leaves. The closure never runs on a thread that carries a worker, unless no
//!   spare is available, which is counted.
//! - The frame continues, or unwinds, only when its thread has a worker again, or the pool closes.

use super::stack_context::{self, StackContext};
use crate::pool::current::{self, WorkerRef};
use crate::threads::handoff::Assigned;
use crate::threads::thread_handle::ThreadHandle;
use crate::threads::thread_set::ThreadEvent;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Calls `body`, which may block in the system (a file, a lock of `std`, foreign code). Meanwhile another
/// thread takes over the worker of this thread, and continues with other tasks.
///
/// `body` runs here and now, on this thread: it may borrow, and need not be `Send`. In it this thread is like
/// any thread outside of the pool. [`spawn`](crate::spawn) still leads to the pool.
/// [`block_on`](crate::block_on) just sleeps, or lets fibers of this thread run. A [`join`](crate::join) runs
/// its halves one after the other, or lets the pool have the second if the first one waits. When `body` is
/// done, the frame waits for a worker, which may differ from the one before. Inside of `blocking`, on a
/// thread that carries no worker, and in a child made by `fork()`, it only calls `body`.
///
/// It costs about as much as waking a thread, some microseconds; a wait for the next free worker, if `body`
/// took longer than that; and a thread while `body` runs. Where no thread is available
/// ([`Builder::max_threads`](crate::Builder::max_threads), or the system gives none), the worker stays and
/// waits with `body`; [`Threads::kept`](crate::Threads::kept) counts that.
///
/// If the runtime is shut down or dropped meanwhile, it waits for `body`, **for as long as it takes**, as for
/// a task that never awaits. The frame continues to its end, and its spawns are refused.
/// [`Runtime::shutdown`](crate::Runtime::shutdown) explains what to do about a `body` that may never end.
///
/// # Panics
///
/// Panics if `body` does, when this thread has a worker again.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let path = std::env::temp_dir().join(format!("warpweft-blocking-{}", std::process::id()));
/// std::fs::write(&path, "woven")?;
/// let text = runtime.block_on(async {
///     let path = path.clone();
///     warpweft::spawn(async move { warpweft::blocking(|| std::fs::read_to_string(&path)) }).await
/// })??;
/// assert_eq!(text, "woven");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn blocking<R>(body: impl FnOnce() -> R) -> R {
    let Some(away) = stack_context::here().and_then(BlockInPlace::leave) else {
        return body();
    };
    // Unwind: the panic continues below, in this frame. A frame whose thread has no worker must not be left:
    // the task that it belongs to would end without a worker.
    let (context, who, class) = (away.context, away.context.who(), away.class);
    let outcome = catch_unwind(AssertUnwindSafe(|| context.block_as(who, body)));
    away.come_back();
    context.continue_as(who);
    context
        .worker_ref()
        .inspect(|worker_ref| worker_ref.class.set(class));
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// A thread that has given its worker away for a closure, and will need one again.
struct BlockInPlace<'task> {
    context: &'task StackContext,
    /// The thread that has the worker, or is about to.
    spare: Arc<ThreadHandle>,
    worker: Option<usize>,
    assigned: Assigned,
    /// The priority of the task, as in [`StackContext::class`].
    class: u64,
    /// What free functions find before and after, if it is not the worker.
    had_entered: Option<*const WorkerRef>,
    /// The thread is in `blocking` already, which found no spare the last time.
    nested: bool,
    /// The same of the stack, which need not be a fiber's.
    was_away: bool,
}

impl<'task> BlockInPlace<'task> {
    /// Gives the worker away. Returns `None` if the thread has none, or keeps it.
    fn leave(context: &'task StackContext) -> Option<Self> {
        let worker_ref = context.worker_ref()?;
        let pool = context.fibers().pool();
        let threads = &pool.core().threads;
        if pool.is_in_forked_child() {
            return None;
        }
        if context.keeps_worker() {
            // The worker is inside its policy, or about to continue here: no other thread could use it.
            threads.note(ThreadEvent::Kept);
            return None;
        }
        let had_entered = (!current::is(worker_ref)).then(current::get);
        current::set(worker_ref);
        context.promote_forks(worker_ref);
        let spare = threads.reserve(context.thread_handle().pool()).ok();
        threads.note(if spare.is_some() {
            ThreadEvent::HandedOver
        } else {
            ThreadEvent::Kept
        });
        let away = spare.map(|spare| {
            let class = context.class();
            let worker = context.release_worker();
            let assigned = spare.handoff.assign(worker);
            Self {
                context,
                spare,
                worker,
                assigned,
                class,
                had_entered,
                nested: context.fiber().is_some_and(|fiber| fiber.set_blocking(true)),
                was_away: context.is_away.replace(true),
            }
        });
        had_entered.inspect(|&worker_ref| current::set(worker_ref));
        away
    }

    fn come_back(self) {
        let Self {
            context, had_entered, ..
        } = self;
        context.is_away.set(self.was_away);
        if context.stayed_in_parent() {
            // The frame continues without a worker: the workers belong to the parent.
            had_entered.inspect(|&worker_ref| current::set(worker_ref));
            return;
        }
        context.fiber().inspect(|fiber| {
            fiber.set_blocking(self.nested);
        });
        if context.worker_ref().is_some() {
            // The closure has waited, and no spare was available to take the worker afterwards.
            context.fibers().pool().core().threads.note(ThreadEvent::Resumed);
        } else if self.spare.handoff.take_back(self.assigned) {
            let threads = &context.fibers().pool().core().threads;
            threads.note(ThreadEvent::TakenBack);
            threads.release(&self.spare);
            context.acquire_worker(self.worker);
        } else {
            context.queue_for_worker(self.class);
        }
        had_entered.inspect(|&worker_ref| current::set(worker_ref));
    }
}
