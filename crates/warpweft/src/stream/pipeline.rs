//! Pipelines: stages, each with a limited number of running tasks, which continue while the consumer is busy.
//!
//! ```text
//!   source ─▶ [ f · f · f ] ─▶ one place ─▶ [ g · g ] ─▶ one place ─▶ consumer
//!              driver 1, cap 3               driver 2, cap 2
//! ```
//!
//! Each stage is a [`ParBuffered`] that a separate task drives. A stage holds at most its capacity and two: a
//! result in the place behind it, and one with the task that drives it. Then it takes nothing more, and so do
//! the stages before it.
//!
//! # Invariants
//!
//! - Stages pass values, or errors: an item that failed passes through in its place.
//! - A driver ends with its stage, and a stage with its reader: dropping the end of a pipeline cancels all of
//!   it.

use super::ordered::ParBuffered;
use super::{NoRoom, ParStream, next};
use crate::fork_join::abort_on_drop::AbortOnDrop;
use crate::fork_join::panics::of_future;
use crate::sync::channel;
use crate::sync::channel::incoming::Incoming;
use futures_core::Stream;
use std::convert::identity;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use warpweft_task::JoinError;

/// Items in order, each with a value or an error.
type Flow<T> = Pin<Box<dyn Stream<Item = Result<T, JoinError>> + Send>>;

/// A pipeline under construction; made by [`pipeline`].
#[must_use = "a pipeline does nothing before it is built and polled"]
pub struct Pipeline<T> {
    flow: Flow<T>,
    stages: usize,
    fault: Option<NoRoom>,
}

/// A pipeline, as the stream of its results; made by [`Pipeline::build`].
#[must_use = "streams do nothing unless polled"]
pub struct Run<T>(Flow<T>);

/// Starts a pipeline with the items of a stream.
///
/// ```
/// use warpweft::stream::{next, pipeline};
/// use warpweft::sync::channel;
///
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// runtime.block_on(async {
///     let (sender, names) = channel::unbounded();
///     for name in ["a", "bb", "ccc"] {
///         sender.send(name).await?;
///     }
///     drop(sender);
///     let mut lengths = pipeline(names.into_stream())
///         .stage(4, |name: &str| async move { name.len() }) // at most 4 at a time: fetch, say
///         .stage(2, |length| async move { length * 10 }) //    at most 2: compute
///         .build()?;
///     let mut all = Vec::new();
///     while let Some(length) = next(&mut lengths).await {
///         all.push(length?);
///     }
///     assert_eq!(all, [10, 20, 30]);
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Nothing runs before the first poll. From then on the stages run independently, as far as their capacities
/// allow. A panic of the source ends it: earlier items come out first, then the panic as a
/// [`JoinError::Panicked`].
#[track_caller]
pub fn pipeline<S>(source: S) -> Pipeline<S::Item>
where
    S: Stream<Item: Send + 'static> + Unpin + Send + 'static,
{
    Pipeline {
        flow: Box::pin(SourceStream(Some(source), Location::caller())),
        stages: 0,
        fault: None,
    }
}

impl<T: Send + 'static> Pipeline<T> {
    /// Adds a stage: `f` makes a future of each item, which runs as a task, at most `capacity` of them at a
    /// time. Results leave the stage in order.
    ///
    /// An item whose future or whose call of `f` panics becomes a [`JoinError::Panicked`] in its place, and
    /// later stages pass it on.
    #[track_caller]
    pub fn stage<U, F, Fut>(self, capacity: usize, mut f: F) -> Pipeline<U>
    where
        U: Send + 'static,
        F: FnMut(T) -> Fut + Send + 'static,
        Fut: Future<Output = U> + Send + 'static,
    {
        let site = Location::caller();
        let stages = self.stages + 1;
        let no_room = (capacity == 0).then_some(NoRoom { stage: Some(stages) });
        let begin = move |item: Result<T, JoinError>| {
            let begun = item.and_then(|item| {
                // Unwind: the closure may be called again, for the next item, and is responsible for its
                // captures.
                catch_unwind(AssertUnwindSafe(|| f(item)))
                    .map_err(|payload| JoinError::Panicked(of_future(payload, site).0))
            });
            async move {
                match begun {
                    Ok(future) => Ok(future.await),
                    Err(error) => Err(error),
                }
            }
        };
        // It is boxed, so that it may be polled without pinning.
        let items = self.flow.map_each(Box::new(begin));
        Pipeline {
            flow: Box::pin(PipelineStage::Waits(
                Some(ParBuffered::new(items, capacity, site)),
                site,
            )),
            stages,
            fault: self.fault.or(no_room),
        }
    }

    /// Builds the stream of what leaves the last stage.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if a stage has a capacity of 0; the first such stage is named.
    pub fn build(self) -> Result<Run<T>, NoRoom> {
        self.fault.map_or(Ok(Run(self.flow)), Err)
    }
}

impl<T: Send + 'static, E: Send + 'static> Pipeline<Result<T, E>> {
    /// Adds a stage for values. Errors, of the source or of earlier stages, pass it in their place.
    ///
    /// Otherwise as [`stage`](Pipeline::stage).
    #[track_caller]
    pub fn try_stage<U, F, Fut>(self, capacity: usize, mut f: F) -> Pipeline<Result<U, E>>
    where
        U: Send + 'static,
        F: FnMut(T) -> Fut + Send + 'static,
        Fut: Future<Output = Result<U, E>> + Send + 'static,
    {
        self.stage(capacity, move |item| {
            let begun = item.map(&mut f);
            async move {
                match begun {
                    Ok(future) => future.await,
                    Err(error) => Err(error),
                }
            }
        })
    }
}

/// The source, until it ends or panics, and where the pipeline was made.
struct SourceStream<S>(Option<S>, &'static Location<'static>);

impl<S: Stream + Unpin> Stream for SourceStream<S> {
    type Item = Result<S::Item, JoinError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(source) = &mut self.0 else {
            return Poll::Ready(None);
        };
        // Unwind: a source that has panicked is dropped, and not polled again.
        let item = match catch_unwind(AssertUnwindSafe(|| Pin::new(source).poll_next(cx))) {
            Ok(item) => ready!(item).map(Ok),
            Err(payload) => Some(Err(JoinError::Panicked(of_future(payload, self.1).0))),
        };
        if !matches!(item, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(item)
    }
}

/// A stage: its items, before its first poll, and then its driver's channel.
enum PipelineStage<S, U>
where
    S: Stream<Item: Future>,
{
    Waits(Option<ParBuffered<S>>, &'static Location<'static>),
    Runs(Incoming<Result<U, JoinError>>, AbortOnDrop<()>),
    Ended,
}

// The items are elsewhere: in a driver, or behind the pointers of a `ParBuffered`.
impl<S: Stream<Item: Future>, U> Unpin for PipelineStage<S, U> {}

impl<S, U> Stream for PipelineStage<S, U>
where
    S: Stream<Item: Future<Output = Result<U, JoinError>> + Send + 'static> + Unpin + Send + 'static,
    U: Send + 'static,
{
    type Item = Result<U, JoinError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Self::Waits(items, site) = this
            && let Some(mut items) = items.take()
        {
            let (sender, receiver) = channel::bounded(1);
            let driver = async move {
                while let Some(item) = next(&mut items).await {
                    let mut sending = pin!(async { sender.send(item.and_then(identity)).await });
                    // While the place is taken, the room behind it is filled.
                    let sent = poll_fn(|cx| {
                        items.fill(cx);
                        sending.as_mut().poll(cx)
                    });
                    // If the reader has left, this task is about to be cancelled.
                    if sent.await.is_err() {
                        break;
                    }
                }
            };
            *this = Self::Runs(receiver.into_stream(), AbortOnDrop::spawn(driver, site));
        }
        let Self::Runs(results, driver) = this else {
            return Poll::Ready(None);
        };
        if let Some(result) = ready!(Pin::new(results).poll_next(cx)) {
            return Poll::Ready(Some(result));
        }
        // The driver has ended, or its pool has ended it, or a destructor has panicked.
        let ended = ready!(Pin::new(driver).poll(cx));
        *this = Self::Ended;
        Poll::Ready(ended.err().map(Err))
    }
}

impl<T> Stream for Run<T> {
    type Item = Result<T, JoinError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl<T> fmt::Debug for Pipeline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("stages", &self.stages)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Run<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}
