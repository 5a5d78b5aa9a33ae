//! Tasks that come to a pool after it has closed, and end on the stack that brings them.
//!
//! The end of the pool waits for them. So what they hold must not wait for that end, as the drop of the last
//! share of a runtime would: it finds out here.
//!
//! The end of a task may bring the next one: that of a handle which cancels its task, of a channel, of a
//! scope. A chain of tasks would need a frame for each. So above [`DEPTH`] frames a task is left to a frame
//! of its pool that is there already, which ends one after the other.

use super::stack_context::here;
use std::cell::{Cell, RefCell};
use std::ptr;
use warpweft_platform::thread_word;
use warpweft_task::{Abandon, Runnable};

/// How many frames end tasks on one stack before tasks are left to the frames that are there. It is not the
/// first one that takes them all: a destructor may wait for the task whose end it has brought about. On a
/// thread of a pool it ends that then: see [`end_all_left`].
const DEPTH: usize = 64;

/// A pool for which a stack ends a task, and the frame below that does so, too.
struct LateEnd {
    pool: *const (),
    below: *const Self,
    /// The number of frames up to this one.
    depth: usize,
    /// What was left to it, the latest last.
    rest: RefCell<Vec<Runnable>>,
}

impl LateEnd {
    /// Ends what was left to this frame, also what comes meanwhile.
    fn end_rest(&self) {
        loop {
            // The borrow ends here: the task may leave others to this frame.
            let next = self.rest.borrow_mut().pop();
            match next {
                Some(task) => task.abandon(Abandon::Shutdown),
                None => return,
            }
        }
    }
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

/// Returns the frames of the calling stack, the youngest first.
fn frames<'stack>() -> impl Iterator<Item = &'stack LateEnd> {
    let youngest: *const LateEnd = with_place(Cell::get).cast();
    // SAFETY: frames are of this stack, and each is taken out before it ends.
    std::iter::successors(unsafe { youngest.as_ref() }, |frame| unsafe {
        frame.below.as_ref()
    })
}

/// Ends a task of the pool at that address, or leaves it to a frame of this stack that ends others of the
/// pool. It does not unwind.
pub(crate) fn end_late_of(pool: *const (), task: Runnable) {
    let depth = frames().next().map_or(0, |frame| frame.depth) + 1;
    if depth > DEPTH
        && let Some(frame) = frames().find(|frame| ptr::eq(frame.pool, pool))
    {
        return frame.rest.borrow_mut().push(task);
    }
    let frame = LateEnd {
        pool,
        below: with_place(Cell::get).cast(),
        depth,
        rest: RefCell::default(),
    };
    with_place(|place| place.set((&raw const frame).cast()));
    task.abandon(Abandon::Shutdown);
    frame.end_rest();
    with_place(|place| place.set(frame.below.cast()));
}

/// Ends all tasks that were left to frames of the calling stack, which is about to wait: perhaps for one of
/// them.
pub(crate) fn end_all_left() {
    frames().for_each(LateEnd::end_rest);
}

/// Returns true if the calling stack ends a task of the pool at that address.
pub(crate) fn ends_late_for(pool: *const ()) -> bool {
    frames().any(|frame| ptr::eq(frame.pool, pool))
}
