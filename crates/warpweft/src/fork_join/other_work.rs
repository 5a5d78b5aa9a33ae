//! What a frame may let run before it continues: for code that yields, and reports whether that was of use.

use crate::execution::fork_cx::ForkCx;
use crate::execution::stack_context::here;
use crate::runtime::task_builder::TaskBuilder;
use warpweft_policy::Count;

impl ForkCx<'_> {
    /// Returns true if the worker of this stack has other work: a task in its own queue, a fiber
    /// that is ready, or a fork of this stack that no thread has begun.
    ///
    /// This is a hint, because other threads steal at any time. If the policy does not say
    /// [how many tasks](crate::Policy::queued) are in that queue, tasks from outside of the pool count, too.
    /// Costs a call of the policy.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// runtime.install(|cx| {
    ///     cx.join(|cx| assert!(cx.has_own_work()), |_| ());
    ///     assert!(!cx.has_own_work());
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn has_own_work(self) -> bool {
        let Some(worker_ref) = self.context().carried() else {
            return false;
        };
        self.context().forks().has_untaken() || worker_ref.has_own()
    }

    /// Brings a task from outside, or from another worker, into the own queue of this stack's worker. If
    /// there is none, and another worker offers a fork, it spawns a job that takes a fork.
    ///
    /// Returns false if it found neither. What it brought runs when the worker comes to it: let the frame
    /// wait for a task that yields. So a frame that yields until a flag is set makes progress, also if the
    /// code that sets it waits in the queue of a worker that is blocked. Costs up to a look at each worker.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// assert!(!runtime.install(|cx| cx.fetch_work())?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fetch_work(self) -> bool {
        let context = self.context();
        let Some(worker_ref) = context.carried() else {
            return false;
        };
        if worker_ref.fetch() {
            return true;
        }
        let offered = worker_ref
            .worker
            .is_some_and(|me| context.offer_board().any_of_others(me));
        if offered {
            TaskBuilder::new().spawn_detached(run_offered);
        }
        offered
    }
}

/// Runs a fork that another worker offers, if there is still one. It does not wait until the fork is ripe:
/// the frame that looked for work has nothing better to do.
fn run_offered() {
    let Some(context) = here() else { return };
    let Some(worker_ref) = context.carried() else {
        return;
    };
    let fork = worker_ref
        .worker
        .and_then(|me| context.offer_board().steal_unripe(me));
    if let Some(fork) = fork {
        worker_ref.counters.add(Count::ForksTaken, 1);
        context.forks().run_stolen(fork);
    }
}
