//! A shutdown that lets the work end first: drain, cancel, drop.
//!
//! ```text
//!   0 ─────────── drain_for ──────────────── 9/10 of the limit ──── limit ──▶
//!     the work ends   │ what is under the token      │ the rest is      │ what is left is
//!     by itself       │ is cancelled, and ends       │ dropped          │ named
//! ```

use super::handle::Runtime;
use super::pool::Pool;
use super::shutdown::{Remaining, off_worker};
use crate::cancel_tree::node::{Node, Reason};
use crate::pool::dyn_pool::DynPool;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::clock::now_ns;
use warpweft_platform::thread::pause;

/// The first pause between two looks whether the work has ended, in nanoseconds. The next ones are longer.
const FIRST_PAUSE_NS: u64 = 20_000;
/// The longest pause, in nanoseconds.
const LONGEST_PAUSE_NS: u64 = 1_000_000;

/// How a runtime is [shut down gracefully](Runtime::shutdown_gracefully).
///
/// ```
/// use std::time::Duration;
/// use warpweft::GracefulShutdown;
/// use warpweft::cancel::CancelToken;
///
/// let requests = CancelToken::new();
/// let shutdown = GracefulShutdown::within(Duration::from_secs(30))
///     .drain_for(Duration::from_secs(20))
///     .then_cancel(&requests);
/// # drop(shutdown);
/// ```
#[derive(Debug, Clone)]
#[must_use = "it is for `Runtime::shutdown_gracefully`"]
pub struct GracefulShutdown {
    limit: Duration,
    drain: Option<Duration>,
    token: Option<Arc<Node>>,
}

impl GracefulShutdown {
    /// A shutdown that takes this time at most.
    pub fn within(limit: Duration) -> Self {
        Self {
            limit,
            drain: None,
            token: None,
        }
    }

    /// Sets for how long the work may end by itself. The default is half of the limit if a token is cancelled
    /// then, and nine tenths of it if not. The limit is in force in any case.
    pub fn drain_for(mut self, time: Duration) -> Self {
        self.drain = Some(time);
        self
    }

    /// Sets the token.
    pub(crate) fn with_node(mut self, node: &Arc<Node>) -> Self {
        self.token = Some(Arc::clone(node));
        self
    }

    /// Returns the ends of the drain, of what was cancelled, and of all, in nanoseconds after the start.
    fn ends_ns(&self) -> [u64; 3] {
        let limit = self.limit;
        let most = limit - limit / 10;
        let usual = if self.token.is_some() { limit / 2 } else { most };
        let drain = self.drain.unwrap_or(usual).min(limit);
        [drain, most.max(drain), limit].map(|end| u64::try_from(end.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// How far a [graceful shutdown](Runtime::shutdown_gracefully) had to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownStep {
    /// All work had ended by itself.
    Drained,
    /// All work had ended after the token was cancelled.
    Cancelled,
    /// Tasks were left, and were dropped.
    Dropped,
}

impl Runtime {
    /// Ends the runtime in order, within a limit of time:
    ///
    /// 1. **No more is accepted.** Spawns from outside of the runtime are refused from now on, as if it were
    ///    shut down; those of its own tasks are not, since the work may need them. Stop the tasks that accept
    ///    from outside yourself: listeners, timers, receivers of channels.
    /// 2. **Drain.** Its tasks, fibers, jobs and closures that block have
    ///    [this time](GracefulShutdown::drain_for) to end by themselves.
    /// 3. **Cancel.** Then the [token](GracefulShutdown::then_cancel) is cancelled, if there is one, and what
    ///    was under it ends.
    /// 4. **Drop.** Then all that is left is dropped, as by [`shutdown_timeout`](Self::shutdown_timeout),
    ///    fibers that wait are unwound, and the threads end.
    ///
    /// It returns as soon as a step has brought everything to its end, and says which one it was.
    ///
    /// It looks whether the work has ended once a millisecond, or more often at first: some microseconds for
    /// each worker. Nothing is counted for it before.
    ///
    /// ```
    /// use std::time::Duration;
    /// use warpweft::cancel::CancelToken;
    /// use warpweft::time::sleep;
    /// use warpweft::{GracefulShutdown, Runtime, ShutdownStep};
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let short = runtime.spawn(sleep(Duration::from_millis(1)));
    /// let ended = runtime.shutdown_gracefully(&GracefulShutdown::within(Duration::from_secs(10)))?;
    /// assert_eq!(ended, ShutdownStep::Drained);
    /// assert!(short.wait().is_ok());
    ///
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let requests = CancelToken::new();
    /// let long = runtime.spawn(requests.run_async(sleep(Duration::from_secs(3600))));
    /// let shutdown = GracefulShutdown::within(Duration::from_secs(10))
    ///     .drain_for(Duration::from_millis(5))
    ///     .then_cancel(&requests);
    /// assert_eq!(runtime.shutdown_gracefully(&shutdown)?, ShutdownStep::Cancelled);
    /// assert!(long.wait()?.is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Remaining`] if a thread has not ended within the limit, with the names, spawn sites and states of
    /// what is left. If one of the runtime's own tasks calls this, it returns it at once, since it would wait
    /// for itself.
    pub fn shutdown_gracefully(self, shutdown: &GracefulShutdown) -> Result<ShutdownStep, Remaining> {
        let begun_ns = now_ns();
        let [drained_ns, cancelled_ns, limit_ns] = shutdown.ends_ns().map(|end| begun_ns.saturating_add(end));
        if !self.is_own_thread() && !self.any().is_in_forked_child() {
            let pools = self.pools().iter().map(Pool::any);
            pools.for_each(|pool| pool.core().lifecycle.drain());
            let quiet_until = |end_ns| {
                let pools = self.pools().to_vec();
                off_worker(self.name(), move || are_quiet_until(&pools, end_ns))
            };
            if quiet_until(drained_ns) {
                return self.end_by(limit_ns, begun_ns).map(|()| ShutdownStep::Drained);
            }
            if let Some(token) = &shutdown.token {
                // Unwind: a waker has panicked, which the panic hook has reported. The others were woken.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| token.cancel(Reason::Asked))) {
                    std::mem::forget(payload);
                }
                if quiet_until(cancelled_ns) {
                    return self.end_by(limit_ns, begun_ns).map(|()| ShutdownStep::Cancelled);
                }
            }
        }
        self.end_by(limit_ns, begun_ns).map(|()| ShutdownStep::Dropped)
    }
}

/// Waits until no task is left in any of the pools, or until that time. Returns true if none is left.
fn are_quiet_until(pools: &[Pool], end_ns: u64) -> bool {
    let mut pause_ns = FIRST_PAUSE_NS;
    loop {
        if are_quiet(pools) {
            return true;
        }
        let left_ns = end_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return false;
        }
        pause(left_ns.min(pause_ns));
        pause_ns = (pause_ns * 2).min(LONGEST_PAUSE_NS);
    }
}

/// Returns true if no task is left in any of the pools. Nothing from outside comes any more.
fn are_quiet(pools: &[Pool]) -> bool {
    let pools = || pools.iter().map(|pool| &**pool.any());
    let pushes = || pools().map(<dyn DynPool>::pushes).fold(0, u64::wrapping_add);
    let before = pushes();
    pools().all(<dyn DynPool>::is_quiet) && pushes() == before
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::GracefulShutdown;
    use crate::cancel_tree::node::{Limits, Node};
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn each_step_has_its_part_of_the_limit() {
        let ten = GracefulShutdown::within(Duration::from_secs(10));
        assert_eq!(ten.ends_ns(), [9 * SECOND, 9 * SECOND, 10 * SECOND]);
        let token = Node::root(Limits {
            deadline_ns: u64::MAX,
            grace_ns: 0,
        });
        let cancels = ten.clone().with_node(&token);
        assert_eq!(cancels.ends_ns(), [5 * SECOND, 9 * SECOND, 10 * SECOND]);
        let soon = cancels.clone().drain_for(Duration::from_secs(1));
        assert_eq!(soon.ends_ns(), [SECOND, 9 * SECOND, 10 * SECOND]);
        let late = cancels.drain_for(Duration::MAX);
        assert_eq!(late.ends_ns(), [10 * SECOND; 3]);
        let always = GracefulShutdown::within(Duration::MAX);
        assert_eq!(always.ends_ns(), [u64::MAX; 3]);
    }
}
