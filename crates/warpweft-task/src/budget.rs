//! How many operations in a row may be ready within one poll before the future lets others go.
//!
//! A future whose input never runs dry would never return to its worker: a time limit around it would not be
//! looked at, a cancellation would not reach it, and the tasks behind it would wait. So the last operation of
//! a long row is pending, and wakes its task.
//!
//! The count is that of the thread. It begins anew with each step of a task, and when a row was ended here: a
//! future that is polled by something else is pending once in so many operations. A poll within a poll begins
//! it anew as well: then a row is longer.
//!
//! Locks and permits are not counted: a free one is taken in a few nanoseconds, and the count was half as
//! much again. A future that takes them in a loop until something changes has to yield by itself.
//!
//! The source is the cooperative budget of tokio.

use std::cell::Cell;
use std::task::{Context, Poll};
use warpweft_platform::thread_word;

/// The length of a row.
const MOST: u32 = 128;
/// Models have no rows: a further poll would multiply their executions.
const COUNTS: bool = !cfg!(any(warpweft_loom, warpweft_shuttle));

thread_word!(static LEFT: u32 = MOST);
// True if a row was ended, and `take_pause` has not been called since.
thread_word!(static PAUSED: bool = false);

/// Begins anew: a future is about to be polled.
#[inline]
pub(crate) fn begin() {
    if COUNTS {
        LEFT.with(|left| left.set(MOST));
    }
}

/// Spends a part of the budget on an operation that may be ready. Returns pending, after it has woken the
/// task, if nothing is left: the operation is not begun then.
#[inline]
pub fn poll_budget(cx: &Context<'_>) -> Poll<()> {
    if !COUNTS {
        return Poll::Ready(());
    }
    let left = LEFT.with(Cell::get);
    if left == 0 {
        return pause(cx);
    }
    LEFT.with(|place| place.set(left - 1));
    Poll::Ready(())
}

#[cold]
fn pause(cx: &Context<'_>) -> Poll<()> {
    begin();
    PAUSED.with(|paused| paused.set(true));
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Returns true if a row was ended on this thread since the last call. A stack that polls for itself, and
/// finds that it was woken meanwhile, lets others go then.
#[inline]
#[must_use]
pub fn take_pause() -> bool {
    COUNTS && PAUSED.with(|paused| paused.replace(false))
}
