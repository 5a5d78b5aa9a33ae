//! Reports of panics that end in a frame or a promise, and not with a task.
//!
//! A report is made where a panic is caught, so nothing here runs without one.

use crate::effect::Discontinued;
use crate::execution::stack_context;
use crate::fork::jobs::Panic;
use crate::pool::panics::Outcome;
use std::any::Any;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use warpweft_task::{Cancelled, TaskKind, TaskPanic, Unwound};

/// Returns true if a stack unwinds with that payload because it must end: that is no panic.
pub(crate) fn is_end(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Unwound>() || payload.is::<Cancelled>() || payload.is::<Discontinued>()
}

/// Reports to the pool of the calling stack. Returns true if panics cancel the other tasks of a scope there.
fn report(panic: &mut TaskPanic) -> bool {
    let Some(context) = stack_context::here() else {
        return false;
    };
    let core = context.fibers().pool().core();
    let told = core.panicked(panic);
    panic.set_told(told);
    if panic.kind() == TaskKind::Fork {
        // No joiner gets it. Unwind: the standard error may be closed.
        let _ = catch_unwind(AssertUnwindSafe(|| panic.write_unless_told()));
    }
    core.cancels_scopes()
}

/// Makes the panic of a future that was spawned at `site`, and reports it. Returns it, and whether it cancels
/// the other tasks of its scope.
#[cold]
#[inline(never)]
pub(crate) fn of_future(payload: Panic, site: &'static Location<'static>) -> (TaskPanic, bool) {
    let is_end = is_end(&*payload);
    let mut panic = TaskPanic::new(TaskKind::Future, None, Some(site), payload);
    let cancels = !is_end && report(&mut panic);
    (panic, cancels)
}

/// Reports a panic of a closure that has no place to continue, because another panic has it, and drops it.
#[cold]
#[inline(never)]
pub(crate) fn report_displaced(payload: Panic) {
    let mut panic = TaskPanic::new(TaskKind::Fork, None, None, payload);
    if !is_end(panic.payload()) {
        report(&mut panic);
    }
    // Unwind: a panic's payload may panic in its own `Drop`. The payload of that panic is leaked.
    let dropped: Outcome<()> = catch_unwind(AssertUnwindSafe(|| drop(panic.into_payload())));
    if let Err(payload) = dropped {
        std::mem::forget(payload);
    }
}
