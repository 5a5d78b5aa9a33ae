//! Yielding to other tasks.

use crate::pool::current::{GaveWay, WorkerRef, with_current};
use std::pin::Pin;
use std::task::{Context, Poll};
use warpweft_policy::YieldTo;

/// Yields: the task returns to a queue, which its pool's policy chooses for yielded tasks, and runs again
/// after others.
///
/// Returns at once if the policy reports that nothing else is ready for this worker. Outside of a worker it
/// makes the executor poll once more.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     warpweft::yield_now().await;
/// });
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow::new(GaveWay::AsUsual)
}

/// A *soft* yield: yields as [`yield_now`], but stays with this worker, even if the policy moves other
/// yielded tasks. For a task that continues soon with what is in the cache.
///
/// A policy with only one place for tasks that yield puts it there.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(warpweft::yield_soft());
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn yield_soft() -> YieldNow {
    YieldNow::new(GaveWay::To(YieldTo::Local))
}

/// A *hard* yield: yields as [`yield_now`], and lets any worker continue the task, after everything that is
/// ready anywhere; under `shortest`, after what is as short. For a task that polls for a condition which does
/// not hold yet.
///
/// A policy with only one place for tasks that yield puts it there.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(warpweft::yield_hard());
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn yield_hard() -> YieldNow {
    YieldNow::new(GaveWay::To(YieldTo::Global))
}

/// Returns true if nothing else is ready for this worker, as far as its policy tells: [`yield_now`] would
/// return at once.
///
/// A task whose result comes within microseconds, from a place that has to be looked at, goes on looking
/// meanwhile: nobody loses by it, and it is not suspended. It asks again between two looks. Now and then this
/// polls for sockets and timers, and the tasks that these wake are ready, too. It is false outside of
/// a worker. Costs about as much as a yield that returns at once.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let asks = runtime.spawn(async { warpweft::is_only_ready() });
/// println!("nothing else is ready: {}", asks.wait()?);
/// assert!(!warpweft::is_only_ready(), "this thread carries no worker");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn is_only_ready() -> bool {
    with_current(|worker_ref| worker_ref.is_some_and(WorkerRef::is_only_ready))
}

/// The future of [`yield_now`], [`yield_soft`] and [`yield_hard`].
#[derive(Debug)]
#[must_use = "a yield does nothing unless it is awaited"]
pub struct YieldNow {
    way: GaveWay,
    yielded: bool,
}

impl YieldNow {
    fn new(way: GaveWay) -> Self {
        Self { way, yielded: false }
    }
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        let is_only_ready = with_current(|worker_ref| {
            worker_ref.is_some_and(|worker_ref| {
                let is_only_ready = worker_ref.is_only_ready();
                worker_ref
                    .yielding
                    .set(if is_only_ready { GaveWay::No } else { self.way });
                is_only_ready
            })
        });
        if is_only_ready {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
