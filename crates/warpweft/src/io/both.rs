//! Two operations at a time.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

/// Awaits both, side by side in this task. The first error ends it.
pub(crate) async fn both<A, B>(
    one: impl Future<Output = io::Result<A>>,
    other: impl Future<Output = io::Result<B>>,
) -> io::Result<(A, B)> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(result) = one.as_mut().poll(cx)
        {
            first = Some(result?);
        }
        if second.is_none()
            && let Poll::Ready(result) = other.as_mut().poll(cx)
        {
            second = Some(result?);
        }
        match (first.take(), second.take()) {
            (Some(one), Some(other)) => Poll::Ready(Ok((one, other))),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
