//! A handled body as the rest of the runtime sees it: a link in the chain of the bodies that run on a thread.
//!
//! An effect's handler runs a body on a separate stack (`effect/body.rs`). The body begins with its link.
//! Through it the runtime learns the label of the stack, for reports, and which pool the thread had entered
//! below it.
//!
//! # Invariants
//!
//! - A link is in the chain while its body runs, and no longer. Its runner's frame keeps it for that time.
//! - `outer` and `entered` belong to the present run.

use crate::coroutine::overflow::Label;
use crate::pool::current::WorkerRef;
use std::cell::Cell;
use std::ptr;
use warpweft_platform::thread_word;

/// See the [module](self). The first field of a handled body.
#[derive(Debug)]
pub(crate) struct BodyLink {
    /// The body on whose stack this one runs, or null.
    pub(crate) outer: Cell<*const Self>,
    /// The pool that its runner has entered, or null.
    pub(crate) entered: Cell<*const WorkerRef>,
    label: Label,
}

// The innermost handled body that runs on this thread, which belongs to no pool.
thread_word!(static OUTSIDE: *const BodyLink = ptr::null());

impl BodyLink {
    /// Creates the link of a body that does not run yet.
    pub(crate) fn new(label: Label) -> Self {
        Self {
            outer: Cell::new(ptr::null()),
            entered: Cell::new(ptr::null()),
            label,
        }
    }

    pub(crate) fn label(&self) -> &Label {
        &self.label
    }
}

/// Makes that body the innermost one of this thread, which belongs to no pool.
pub(crate) fn set_outside(link: *const BodyLink) {
    OUTSIDE.with(|word| word.set(link));
}

/// Returns the innermost handled body of this thread, which belongs to no pool, or null.
pub(crate) fn outside() -> *const BodyLink {
    OUTSIDE.with(Cell::get)
}
