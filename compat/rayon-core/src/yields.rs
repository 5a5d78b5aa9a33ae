//! Yielding: letting other closures run while this one waits for nothing.

use crate::registry::with_current;
use std::future::Future;
use warpweft::{ForkCx, TaskBuilder, yield_now as yield_as_usual, yield_soft};

/// What a yield has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yield {
    /// Other closures ran.
    Executed,
    /// There was nothing to run.
    Idle,
}

/// Lets other closures run on the calling thread's index, those of other threads included; `None` on a thread
/// of no pool.
///
/// The calling frame waits meanwhile, and another thread runs them: nothing runs on top of it.
pub fn yield_now() -> Option<Yield> {
    yield_by(yield_as_usual)
}

/// As [`yield_now`], but lets only closures of the calling thread's own queue run.
pub fn yield_local() -> Option<Yield> {
    yield_by(yield_soft)
}

fn yield_by<F>(way: fn() -> F) -> Option<Yield>
where
    F: Future<Output = ()> + Send + 'static,
{
    warpweft::Pool::current_worker()?;
    if ForkCx::with(|cx| cx.is_none_or(ForkCx::is_alone)) {
        return Some(Yield::Idle);
    }
    // A task that yields once goes behind others. This frame gives its worker away until that task has ended.
    let turn = with_current(|current| {
        let builder = TaskBuilder::new();
        match &current {
            Some(target) => builder.on_pool(target.pool).spawn(way()),
            None => builder.spawn(way()),
        }
    });
    // The task ends without a result if the pool ends.
    let _ = turn.wait();
    Some(Yield::Executed)
}
