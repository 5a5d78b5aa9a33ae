//! Futures that borrow, as tasks of a scope that waits for them.
//!
//! ```text
//!   scope ◀──── counts ──── Errand          one task: the future in its box, then the pinned task
//!     ▲                       ▲
//!     └ waits        dropped or ended after the future
//! ```
//!
//! # Invariants
//!
//! - The future, and all that it borrows and holds, is dropped before its pinned task ends; the scope waits
//!   for the pinned task. So nothing borrowed is reached after the scope: not by a waker, which may live on,
//!   nor by a pool that ends.
//! - The result is in a promise, which is as borrowed as the future.

use super::scope::{RemoteJob, Scope};
use super::scoped_handle::{PanicLocation, ScopedHandle, answered};
use crate::sync::oneshot;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use warpweft_task::Why;
use warpweft_task::spawn as tasks;

type Borrowed<'scope> = Pin<Box<dyn Future<Output = ()> + Send + 'scope>>;

/// A future of a scope, as a task: in this order, so that the future is dropped before its pinned task.
struct Borrowing {
    /// `None`: it has ended.
    future: Option<Borrowed<'static>>,
    pinned: Option<RemoteJob>,
}

impl Future for Borrowing {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        // Unwind: what panics is the destructor of the future or of its result; it goes on in the scope's
        // frame.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        if matches!(polled, Ok(Poll::Pending)) {
            return Poll::Pending;
        }
        let future = self.future.take();
        // Unwind: as above.
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

impl<'scope> Scope<'scope, '_> {
    /// Adds a future, as a task of its own, which may borrow whatever lives longer than the scope. Its handle
    /// gives its result: [wait](ScopedHandle::wait) for it in the body, or await it in other futures of the
    /// scope; or do neither.
    ///
    /// The scope ends when the future has ended, so the frame that is borrowed from is there for as long as
    /// it is polled. (A scope that is itself a future could not promise that: it may be dropped at any time,
    /// and forgotten. See [`scope_async`](crate::scope_async) for futures that own what they use.)
    ///
    /// Costs three allocations: the task, the future and the promise of its result.
    ///
    /// A panic of the future is that of whoever awaits the handle; if nobody does, the scope's, when all have
    /// ended. If the pool is shut down before the future has ended, the scope panics.
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
        let lent: Borrowed<'scope> = Box::pin(answered(
            future,
            sender,
            PanicLocation::Borrowed(self.first_panic()),
        ));
        // SAFETY: only the lifetime changes. The future is dropped before its pinned task ends, and the scope
        // waits for that.
        let future = unsafe { mem::transmute::<Borrowed<'scope>, Borrowed<'static>>(lent) };
        let (pinned, info) = self.give_errand();
        let task = Borrowing {
            future: Some(future),
            pinned: Some(pinned),
        };
        // SAFETY: the owner's thread keeps the pool alive, and waits for the task.
        let (task, handle) = unsafe { tasks::future(task, info) };
        drop(handle);
        task.push(Why::Spawned);
        ScopedHandle::new(receiver)
    }
}
