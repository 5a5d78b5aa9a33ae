//! The futures of a stream as tasks, their results in order.
//!
//! # Invariants
//!
//! - `tasks` are in the order of the source; never more than `limit`.
//! - Each task ends with the stream: it is cancelled if its result was not returned yet.

use crate::fork_join::abort_on_drop::AbortOnDrop;
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use warpweft_task::JoinError;

/// The results of a stream's futures, in order; made by
/// [`ParStream::par_buffered`](super::ParStream::par_buffered).
#[must_use = "streams do nothing unless polled"]
pub struct ParBuffered<S>
where
    S: Stream<Item: Future>,
{
    /// `None` after it has ended.
    source: Option<S>,
    tasks: VecDeque<AbortOnDrop<<S::Item as Future>::Output>>,
    limit: usize,
    site: &'static Location<'static>,
}

impl<S> ParBuffered<S>
where
    S: Stream<Item: Future>,
{
    pub(super) fn new(source: S, limit: usize, site: &'static Location<'static>) -> Self {
        Self {
            source: Some(source),
            tasks: VecDeque::new(),
            limit,
            site,
        }
    }
}

impl<S> ParBuffered<S>
where
    S: Stream<Item: Future<Output: Send + 'static> + Send + 'static> + Unpin,
{
    /// Spawns futures of the source, as far as there is room.
    pub(super) fn fill(&mut self, cx: &mut Context<'_>) {
        while self.tasks.len() < self.limit
            && let Some(source) = &mut self.source
        {
            match Pin::new(source).poll_next(cx) {
                Poll::Ready(Some(future)) => self.tasks.push_back(AbortOnDrop::spawn(future, self.site)),
                Poll::Ready(None) => self.source = None,
                Poll::Pending => break,
            }
        }
    }
}

// The source must be `Unpin` where it is polled; the tasks are elsewhere.
impl<S: Stream<Item: Future>> Unpin for ParBuffered<S> {}

impl<S> Stream for ParBuffered<S>
where
    S: Stream<Item: Future<Output: Send + 'static> + Send + 'static> + Unpin,
{
    type Item = Result<<S::Item as Future>::Output, JoinError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        this.fill(cx);
        let Some(oldest) = this.tasks.front_mut() else {
            return if this.source.is_none() {
                Poll::Ready(None)
            } else {
                Poll::Pending
            };
        };
        let result = ready!(Pin::new(oldest).poll(cx));
        this.tasks.pop_front();
        Poll::Ready(Some(result))
    }
}

impl<S: Stream<Item: Future>> fmt::Debug for ParBuffered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParBuffered")
            .field("under_way", &self.tasks.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
