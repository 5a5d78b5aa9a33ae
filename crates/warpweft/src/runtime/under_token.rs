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
use crate::execution::token::{TokenWait, UNWINDS, poll_under, unwind};
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

/// Ends as `None` if the token was cancelled, and the future dropped.
pub(crate) struct UnderToken<F> {
    /// `None` once it has ended. Pinned.
    future: Option<F>,
    waiting: TokenWait,
    /// True once it has waited for the cancellation itself: then it is granted the grace.
    listens: bool,
    /// When it is dropped, once it was asked to end.
    ends_ns: Option<u64>,
    grace: Option<Grace>,
}

impl<F: Future> UnderToken<F> {
    pub(crate) fn new(node: Arc<Node>, future: F) -> Self {
        Self {
            future: Some(future),
            waiting: TokenWait { node, place: None },
            listens: false,
            ends_ns: None,
            grace: None,
        }
    }

    /// Returns true if the future was asked, and its grace is over. Otherwise the waker is called then.
    fn is_over(&mut self, waker: &Waker) -> bool {
        if !self.waiting.is_over(waker) {
            return false;
        }
        let now = clock::now_ns();
        let grace_ns = if self.listens {
            self.waiting.node.limits().grace_ns
        } else {
            0
        };
        let ends_ns = *self.ends_ns.get_or_insert(now.saturating_add(grace_ns));
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

impl<F: Future> Future for UnderToken<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the future inside is not moved: it is polled in its place, and dropped there.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(future) = &mut this.future else {
            panic!("a future was polled again after it had ended");
        };
        // It never starts after a cancellation.
        let never_ran = this.waiting.place.is_none() && this.ends_ns.is_none();
        if never_ran && this.waiting.node.is_cancelled() && UNWINDS {
            this.future = None;
            return Poll::Ready(None);
        }
        // SAFETY: it is pinned with the value around it.
        let future = unsafe { Pin::new_unchecked(future) };
        let node = &this.waiting.node;
        // Unwind: the future is dropped below, or the panic continues.
        let polled = catch_unwind(AssertUnwindSafe(|| poll_under(node, || future.poll(cx))));
        match polled {
            Ok((Poll::Ready(output), _)) => {
                this.future = None;
                return Poll::Ready(Some(output));
            }
            Ok((Poll::Pending, listens)) => this.listens |= listens,
            Err(payload) => {
                let is_cancelled = payload.is::<Cancelled>() && node.is_cancelled();
                this.future = None;
                if is_cancelled {
                    return Poll::Ready(None);
                }
                resume_unwind(payload);
            }
        }
        if !this.is_over(cx.waker()) {
            return Poll::Pending;
        }
        this.grace = None;
        this.future = None;
        Poll::Ready(None)
    }
}

/// A task's future under the token that its spawner had. If it is cancelled, the task's joiner gets
/// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
pub(crate) struct Inherits<F>(UnderToken<F>);

impl<F: Future> Inherits<F> {
    pub(crate) fn new(node: Arc<Node>, future: F) -> Self {
        Self(UnderToken::new(node, future))
    }
}

impl<F: Future> Future for Inherits<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: only the field inside needs pinning, and nothing moves it.
        let inside = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
        inside.poll(cx).map(|ended| ended.unwrap_or_else(|| unwind()))
    }
}
