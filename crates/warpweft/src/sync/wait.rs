//! [`Wait`]: one wait, which can be awaited or blocked on.

use crate::execution::block_on::block_on;
use crate::execution::stack_context::is_on_fiber;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

/// A wait, as a future, and with a method for callers that cannot await.
///
/// ```
/// use warpweft::sync::Mutex;
///
/// let mutex = Mutex::new(1);
/// *mutex.lock().wait() += 1;
/// warpweft::block_on(async { *mutex.lock().await += 1 });
/// assert_eq!(mutex.into_inner(), 3);
/// ```
///
/// Dropping it cancels the wait at any point: what it had been granted goes to the next waiter.
#[derive(Debug)]
#[must_use = "nothing is waited for unless it is awaited, or `.wait()` is called"]
pub struct Wait<F>(F);

impl<F: Future> Wait<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(future)
    }

    /// Blocks this thread until the wait is over. In a task, another thread takes its worker meanwhile, as
    /// [`block_on`] explains, so one worker is enough for tasks that wait for each other. If it need not
    /// wait, it costs no more than awaiting.
    pub fn wait(self) -> F::Output {
        if is_on_fiber() {
            // This caller has a waker already.
            return block_on(self.0);
        }
        let mut future = pin!(self.0);
        // The next poll replaces the waker that does nothing, and finds whatever was granted in between.
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => block_on(future),
        }
    }
}

impl<F: Future> Future for Wait<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is pinned with the value around it, which has no `Drop` and never moves it out
        // when pinned.
        unsafe { self.map_unchecked_mut(|wait| &mut wait.0) }.poll(cx)
    }
}

/// A future whose result is converted. (An `async` block would do, but costs twice as much for a free lock.)
pub(crate) struct Mapped<F, M> {
    future: F,
    map: Option<M>,
}

impl<F: Future, T, M: FnOnce(F::Output) -> T> Mapped<F, M> {
    #[inline]
    pub(crate) fn new(future: F, map: M) -> Self {
        Self {
            future,
            map: Some(map),
        }
    }
}

// Only the future could need pinning, and it is `Unpin` where it is polled.
impl<F, M> Unpin for Mapped<F, M> {}

impl<F: Future + Unpin, T, M: FnOnce(F::Output) -> T> Future for Mapped<F, M> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let output = ready!(Pin::new(&mut self.future).poll(cx));
        let Some(map) = self.map.take() else {
            unreachable!("the future inside has refused to be polled again")
        };
        Poll::Ready(map(output))
    }
}
