//! A handled body as the rest of the runtime sees it: a link of the chain of those that run on a thread.
//!
//! An effect's handler runs a body on a stack of its own (`effect/body.rs`). The body begins with its link,
//! through which the runtime learns what a report says of the stack, and which pool a thread had entered
//! below it.
//!
//! # Invariants
//!
//! - A link is in the chain while its body runs, and no longer. Its runner's frame keeps it for that time.
//! - `outer` and `entered` are of the present run.

use crate::coroutine::overflow::Label;
use crate::pool::current::WorkerRef;
use std::cell::Cell;
use std::ptr;
use warpweft_platform::thread_word;

/// See the [module](self). The first field of a handled body.
#[derive(Debug)]
pub(crate) struct BodyLink {
    /// The body on whose stack it runs, or null.
    pub(crate) outer: Cell<*const Self>,
    /// The pool that its runner has entered, or null.
    pub(crate) entered: Cell<*const WorkerRef>,
    label: Label,
}

// The innermost handled body that runs on this thread, which is of no pool.
thread_word!(static OUTSIDE: *const BodyLink = ptr::null());

impl BodyLink {
    /// Of a body that does not run yet.
    pub(crate) fn new(label: Label) -> Self {
        Self {
            outer: Cell::new(ptr::null()),
            entered: Cell::new(ptr::null()),
            label,
        }
    }

    /// What a report says of the body's stack.
    pub(crate) fn label(&self) -> &Label {
        &self.label
    }
}

/// On a thread of no pool: from now on that body is the innermost one that runs here.
pub(crate) fn set_outside(link: *const BodyLink) {
    OUTSIDE.with(|word| word.set(link));
}

/// The innermost handled body that runs on this thread, which is of no pool, or null.
pub(crate) fn outside() -> *const BodyLink {
    OUTSIDE.with(Cell::get)
}
