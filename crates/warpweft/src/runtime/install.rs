//! Borrowed closures on other threads: the caller waits for them.

use super::context::with_current;
use super::handle::default_runtime;
use super::seat;
use super::spawn::{SpawnError, TaskBuilder};
use crate::compose::Pool;
use crate::fiber::Stay;
use crate::fork::ForkCx;
use std::panic::resume_unwind;
use warpweft_task::{JoinError, JoinHandle};

/// What the caller's frame lends to the job.
struct Loan<F, R> {
    body: Option<F>,
    result: Option<R>,
}

/// The frame's address, for the job.
struct Lent<F, R>(*mut Loan<F, R>);

// SAFETY: the caller does not touch its frame until the job has ended, and what is lent is `Send`.
unsafe impl<F: Send, R: Send> Send for Lent<F, R> {}

impl<F: FnOnce(ForkCx<'_>) -> R, R> Lent<F, R> {
    fn run(self) {
        // SAFETY: the caller waits for the end of the job.
        let loan = unsafe { &mut *self.0 };
        loan.result = loan.body.take().map(seat::with_forks);
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
pub(super) fn broadcast<R: Send>(
    pool: &Pool,
    body: impl Fn(usize) -> R + Sync,
) -> Result<Vec<R>, SpawnError> {
    assert!(
        !seat::here().is_some_and(seat::Seat::is_in_policy),
        "a hook of a policy cannot wait for a runtime"
    );
    let mut results: Vec<_> = (0..pool.workers()).map(|_| None).collect();
    let body = &body;
    let stay = Stay::new();
    let jobs: Vec<_> = results
        .iter_mut()
        .enumerate()
        .map(|(worker, result)| {
            let job = move || *result = Some(body(worker));
            // SAFETY: each job is run or dropped before its `wait` below returns, and nothing unwinds before.
            let job = unsafe { unbound(Box::new(job)) };
            TaskBuilder::new().on_pool(pool).spawn_errand(worker, job)
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
    if let Some(seat) = seat::here() {
        assert!(
            !seat.is_in_policy(),
            "a hook of a policy cannot wait for a runtime"
        );
        // In `blocking` a thread carries no worker, and is like any other.
        if seat.is_of(pool.header()) && seat.front().is_some() {
            return Ok(body(ForkCx::new(seat)));
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
    let builder = match with_current(|front| front.is_some()) {
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
    let mut loan = Loan {
        body: Some(body),
        result: None,
    };
    let lent = Lent(&raw mut loan);
    // SAFETY: the job is run or dropped before `wait` returns, and nothing unwinds before.
    let job = unsafe { unbound(Box::new(move || lent.run())) };
    let stay = Stay::new();
    let end = builder.spawn_job(job).wait();
    stay.end();
    match (end, loan.result) {
        (Ok(()), Some(result)) => Ok(result),
        (Err(JoinError::Panicked(panic)), _) => resume_unwind(panic),
        (Err(JoinError::Forked), _) => Err(SpawnError::Forked),
        _ => Err(SpawnError::Closed),
    }
}
