//! Futures in which nothing is ever pending: whatever they await has waited, in direct style, before it
//! answers.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// What the future comes to.
pub(super) fn direct<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("no verb of those who wait in direct style is pending"),
    }
}
