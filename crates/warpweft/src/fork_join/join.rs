//! `join`: two closures, the second of which another worker may run.
//!
//! The common path appends the second half to the list of the stack, runs the first, removes the second and
//! runs it. This costs a few stores and two branches: no atomic read-modify-write, no fence, no allocation.

use super::latent_fork::LatentFork;
use super::panics::{is_end, report_displaced};
use crate::execution::fiber::Fiber;
use crate::execution::fork_cx::ForkCx;
use crate::execution::stack_context::{self, StackContext};
use crate::execution::token;
use crate::fork::list::TakenBack;
use crate::fork::offer_board::OfferView;
use crate::fork::record::ForkRecord;
use crate::fork::stealable::Stealable;
use crate::runtime::install::install_here;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use warpweft_platform::atomic::spin_loop;
use warpweft_platform::thread::yield_now;
use warpweft_platform::{clock, delay};
use warpweft_policy::Count;

impl<'stack> ForkCx<'stack> {
    /// Calls `body` with the right to fork on this stack. On a thread of no pool it runs on a worker of the
    /// runtime that the thread has entered, or else of the default one.
    ///
    /// # Panics
    ///
    /// If `body` does. Outside of a task, if that runtime cannot be built or is shutting down.
    pub(crate) fn find<T: Send>(body: impl FnOnce(ForkCx<'_>) -> T + Send) -> T {
        match stack_context::here() {
            Some(context) => body(ForkCx::new(context)),
            None => on_a_worker(body),
        }
    }

    /// Runs both closures, in parallel if a worker is free, and returns when both have ended.
    ///
    /// `first` runs here and now. `second` runs here after it, unless another worker has taken it meanwhile.
    /// If that worker has not finished yet, this frame waits, and another thread continues its worker.
    /// **Nothing runs on top of this frame** but parts of `second`, so a lock may be held across a join.
    /// The exception: no spare thread can be had. See [`max_threads`](crate::Builder::max_threads).
    ///
    /// Costs a few stores and two branches as long as no worker takes `second`. The source is heartbeat
    /// scheduling (Acar et al., PLDI 2018), with one offered fork instead of the beat.
    ///
    /// # Panics
    ///
    /// If one closure panics, after both have ended. If both panic, with the payload of `first`. **Both run
    /// in any case**: if `first` panics before another worker has taken `second`, `second` runs here, and
    /// then the panic of `first` continues.
    ///
    /// The exception is a stack that must end: code whose [token](crate::cancel) is cancelled, a fiber whose
    /// runtime shuts down, [cooperative](mod@crate::cooperative) code whose task was cancelled or whose
    /// runtime shuts down, and a body whose [effect](mod@crate::effect) was discontinued. These are unwound.
    /// If that happens in `first`, a `second` that no other worker has taken is dropped and never runs. Under
    /// a token that is cancelled already, neither of them starts. If it is cancelled while `first` runs, and
    /// `first` returns, this frame still runs `second`, which ends at its next fork; one that another worker
    /// takes afterwards does not start.
    // Out of line, so that a small recursive `first` and `second` are inlined here: then the leaves of the
    // recursion cost no call. If this were inlined into them instead, fib would take half as long again.
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
        if free && self.context().offer_fork() {
            stopped(self.context(), &fork, before);
        }
        // Unwind: the panic continues when the second half has ended, because that one must not lose its
        // frame.
        let a = match catch_unwind(AssertUnwindSafe(|| first(self))) {
            Ok(a) => a,
            Err(panic) => first_panicked(self.context(), &fork, before, panic),
        };
        if forks.is_latent(&raw const fork.record) {
            forks.pop(before);
        } else if !come_back(self.context(), &fork.record, before) {
            // SAFETY: a thief has taken it, and it is done.
            return (
                a,
                unsafe { fork.result() }.unwrap_or_else(|panic| resume_unwind(panic)),
            );
        }
        // SAFETY: this frame owns it, because it was never published, or no thief has taken it.
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

/// Removes a published fork from the list. Returns true if no thread has taken it, and false if it is done.
// Out of line, and small: the outermost fork of each tree comes here.
#[inline(never)]
fn come_back(context: &StackContext, record: &ForkRecord, before: *const ForkRecord) -> bool {
    match context.forks().back(record, before) {
        TakenBack::Mine => true,
        TakenBack::Taken => taken(context, record),
        TakenBack::Promoted => promoted_back(context, record),
    }
}

/// Takes back a fork that is not on offer. Its owner needs a claim, if there is one.
#[cold]
#[inline(never)]
fn promoted_back(context: &StackContext, record: &ForkRecord) -> bool {
    // SAFETY: the fork was published.
    unsafe { record.take_claim() }.is_some_and(|claim| claim.take()) || taken(context, record)
}

/// Waits for the thief that runs the fork.
#[cold]
#[inline(never)]
fn taken(context: &StackContext, record: &ForkRecord) -> bool {
    delay::point("join: taken");
    wait(context, record);
    false
}

/// How often a frame checks for the end of its other half before it blocks. These checks take some 20 µs,
/// about the time to release a worker and to acquire one again.
const LOOKS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    1
} else {
    400
};

/// The number of checks after which it yields to another thread.
const YIELD_AFTER: u32 = 50;

/// How long it continues to check if no other thread could use its worker, in nanoseconds. To wake a thread
/// usually takes a tenth of that, and sometimes half.
const PATIENCE_NS: u64 = 300_000;

/// Waits until the thief of the fork has finished. Never unwinds.
///
/// Meanwhile it runs parts of that fork that the thief offers: what would run in this frame, and here, if no
/// thread had taken anything. So a lock may still be held, and the stack does not become deeper than without
/// thieves.
fn wait(context: &StackContext, record: &ForkRecord) {
    // SAFETY: the fork was published.
    let done = unsafe { record.done() };
    let ancestor = ptr::from_ref(record).cast::<Stealable>();
    let seen = OfferView::default();
    let run_part = || {
        let worker_ref = context.worker_ref().filter(|_| context.may_run_parts())?;
        let part = context.offer_board().steal_below(ancestor, &seen)?;
        worker_ref.counters.add(Count::ForksTaken, 1);
        let start = clock::now_ns();
        if context.run_part(part, done) {
            seen.learn(start);
        }
        Some(())
    };
    for look in 1..=LOOKS {
        if done.is_set() {
            return;
        }
        // The thread that has the fork may need this CPU.
        if look % YIELD_AFTER == 0 {
            run_part();
            yield_now();
        } else {
            spin_loop();
        }
    }
    let mut start = clock::now_ns();
    while !done.is_set() {
        if run_part().is_some() {
            start = clock::now_ns();
        } else if !cfg!(any(warpweft_loom, warpweft_shuttle))
            && context.has_nothing_but(ancestor)
            && clock::now_ns() - start < PATIENCE_NS
        {
            yield_now();
        } else {
            return context.wait_for_fork(done);
        }
    }
}

/// The token that counts here is cancelled: neither half runs. The fork is latent.
#[cold]
#[inline(never)]
fn stopped<B, R>(context: &StackContext, fork: &LatentFork<B, R>, before: *const ForkRecord) -> !
where
    R: Send,
    B: FnOnce(ForkCx<'_>) -> R + Send,
{
    context.forks().pop(before);
    // SAFETY: this frame owns it, because it was never published.
    drop(unsafe { fork.take() });
    token::unwind()
}

/// The first half has panicked: its panic continues when the second half has ended.
#[cold]
#[inline(never)]
fn first_panicked<B, R>(
    context: &StackContext,
    fork: &LatentFork<B, R>,
    before: *const ForkRecord,
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
    // Unwind: the first half's panic continues. A second panic, of the other half or of what is dropped here,
    // ends here.
    let second = catch_unwind(AssertUnwindSafe(|| {
        if !is_mine {
            // SAFETY: a thief has taken it, and it is done.
            unsafe { fork.result() }.map(drop)
        } else {
            // SAFETY: this frame owns it.
            let second = unsafe { fork.take() };
            if !is_told_to_end(context, &*panic) {
                drop(second(ForkCx::new(context)));
            }
            Ok(())
        }
    }));
    if let Ok(Err(second)) | Err(second) = second {
        report_displaced(second);
    }
    resume_unwind(panic)
}

/// Returns true if the stack unwinds with `panic` because it must end. Then nothing more begins on it.
fn is_told_to_end(context: &StackContext, panic: &(dyn Any + Send)) -> bool {
    is_end(panic) || context.fiber().is_some_and(Fiber::is_unwinding)
}

/// Runs both closures, in parallel if a worker is free, and returns when both have ended. This is
/// [`ForkCx::join`] with the context looked up, which costs about a nanosecond more in a task. Elsewhere both
/// run on a worker of the runtime whose [`block_on`](crate::Runtime::block_on) the calling thread is in, or
/// else of the [default one](crate::default_runtime), and that thread waits.
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
