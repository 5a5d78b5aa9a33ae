//! Closures that may block in the system: their thread gives its worker away for as long as they run.
//!
//! ```text
//!   this thread   ──task──┐ blocking(f) ┌──────── f runs, without a worker ────────┐        ┌──task goes on──
//!                         │  assign(w)  │                                          │ token  │ assign(w')
//!   a spare               └────────────▶└──other tasks run on worker w─────────────┴───────▶┘
//! ```
//!
//! If `f` is done before the spare thread has come, this thread takes the worker back and nobody has moved.
//!
//! # Invariants
//!
//! - As for every wait ([`context`](super::stack context)): latent forks are told of and a spare is reserved
//!   before the worker goes, and the closure never runs on a thread that carries a worker, unless no spare
//!   could be had, which is counted.
//! - The frame goes on only when its thread has a worker again, or the pool closes. It unwinds only then,
//!   too.

use super::stack_context::{self, StackContext};
use crate::pool::current::{self, WorkerRef};
use crate::threads::handoff::Assigned;
use crate::threads::thread_handle::ThreadHandle;
use crate::threads::thread_set::ThreadEvent;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Calls `body`, which may block in the system (a file, a lock of `std`, foreign code), while the worker of
/// this thread goes on with other tasks in the hands of another thread.
///
/// `body` runs here and now, on this thread: it may borrow, and need not be `Send`. In it this thread is like
/// any thread outside of the pool: [`spawn`](crate::spawn) still leads to the pool,
/// [`block_on`](crate::block_on) just sleeps (or lets fibers of this thread run), and a [`join`](crate::join)
/// runs its halves one after the other, or lets the pool have the second if the first one waits. When `body`
/// is done, the frame waits for a worker, which may be another one than before. Inside of `blocking`, or on a
/// thread that carries no worker, or in a child made by `fork()`, it only calls `body`.
///
/// Costs about as much as waking a thread, some microseconds; a wait for the next free worker, if `body` took
/// longer than that; and a thread as long as `body` runs. Where no thread can be had
/// ([`Builder::max_threads`](crate::Builder::max_threads), or the system gives none) the worker stays and
/// waits with `body`; [`Threads::kept`](crate::Threads::kept) counts it.
///
/// A runtime that is shut down or dropped meanwhile waits for `body`, **for as long as it takes**, as it does
/// for a task that never awaits. The frame goes on to its end, and what it spawns is refused.
/// [`Runtime::shutdown`](crate::Runtime::shutdown) says what to do about a `body` that may never end.
///
/// # Panics
///
/// If `body` does, when this thread has a worker again.
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
    // Unwind: it goes on below, in this frame. A frame whose thread has no worker must not be left, as the
    // task that it belongs to would end nowhere.
    let outcome = catch_unwind(AssertUnwindSafe(body));
    away.come_back();
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// A thread that has given its worker away for a closure, and will want one again.
struct BlockInPlace<'task> {
    context: &'task StackContext,
    /// Who has the worker, or is on its way to it.
    spare: Arc<ThreadHandle>,
    worker: Option<usize>,
    assigned: Assigned,
    /// What free functions are to find before and after, if it is not the worker.
    had_entered: Option<*const WorkerRef>,
    /// This is in `blocking` already, which found no spare the last time.
    nested: bool,
}

impl<'task> BlockInPlace<'task> {
    /// Gives the worker away. `None`: the thread has none, or keeps it.
    fn leave(context: &'task StackContext) -> Option<Self> {
        let worker_ref = context.worker_ref()?;
        let pool = context.fibers().pool();
        let threads = &pool.core().threads;
        if pool.is_forked() {
            return None;
        }
        if context.keeps_worker() {
            // The worker is inside its policy, or about to go on here: no other thread could use it.
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
            let worker = context.release_worker();
            let assigned = spare.handoff.assign(worker);
            Self {
                context,
                spare,
                worker,
                assigned,
                had_entered,
                nested: context.fiber().is_some_and(|fiber| fiber.set_blocking(true)),
            }
        });
        had_entered.inspect(|&worker_ref| current::set(worker_ref));
        away
    }

    /// Waits for a worker.
    fn come_back(self) {
        let Self {
            context, had_entered, ..
        } = self;
        if context.stayed_in_parent() {
            // The frame goes on without a worker: those are the parent's.
            had_entered.inspect(|&worker_ref| current::set(worker_ref));
            return;
        }
        context.fiber().inspect(|fiber| {
            fiber.set_blocking(self.nested);
        });
        if context.worker_ref().is_some() {
            // The closure has waited, and there was no spare to take the worker afterwards.
            context.fibers().pool().core().threads.note(ThreadEvent::Resumed);
        } else if self.spare.handoff.take_back(self.assigned) {
            let threads = &context.fibers().pool().core().threads;
            threads.note(ThreadEvent::TakenBack);
            threads.release(&self.spare);
            context.acquire_worker(self.worker);
        } else {
            context.queue_for_worker();
        }
        had_entered.inspect(|&worker_ref| current::set(worker_ref));
    }
}
