//! Tasks that come to a pool after it has closed, and end on the stack that brings them.
//!
//! The end of the pool waits for them. So what they hold must not wait for that end, as the drop of the last
//! share of a runtime would: it finds out here.

use super::stack_context::here;
use std::cell::Cell;
use std::ptr;
use warpweft_platform::thread_word;

/// A pool for which a stack ends a task, and the frame below that does so, too.
struct LateEnd {
    pool: *const (),
    below: *const Self,
}

// That of a thread's own stack, outside of all pools.
thread_word!(static OUTSIDE: *const () = ptr::null());

/// Calls `f` with the place where the calling stack keeps its latest [`LateEnd`].
fn with_place<R>(f: impl FnOnce(&Cell<*const ()>) -> R) -> R {
    match here() {
        Some(context) => f(&context.late_end),
        None => OUTSIDE.with(f),
    }
}

/// Calls `end`, which ends a task of the pool at that address. It does not unwind.
pub(crate) fn end_late_of(pool: *const (), end: impl FnOnce()) {
    let frame = LateEnd {
        pool,
        below: with_place(Cell::get).cast(),
    };
    with_place(|place| place.set((&raw const frame).cast()));
    end();
    with_place(|place| place.set(frame.below.cast()));
}

/// Returns true if the calling stack ends a task of the pool at that address.
pub(crate) fn ends_late_for(pool: *const ()) -> bool {
    let mut frame: *const LateEnd = with_place(Cell::get).cast();
    // SAFETY: frames are of this stack, and each is taken out before it ends.
    while let Some(end) = unsafe { frame.as_ref() } {
        if ptr::eq(end.pool, pool) {
            return true;
        }
        frame = end.below;
    }
    false
}
