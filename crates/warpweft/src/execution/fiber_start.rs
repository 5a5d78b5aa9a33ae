//! The start of a task that is a fiber, on the thread that runs its first step.

use super::stack_context::{self, StackContext};
use crate::coroutine::overflow;
use crate::coroutine::stack::Reserved;
use warpweft_task::{OnStackJob, Running, StackRunner};

/// Starts a fiber on the thread that runs its task, on a stack of that thread.
pub(crate) struct FiberStart;

/// Starts a fiber on a stack that was reserved when it was spawned.
pub(crate) struct StartOn(pub(crate) Reserved);

impl StackRunner for FiberStart {
    #[inline]
    fn start(self, job: OnStackJob) {
        start(job, None);
    }

    fn runs(task: Option<Running>) {
        note_running(task);
    }
}

impl StackRunner for StartOn {
    fn start(self, job: OnStackJob) {
        start(job, Some(self.0));
    }

    fn runs(task: Option<Running>) {
        note_running(task);
    }
}

#[inline]
fn start(job: OnStackJob, reserved: Option<Reserved>) {
    overflow::OF_POOLS.watch(stack_context::label_here);
    let Some(context) = stack_context::here().filter(|context| context.label().is_none()) else {
        // On top of a fiber that cannot switch, where no spare thread was available: it runs as a job.
        return job.run();
    };
    if let Err((job, _)) = context.fibers().start(context, job, reserved) {
        job.refuse();
    }
}

fn note_running(task: Option<Running>) {
    if let Some(fiber) = stack_context::here().and_then(StackContext::fiber) {
        fiber.set_task(task);
    }
}

/// Keeps the calling frame from being unwound at a wait, if it is on a fiber: another thread works on it.
pub(crate) struct NoUnwindGuard;

impl NoUnwindGuard {
    pub(crate) fn new() -> Self {
        stack_context::hold(true);
        Self
    }

    /// Ends the protection: no other thread works on the frame any more.
    pub(crate) fn end(self) {
        std::mem::forget(self);
        stack_context::hold(false);
    }
}

impl Drop for NoUnwindGuard {
    fn drop(&mut self) {
        // A panic unwinds through the frame all the same.
        std::process::abort();
    }
}
