//! Giving way to other tasks.

use crate::pool::current::{GaveWay, with_current};
use std::pin::Pin;
use std::task::{Context, Poll};
use warpweft_policy::YieldTo;

/// Gives way: the task goes back to a queue, where its pool's policy wants yielded tasks, and runs again
/// after others.
///
/// Returns at once if the policy says that nothing else is ready for this worker. Outside of a worker it lets
/// the executor poll once more.
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

/// A *soft* yield: gives way as [`yield_now`], and stays with this worker, whatever the policy does with
/// others. For a task that goes on soon, with what it has in the cache.
///
/// A policy that has but one place for tasks that yield puts it there.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(warpweft::yield_soft());
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn yield_soft() -> YieldNow {
    YieldNow::new(GaveWay::To(YieldTo::Local))
}

/// A *hard* yield: gives way as [`yield_now`], and lets any worker go on with the task, after what is ready
/// everywhere. For a task that looks whether it can do something, and cannot.
///
/// A policy that has but one place for tasks that yield puts it there.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(warpweft::yield_hard());
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn yield_hard() -> YieldNow {
    YieldNow::new(GaveWay::To(YieldTo::Global))
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
        let alone = with_current(|worker_ref| {
            worker_ref.is_some_and(|worker_ref| {
                let alone = worker_ref.alone();
                worker_ref
                    .yielding
                    .set(if alone { GaveWay::No } else { self.way });
                alone
            })
        });
        if alone {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
