//! `scope_bounded`: a scope with a limit of jobs that have not ended, so that its body cannot run ahead of
//! them.
//!
//! # Invariants
//!
//! - A job has a place from its spawn to its end, or to its drop if it never runs.
//! - Only the body spawns. If jobs spawned, each might wait for a place that none of the others gives back.

use crate::execution::block_on::block_on;
use crate::fork_join::scope::{Scope, scope};
use crate::observe::raw::BOUNDED_SCOPE;
use crate::pool::at_close::ClosesWithPool;
use crate::runtime::pool_error::ConcurrencyLimitError;
use crate::sync::{Permit, Semaphore};
use crate::time::timeout;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Spawns jobs, as many at a time as the limit allows; the body of [`scope_bounded`] gets one.
pub struct BoundedScope<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    places: Arc<Semaphore>,
}

/// A job's place, until it is dropped.
struct JobPermit(Arc<Semaphore>);

impl Drop for JobPermit {
    fn drop(&mut self) {
        self.0.add(1);
    }
}

impl ClosesWithPool for Semaphore {
    fn close_with_pool(&self) {
        self.close();
    }
}

impl<'scope> BoundedScope<'scope, '_> {
    /// Spawns a job, after waiting until fewer than the limit have not ended. The worker runs other tasks
    /// meanwhile, the scope's jobs among them.
    ///
    /// If the job panics, the scope panics when all have ended. The wait unwinds if the
    /// [token](crate::cancel) that counts here is cancelled. If the runtime shuts down, it runs jobs of the
    /// scope that no other thread has taken, in place of waiting. Costs as much as [`Scope::spawn`], and a
    /// permit of a [`Semaphore`].
    pub fn spawn<F>(&self, job: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        if !self.try_place() {
            // It ends with a place, or with the pool.
            let _ = self.wait_for_place(Duration::MAX);
        }
        self.go(job);
    }

    /// Takes a place, if there is one.
    fn try_place(&self) -> bool {
        self.places.try_acquire(1).map(Permit::forget).is_ok()
    }

    /// Waits for a place, for that time at most. Returns false if there was none. A closing pool drops the
    /// tasks of the scope's jobs, and then only this stack can run them. So the places end with the pool, and
    /// this runs what other threads have not taken.
    #[cold]
    fn wait_for_place(&self, most: Duration) -> bool {
        let pool = self.scope.pool();
        let _entered = pool
            .any()
            .core()
            .info
            .at_close
            .enter(Arc::clone(&self.places) as _);
        match block_on(timeout(most, self.places.acquire(1))) {
            Ok(Ok(permit)) => permit.forget(),
            Ok(Err(_)) => while self.scope.run_one() {},
            Err(_) => return false,
        }
        true
    }

    /// Spawns a job if fewer than the limit have not ended.
    ///
    /// # Errors
    ///
    /// The job, if there are as many.
    pub fn try_spawn<F>(&self, job: F) -> Result<(), F>
    where
        F: FnOnce() + Send + 'scope,
    {
        if !self.try_place() {
            return Err(job);
        }
        self.go(job);
        Ok(())
    }

    /// Spawns a job, after waiting for that time at most.
    ///
    /// # Errors
    ///
    /// The job, if there were as many as the limit all the time.
    pub fn spawn_within<F>(&self, time: Duration, job: F) -> Result<(), F>
    where
        F: FnOnce() + Send + 'scope,
    {
        if !self.try_place() && !self.wait_for_place(time) {
            return Err(job);
        }
        self.go(job);
        Ok(())
    }

    /// Spawns a job that has a place.
    fn go<F>(&self, job: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        let permit = JobPermit(Arc::clone(&self.places));
        self.scope.spawn(move |_| {
            // Dropped after the job, also if that unwinds.
            let _permit = permit;
            job();
        });
    }
}

impl fmt::Debug for BoundedScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedScope")
            .field("free", &self.places.free())
            .finish_non_exhaustive()
    }
}

/// As [`scope`](crate::scope()), but at most `limit` jobs are spawned that have not ended: what its body
/// makes faster than the workers use it does not pile up.
///
/// ```
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// let sum = std::sync::atomic::AtomicU64::new(0);
/// runtime.install(|_| {
///     warpweft::scope_bounded(16, |scope| {
///         for page in 0..1000_u64 {
///             // At most 17 of them exist at a time: one waits for a place.
///             let page = vec![page; 64];
///             let sum = &sum;
///             scope.spawn(move || {
///                 sum.fetch_add(page.iter().sum(), std::sync::atomic::Ordering::Relaxed);
///             });
///         }
///     })
/// })??;
/// assert_eq!(sum.into_inner(), 64 * 999 * 1000 / 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`ConcurrencyLimitError`] if `limit` is 0.
///
/// # Panics
///
/// As [`scope`](crate::scope()).
pub fn scope_bounded<'env, T: Send>(
    limit: usize,
    body: impl for<'scope> FnOnce(&BoundedScope<'scope, 'env>) -> T + Send,
) -> Result<T, ConcurrencyLimitError> {
    if limit == 0 {
        return Err(ConcurrencyLimitError);
    }
    // There cannot be more jobs than `MAX_PERMITS`.
    let limit = limit.min(Semaphore::MAX_PERMITS);
    Ok(scope(|scope| {
        let places = Semaphore::of_parts(limit, BOUNDED_SCOPE, scope.parts());
        let places = Arc::new(places);
        body(&BoundedScope { scope, places })
    }))
}
