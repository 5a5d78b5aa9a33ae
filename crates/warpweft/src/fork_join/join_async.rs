//! `join_async`: two futures, the second of which another worker may run.
//!
//! ```text
//!   first poll: a join of   poll first   and   make a task of second
//!
//!   Waits ──┬─ taken by a thief, or `first` waits ─▶ Elsewhere (a task) ─▶ Done
//!           └─ `first` is ready, none has it ──────▶ Here (polled in place) ─▶ Done
//! ```
//!
//! # Invariants
//!
//! - `first`, and `second` while it is `Here`, stay where they are from their first poll until they are
//!   dropped there.
//! - `second` is moved only while it `Waits`, before its first poll.
//! - The join does not end before both halves have: an `Elsewhere` is awaited, cancelled or not.

use super::abort_on_drop::AbortOnDrop;
use super::panics::report_displaced;
use crate::execution::fork_cx::ForkCx;
use crate::execution::stack_context;
use crate::pool::panics::Outcome;
use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll};
use warpweft_task::{Cancelled, JoinError};

/// A future that runs two futures concurrently; made by [`join_async`].
#[must_use = "futures do nothing unless polled"]
pub struct JoinAsync<A: Future, B: Future> {
    first: First<A>,
    second: Second<B>,
    site: &'static Location<'static>,
}

enum First<A: Future> {
    Runs(A),
    Done(Outcome<A::Output>),
    Given,
}

enum Second<B: Future> {
    /// Not polled yet.
    Waits(B),
    Here(B),
    Elsewhere(AbortOnDrop<B::Output>),
    Done(Outcome<B::Output>),
    Given,
}

/// The state of the second half after the first poll's join.
enum SecondHalf<B: Future> {
    /// Another worker has made a task of it.
    Elsewhere(AbortOnDrop<B::Output>),
    /// No worker has taken it.
    TakenBack(B),
}

/// Runs two futures concurrently, and returns both results. It is [`join`](crate::join) for futures.
///
/// `first` is polled here and now. Another worker may take `second` meanwhile. If none has by the time
/// `first` is ready, `second` is polled here as well, and the whole costs what a [`join`](crate::join) costs:
/// no task and no allocation. If `first` has to wait, `second` becomes a separate task, which costs one
/// allocation. So a tree of futures spreads as a tree of closures does, and each leaf that waits is one task.
///
/// `first` may borrow from the frame that awaits. `second` owns what it uses, as every task does. For futures
/// that borrow, see [`Scope::spawn_future`](crate::Scope::spawn_future).
///
/// **Dropping it** drops `first` and cancels `second`, which ends at its next suspension point. Nothing is
/// spawned before the first poll. Outside of any pool `second` becomes a task of the [default
/// runtime](crate::default_runtime).
///
/// ```
/// use std::{pin::Pin, time::Duration};
/// use warpweft::{join_async, time::sleep};
///
/// fn sum(from: u64, to: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
///     Box::pin(async move {
///         if to - from == 1 {
///             sleep(Duration::from_millis(1)).await; // a remote request
///             return from;
///         }
///         let middle = from + (to - from) / 2;
///         let (left, right) = join_async(sum(from, middle), sum(middle, to)).await;
///         left + right
///     })
/// }
///
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// assert_eq!(runtime.block_on(sum(0, 100)), 4950);
/// # Ok::<(), warpweft::BuildError>(())
/// ```
///
/// # Panics
///
/// - If one half panics, awaiting panics after both have ended; if both panic, with the payload of `first`.
/// - If `first` panics, `second` is cancelled, even before its first poll. A closure of a
///   [`join`](crate::join()) would still run, but a future may be dropped wherever it waits. If `second`
///   panics, `first` runs to its end.
/// - Awaiting panics if `second` runs elsewhere and its pool is shut down before it has ended, or the pool's
///   policy loses it.
/// - It panics if it is polled again after its results, and outside of any pool if the default runtime cannot
///   be built.
#[track_caller]
pub fn join_async<A, B>(first: A, second: B) -> JoinAsync<A, B>
where
    A: Future,
    B: Future<Output: Send + 'static> + Send + 'static,
{
    JoinAsync {
        first: First::Runs(first),
        second: Second::Waits(second),
        site: Location::caller(),
    }
}

impl<A, B> JoinAsync<A, B>
where
    A: Future,
    B: Future<Output: Send + 'static> + Send + 'static,
{
    /// The first poll.
    fn begin(
        first: &mut First<A>,
        second: B,
        site: &'static Location<'static>,
        cx: &mut Context<'_>,
    ) -> Second<B> {
        // After the thread has entered another pool, the second half belongs to that pool, whose workers do
        // not look at the forks of this stack.
        let Some(context) = stack_context::here().filter(|context| context.is_in_own_pool()) else {
            let second = Second::Elsewhere(AbortOnDrop::spawn(second, site));
            first.go_on(cx);
            return second;
        };
        let owner = ptr::from_ref(context).addr();
        let (ready, begun) = ForkCx::new(context).join(
            |_| first.go_on(cx),
            move |_| {
                if stack_context::here().is_some_and(|context| ptr::from_ref(context).addr() == owner) {
                    SecondHalf::TakenBack(second)
                } else {
                    SecondHalf::Elsewhere(AbortOnDrop::spawn(second, site))
                }
            },
        );
        match begun {
            SecondHalf::Elsewhere(task) => Second::Elsewhere(task),
            SecondHalf::TakenBack(second) if !ready => Second::Elsewhere(AbortOnDrop::spawn(second, site)),
            SecondHalf::TakenBack(second) if matches!(first, First::Done(Err(_))) => {
                // Unwind: a panic is about to continue. What is dropped here must not start a second one.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(second)));
                Second::Given
            }
            SecondHalf::TakenBack(second) => Second::Here(second),
        }
    }

    fn finish(&mut self) -> (A::Output, B::Output) {
        let first = mem::replace(&mut self.first, First::Given);
        match (first, mem::replace(&mut self.second, Second::Given)) {
            (First::Done(Ok(first)), Second::Done(Ok(second))) => (first, second),
            (First::Done(Err(panic)), second) => {
                if let Second::Done(Err(second)) = second {
                    report_displaced(second);
                }
                resume_unwind(panic)
            }
            (First::Done(Ok(_)), Second::Done(Err(panic))) => resume_unwind(panic),
            _ => panic!("a join was polled after it had given its results"),
        }
    }
}

impl<A: Future> First<A> {
    /// Polls it, and returns true if it has ended. Its panic is kept.
    fn go_on(&mut self, cx: &mut Context<'_>) -> bool {
        if let Self::Runs(future) = self {
            let Poll::Ready(outcome) = poll_in_place(future, cx) else {
                return false;
            };
            let outcome = with_end(outcome, || *self = Self::Given);
            *self = Self::Done(outcome);
        }
        true
    }
}

impl<B> Second<B>
where
    B: Future<Output: Send + 'static> + Send + 'static,
{
    /// Takes the future if it was never polled: it may be moved.
    fn unpolled(&mut self) -> Option<B> {
        if !matches!(self, Self::Waits(_)) {
            return None;
        }
        match mem::replace(self, Self::Given) {
            Self::Waits(future) => Some(future),
            _ => None,
        }
    }

    /// Polls it, and returns true if it has ended. It has begun; its panic is kept.
    fn go_on(&mut self, cx: &mut Context<'_>) -> bool {
        let outcome = match self {
            Self::Here(future) => poll_in_place(future, cx),
            Self::Elsewhere(task) => Pin::new(task).poll(cx).map_err(raised),
            Self::Waits(_) | Self::Done(_) | Self::Given => return true,
        };
        let Poll::Ready(outcome) = outcome else {
            return false;
        };
        let outcome = with_end(outcome, || *self = Self::Given);
        *self = Self::Done(outcome);
        true
    }
}

/// Polls a half in its place.
fn poll_in_place<F: Future>(future: &mut F, cx: &mut Context<'_>) -> Poll<Outcome<F::Output>> {
    // SAFETY: the join is pinned when it is polled, and moves neither half after its first poll.
    let future = unsafe { Pin::new_unchecked(future) };
    // Unwind: the panic continues when both halves have ended. A future that panicked is dropped, and not
    // polled again.
    match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(panic)),
    }
}

/// Drops a half that has ended, in its place. A panic of the drop becomes the half's, unless it has one
/// already.
fn with_end<T>(outcome: Outcome<T>, drop_it: impl FnOnce()) -> Outcome<T> {
    // Unwind: the panic continues when both halves have ended.
    let dropped = catch_unwind(AssertUnwindSafe(drop_it));
    outcome.and_then(|value| dropped.map(|()| value))
}

/// Returns the payload with which the join panics if its second half has no result.
fn raised(error: JoinError) -> Box<dyn Any + Send> {
    match error {
        JoinError::Panicked(panic) => panic.into_payload(),
        JoinError::Cancelled => Box::new(Cancelled),
        error => Box::new(format!("the second half of a join has no result: {error}")),
    }
}

impl<A, B> Future for JoinAsync<A, B>
where
    A: Future,
    B: Future<Output: Send + 'static> + Send + 'static,
{
    type Output = (A::Output, B::Output);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: a polled half is never moved through this reference. When it has ended, it is replaced,
        // which drops it in its place.
        let this = unsafe { self.get_unchecked_mut() };
        let first_ended = match this.second.unpolled() {
            Some(second) => {
                this.second = Self::begin(&mut this.first, second, this.site, cx);
                matches!(this.first, First::Done(_))
            }
            None => this.first.go_on(cx),
        };
        if let (First::Done(Err(_)), Second::Elsewhere(task)) = (&this.first, &this.second) {
            task.cancel();
        }
        let second_ended = this.second.go_on(cx);
        if first_ended && second_ended {
            Poll::Ready(this.finish())
        } else {
            Poll::Pending
        }
    }
}

impl<A: Future, B: Future> fmt::Debug for JoinAsync<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinAsync")
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}
