//! Yielding: letting other closures run while this one waits for nothing.

use crate::builder::has_own_order;
use crate::registry::with_current;
use warpweft::{ForkCx, TaskBuilder, yield_now as yield_as_usual, yield_soft};

/// What a yield has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yield {
    /// There was a closure to run, and it ran or runs.
    Executed,
    /// There was nothing to run.
    Idle,
}

/// Lets another closure run on the calling thread's index: one of its own queue, or else one from outside or
/// of another thread. `None` on a thread of no pool.
///
/// The calling frame waits meanwhile, and another thread runs it: nothing runs on top of the frame. The
/// answer is [`Executed`](Yield::Executed) if there was something to run, also if another thread was faster.
/// In a task of a Warpweft runtime, and if `WARPWEFT_POLICY` is set, more than one closure may run meanwhile.
pub fn yield_now() -> Option<Yield> {
    yield_by(|cx| cx.has_own_work() || cx.fetch_work())
}

/// As [`yield_now`], but only if the calling thread's own queue has a closure.
pub fn yield_local() -> Option<Yield> {
    yield_by(has_own_work)
}

/// As [`ForkCx::has_own_work`], for stacks of all lifetimes.
fn has_own_work(cx: ForkCx<'_>) -> bool {
    cx.has_own_work()
}

/// Yields, if `has_work` finds something that can run meanwhile.
fn yield_by(has_work: fn(ForkCx<'_>) -> bool) -> Option<Yield> {
    warpweft::Pool::current_worker()?;
    if !ForkCx::with(|cx| cx.is_some_and(has_work)) {
        return Some(Yield::Idle);
    }
    // A task that yields once lets others run. This frame gives its worker away until that task has ended. In
    // the order of this crate it lets one other run.
    let turn = with_current(|current| {
        let builder = TaskBuilder::new();
        match &current {
            Some(target) if has_own_order(target.pool) => builder.on_pool(target.pool).spawn(yield_soft()),
            Some(target) => builder.on_pool(target.pool).spawn(yield_as_usual()),
            None => builder.spawn(yield_as_usual()),
        }
    });
    // The task ends without a result if the pool ends.
    let _ = turn.wait();
    Some(Yield::Executed)
}
