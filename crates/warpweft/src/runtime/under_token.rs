//! A future under a token: it is asked to end, and dropped if it has not done so after a grace. A future that
//! never waited for the cancellation itself gets no grace, because it cannot know.
//!
//! ```text
//!   runs ── the token is cancelled: polled once more ──▶ asked ── the grace is over ──▶ gone
//!     └──────────────────── ready ◀────────────────────────┘
//! ```

use super::current_driver::current_driver;
use crate::cancel_tree::node::Node;
use crate::driver::core::Driver;
use crate::driver::timers::TimerKey;
use crate::execution::token::{UNWINDS, call_under, unwind};
use crate::execution::token_wait::TokenWait;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use warpweft_platform::clock;
use warpweft_task::Cancelled;

/// A timer that is removed when this is dropped.
struct Grace(Arc<Driver>, TimerKey);

impl Drop for Grace {
    fn drop(&mut self) {
        // In a forked child the wheel is the parent's, and its lock may be lost.
        if self.0.check().is_ok() {
            self.0.timers().cancel(self.1);
        }
    }
}

/// How far the cancellation of a future is: whether its token was cancelled, and when it is dropped then.
struct CancelState {
    waiting: TokenWait,
    /// True once the future has waited for the cancellation itself: then it is granted the grace.
    listens: bool,
    /// When the future is dropped, once it was asked to end.
    ends_ns: Option<u64>,
    grace: Option<Grace>,
}

impl CancelState {
    fn new(node: Arc<Node>) -> Self {
        Self {
            waiting: TokenWait { node, place: None },
            listens: false,
            ends_ns: None,
            grace: None,
        }
    }

    /// Returns true if the token was cancelled before the future was polled. It never starts then.
    fn never_starts(&self) -> bool {
        let never_ran = self.waiting.place.is_none() && self.ends_ns.is_none();
        never_ran && self.waiting.node.is_cancelled() && UNWINDS
    }

    /// Returns true if the future, which was polled under the token, is to be polled no more: it was asked
    /// to end, was polled since, and its grace is over. Otherwise the waker is called then. `asked` is true
    /// if the token was cancelled before it was polled just now, and `listens` if it has just waited for the
    /// cancellation itself.
    #[cold]
    fn is_over(&mut self, asked: bool, listens: bool, waker: &Waker) -> bool {
        self.listens |= listens;
        if !self.waiting.is_over(waker) {
            return false;
        }
        let now = clock::now_ns();
        let is_first = self.ends_ns.is_none();
        let grace_ns = if self.listens {
            self.waiting.node.limits().grace_ns
        } else {
            0
        };
        let ends_ns = *self.ends_ns.get_or_insert(now.saturating_add(grace_ns));
        if is_first && !asked {
            // It may have what it waited for by now: it is polled once more.
            waker.wake_by_ref();
            return false;
        }
        if ends_ns <= now {
            return true;
        }
        if let Some(Grace(driver, timer)) = &self.grace
            && driver.check().is_ok()
            && driver.timers().renew(*timer, waker)
        {
            return false;
        }
        // Without a driver the runtime is ending, and does not wait for graces.
        let Ok((driver, worker)) = current_driver() else {
            return true;
        };
        self.grace = driver
            .set_timer(worker, ends_ns, waker.clone())
            .map(|timer| Grace(driver, timer));
        self.grace.is_none()
    }
}

/// Ends as `None` if the token was cancelled, and the future dropped.
pub(crate) struct UnderToken<F> {
    /// `None` once it has ended. Pinned.
    future: Option<F>,
    cancel_state: CancelState,
}

impl<F: Future> UnderToken<F> {
    pub(crate) fn new(node: Arc<Node>, future: F) -> Self {
        Self {
            future: Some(future),
            cancel_state: CancelState::new(node),
        }
    }
}

impl<F: Future> Future for UnderToken<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future inside is not moved: it is polled in its place, and dropped there.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(future) = &mut this.future else {
            panic!("a future was polled again after it had ended");
        };
        if this.cancel_state.never_starts() {
            this.future = None;
            return Poll::Ready(None);
        }
        // SAFETY: it is pinned with the value around it.
        let future = unsafe { Pin::new_unchecked(future) };
        let node = &this.cancel_state.waiting.node;
        let asked = node.is_cancelled();
        // Unwind: the future is dropped below, or the panic continues.
        let polled = catch_unwind(AssertUnwindSafe(|| call_under(Some(node), || future.poll(cx))));
        let output = match polled {
            Ok((Poll::Ready(output), _)) => Some(output),
            Ok((Poll::Pending, listens)) => {
                if !this
                    .cancel_state
                    .is_over(asked, listens == Some(true), cx.waker())
                {
                    return Poll::Pending;
                }
                this.cancel_state.grace = None;
                None
            }
            Err(payload) => {
                let is_cancelled = payload.is::<Cancelled>() && node.is_cancelled();
                this.future = None;
                if !is_cancelled {
                    resume_unwind(payload);
                }
                None
            }
        };
        this.future = None;
        Poll::Ready(output)
    }
}

/// A task's future under the token that its spawner had, if there was one. If it is cancelled, the task's
/// joiner gets [`JoinError::Cancelled`](crate::JoinError::Cancelled).
///
/// It is one type with a token and without, so each future is compiled into one kind of task.
pub(crate) struct Inherits<F> {
    future: F,
    cancel_state: Option<Box<CancelState>>,
}

impl<F: Future> Inherits<F> {
    #[inline]
    pub(crate) fn new(node: Option<Arc<Node>>, future: F) -> Self {
        let cancel_state = node.map(|node| Box::new(CancelState::new(node)));
        Self { future, cancel_state }
    }
}

impl<F: Future> Future for Inherits<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future inside is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: it is pinned with the value around it.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        if this
            .cancel_state
            .as_deref()
            .is_some_and(CancelState::never_starts)
        {
            unwind();
        }
        // The task drops the future, also if this unwinds.
        let node = this.cancel_state.as_deref().map(|state| &state.waiting.node);
        let asked = node.is_some_and(|node| node.is_cancelled());
        let (polled, listens) = call_under(node, || future.poll(cx));
        if let Some(listens) = listens
            && UNWINDS
            && polled.is_pending()
            && let Some(state) = &mut this.cancel_state
            && state.is_over(asked, listens, cx.waker())
        {
            unwind();
        }
        polled
    }
}
