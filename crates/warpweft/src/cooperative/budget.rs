//! The rest of a thread's quantum, and what a check does when it is used up.
//!
//! # Invariants
//!
//! - The budget belongs to the thread, not to the task: a switch, and the start of a task, do not change it.
//!   It is refilled where a check is due, which is the only place with that cost.
//! - Code that is uncooperative, panicking, or a hook of a policy neither switches nor unwinds.

use crate::execution::stack_context::{self, StackContext};
use crate::execution::token::{self, UncooperativeCall};
use crate::threads::quantum::Quantum;
use std::cell::Cell;
use std::panic::resume_unwind;
use warpweft_platform::thread_word;
use warpweft_task::{Cancelled, Unwound, is_job_cancelled};

// The rest of the quantum. It starts at 0: the first check of a thread finds out what its quantum is.
thread_word!(static BUDGET: i32 = 0);

/// Takes `statements` from the budget. If nothing is left, yields or stops.
#[doc(hidden)]
#[allow(clippy::inline_always, reason = "a call would be more than the check")]
#[inline(always)]
pub fn check(statements: i32) {
    if is_due(statements) {
        due();
    }
}

/// Takes `statements` from the budget. Returns true if nothing is left.
#[doc(hidden)]
#[allow(clippy::inline_always, reason = "as `check`")]
#[inline(always)]
#[must_use]
pub fn is_due(statements: i32) -> bool {
    BUDGET.with(|budget| {
        let left = budget.get().wrapping_sub(statements);
        budget.set(left);
        left < 0
    })
}

/// Returns the rest.
#[inline]
pub(crate) fn left() -> i32 {
    BUDGET.with(Cell::get)
}

/// Takes a number of statements that [`left`] has reported.
#[inline]
pub(crate) fn set_left(left: i32) {
    BUDGET.with(|budget| budget.set(left));
}

/// Begins a quantum.
pub(crate) fn refill() {
    let quantum = stack_context::here().map_or_else(Quantum::usual, |context| context.fibers().quantum());
    set_left(quantum.statements());
}

/// Handles a budget that is used up, in code that does not await.
#[cold]
#[inline(never)]
fn due() {
    refill();
    let Some(context) = stack_context::here() else {
        return token::check();
    };
    if !context.may_act() {
        return;
    }
    stop_if_told(context);
    // Without a worker, in `blocking` or on a detached thread, it delays no other task.
    if context.worker_ref().is_some() && context.give_way() {
        // Other tasks have used the budget up meanwhile.
        refill();
        stop_if_told(context);
    }
}

/// Unwinds code under a cancelled token, a cancelled job or fiber, and a job of a runtime that shuts down. A
/// fiber of such a runtime is unwound where it switches.
fn stop_if_told(context: &StackContext) {
    if !cfg!(panic = "unwind") {
        return;
    }
    if context.is_stopped() {
        token::unwind();
    }
    let (cancelled, unwound) = match (context.fiber(), is_job_cancelled()) {
        (Some(fiber), _) => (fiber.is_cancelled(), false),
        (None, Some(cancelled)) => (cancelled, context.fibers().pool().is_closing()),
        (None, None) => (false, false),
    };
    if cancelled {
        resume_unwind(Box::new(Cancelled));
    }
    if unwound {
        resume_unwind(Box::new(Unwound));
    }
}

/// Calls `f` without checks: neither `f` nor what it calls switches or stops at one. What `f` takes from the
/// budget is not counted.
///
/// Uncooperative calls may be nested, and may panic. If `f` waits, other tasks run meanwhile, and yield as
/// usual.
///
/// ```
/// # #[cfg(feature = "macros")] {
/// use std::sync::Mutex;
/// use warpweft::{cooperative, uncooperative};
///
/// #[cooperative]
/// fn sum(numbers: &[u64]) -> u64 {
///     let mut sum = 0;
///     for number in numbers {
///         sum += number;
///     }
///     sum
/// }
///
/// let numbers = Mutex::new(vec![1, 2, 3]);
/// // Another fiber of this thread that wants the lock would block it for ever, if this one were suspended.
/// assert_eq!(uncooperative(|| sum(&numbers.lock().unwrap())), 6);
/// # }
/// ```
pub fn uncooperative<T>(f: impl FnOnce() -> T) -> T {
    struct Ends(i32);
    impl Drop for Ends {
        fn drop(&mut self) {
            set_left(self.0);
        }
    }
    let _call = UncooperativeCall::begin();
    let _ends = Ends(left());
    f()
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{check, is_due, left, set_left, uncooperative};
    use std::panic::catch_unwind;

    #[test]
    fn statements_are_taken_until_nothing_is_left() {
        set_left(10);
        assert!(!is_due(4) && !is_due(6) && is_due(1));
        check(1);
        assert_eq!(left(), 30_000, "of a thread of no pool");
    }

    #[test]
    fn uncooperative_code_leaves_the_budget_as_it_was_also_by_a_panic() {
        set_left(7);
        uncooperative(|| {
            uncooperative(|| check(100));
            check(1000);
        });
        assert_eq!(left(), 7);
        let panicked = catch_unwind(|| {
            uncooperative(|| {
                check(5);
                std::panic::resume_unwind(Box::new(1));
            })
        });
        assert!(panicked.is_err());
        assert_eq!(left(), 7);
    }
}
