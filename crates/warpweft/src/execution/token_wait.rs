//! Waits under a token: of futures, of threads, and of handles.

use super::fiber::Fiber;
use super::stack_context::{StackContext, here};
use super::token::{inherited, may_stop_thread, unwind};
use crate::cancel_tree::node::Node;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use warpweft_task::StoppableWait;

/// How a handle waits under a token, unless it is on a fiber that may switch: that one looks at its token
/// itself.
pub(super) static WAIT_UNDER_TOKEN: StoppableWait = |look| {
    let switches = here()
        .and_then(StackContext::fiber)
        .is_some_and(Fiber::may_switch);
    match inherited().filter(|_| !switches) {
        None => false,
        Some(node) => {
            let is_ready = |is: bool| if is { Poll::Ready(()) } else { Poll::Pending };
            block_under(node, poll_fn(|cx| is_ready(look(cx))));
            true
        }
    }
};

/// Runs `future` on a thread's own stack until it has a result. Unwinds if the token is cancelled before.
#[cold]
#[inline(never)]
pub(crate) fn block_under<F: Future>(node: Arc<Node>, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut waiting = TokenWait { node, place: None };
    let ended = warpweft_task::block_on(poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if waiting.is_over(cx.waker()) && may_stop_thread() {
            return Poll::Ready(None);
        }
        Poll::Pending
    }));
    drop(waiting);
    ended.unwrap_or_else(|| unwind())
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
