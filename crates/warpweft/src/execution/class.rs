//! The priority of the task that runs on a stack, where tasks inherit it, or lend it to others: to the owner
//! of a lock, and to a task that they await.

use super::stack_context::{StackContext, here};
use crate::pool::lending::{self, Lender};
use warpweft_policy::priority;
use warpweft_task::frame::Who;
use warpweft_task::{LendingHooks, set_lending};

impl StackContext {
    /// Returns the priority of the task that runs here, as a policy word; 0 if it has none, or if it is not
    /// kept.
    pub(crate) fn class(&self) -> u64 {
        match (self.fiber().and_then(|fiber| fiber.task.get()), self.worker_ref()) {
            // SAFETY: a fiber has a task only while its closure is on the fiber's stack, which is this one.
            (Some(task), _) => priority::keep(unsafe { task.policy_word() }, 0),
            (None, Some(worker_ref)) => worker_ref.class.get(),
            (None, None) => 0,
        }
    }

    /// Calls `f`, which may run other tasks here, or wait and come back with another worker. Afterwards the
    /// task that runs here has the priority that it had before.
    #[inline]
    pub(crate) fn keep_class<R>(&self, f: impl FnOnce() -> R) -> R {
        let class = self.worker_ref().map(|worker_ref| worker_ref.class.get());
        let result = f();
        if let (Some(class), Some(worker_ref)) = (class, self.worker_ref()) {
            worker_ref.class.set(class);
        }
        result
    }
}

/// Lends the priority of the running task to `owner`, which has the lock at that address, until the task
/// leaves this place in its list of waiters. Nothing happens outside of pools with priorities.
pub(crate) fn lend(lock: usize, place: usize, owner: Who) {
    if let Some((lender, _)) = lender(lock, place, owner.id) {
        lending::waits(lender);
    }
}

/// Returns the running task as one that waits there, and the number of levels of its pool. `None` outside of
/// pools with priorities.
fn lender(lock: usize, place: usize, owner: usize) -> Option<(Lender, usize)> {
    let context = here()?;
    let levels = usize::from(context.fibers().pool().core().info.priorities);
    if levels < 2 {
        return None;
    }
    let lender = Lender {
        lock,
        place,
        task: context.who().id,
        owner,
        pool: context.pool().addr().get(),
        level: priority::level(context.class(), levels),
    };
    Some((lender, levels))
}

/// A task has one handle, so its line has one place.
const HANDLE: usize = 0;

static LENDING: LendingHooks = LendingHooks {
    awaits: |task, word| match lender(task, HANDLE, task) {
        Some((lender, levels)) => lending::awaits(lender, word, levels),
        None => awaits_no_more(task),
    },
    awaits_no_more,
};

fn awaits_no_more(task: usize) {
    lending::left(task, HANDLE, || None);
}

/// Makes tasks lend their priorities to those that they await. Each pool with priorities calls it.
pub(crate) fn lend_to_awaited() {
    set_lending(&LENDING);
}
