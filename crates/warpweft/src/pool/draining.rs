//! Which spawns a pool refuses while it drains: those of threads that are not in its runtime.

use super::core::PoolCore;
use super::current::with_current;
use std::sync::Arc;

/// Returns true if the pool refuses what the calling thread spawns.
#[inline]
pub(crate) fn refuses_caller(pool: &PoolCore) -> bool {
    pool.lifecycle.is_draining() && !is_caller_inside(pool)
}

/// Returns true if the calling thread is in a pool of the same runtime: it belongs to it, or has entered it.
#[cold]
fn is_caller_inside(pool: &PoolCore) -> bool {
    let runtime = &pool.info.order.runtime;
    with_current(|here| here.is_some_and(|here| Arc::ptr_eq(&here.keep().core().info.order.runtime, runtime)))
}
