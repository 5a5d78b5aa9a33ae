//! The handle of a future that belongs to a scope, and the way of the future's panic to it or to the scope.
//!
//! # Invariants
//!
//! - The handle that is awaited takes the panic. If the panic is dropped on any other way, it becomes its
//!   scope's. So it is in one place, or has been raised.

use super::panics::{of_future, report_displaced};
use crate::execution::block_on::block_on;
use crate::fork::jobs::{FirstPanic, Panic, note};
use crate::pool::panics::Outcome;
use crate::sync::oneshot;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use warpweft_task::{Cancelled, JoinError, TaskPanic};

/// A scope of futures, as it is told of their panics.
pub(crate) trait FutureScope {
    /// Returns the place for the first panic that no handle takes.
    fn first_panic(&self) -> &FirstPanic;
    /// Cancels the other futures, if they can be cancelled.
    fn cancel_others(&self);
}

/// The scope that receives a panic of its futures.
pub(crate) enum PanicLocation<'scope> {
    Borrowed(&'scope (dyn FutureScope + Sync)),
    Shared(Arc<dyn FutureScope + Send + Sync>),
}

impl PanicLocation<'_> {
    fn scope(&self) -> &dyn FutureScope {
        match self {
            Self::Borrowed(scope) => *scope,
            Self::Shared(scope) => &**scope,
        }
    }
}

/// A panic on its way to the handle.
pub(crate) struct PanicOfFuture<'scope> {
    panic: Option<TaskPanic>,
    scope: PanicLocation<'scope>,
}

impl<'scope> PanicOfFuture<'scope> {
    /// Reports the panic of a future that was spawned at `site`.
    #[cold]
    #[inline(never)]
    fn new(payload: Panic, scope: PanicLocation<'scope>, site: &'static Location<'static>) -> Self {
        let (panic, cancels) = of_future(payload, site);
        if cancels {
            scope.scope().cancel_others();
        }
        let panic = Some(panic);
        Self { panic, scope }
    }
}

impl Drop for PanicOfFuture<'_> {
    fn drop(&mut self) {
        if let Some(panic) = self.panic.take() {
            let told = panic.is_told();
            match note(self.scope.scope().first_panic(), panic.into_payload()) {
                // Unwind: a panic's payload may panic in its own `Drop`.
                Some(second) if told => drop(catch_unwind(AssertUnwindSafe(|| drop(second)))),
                Some(second) => report_displaced(second),
                None => {}
            }
        }
    }
}

/// Runs a future, and catches its panic as the outcome.
pub(crate) async fn caught<F: Future>(future: F) -> Outcome<F::Output> {
    let mut future = pin!(future);
    // Unwind: a future that has panicked is not polled again.
    let poll = |cx: &mut Context<'_>| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    };
    poll_fn(poll).await
}

/// Runs a future of a scope, and sends its outcome.
pub(crate) async fn answered<'scope, F: Future>(
    future: F,
    sender: oneshot::Sender<Result<F::Output, PanicOfFuture<'scope>>>,
    scope: PanicLocation<'scope>,
    site: &'static Location<'static>,
) {
    let outcome = caught(future)
        .await
        .map_err(|payload| PanicOfFuture::new(payload, scope, site));
    // If the handle was dropped, a value is dropped here, and a panic becomes the scope's.
    drop(sender.send(outcome));
}

/// The handle of a future that belongs to a scope: of [`Scope::spawn_future`](crate::Scope::spawn_future) or
/// [`AsyncScope::spawn`](crate::AsyncScope::spawn).
///
/// Await it in another future of the scope, or [`wait`](Self::wait) for it in the scope's body. Dropping it
/// does not affect the future: its scope waits for it.
///
/// A panic of the future arrives here as [`JoinError::Panicked`]. If the handle is dropped before that, the
/// scope gets the panic. A future that was dropped before its end, with its scope or its pool, returns
/// [`JoinError::Cancelled`].
///
/// # Panics
///
/// Polling it again after it has returned its result panics, as with most futures.
#[must_use = "dropping it gives a panic of the future to its scope; say `drop(handle)` if that is meant"]
pub struct ScopedHandle<'scope, T>(oneshot::Receiver<Result<T, PanicOfFuture<'scope>>>);

impl<'scope, T> ScopedHandle<'scope, T> {
    pub(crate) fn new(receiver: oneshot::Receiver<Result<T, PanicOfFuture<'scope>>>) -> Self {
        Self(receiver)
    }

    /// Blocks until the future has ended, and returns its result. In a task, another thread takes the worker
    /// meanwhile; in a fiber, the thread switches to other work.
    ///
    /// # Errors
    ///
    /// The future panicked, or was dropped before its end.
    pub fn wait(self) -> Result<T, JoinError> {
        block_on(self)
    }
}

impl<T> Future for ScopedHandle<'_, T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(mut thrown)) => Err(match thrown.panic.take() {
                Some(panic) if !panic.payload().is::<Cancelled>() => JoinError::Panicked(panic),
                _ => JoinError::Cancelled,
            }),
            Err(_) => Err(JoinError::Cancelled),
        })
    }
}

impl<T> fmt::Debug for ScopedHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedHandle").finish_non_exhaustive()
    }
}
