//! The handled bodies that run on this thread, innermost first, and what free functions find below them.

use super::body_link::{self, BodyLink};
use super::stack_context::{self, StackContext, with_stack_context};
use crate::coroutine::overflow::{self, Label};
use crate::pool::current::WorkerRef;
use std::ptr;

/// Overflows of handled bodies' stacks are reported from now on.
pub(crate) fn watch_overflows() {
    overflow::OF_POOLS.watch(stack_context::label_here);
    overflow::OUTSIDE.watch(label_outside);
}

/// The innermost handled body that runs here, or null.
pub(crate) fn innermost() -> *const BodyLink {
    stack_context::here().map_or_else(body_link::outside, StackContext::body)
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
    let link = unsafe { body_link::outside().as_ref() };
    link.map_or(ptr::null(), |link| ptr::from_ref(link.label()))
}

/// What free functions find on a thread that no longer visits: the worker that it carries *now*.
pub(crate) fn found_here() -> *const WorkerRef {
    entered_below()
        .unwrap_or_else(|| with_stack_context(|context| context.map_or(ptr::null(), StackContext::found)))
}
