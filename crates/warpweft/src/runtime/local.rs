//! Futures that are not `Send`: each stays on the thread on which it was made.
//!
//! # Invariant
//!
//! The future is made, polled and dropped in one frame of a fiber that has started, and such a fiber stays on
//! its thread. So no other thread ever touches what the future holds.

use crate::execution::block_on::block_on;
use crate::execution::fiber::Fiber;
use crate::execution::stack_context::{self, StackContext};
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::pin;
use warpweft_task::Cancelled;

/// Runs a future to its end in the calling fiber. If the fiber's task was cancelled, the next wake-up unwinds
/// the frame, which drops the future.
pub(crate) fn run_local<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    block_on(poll_fn(|cx| {
        if is_cancelled() {
            resume_unwind(Box::new(Cancelled));
        }
        future.as_mut().poll(cx)
    }))
}

fn is_cancelled() -> bool {
    let fiber = stack_context::here().and_then(StackContext::fiber);
    fiber.is_some_and(Fiber::is_cancelled)
}
