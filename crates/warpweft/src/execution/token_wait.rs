//! Waits under a token: of futures, of threads, and of handles.

use super::fiber::Fiber;
use super::stack_context::{StackContext, here};
use super::token::{inherited, may_stop_thread, unwind};
use crate::cancel_tree::node::Node;
use std::sync::Arc;
use std::task::Waker;
use warpweft_task::{PollOnce, StoppableWait, block_until};

/// How a handle waits under a token, unless it is on a fiber that may switch: that one looks at its token
/// itself.
pub(super) static WAIT_UNDER_TOKEN: StoppableWait = |look| {
    let switches = here()
        .and_then(StackContext::fiber)
        .is_some_and(Fiber::may_switch);
    match inherited().filter(|_| !switches) {
        None => false,
        Some(node) => {
            block_under(node, look);
            true
        }
    }
};

/// Calls the closure on a thread's own stack until it returns true. Unwinds if the token is cancelled before.
#[cold]
#[inline(never)]
pub(crate) fn block_under(node: Arc<Node>, look: PollOnce<'_>) {
    let mut waiting = TokenWait { node, place: None };
    let mut has_ended = false;
    block_until(&mut |cx| {
        has_ended = look(cx);
        has_ended || waiting.is_over(cx.waker()) && may_stop_thread()
    });
    drop(waiting);
    if !has_ended {
        unwind();
    }
}

/// A future's waker in a node.
#[derive(Debug)]
pub(crate) struct TokenWait {
    pub(crate) node: Arc<Node>,
    pub(crate) place: Option<usize>,
}

impl TokenWait {
    /// Returns true if the node is cancelled. Otherwise the waker is called when it is.
    pub(crate) fn is_over(&mut self, waker: &Waker) -> bool {
        if self.node.is_cancelled() {
            return true;
        }
        match self.place {
            Some(place) => self.node.renew_waker(place, waker),
            None => self.place = self.node.insert_waker(waker.clone()),
        }
        self.node.is_cancelled()
    }
}

impl Drop for TokenWait {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.node.remove_waker(place);
        }
    }
}
