//! `scope`: any number of jobs that borrow from the frame that waits for them.
//!
//! ```text
//!   the owner's stack              others
//!   spawn ─▶ jobs (youngest first) ─ oldest ─▶ on offer ─▶ a thief
//!   end: runs what is left, then waits for what was given away
//! ```
//!
//! # Invariants
//!
//! - `jobs` belongs to the stack that opened the scope. Other threads spawn through their pool's policy, and
//!   so does the owner after `is_closed`: nobody would look at its list.
//! - `given` counts the jobs that other threads may have, and one for the owner until it has run all its own
//!   jobs. The thread that brings it to zero sets `done`, and touches nothing of the scope afterwards.
//! - Each job has its own box, which the thread that runs the job frees.

use super::panics::report_displaced;
use crate::cancel_tree::node::Node;
use crate::execution::current_task::as_part_of;
use crate::execution::fiber_start::FiberStart;
use crate::execution::fork_cx::ForkCx;
use crate::execution::run_part::resume_after;
use crate::execution::stack_context::{self, StackContext};
use crate::execution::token::{drop_unstarted, never_starts, with_raw_token};
use crate::execution::wait;
use crate::fork::jobs::{FirstPanic, Jobs, Panic};
use crate::fork::list::List;
use crate::fork::stealable::{By, Stealable, Stolen};
use crate::observe::spans::SpawnSpan;
use crate::observe::tasks;
use crate::pool::dyn_pool::DynPool;
use crate::runtime::pool::Pool;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::atomic::AtomicUsize;
use warpweft_platform::clock;
use warpweft_task::frame::Who;
use warpweft_task::pool::PoolHeader;
use warpweft_task::spawn::{SpawnInfo, detached_job};
use warpweft_task::{Cancelled, Latch, Why};

/// While one of its own jobs takes longer than this, in nanoseconds, the owner of a scope makes tasks of
/// others.
const LONG_NS: u64 = 20_000;
/// The number of tasks that the owner makes at a time. To make them takes less time than such a job.
const TASKS: usize = 64;

/// Returns true if the owner measures how long this one of its jobs takes, the first being 1. A look at the
/// clock takes as long as a small job, so most of those are not measured.
fn is_measured(number: u32, was_long: bool) -> bool {
    // A model has no time.
    cfg!(not(any(warpweft_loom, warpweft_shuttle)))
        && (was_long || number.is_power_of_two() || number.is_multiple_of(64))
}

/// Ends the scope after its body: runs the jobs that no thread has taken, youngest first, and waits for the
/// rest.
fn finish(jobs: &Jobs, is_closed: &Cell<bool>, forks: &List, context: &StackContext) {
    let (mut own, mut was_long) = (0_u32, false);
    loop {
        let latent = jobs.latent.borrow_mut().pop_back();
        if let Some(job) = latent {
            own = own.wrapping_add(1);
            let start = is_measured(own, was_long).then(|| {
                // SAFETY: a stack context's list is attached for as long as its thread runs tasks.
                if unsafe { forks.is_free() } {
                    let _ = context.offer_fork();
                }
                clock::now_ns()
            });
            // SAFETY: the job was never published.
            unsafe { run_own(job) };
            // An offer is for one worker at a time, and the next one comes only when the next job is over.
            was_long = start.is_some_and(|start| clock::now_ns().saturating_sub(start) > LONG_NS);
            if was_long {
                context.promote_jobs(jobs, TASKS);
            }
            continue;
        }
        let claim = jobs.claims.borrow_mut().pop();
        if let Some(claim) = claim {
            claim.steal().into_iter().for_each(Stolen::run);
            continue;
        }
        match forks.job_back(jobs) {
            // SAFETY: the job was on offer, and no thread has taken it.
            Some(job) => unsafe { Stolen::new(job) }.run(),
            None => break,
        }
    }
    // While the frame waits, other tasks may run on its stack: jobs of this scope, too.
    is_closed.set(true);
    forks.close_scope();
    if !jobs.end_one() {
        context.wait_for_fork(&jobs.done);
    }
}

/// # Safety
///
/// The job belongs to its owner, and was never published.
unsafe fn run_own(job: NonNull<Stealable>) {
    // SAFETY: a job that waits to run is still in its box.
    let run = unsafe { job.as_ref() }.run;
    // SAFETY: by contract the job belongs to this thread.
    unsafe { run(job, By::Owner) };
}

/// A job in its box.
#[repr(C)]
struct ScopeJob<F> {
    head: Stealable,
    scope: NonNull<Jobs>,
    body: F,
}

impl<F: FnOnce()> ScopeJob<F> {
    /// Contract: as for [`Stealable::run`]; the pointer is to a boxed job of this type, whose scope has
    /// not ended.
    unsafe fn run(job: NonNull<Stealable>, by: By) {
        // SAFETY: by contract it is a box of this type, and only this thread has it.
        let boxed = unsafe { Box::from_raw(job.cast::<Self>().as_ptr()) };
        let Self { scope, body, .. } = *boxed;
        // SAFETY: the scope waits for this job.
        let jobs = unsafe { scope.as_ref() };
        // Unwind, twice: the panic continues in the scope's frame.
        let outcome = match by {
            // SAFETY: a frame older than the scope, which waits for this job, keeps the token.
            _ if unsafe { never_starts(jobs.token) } => drop_unstarted(body),
            By::Owner => catch_unwind(AssertUnwindSafe(body)),
            By::Taker => as_part_of(&jobs.done, || {
                catch_unwind(AssertUnwindSafe(|| {
                    // SAFETY: as above.
                    unsafe { with_raw_token(jobs.token, body) }
                }))
            }),
        };
        if let Err(panic) = outcome {
            jobs.note(panic).into_iter().for_each(report_displaced);
        }
        if by == By::Taker && jobs.end_one() {
            let waiter = jobs.done.set_and_take();
            waiter
                .into_iter()
                .for_each(|waiter| resume_after(job.as_ptr(), waiter));
        }
    }
}

/// A job that was spawned on another stack. It is a task, which counts as ended even if it never runs.
pub(crate) struct RemoteJob(NonNull<Jobs>);

// SAFETY: what it reaches of the scope is synchronised.
unsafe impl Send for RemoteJob {}

impl RemoteJob {
    fn run(self, body: impl FnOnce()) {
        let token = self.token();
        // SAFETY: a frame older than the scope, which waits for this job, keeps the token.
        let outcome = if unsafe { never_starts(token) } {
            drop_unstarted(body)
        } else {
            // Unwind: the panic continues in the scope's frame.
            // SAFETY: as above.
            catch_unwind(AssertUnwindSafe(|| unsafe { with_raw_token(token, body) }))
        };
        if let Err(panic) = outcome {
            self.note(panic);
        }
        self.end();
    }

    /// Keeps a panic of the job for the scope.
    pub(crate) fn note(&self, panic: Panic) {
        // SAFETY: the scope waits for this job.
        unsafe { self.0.as_ref() }
            .note(panic)
            .into_iter()
            .for_each(report_displaced);
    }

    /// Returns the token of the scope; null if it has none.
    pub(crate) fn token(&self) -> *const Node {
        // SAFETY: the scope waits for this job.
        unsafe { self.0.as_ref() }.token
    }

    /// Reports that the job has ended and is dropped.
    pub(crate) fn end(self) {
        // SAFETY: the scope waits for this job.
        let jobs = unsafe { self.0.as_ref() };
        std::mem::forget(self);
        if jobs.end_one() {
            jobs.done.set_and_take().into_iter().for_each(wait::resume);
        }
    }
}

impl Drop for RemoteJob {
    fn drop(&mut self) {
        // SAFETY: the scope waits for this job.
        let jobs = unsafe { self.0.as_ref() };
        // SAFETY: a frame older than the scope, which waits for this job, keeps the token.
        let cancelled = unsafe { jobs.token.as_ref() }.is_some_and(Node::is_cancelled);
        // If a job has panicked, that is the better reason.
        let _ = jobs.note(if cancelled {
            Box::new(Cancelled)
        } else {
            Box::new("the pool was shut down before every job of a scope had run")
        });
        if jobs.end_one() {
            jobs.done.set();
        }
    }
}

/// Spawns jobs that may borrow whatever lives longer than the scope.
///
/// [`scope`] and [`ForkCx::scope`] make it, and wait for all its jobs before they return.
pub struct Scope<'scope, 'env: 'scope> {
    jobs: Jobs,
    /// The stack context that opened the scope, as an address. Its thread may touch the jobs that wait.
    owner: *const StackContext,
    /// The owner's own jobs have all run: what is spawned later is a task. Not among `jobs`, where other
    /// threads write.
    is_closed: Cell<bool>,
    /// The owner's pool, for jobs that are spawned elsewhere.
    pool: NonNull<PoolHeader>,
    /// The same, from an `Arc`. The owner may be gone: jobs outlive its thread if its stack was leaked, as a
    /// handled body's. Such a stack keeps the pool.
    shared_pool: *const dyn DynPool,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

// SAFETY: `owner` is only compared; the pool is shared anyway; only the owner's thread touches `is_closed`
// and the jobs that wait; everything else is synchronised.
unsafe impl Sync for Scope<'_, '_> {}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a job. It runs on some worker before the scope ends: on this one at the end of the scope,
    /// youngest first, or on another one, oldest first.
    ///
    /// Other workers are offered one job of this stack at a time: the next one when the last was taken, and
    /// this stack spawns again, forks, or waits. At the end of the scope jobs become tasks, 64 at a time, as
    /// long as those that this worker runs take more than 20 µs. So a job must not block until another one
    /// has begun: spawn such jobs as [tasks](crate::spawn_job).
    ///
    /// On the stack that opened the scope it costs an allocation of the closure and two words, and no atomic
    /// read-modify-write. On another stack, in a job of the scope, it costs as much as
    /// [`spawn_job`](crate::spawn_job).
    ///
    /// If the job panics, the scope panics when all have ended. It is under the [token](crate::cancel) that
    /// counted where the scope was opened, also if it is spawned in a part that has another one.
    pub fn spawn<F>(&'scope self, job: F)
    where
        F: FnOnce(&'scope Scope<'scope, 'env>) + Send + 'scope,
    {
        let span = SpawnSpan::current();
        let job = move || span.run(|| job(self));
        match stack_context::here() {
            Some(context) if std::ptr::eq(context, self.owner) && !self.is_closed.get() => {
                let job = boxed(&self.jobs, job);
                self.jobs.latent.borrow_mut().push_back(job);
                // SAFETY: a stack context's list is attached for as long as its thread runs tasks.
                if unsafe { context.forks().is_free() } {
                    // If the scope was cancelled, the end of the scope drops the job.
                    let _ = context.offer_fork();
                }
            }
            _ => {
                let (run, info) = self.pinned(Box::new(job));
                // SAFETY: the owner's thread, or its leaked body, keeps the pool alive.
                unsafe { detached_job(move || run.go(), info) }.push(Why::Spawned);
            }
        }
    }

    /// Runs a job that no thread has taken, on the stack that opened the scope. Returns false if there is
    /// none, or this is another stack.
    pub(crate) fn run_one(&self) -> bool {
        if !stack_context::here().is_some_and(|context| std::ptr::eq(context, self.owner)) {
            return false;
        }
        // Each borrow ends before the job runs: it may spawn others.
        let latent = self.jobs.latent.borrow_mut().pop_back();
        if let Some(job) = latent {
            // SAFETY: the job was never published.
            unsafe { run_own(job) };
            return true;
        }
        loop {
            let claim = self.jobs.claims.borrow_mut().pop();
            let Some(claim) = claim else {
                return false;
            };
            if let Some(job) = claim.steal() {
                job.run();
                return true;
            }
        }
    }

    /// Returns what identifies the jobs that other threads run, as reports and the owners of locks say it.
    pub(crate) fn parts(&self) -> Who {
        Who {
            id: std::ptr::from_ref(&self.jobs.done).addr(),
            origin: std::ptr::null(),
        }
    }

    /// Spawns a job that only this worker of the scope's [pool](Self::pool) runs: see
    /// [`TaskBuilder::spawn_pinned`](crate::TaskBuilder::spawn_pinned).
    ///
    /// # Panics
    ///
    /// If the pool has no worker with that number.
    #[track_caller]
    pub fn spawn_pinned<F>(&'scope self, worker: usize, job: F)
    where
        F: FnOnce(&'scope Scope<'scope, 'env>) + Send + 'scope,
    {
        let pool = self.pool();
        pool.assert_has(worker);
        let span = SpawnSpan::current();
        let (run, info) = self.pinned(Box::new(move || span.run(|| job(self))));
        // SAFETY: the owner's thread, or its leaked body, keeps the pool alive.
        let task = unsafe { detached_job(move || run.go(), info) };
        pool.any().push_pinned(worker, task);
    }

    /// Returns the pool of the stack that opened the scope, where its jobs run.
    #[must_use]
    pub fn pool(&self) -> Pool {
        // SAFETY: it came from an `Arc`. The thread that waits in the scope's frame keeps the pool, or the
        // leaked body whose frame it is.
        unsafe { Arc::increment_strong_count(self.shared_pool) };
        // SAFETY: as above; the share was taken just now.
        Pool::new(unsafe { Arc::from_raw(self.shared_pool) })
    }

    /// Spawns a fiber, which any worker may start.
    #[track_caller]
    pub(crate) fn spawn_fiber<F>(&'scope self, body: F)
    where
        F: FnOnce(&'scope Scope<'scope, 'env>) + Send + 'scope,
    {
        let (run, info) = self.pinned(Box::new(move || body(self)));
        // SAFETY: the owner's thread, or its leaked body, keeps the pool alive.
        unsafe { tasks::detached_on_stack_job(move || run.go(), FiberStart, info) }.push(Why::Spawned);
    }

    /// Wraps a job for a task. It counts as ended when it has run or is dropped.
    #[track_caller]
    fn pinned(&self, job: Box<dyn FnOnce() + Send + 'scope>) -> (PinnedRun, SpawnInfo) {
        let (pinned, info) = self.pinned_task();
        // SAFETY: only the lifetime changes. The job is run or dropped before its pinned task ends, and the
        // scope waits for that.
        let job = unsafe {
            std::mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, Box<dyn FnOnce() + Send>>(job)
        };
        (PinnedRun { job, pinned }, info)
    }

    /// Counts one more job to wait for.
    #[track_caller]
    pub(crate) fn pinned_task(&self) -> (RemoteJob, SpawnInfo) {
        self.jobs.give();
        let info = SpawnInfo {
            pool: self.pool,
            location: Location::caller(),
            name: None,
        };
        (RemoteJob(NonNull::from(&self.jobs)), info)
    }

    /// Returns the place for the first panic.
    pub(crate) fn panic_place(&self) -> &FirstPanic {
        &self.jobs.panic
    }
}

/// A job with its count. The order of the fields drops the job before its pinned task.
struct PinnedRun {
    job: Box<dyn FnOnce() + Send>,
    pinned: RemoteJob,
}

impl PinnedRun {
    fn go(self) {
        let Self { job, pinned } = self;
        pinned.run(job);
    }
}

fn boxed<F: FnOnce()>(jobs: &Jobs, body: F) -> NonNull<Stealable> {
    let job = Box::new(ScopeJob {
        head: Stealable {
            run: ScopeJob::<F>::run,
        },
        scope: NonNull::from(jobs),
        body,
    });
    NonNull::from(Box::leak(job)).cast()
}

impl ForkCx<'_> {
    /// Opens a scope on this stack: see [`scope`].
    ///
    /// # Panics
    ///
    /// As [`scope`].
    pub fn scope<'env, T>(self, body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
        let context = self.context();
        let forks = context.forks();
        let scope = Scope {
            jobs: Jobs {
                latent: RefCell::default(),
                claims: RefCell::default(),
                found: forks.tail(),
                given: AtomicUsize::new(1),
                done: Latch::new(),
                panic: FirstPanic::new(None),
                token: context.token_of_jobs(),
            },
            owner: context,
            is_closed: Cell::new(false),
            pool: context.pool(),
            shared_pool: Arc::as_ptr(context.fibers().pool()),
            scope: PhantomData,
            env: PhantomData,
        };
        // SAFETY: the scope stays in this frame, and is closed by `finish`, before which nothing unwinds.
        unsafe { forks.open_scope(&scope.jobs) };
        // Unwind: the panic continues below, when every job has ended.
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        finish(&scope.jobs, &scope.is_closed, forks, context);
        let panic = scope.jobs.panic.lock().take();
        match (outcome, panic) {
            (Err(panic), second) => {
                second.into_iter().for_each(report_displaced);
                resume_unwind(panic)
            }
            (Ok(_), Some(panic)) => resume_unwind(panic),
            (Ok(value), None) => value,
        }
    }
}

/// Calls `body` with a [`Scope`], in which it spawns jobs that borrow from here. Returns when `body` and all
/// jobs have ended.
///
/// The calling frame runs those jobs of its scope that no worker has taken. Then it waits, as in
/// [`join`](crate::join): nothing else runs on top of it while a spare thread can be had. Outside of a task,
/// `body` runs where the closures of `join` do, and the calling thread waits.
///
/// ```
/// let mut squares = [0; 8];
/// warpweft::scope(|scope| {
///     for (n, square) in squares.iter_mut().enumerate() {
///         scope.spawn(move |_| *square = n * n);
///     }
/// });
/// assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36, 49]);
/// ```
///
/// # Panics
///
/// If `body` or a job panics, when all have ended: with the body's panic, or else the first one of the jobs.
/// **All jobs run in any case**, even those that no worker had taken when `body` was unwound for any reason,
/// **unless their [token](crate::cancel) is cancelled**: a job that has not started then is dropped, and the
/// scope unwinds when the others have ended. It also panics if the pool is shut down before a job has run
/// that another job has spawned on another thread. Outside of a task, if that runtime cannot be built or is
/// shutting down.
pub fn scope<'env, T: Send>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T + Send) -> T {
    ForkCx::find(|cx| cx.scope(body))
}
