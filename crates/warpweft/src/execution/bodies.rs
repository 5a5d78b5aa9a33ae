//! The handled bodies that run on this thread, innermost first, and what free functions find below them.

use super::body_link::{self, BodyLink};
use super::stack_context::{self, StackContext, with_stack_context};
use crate::coroutine::overflow::{self, Label};
use crate::pool::current::WorkerRef;
use std::ptr;

/// Makes overflows of handled bodies' stacks reported from now on.
pub(crate) fn watch_overflows() {
    overflow::OF_POOLS.watch(stack_context::label_here);
    overflow::OUTSIDE.watch(label_outside);
}

/// Returns the innermost handled body that runs on this thread, or null. A task that runs on top of a body
/// which waits is in none.
pub(crate) fn innermost() -> *const BodyLink {
    stack_context::here().map_or_else(body_link::outside, StackContext::innermost_body)
}

/// Returns the handled bodies that run on this thread, innermost first.
pub(crate) fn chain<'run>() -> impl Iterator<Item = &'run BodyLink> {
    // SAFETY: null, or the link of a body that is being run, whose runner keeps it.
    let next = |link: *const BodyLink| unsafe { link.as_ref() };
    std::iter::successors(next(innermost()), move |link| next(link.outer.get()))
}

/// Returns the pool that the runner of these bodies has entered. Pools that the bodies enter themselves do
/// not count.
pub(crate) fn entered_below() -> Option<*const WorkerRef> {
    chain()
        .map(|link| link.entered.get())
        .find(|worker_ref| !worker_ref.is_null())
}

/// Returns the label of the body that runs on this thread, which belongs to no pool; null if there is none.
fn label_outside() -> *const Label {
    // SAFETY: as in `chain`.
    let link = unsafe { body_link::outside().as_ref() };
    link.map_or(ptr::null(), |link| ptr::from_ref(link.label()))
}

/// Returns what free functions find on a thread that has left the pool it entered: the worker that it carries
/// *now*.
pub(crate) fn found_here() -> *const WorkerRef {
    entered_below()
        .unwrap_or_else(|| with_stack_context(|context| context.map_or(ptr::null(), StackContext::found)))
}
