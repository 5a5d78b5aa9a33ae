//! The handled bodies that run on this thread, as the rest of the runtime sees them: a chain of links, innermost first.
//!
//! An effect's handler runs a body on a stack of its own (`effect/body.rs`). The body begins with its link, through which the runtime learns
//! what a report says of the stack, and which pool a thread had entered below it.
//!
//! # Invariants
//!
//! - A link is in the chain while its body runs, and no longer. Its runner's frame keeps it for that time.
//! - `outer` and `entered` are of the present run.

use super::stack_context::{self, StackContext};
use crate::coroutine::overflow::{self, Label};
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
    /// Of a body that does not run yet. Overflows of its stack are reported from now on.
    pub(crate) fn new(label: Label) -> Self {
        overflow::OF_POOLS.watch(stack_context::label_here);
        overflow::OUTSIDE.watch(label_outside);
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

/// The innermost handled body that runs here, or null.
pub(crate) fn innermost() -> *const BodyLink {
    stack_context::here().map_or_else(|| OUTSIDE.with(Cell::get), StackContext::body)
}

/// On a thread of no pool: from now on that body is the innermost one that runs here.
pub(crate) fn set_outside(link: *const BodyLink) {
    OUTSIDE.with(|word| word.set(link));
}

/// The handled bodies that run here, innermost first.
pub(crate) fn chain<'run>() -> impl Iterator<Item = &'run BodyLink> {
    // SAFETY: null, or the link of a body that is being run, whose runner keeps it.
    let next = |link: *const BodyLink| unsafe { link.as_ref() };
    std::iter::successors(next(innermost()), move |link| next(link.outer.get()))
}

/// The pool that the runner of the bodies here has entered. What the bodies enter themselves does not count.
pub(crate) fn entered_below() -> Option<*const WorkerRef> {
    chain()
        .map(|link| link.entered.get())
        .find(|worker_ref| !worker_ref.is_null())
}

/// The label of the body that runs on this thread, which is of no pool; null: there is none.
fn label_outside() -> *const Label {
    // SAFETY: as in `chain`.
    let link = unsafe { OUTSIDE.with(Cell::get).as_ref() };
    link.map_or(ptr::null(), |link| ptr::from_ref(link.label()))
}
