//! `scope_fifo`: a scope whose jobs begin in the order in which they were spawned.
//!
//! ```text
//!   spawn(job) ──▶ queue: job … job ──▶ oldest      and a job of the scope, which takes the oldest one
//! ```

use super::scope::{Scope, scope};
use crate::pool::in_order::InOrder;
use std::fmt;
use std::sync::Arc;

type FifoJob<'scope, 'env> = Box<dyn FnOnce(&ScopeFifo<'scope, 'env>) + Send + 'scope>;

/// Spawns jobs that begin oldest first; the body of [`scope_fifo`] gets one.
pub struct ScopeFifo<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    queue: Arc<InOrder<FifoJob<'scope, 'env>>>,
}

impl<'scope, 'env> ScopeFifo<'scope, 'env> {
    /// Spawns a job. It begins after all jobs that were spawned in this scope before it, on whatever worker.
    /// With several workers, the earlier ones may not have ended by then.
    ///
    /// Costs two allocations and takes the scope's lock twice, so the jobs should be larger than those of
    /// [`Scope::spawn`].
    ///
    /// If the job panics, the scope panics when all have ended.
    pub fn spawn<F>(&self, job: F)
    where
        F: FnOnce(&ScopeFifo<'scope, 'env>) + Send + 'scope,
    {
        let claim = self.queue.enter(Box::new(job));
        self.scope.spawn(move |scope| {
            let (job, queue) = claim.take();
            job(&Self { scope, queue });
        });
    }
}

impl fmt::Debug for ScopeFifo<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeFifo").finish_non_exhaustive()
    }
}

/// As [`scope`](crate::scope()), but the jobs begin in the order in which they were spawned, whatever the
/// order of the pool's policy is.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let order = std::sync::Mutex::new(Vec::new());
/// runtime.install(|_| {
///     warpweft::scope_fifo(|scope| {
///         for n in 0..4 {
///             let order = &order;
///             scope.spawn(move |_| order.lock().unwrap().push(n));
///         }
///     })
/// })?;
/// assert_eq!(order.into_inner()?, [0, 1, 2, 3]); // of `scope`: [3, 2, 1, 0]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// As [`scope`](crate::scope()).
pub fn scope_fifo<'env, T: Send>(body: impl for<'scope> FnOnce(&ScopeFifo<'scope, 'env>) -> T + Send) -> T {
    scope(|scope| {
        body(&ScopeFifo {
            scope,
            queue: InOrder::new(),
        })
    })
}
