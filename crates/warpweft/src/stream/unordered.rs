//! The futures of a stream as tasks, each result as soon as it is there.
//!
//! ```text
//!   slots:  [task] [    ] [task] [task]        a task that is about to end sends the number of its slot,
//!              ▲             │                 whatever it ends by; then its handle is asked
//!              └── ending ◀──┘
//! ```
//!
//! # Invariants
//!
//! - A slot has a task until its result was returned; `free` has the others. Never more than `limit` tasks.
//! - Each task sends its number once, when its future has been dropped or shortly before, so `ending` has
//!   each slot at most once.

use crate::fork_join::abort_on_drop::AbortOnDrop;
use crate::sync::channel::incoming::Incoming;
use crate::sync::channel::{self, Sender};
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use warpweft_task::JoinError;

/// The results of a stream's futures, in order of completion; made by
/// [`ParStream::par_buffered_unordered`](super::ParStream::par_buffered_unordered).
#[must_use = "streams do nothing unless polled"]
pub struct ParUnordered<S>
where
    S: Stream<Item: Future>,
{
    /// `None` after it has ended.
    source: Option<S>,
    slots: Vec<Option<AbortOnDrop<<S::Item as Future>::Output>>>,
    free: Vec<usize>,
    /// Slots whose tasks are about to end, or have ended.
    ending: VecDeque<usize>,
    sender: Sender<usize>,
    announced: Incoming<usize>,
    limit: usize,
    site: &'static Location<'static>,
}

/// Reports the end of a task.
struct Announce {
    slot: usize,
    to: Sender<usize>,
}

impl Drop for Announce {
    fn drop(&mut self) {
        // The stream may be gone.
        let _ = self.to.try_send(self.slot);
    }
}

impl<S> ParUnordered<S>
where
    S: Stream<Item: Future>,
{
    pub(super) fn new(source: S, limit: usize, site: &'static Location<'static>) -> Self {
        let (sender, receiver) = channel::unbounded();
        Self {
            source: Some(source),
            slots: Vec::new(),
            free: Vec::new(),
            ending: VecDeque::new(),
            sender,
            announced: receiver.into_stream(),
            limit,
            site,
        }
    }

    fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl<S> ParUnordered<S>
where
    S: Stream<Item: Future<Output: Send + 'static> + Send + 'static>,
{
    fn spawn(&mut self, future: S::Item) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let announce = Announce {
            slot,
            to: self.sender.clone(),
        };
        let task = async move {
            let _announce = announce;
            future.await
        };
        self.slots[slot] = Some(AbortOnDrop::spawn(task, self.site));
    }

    /// Polls the task in a slot for its result.
    fn result(&mut self, slot: usize, cx: &mut Context<'_>) -> Poll<<Self as Stream>::Item>
    where
        S: Unpin,
    {
        let Some(task) = &mut self.slots[slot] else {
            unreachable!("a slot is announced once, by its task");
        };
        let result = std::task::ready!(Pin::new(task).poll(cx));
        self.slots[slot] = None;
        self.free.push(slot);
        Poll::Ready(result)
    }
}

// The source must be `Unpin` where it is polled; the tasks are elsewhere.
impl<S: Stream<Item: Future>> Unpin for ParUnordered<S> {}

impl<S> Stream for ParUnordered<S>
where
    S: Stream<Item: Future<Output: Send + 'static> + Send + 'static> + Unpin,
{
    type Item = Result<<S::Item as Future>::Output, JoinError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        while this.under_way() < this.limit
            && let Some(source) = &mut this.source
        {
            match Pin::new(source).poll_next(cx) {
                Poll::Ready(Some(future)) => this.spawn(future),
                Poll::Ready(None) => this.source = None,
                Poll::Pending => break,
            }
        }
        while let Poll::Ready(Some(slot)) = Pin::new(&mut this.announced).poll_next(cx) {
            this.ending.push_back(slot);
        }
        for at in 0..this.ending.len() {
            if let Poll::Ready(result) = this.result(this.ending[at], cx) {
                this.ending.remove(at);
                return Poll::Ready(Some(result));
            }
        }
        if this.source.is_none() && this.under_way() == 0 {
            return Poll::Ready(None);
        }
        Poll::Pending
    }
}

impl<S: Stream<Item: Future>> fmt::Debug for ParUnordered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParUnordered")
            .field("under_way", &self.under_way())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
