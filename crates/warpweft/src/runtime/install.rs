//! Borrowed closures on other threads: the caller waits for them.

use super::handle::default_runtime;
use super::pool::Pool;
use super::spawn::{SpawnError, TaskBuilder};
use crate::execution::fiber_start::NoUnwindGuard;
use crate::execution::fork_cx::{ForkCx, with_forks};
use crate::execution::stack_context;
use crate::pool::current::with_current;
use std::panic::resume_unwind;
use warpweft_task::{JoinError, JoinHandle};

/// What the caller's frame lends to the job.
struct BorrowedCall<F, R> {
    body: Option<F>,
    result: Option<R>,
}

/// The frame's address, for the job.
struct Borrowed<F, R>(*mut BorrowedCall<F, R>);

// SAFETY: the caller does not touch its frame until the job has ended, and what is lent is `Send`.
unsafe impl<F: Send, R: Send> Send for Borrowed<F, R> {}

impl<F: FnOnce(ForkCx<'_>) -> R, R> Borrowed<F, R> {
    fn run(self) {
        // SAFETY: the caller waits for the end of the job.
        let loan = unsafe { &mut *self.0 };
        loan.result = loan.body.take().map(with_forks);
    }
}

/// Forgets what a closure borrows.
///
/// # Safety
///
/// It is run or dropped before what it borrows goes.
unsafe fn unbound<'a>(job: Box<dyn FnOnce() + Send + 'a>) -> Box<dyn FnOnce() + Send> {
    // SAFETY: only the lifetime changes.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'a>, Box<dyn FnOnce() + Send>>(job) }
}

/// What [`Runtime::broadcast`] does.
pub(crate) fn broadcast<R: Send>(
    pool: &Pool,
    body: impl Fn(usize) -> R + Sync,
) -> Result<Vec<R>, SpawnError> {
    assert!(
        !stack_context::here().is_some_and(stack_context::StackContext::is_in_policy),
        "a hook of a policy cannot wait for a runtime"
    );
    let mut results: Vec<_> = (0..pool.workers()).map(|_| None).collect();
    let body = &body;
    let stay = NoUnwindGuard::new();
    let jobs: Vec<_> = results
        .iter_mut()
        .enumerate()
        .map(|(worker, result)| {
            let job = move || *result = Some(body(worker));
            // SAFETY: each job is run or dropped before its `wait` below returns, and nothing unwinds before.
            let job = unsafe { unbound(Box::new(job)) };
            TaskBuilder::new().on_pool(pool).spawn_pinned(worker, job)
        })
        .collect();
    let ends: Vec<_> = jobs.into_iter().map(JoinHandle::wait).collect();
    stay.end();
    for end in ends {
        match end {
            Ok(()) => {}
            Err(JoinError::Panicked(panic)) => resume_unwind(panic),
            Err(JoinError::Forked) => return Err(SpawnError::Forked),
            Err(_) => return Err(SpawnError::Closed),
        }
    }
    Ok(results.into_iter().flatten().collect())
}

pub(crate) fn install<R: Send>(
    pool: &Pool,
    body: impl FnOnce(ForkCx<'_>) -> R + Send,
) -> Result<R, SpawnError> {
    if let Some(context) = stack_context::here() {
        assert!(
            !context.is_in_policy(),
            "a hook of a policy cannot wait for a runtime"
        );
        // In `blocking` a thread carries no worker, and is like any other.
        if context.is_of(pool.header()) && context.worker_ref().is_some() {
            return Ok(body(ForkCx::new(context)));
        }
    }
    lend(TaskBuilder::new().on_pool(pool), body)
}

/// Runs `body` on a worker of the pool that this thread visits; if it visits none, of the default runtime. The thread is of no pool.
///
/// # Errors
///
/// As [`Runtime::install`].
///
/// # Panics
///
/// As [`Runtime::install`], and if the default runtime cannot be built.
pub(crate) fn install_here<R: Send>(body: impl FnOnce(ForkCx<'_>) -> R + Send) -> Result<R, SpawnError> {
    // Before anything is lent: from then on a panic could not leave this frame.
    let builder = match with_current(|worker_ref| worker_ref.is_some()) {
        true => TaskBuilder::new(),
        false => TaskBuilder::new().on(default_runtime()),
    };
    lend(builder, body)
}

/// Lends `body` to a job, and waits for it. Aborts if the pool of `builder` cannot be had: to be found
/// before.
fn lend<R: Send>(
    builder: TaskBuilder<'_>,
    body: impl FnOnce(ForkCx<'_>) -> R + Send,
) -> Result<R, SpawnError> {
    let mut loan = BorrowedCall {
        body: Some(body),
        result: None,
    };
    let lent = Borrowed(&raw mut loan);
    // SAFETY: the job is run or dropped before `wait` returns, and nothing unwinds before.
    let job = unsafe { unbound(Box::new(move || lent.run())) };
    let stay = NoUnwindGuard::new();
    let end = builder.spawn_job(job).wait();
    stay.end();
    match (end, loan.result) {
        (Ok(()), Some(result)) => Ok(result),
        (Err(JoinError::Panicked(panic)), _) => resume_unwind(panic),
        (Err(JoinError::Forked), _) => Err(SpawnError::Forked),
        _ => Err(SpawnError::Closed),
    }
}
