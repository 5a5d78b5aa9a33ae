//! A borrowed closure on another thread: the caller waits for it.

use super::handle::Runtime;
use super::seat;
use super::spawn::{SpawnError, TaskBuilder};
use crate::fork::ForkCx;
use std::panic::resume_unwind;
use warpweft_task::JoinError;

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

/// Ends the process if the caller were to leave its frame before the job has ended.
struct Stay;

impl Drop for Stay {
    fn drop(&mut self) {
        std::process::abort();
    }
}

pub(super) fn install<R: Send>(
    runtime: &Runtime,
    body: impl FnOnce(ForkCx<'_>) -> R + Send,
) -> Result<R, SpawnError> {
    if let Some(seat) = seat::here() {
        assert!(
            !seat.is_in_policy(),
            "a hook of a policy cannot wait for a runtime"
        );
        if seat.is_of(runtime.header()) {
            return Ok(body(ForkCx::new(seat)));
        }
    }
    let mut loan = Loan {
        body: Some(body),
        result: None,
    };
    let lent = Lent(&raw mut loan);
    let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || lent.run());
    // SAFETY: only the lifetime changes. The job is run or dropped before `wait` returns, and nothing unwinds before.
    let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Box<dyn FnOnce() + Send>>(job) };
    let stay = Stay;
    let end = TaskBuilder::new().on(runtime).spawn_job(job).wait();
    std::mem::forget(stay);
    match (end, loan.result) {
        (Ok(()), Some(result)) => Ok(result),
        (Err(JoinError::Panicked(panic)), _) => resume_unwind(panic),
        (Err(JoinError::Forked), _) => Err(SpawnError::Forked),
        _ => Err(SpawnError::Closed),
    }
}
