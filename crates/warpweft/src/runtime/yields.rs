//! Giving way to other tasks.

use super::context::with_current;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Gives way: the task goes back to a queue, where its pool's policy wants yielded tasks, and runs again after others.
///
/// Returns at once if the policy says that nothing else is ready for this worker. Outside of a worker it lets the
/// executor poll once more.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     warpweft::yield_now().await;
/// });
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "a yield does nothing unless it is awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        let alone = with_current(|front| {
            front.is_some_and(|front| {
                let alone = front.alone();
                front.yielding.set(!alone);
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
