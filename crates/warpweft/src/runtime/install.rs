//! Runs borrowed closures on other threads while the caller waits.

use super::default::default_runtime;
use super::handle::Runtime;
use super::pool::Pool;
use super::pool_error::EnterError;
use super::spawn_error::SpawnError;
use super::spawn_with_permit::Entry;
use super::task_builder::TaskBuilder;
use crate::execution::block_on::block_on;
use crate::execution::bodies;
use crate::execution::enter_guard::EnterGuard;
use crate::execution::fiber_start::NoUnwindGuard;
use crate::execution::fork_cx::{ForkCx, with_forks};
use crate::execution::stack_context::{self, StackContext};
use crate::execution::token;
use crate::pool::current::with_current;
use crate::pool::panics::Outcome;
use crate::pool::transfer_request::Destination;
use crate::threads::thread_context::ThreadRole;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use warpweft_platform::panics::discard;
use warpweft_platform::thread::yield_now;
use warpweft_task::{JoinError, JoinHandle};

/// How often a thread that is in no pool yields while it waits for its closure, before it sleeps: up to some
/// ten microseconds. A short closure ends within that, on a worker that has not gone to sleep since the last
/// one. Then the call costs no wake-up of either thread.
const YIELDS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    20
};

/// What the caller's frame lends to the job.
struct BorrowedCall<F, R> {
    body: Option<F>,
    result: Option<Outcome<R>>,
}

/// The address of that frame, for the job.
struct BorrowedFrame<F, R>(*mut BorrowedCall<F, R>);

// SAFETY: `lend` does not touch its frame until the job has ended, and what it lends is `Send`.
unsafe impl<F: Send, R: Send> Send for BorrowedFrame<F, R> {}

impl<F: FnOnce(ForkCx<'_>) -> R, R> BorrowedFrame<F, R> {
    fn run(self) {
        // SAFETY: `lend` waits for the end of the job, so the frame is there.
        let loan = unsafe { &mut *self.0 };
        // Unwind: the panic continues in the frame of `lend`, as if the closure had been called there.
        let call = |body| catch_unwind(AssertUnwindSafe(|| with_forks(body)));
        loan.result = loan.body.take().map(call);
    }
}

/// Erases the lifetime of what a closure borrows.
///
/// # Safety
///
/// The caller runs or drops the result before what it borrows ends.
unsafe fn unbound<'a>(job: Box<dyn FnOnce() + Send + 'a>) -> Box<dyn FnOnce() + Send> {
    // SAFETY: only the lifetime changes.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'a>, Box<dyn FnOnce() + Send>>(job) }
}

/// # Panics
///
/// In a hook of a policy.
pub(crate) fn assert_may_wait() {
    assert!(
        !stack_context::here().is_some_and(StackContext::is_in_policy),
        "a hook of a policy cannot wait for a runtime"
    );
}

impl TaskBuilder<'_> {
    /// Calls `body` once on each worker of the chosen pool, or of the one that free functions use here: see
    /// [`Runtime::broadcast`]. Each call has the builder's name and spawn site, and no priority.
    ///
    /// # Errors
    ///
    /// As [`Runtime::broadcast`].
    ///
    /// # Panics
    ///
    /// As [`Runtime::broadcast`].
    pub fn broadcast<R: Send>(self, body: impl Fn(usize) -> R + Sync) -> Result<Vec<R>, SpawnError> {
        assert_may_wait();
        let pool = self.pool_or_here();
        pool.check()?;
        let mut results: Vec<_> = (0..pool.workers()).map(|_| None).collect();
        let body = &body;
        let stay = NoUnwindGuard::new();
        let jobs: Vec<_> = results
            .iter_mut()
            .enumerate()
            .map(|(worker, result)| {
                let job = move || *result = Some(body(worker));
                // SAFETY: each job is run or dropped before its `wait` below returns, and nothing unwinds
                // before.
                let job = unsafe { unbound(Box::new(job)) };
                token::for_frame(|| self.copy_on(&pool).spawn_pinned(worker, job))
            })
            .collect();
        let ends: Vec<_> = jobs.into_iter().map(warpweft_task::block_on).collect();
        stay.end();
        // The first one counts. The payload of a panic may panic in its own `Drop`, so none is dropped while
        // another one unwinds.
        let mut errors = ends.into_iter().filter_map(Result::err);
        let first = errors.next();
        for error in errors {
            if let JoinError::Panicked(panic) = error {
                discard(panic.into_payload());
            }
        }
        match first {
            None => {}
            Some(JoinError::Panicked(panic)) => resume_unwind(panic.into_payload()),
            Some(JoinError::Forked) => return Err(SpawnError::Forked),
            // The jobs had the token of this frame.
            Some(JoinError::Cancelled) => token::unwind(),
            Some(_) => return Err(SpawnError::Closed),
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Runs `body` on a worker of the chosen pool, or of the one that free functions use here, with the right
    /// to fork there: see [`Runtime::install`]. On one of its own workers it calls `body` at once, and the
    /// name and the priority have no effect.
    ///
    /// # Errors
    ///
    /// As [`Runtime::install`].
    ///
    /// # Panics
    ///
    /// If `body` does.
    pub fn install<R: Send>(self, body: impl FnOnce(ForkCx<'_>) -> R + Send) -> Result<R, SpawnError> {
        assert_may_wait();
        if let Some(pool) = self.chosen() {
            pool.check()?;
        }
        // Inside `blocking` a thread carries no worker, and is like any other thread.
        let here = stack_context::here().filter(|context| {
            let is_here = self
                .chosen()
                .map_or_else(|| context.is_in_own_pool(), |pool| context.is_of(pool.header()));
            is_here && context.worker_ref().is_some()
        });
        match here {
            Some(context) => Ok(body(ForkCx::new(context))),
            None => {
                let builder = self.or_default();
                lend(|job| builder.spawn_job(job), body)
            }
        }
    }

    /// Chooses the default runtime, if no pool is chosen and none is here.
    fn or_default(self) -> Self {
        let has_pool = self.chosen().is_some() || with_current(|worker_ref| worker_ref.is_some());
        if has_pool {
            self
        } else {
            self.on(default_runtime())
        }
    }
}

/// Runs `body` on a worker of the pool that this thread has entered, or else of the default runtime. The
/// thread carries no worker of a pool.
///
/// # Errors
///
/// As [`Runtime::install`].
///
/// # Panics
///
/// As [`Runtime::install`], and if the default runtime cannot be built.
pub(crate) fn install_here<R: Send>(body: impl FnOnce(ForkCx<'_>) -> R + Send) -> Result<R, SpawnError> {
    // The default runtime is built before anything is lent: from then on a panic could not leave this frame.
    let builder = TaskBuilder::new().or_default();
    lend(|job| builder.spawn_job(job), body)
}

/// Lends `body` to a job that `spawn` spawns, and waits for it. Aborts if `spawn` panics, as it does without
/// a pool, so find that before.
fn lend<R: Send>(
    spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> JoinHandle<()>,
    body: impl FnOnce(ForkCx<'_>) -> R + Send,
) -> Result<R, SpawnError> {
    let mut loan = BorrowedCall {
        body: Some(body),
        result: None,
    };
    let lent = BorrowedFrame(&raw mut loan);
    // SAFETY: the job is run or dropped before `wait` returns, and nothing unwinds before.
    let job = unsafe { unbound(Box::new(move || lent.run())) };
    let stay = NoUnwindGuard::new();
    let handle = token::for_frame(|| spawn(job));
    if stack_context::here().is_none() {
        let mut left = YIELDS;
        while left > 0 && !handle.is_finished() {
            yield_now();
            left -= 1;
        }
    }
    let end = warpweft_task::block_on(handle);
    stay.end();
    match (end, loan.result) {
        (Ok(()), Some(Ok(result))) => Ok(result),
        (Ok(()), Some(Err(panic))) => resume_unwind(panic),
        (Err(JoinError::Panicked(panic)), _) => resume_unwind(panic.into_payload()),
        (Err(JoinError::Forked), _) => Err(SpawnError::Forked),
        (Err(JoinError::Cancelled), _) => token::unwind(),
        _ => Err(SpawnError::Closed),
    }
}

impl Runtime {
    /// Runs `future` on the calling thread until it has a result. Its spawns run on this runtime's workers,
    /// also those by the free [`spawn`](crate::spawn).
    ///
    /// The future itself stays on this thread, so it need not be `Send`, and it may borrow. If a task of any
    /// runtime calls this, its thread releases its worker while the future waits: see
    /// [`block_on`](crate::block_on).
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.first().block_on(future)
    }

    /// Runs `body` on a worker, with the right to fork there, and returns its result. On one of this
    /// runtime's own workers it calls `body` at once. Elsewhere the calling thread waits; if it carries a
    /// worker of another runtime, it releases that worker while it waits.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down, or this is a forked child. `body` was dropped.
    ///
    /// # Panics
    ///
    /// If `body` does.
    #[track_caller]
    pub fn install<R: Send>(&self, body: impl FnOnce(ForkCx<'_>) -> R + Send) -> Result<R, SpawnError> {
        self.first().install(body)
    }

    /// Calls `body` once on each worker, with the worker's number, and returns the results in that order. The
    /// calling thread waits. A busy worker calls `body` between two tasks, after at most 61 of them.
    /// Compensating workers are left out: the numbers are those below [`workers`](Self::workers).
    ///
    /// # Errors
    ///
    /// As [`install`](Runtime::install); some workers may have called `body`.
    ///
    /// # Panics
    ///
    /// If one of the calls panics, after all have ended.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(3).build()?;
    /// assert_eq!(runtime.broadcast(|worker| 10 * worker)?, [0, 10, 20]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn broadcast<R: Send>(&self, body: impl Fn(usize) -> R + Sync) -> Result<Vec<R>, SpawnError> {
        self.first().broadcast(body)
    }
}

impl Pool {
    /// Runs `future` on the calling thread until it has a result. Its spawns run on this pool's workers: see
    /// [`Runtime::block_on`].
    ///
    /// ```
    /// use warpweft::{Pool, Runtime};
    /// let runtime = Runtime::builder().workers(1).then("index", Runtime::builder().workers(1)).build()?;
    /// let name = runtime.pool("index")?.block_on(async {
    ///     warpweft::spawn(async { Pool::current().map(|pool| pool.name().to_owned()) }).await
    /// })?;
    /// assert_eq!(name.as_deref(), Some("index"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let worker_ref = self.any().external();
        // SAFETY: `self` keeps the pool alive, and the value is dropped at the end of this function.
        let _visiting = unsafe { EnterGuard::new(&worker_ref) };
        // A thread of the pool has entered already. A fiber and a handled body may be left in the middle,
        // with the contexts of their thread as they are then.
        let enters = bodies::innermost().is_null()
            && stack_context::here()
                .is_none_or(|context| !context.is_of(self.header()) && context.fiber().is_none());
        let contexts = &self.any().core().threads.hooks().contexts;
        let _contexts = enters.then(|| contexts.enter(ThreadRole::BlockOn));
        block_on(future)
    }

    /// Calls `body` once on each worker of this pool: see [`Runtime::broadcast`].
    ///
    /// # Errors
    ///
    /// As [`Runtime::broadcast`].
    ///
    /// # Panics
    ///
    /// As [`Runtime::broadcast`].
    #[track_caller]
    pub fn broadcast<R: Send>(&self, body: impl Fn(usize) -> R + Sync) -> Result<Vec<R>, SpawnError> {
        TaskBuilder::new().on_pool(self).broadcast(body)
    }

    /// Runs `body` on a worker of this pool, with the right to fork there: see [`Runtime::install`]. Unlike
    /// [`run`](Self::run) it needs no permit of a pool with a [capacity](crate::Builder::capacity).
    ///
    /// # Errors
    ///
    /// As [`Runtime::install`].
    ///
    /// # Panics
    ///
    /// If `body` does.
    #[track_caller]
    pub fn install<R: Send>(&self, body: impl FnOnce(ForkCx<'_>) -> R + Send) -> Result<R, SpawnError> {
        TaskBuilder::new().on_pool(self).install(body)
    }

    /// Calls `closure` on a worker of this pool, and returns its result. It may borrow, because the caller
    /// waits: a fiber switches away, a job releases its worker, a thread sleeps. On a worker of this pool it
    /// calls `closure` at once.
    ///
    /// If the pool is [bounded](crate::Builder::capacity), it first waits for a permit.
    ///
    /// # Errors
    ///
    /// [`EnterError`] if the pool is shutting down, or if waiting for a permit there could last for ever.
    /// `closure` was dropped.
    ///
    /// # Panics
    ///
    /// If `closure` panics, or in a hook of a policy, which must not wait.
    #[track_caller]
    pub fn run<R: Send>(&self, closure: impl FnOnce() -> R + Send) -> Result<R, EnterError> {
        self.check().map_err(EnterError::of)?;
        if self.is_here() {
            return Ok(closure());
        }
        let Some(claim) = self.claim()? else {
            return self.install(|_| closure()).map_err(EnterError::of);
        };
        assert_may_wait();
        let permit = block_on(claim).map_err(|_| EnterError::Closed)?;
        permit.forget();
        let destination = Destination::new(Arc::clone(self.any()), true);
        self.check().map_err(EnterError::of)?;
        let builder = TaskBuilder::new().on_pool(self);
        // The job has the permit, so that the closure is known to have one.
        let spawn = |job| builder.enter_job(self, Entry::unasked(destination), job);
        lend(spawn, |_| closure()).map_err(EnterError::of)
    }
}
