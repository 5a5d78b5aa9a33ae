//! Parallel streams: the futures of a stream as a limited number of tasks at a time, and pipelines of them.
//!
//! ```
//! use warpweft::stream::{ParStream, next};
//! # use std::{pin::Pin, task::{Context, Poll}};
//! # struct Numbers(std::ops::Range<u32>);
//! # impl futures_core::Stream for Numbers {
//! #     type Item = u32;
//! #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
//! #         Poll::Ready(self.0.next())
//! #     }
//! # }
//!
//! let runtime = warpweft::Runtime::builder().workers(2).build()?;
//! runtime.block_on(async {
//!     let squares = Numbers(0..100).map_each(|n| async move { n * n });
//!     let mut squares = squares.par_buffered(8)?;
//!     let mut sum = 0;
//!     while let Some(square) = next(&mut squares).await {
//!         sum += square?; // a task's panic is its item
//!     }
//!     assert_eq!(sum, 328_350);
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | you want | call |
//! |---|---|
//! | the results in the order of the stream | [`par_buffered`](ParStream::par_buffered) |
//! | each result as soon as it is there | [`par_buffered_unordered`](ParStream::par_buffered_unordered) |
//! | several steps, each with a bound | [`pipeline`] |
//!
//! # What is promised
//!
//! - **Each item is a separate task**, on the pool of the caller that polls, or outside of any pool on the
//!   [default runtime](crate::default_runtime). If that cannot be built, the poll panics.
//! - **At most `limit`** futures have been taken from the source and not returned as results. A limit of 0 is
//!   an error, [`NoRoom`].
//! - **Nothing is lost.** Each item of the source comes out, as a result or as a [`JoinError`]. The panic of
//!   one item is that item, and the others continue. When the source ends, running tasks come out first.
//! - **Errors of the source** are items like others, if its items are `Result`s. They keep their place in the
//!   order.
//! - **Dropping** a stream cancels its tasks, which end at their next suspension point. Nothing waits for
//!   them.
//! - A waker that outlives the pool may be called; it does nothing.
//!
//! Sources have to be `Unpin`: `Box::pin` makes them so.
//!
//! | file | job |
//! |---|---|
//! | `ordered`, `unordered` | the two forms |
//! | `pipeline` | stages |

#[cfg(doctest)]
mod must_not_compile;
pub(crate) mod ordered;
pub(crate) mod pipeline;
pub(crate) mod unordered;

pub use ordered::ParBuffered;
pub use pipeline::{Pipeline, Run, pipeline};
pub use unordered::ParUnordered;

use futures_core::Stream;
use std::fmt;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
#[cfg(doc)]
use warpweft_task::JoinError;

/// The error of a limit or a capacity of 0, with which no task could ever run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoRoom {
    /// The stage of a pipeline, from 1; `None` for a stream that is no pipeline.
    pub stage: Option<usize>,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stage {
            Some(stage) => write!(f, "stage {stage} of the pipeline has a capacity of 0")?,
            None => f.write_str("a parallel stream has a limit of 0")?,
        }
        f.write_str(": no item could ever be under way; it has to be at least 1")
    }
}

impl std::error::Error for NoRoom {}

/// Parallel operations of streams.
pub trait ParStream: Stream + Sized + Unpin {
    /// Converts each item, for example to a future.
    fn map_each<T, F: FnMut(Self::Item) -> T + Unpin>(self, f: F) -> MapEach<Self, F> {
        MapEach { stream: self, f }
    }

    /// Spawns each future of the stream as a task, at most `limit` at a time, and returns the results in
    /// order.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the limit is 0.
    #[track_caller]
    fn par_buffered(self, limit: usize) -> Result<ParBuffered<Self>, NoRoom>
    where
        Self::Item: Future<Output: Send + 'static> + Send + 'static,
    {
        // In a closure this would be the place of the closure.
        let site = Location::caller();
        let room = (limit > 0).then_some(()).ok_or(NoRoom { stage: None });
        room.map(|()| ParBuffered::new(self, limit, site))
    }

    /// Spawns each future of the stream as a task, at most `limit` at a time, and returns each result as soon
    /// as it is there.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the limit is 0.
    #[track_caller]
    fn par_buffered_unordered(self, limit: usize) -> Result<ParUnordered<Self>, NoRoom>
    where
        Self::Item: Future<Output: Send + 'static> + Send + 'static,
    {
        // In a closure this would be the place of the closure.
        let site = Location::caller();
        let room = (limit > 0).then_some(()).ok_or(NoRoom { stage: None });
        room.map(|()| ParUnordered::new(self, limit, site))
    }
}

impl<S: Stream + Unpin> ParStream for S {}

/// Returns the next item of a stream.
pub async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

/// A stream of converted items; made by [`ParStream::map_each`].
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct MapEach<S, F> {
    stream: S,
    f: F,
}

impl<S: Stream + Unpin, T, F: FnMut(S::Item) -> T + Unpin> Stream for MapEach<S, F> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let item = ready!(Pin::new(&mut self.stream).poll_next(cx));
        Poll::Ready(item.map(|item| (self.f)(item)))
    }
}
