//! Futures that borrow, as tasks of a scope that waits for them.
//!
//! ```text
//!   scope ◀──── counts ──── RemoteJob       one task: the future in its box, then the pinned task
//!     ▲                       ▲
//!     └ waits        dropped or ended after the future
//! ```
//!
//! # Invariants
//!
//! - The future, with all that it borrows and holds, is dropped before its pinned task ends, and the scope
//!   waits for the pinned task. So nothing borrowed is reached after the scope: not by a waker, which may
//!   live longer, nor by a pool that ends.
//! - The result is in a promise, which borrows what the future borrows.

use super::scope::{RemoteJob, Scope};
use super::scoped_handle::{FutureScope, PanicLocation, ScopedHandle, answered};
use crate::execution::token;
use crate::fork::jobs::FirstPanic;
use crate::observe::tasks;
use crate::runtime::under_token::Inherits;
use crate::sync::oneshot;
use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use warpweft_task::Why;

type BorrowedFuture<'scope> = Pin<Box<dyn Future<Output = ()> + Send + 'scope>>;

/// A future of a scope, as a task. The order of the fields drops the future before its pinned task.
struct Borrowing {
    /// `None` after the future has ended.
    future: Option<BorrowedFuture<'static>>,
    pinned: Option<RemoteJob>,
}

impl Future for Borrowing {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        // Unwind: only the destructor of the future or of its result panics here. The panic continues in the
        // scope's frame.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        if matches!(polled, Ok(Poll::Pending)) {
            return Poll::Pending;
        }
        let future = self.future.take();
        // Unwind: the panic continues in the scope's frame.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
        if let Some(pinned) = self.pinned.take() {
            polled
                .err()
                .or(dropped.err())
                .into_iter()
                .for_each(|panic| pinned.note(panic));
            pinned.end();
        }
        Poll::Ready(())
    }
}

impl FutureScope for Scope<'_, '_> {
    fn first_panic(&self) -> &FirstPanic {
        self.panic_place()
    }

    fn cancel_others(&self) {
        // They borrow from the frame, and are promised to run.
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a future as a task, which may borrow whatever lives longer than the scope. Its handle returns
    /// its result: [wait](ScopedHandle::wait) for it in the body, or await it in other futures of the scope,
    /// or drop it.
    ///
    /// The scope ends when the future has ended, so the frame that is borrowed from exists for as long as the
    /// future is polled. A scope that is itself a future could not promise that, because it may be dropped or
    /// forgotten at any time. See [`scope_async`](crate::scope_async) for futures that own what they use.
    ///
    /// Costs three allocations: the task, the future and the promise of its result.
    ///
    /// A panic of the future arrives at its handle. If the handle was dropped, the scope panics when all
    /// futures have ended. The scope also panics if the pool is shut down before the future has ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// use warpweft::time::sleep;
    ///
    /// let names = [String::from("a"), String::from("bc")];
    /// let lengths: usize = warpweft::scope(|scope| {
    ///     let requests: Vec<_> = names
    ///         .iter()
    ///         .map(|name| {
    ///             scope.spawn_future(async move {
    ///                 sleep(Duration::from_millis(1)).await; // a remote request
    ///                 name.len()
    ///             })
    ///         })
    ///         .collect();
    ///     requests.into_iter().map(|request| request.wait().unwrap()).sum()
    /// });
    /// assert_eq!(lengths, 3);
    /// ```
    #[track_caller]
    pub fn spawn_future<F>(&'scope self, future: F) -> ScopedHandle<'scope, F::Output>
    where
        F: Future<Output: Send + 'scope> + Send + 'scope,
    {
        let (sender, receiver) = oneshot::channel();
        let lent: BorrowedFuture<'scope> = Box::pin(answered(
            future,
            sender,
            PanicLocation::Borrowed(self),
            Location::caller(),
        ));
        // SAFETY: only the lifetime changes. The future is dropped before its pinned task ends, and the scope
        // waits for that.
        let future = unsafe { mem::transmute::<BorrowedFuture<'scope>, BorrowedFuture<'static>>(lent) };
        let (pinned, info) = self.pinned_task();
        let node = pinned.token();
        let task = Borrowing {
            future: Some(future),
            pinned: Some(pinned),
        };
        // SAFETY: a frame older than the scope keeps the token.
        let task = Inherits::new(unsafe { token::shared(node) }, task);
        // SAFETY: the owner's thread keeps the pool alive, and waits for the task.
        let (task, _) = unsafe { tasks::future(task, info) };
        task.push(Why::Spawned);
        ScopedHandle::new(receiver)
    }
}
