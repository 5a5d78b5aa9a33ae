//! `join`: two halves, the second of which somebody else may run.
//!
//! The common path appends the second half to the list of the stack, runs the first, removes the second and
//! runs it: a few stores and two branches, no atomic read-modify-write, no fence, no allocation.

use super::latent_fork::LatentFork;
use crate::effect::Discontinued;
use crate::execution::fiber::Fiber;
use crate::execution::fork_cx::ForkCx;
use crate::execution::stack_context::{self, StackContext};
use crate::fork::list::TakenBack;
use crate::fork::record::Record;
use crate::runtime::install::install_here;
use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use warpweft_platform::atomic::spin_loop;
use warpweft_platform::thread::yield_now;
use warpweft_platform::{clock, delay};
use warpweft_task::{Cancelled, Latch, Unwound};

impl<'stack> ForkCx<'stack> {
    /// Calls `body` with the right to fork on this stack; on a thread of no pool, on a worker of the runtime
    /// that it visits, or else of the default one.
    ///
    /// # Panics
    ///
    /// Outside of a task, if that runtime cannot be built or is shutting down. If `body` does.
    pub(crate) fn find<T: Send>(body: impl FnOnce(ForkCx<'_>) -> T + Send) -> T {
        match stack_context::here() {
            Some(context) => body(ForkCx::new(context)),
            None => on_a_worker(body),
        }
    }

    /// Runs both closures, in parallel if a worker is free, and returns when both have ended.
    ///
    /// `first` runs here and now. `second` runs here when `first` has returned, unless another worker took it
    /// meanwhile. If that one is not done yet, this frame waits, and its worker goes on in the hands of
    /// another thread: **nothing else runs on top of this frame**, so a lock may be held across a join.
    ///
    /// Costs a few stores and two branches as long as nobody takes `second`. The source is heartbeat
    /// scheduling (Acar et al., PLDI 2018), with one fork on offer instead of the beat.
    ///
    /// # Panics
    ///
    /// If one of them panics, when both have ended; if both do, with what `first` panicked with. **Both run
    /// in any case**: if `first` panics before another worker has taken `second`, that one runs here, and
    /// then the panic of `first` goes on.
    ///
    /// The exception is a stack that was told to end. A fiber whose runtime shuts down,
    /// [cooperative](mod@crate::cooperative) code whose task was cancelled or whose runtime shuts down, and a
    /// body whose [effect](mod@crate::effect) was discontinued, are unwound. If that happens in `first`, a
    /// `second` that no other worker has taken is dropped and never runs.
    // Out of line, so that a small recursive `first` and `second` are inlined here: then the leaves of the
    // recursion cost no call at all. Inlined into them instead, fib takes half as long again.
    #[inline(never)]
    pub fn join<A, B, RA, RB>(self, first: A, second: B) -> (RA, RB)
    where
        A: FnOnce(ForkCx<'_>) -> RA,
        B: FnOnce(ForkCx<'_>) -> RB + Send,
        RB: Send,
    {
        let fork = LatentFork::new(second);
        let forks = self.context().forks();
        // SAFETY: a stack context's list is attached for as long as its thread runs tasks. The fork stays in
        // this frame, and leaves the list before the frame ends: below, or by the guard.
        let (before, free) = unsafe { forks.push(fork.as_record()) };
        if free {
            self.context().offer_fork();
        }
        // Unwind: it goes on when the second half has ended, which must not lose its frame.
        let a = match catch_unwind(AssertUnwindSafe(|| first(self))) {
            Ok(a) => a,
            Err(panic) => first_panicked(self.context(), &fork, before, panic),
        };
        if forks.is_latent(&raw const fork.record) {
            forks.pop(before);
        } else if !come_back(self.context(), &fork.record, before) {
            // SAFETY: it was taken, and is done.
            return (
                a,
                unsafe { fork.result() }.unwrap_or_else(|panic| resume_unwind(panic)),
            );
        }
        // SAFETY: it is ours, as nobody was told of it or nobody took it.
        let second = unsafe { fork.take() };
        (a, second(self))
    }
}

#[cold]
#[inline(never)]
fn on_a_worker<T: Send>(body: impl FnOnce(ForkCx<'_>) -> T + Send) -> T {
    match install_here(body) {
        Ok(value) => value,
        Err(error) => panic!("a fork outside of any task: {error}"),
    }
}

/// Removes a fork that others were told of from the list. True: nobody has taken it. False: it is done.
// Out of line, and small: the outermost fork of each tree comes here.
#[inline(never)]
fn come_back(context: &StackContext, record: &Record, before: *const Record) -> bool {
    match context.forks().back(record, before) {
        TakenBack::Mine => true,
        TakenBack::Taken => taken(context, record),
        TakenBack::Ticket => ticket_back(context, record),
    }
}

/// A fork that is not on offer is its owner's by a claim, if at all.
#[cold]
#[inline(never)]
fn ticket_back(context: &StackContext, record: &Record) -> bool {
    // SAFETY: others were told of it.
    unsafe { record.take_claim() }.is_some_and(|claim| claim.take()) || taken(context, record)
}

/// Somebody else runs it.
#[cold]
#[inline(never)]
fn taken(context: &StackContext, record: &Record) -> bool {
    delay::point("join: taken");
    // SAFETY: others were told of it.
    wait(context, unsafe { record.done() });
    false
}

/// How often a frame looks whether its other half is done before it waits in earnest: some 20 µs, about what
/// it costs to give the worker away and to get one back.
const LOOKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    400
};

/// How long it goes on looking if its worker would find nothing to do in other hands, in nanoseconds. To wake
/// a thread takes a tenth of that, on a bad day half.
const PATIENCE_NS: u64 = 300_000;

/// Waits until whoever took the fork is done with it. Never unwinds.
fn wait(context: &StackContext, done: &Latch) {
    for _ in 0..LOOKS {
        if done.is_set() {
            return;
        }
        spin_loop();
    }
    if !cfg!(any(warpweft_loom, warpweft_shuttle)) {
        let start = clock::now_ns();
        while context.has_nothing_else_to_do() && clock::now_ns() - start < PATIENCE_NS {
            if done.is_set() {
                return;
            }
            // Whoever has the fork may need this CPU.
            yield_now();
        }
    }
    context.wait_for_fork(done);
}

/// The first half has panicked: its panic goes on when the second half has ended.
#[cold]
#[inline(never)]
fn first_panicked<B, R>(
    context: &StackContext,
    fork: &LatentFork<B, R>,
    before: *const Record,
    panic: Box<dyn Any + Send>,
) -> !
where
    R: Send,
    B: FnOnce(ForkCx<'_>) -> R + Send,
{
    let latent = context.forks().is_latent(&fork.record);
    if latent {
        context.forks().pop(before);
    }
    let is_mine = latent || come_back(context, &fork.record, before);
    // Unwind: the first half's panic goes on. A second one, of the other half or of what is dropped here,
    // ends here.
    let second = catch_unwind(AssertUnwindSafe(|| {
        if !is_mine {
            // SAFETY: it was taken, and is done.
            unsafe { fork.result() }.map(drop)
        } else {
            // SAFETY: it is ours.
            let second = unsafe { fork.take() };
            if !is_told_to_end(context, &*panic) {
                drop(second(ForkCx::new(context)));
            }
            Ok(())
        }
    }));
    if let Ok(Err(second)) | Err(second) = second {
        // Unwind: what a panic was thrown with may panic in its own `Drop`. What that one was thrown with is
        // leaked.
        if let Err(third) = catch_unwind(AssertUnwindSafe(|| drop(second))) {
            mem::forget(third);
        }
    }
    resume_unwind(panic)
}

/// Whether a stack that unwinds with `panic` does so because it was told to: nothing more begins on it.
fn is_told_to_end(context: &StackContext, panic: &(dyn Any + Send)) -> bool {
    panic.is::<Unwound>()
        || panic.is::<Cancelled>()
        || panic.is::<Discontinued>()
        || context.fiber().is_some_and(Fiber::is_unwinding)
}

/// Runs both closures, in parallel if a worker is free, and returns when both have ended: [`ForkCx::join`]
/// with the context looked up. In a task it costs about a nanosecond more than that. Elsewhere both run on a
/// worker of the runtime whose [`block_on`](crate::Runtime::block_on) the calling thread is in, or else of
/// the [default one](crate::default_runtime), and that thread waits.
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = warpweft::join(|| sum(left), || sum(right));
///     left + right
/// }
///
/// let numbers: Vec<u64> = (1..=100_000).collect();
/// assert_eq!(sum(&numbers), 5_000_050_000);
/// ```
///
/// # Panics
///
/// As [`ForkCx::join`]. Outside of a task, if that runtime cannot be built or is shutting down.
#[inline]
pub fn join<A, B, RA, RB>(first: A, second: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match stack_context::here() {
        Some(context) => ForkCx::new(context).join(|_| first(), |_| second()),
        None => ForkCx::find(|cx| cx.join(|_| first(), |_| second())),
    }
}
