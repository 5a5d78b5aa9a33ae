//! Deadlines: tokens that cancel themselves.

#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
use super::left_deadlines;
use super::token::{CancelToken, Cancelled, current};
use crate::cancel_tree::node::{Limits, Node, Reason};
use crate::time::{Sleep, sleep_until};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use warpweft_platform::clock;

/// Cancels a node at its deadline.
struct AtDeadline(Weak<Node>);

impl Wake for AtDeadline {
    fn wake(self: Arc<Self>) {
        if let Some(node) = self.0.upgrade() {
            ends(&node);
        }
    }
}

/// Cancels the node, whose timer is over, at its deadline. A runtime that shuts down wakes its timers early.
fn ends(node: &Arc<Node>) {
    if node.limits().deadline_ns <= clock::now_ns() {
        node.cancel(Reason::Deadline);
    } else {
        // The checkers have no time that passes.
        #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
        left_deadlines::keep(node);
    }
}

impl CancelToken {
    /// Creates a child that is cancelled at `deadline` by itself, or at the deadline of this token if that is
    /// earlier. The error is [a deadline's](Cancelled::is_deadline) then.
    ///
    /// Costs a timer beside the child, in the runtime of the caller or else in the default one. If that one
    /// shuts down before, a thread of the process keeps the deadline, until it or the token is gone.
    ///
    /// # Panics
    ///
    /// As a [`Sleep`]: if there can be no timer here.
    #[must_use]
    pub fn with_deadline(&self, deadline: Instant) -> Self {
        let deadline_ns = clock::ns_at(deadline);
        let limits = self.0.limits();
        if limits.deadline_ns <= deadline_ns {
            return self.child();
        }
        let node = Node::child(
            [Some(&self.0), None],
            Limits {
                deadline_ns,
                ..limits
            },
        );
        let mut sleep: Sleep = sleep_until(deadline);
        let waker = Waker::from(Arc::new(AtDeadline(Arc::downgrade(&node))));
        match Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => node.keep_timer(Box::new(sleep)),
            Poll::Ready(()) => ends(&node),
        }
        Self(node)
    }

    /// Returns true if the token cancels itself at some time.
    #[must_use]
    pub fn has_deadline(&self) -> bool {
        self.0.limits().deadline_ns != u64::MAX
    }
}

/// A child of the token that counts here, or of none, with that deadline.
fn until(deadline: Instant) -> CancelToken {
    current().unwrap_or_default().with_deadline(deadline)
}

/// Calls `f` under a token that is cancelled at `deadline`, for closures and fibers: see
/// [`CancelToken::run`]. Of nested deadlines the earliest counts.
///
/// The deadline stops `f` where it forks, waits or asks. Code that does none of these after the deadline
/// gives its value all the same, late and complete, as `Ok`.
///
/// # Errors
///
/// [`Cancelled`], if `f` was stopped.
///
/// # Panics
///
/// If `f` does, or as [`CancelToken::with_deadline`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use warpweft::{Runtime, cancel, fiber, time::sleep};
///
/// let runtime = Runtime::builder().workers(1).build()?;
/// let fiber = runtime.spawn_fiber(|| {
///     let soon = Instant::now() + Duration::from_millis(5);
///     cancel::with_deadline(soon, || fiber::wait(sleep(Duration::from_secs(3600))))
/// });
/// assert!(fiber.wait()?.is_err_and(|error| error.is_deadline()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_deadline<T>(deadline: Instant, f: impl FnOnce() -> T) -> Result<T, Cancelled> {
    until(deadline).run(f)
}

/// Runs `future` under a token that is cancelled at `deadline`: see [`CancelToken::run_async`]. Of nested
/// deadlines the earliest counts.
///
/// Unlike [`timeout_at`](crate::time::timeout_at) it reaches all that the future spawns, and the future may
/// have a grace. A poll that computes beyond the deadline and then has the value gives it as `Ok`.
///
/// # Errors
///
/// [`Cancelled`], if the future was stopped.
///
/// # Panics
///
/// If the future does, or as [`CancelToken::with_deadline`].
///
/// ```
/// use std::time::{Duration, Instant};
/// use warpweft::{Runtime, cancel, time::sleep};
///
/// let runtime = Runtime::builder().workers(1).build()?;
/// let outcome = runtime.block_on(async {
///     let soon = Instant::now() + Duration::from_millis(5);
///     cancel::with_deadline_async(soon, sleep(Duration::from_secs(3600))).await
/// });
/// assert!(outcome.is_err_and(|error| error.is_deadline()));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub async fn with_deadline_async<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Cancelled> {
    until(deadline).run_async(future).await
}
