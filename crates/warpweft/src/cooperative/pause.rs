//! Yielding by `await`.

use super::budget::refill;
use crate::execution::stack_context;
use crate::pool::current::{GaveWay, with_current};
use std::future::poll_fn;
use std::task::Poll;

/// Code whose check is due awaits this: the task goes where its policy puts tasks that have yielded.
///
/// Unlike [`yield_now`](crate::yield_now) it yields even if nothing else is ready, so that a task that was
/// cancelled is dropped on its way.
#[doc(hidden)]
#[cold]
pub fn pause() -> impl Future<Output = ()> + Send + Sync {
    let mut waited = false;
    poll_fn(move |cx| {
        refill();
        if waited || stack_context::here().is_some_and(|context| !context.may_act()) {
            return Poll::Ready(());
        }
        waited = true;
        with_current(|worker_ref| {
            worker_ref.inspect(|worker_ref| worker_ref.yielding.set(GaveWay::AsUsual));
        });
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}
