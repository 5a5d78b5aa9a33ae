//! Spawning under a cancellation token. A task inherits the token of its spawner.
//!
//! A closure under a token is another kind of task, so that a closure without one pays nothing. A future
//! is one kind of task for both. With two kinds it would be compiled twice, and inlined in neither: see
//! `docs/decisions/0093-one-kind-of-task-for-a-future.md`.

use super::pool::Pool;
use super::task_builder::TaskBuilder;
use super::under_token::Inherits;
use crate::cancel_tree::node::Node;
use crate::execution::token::{inherited, start, start_or_drop};
use crate::observe::tasks;
use crate::pool::transfer_request::Destination;
use std::sync::Arc;
use warpweft_task::JoinHandle;

impl TaskBuilder<'_> {
    /// As [`spawn_job`](Self::spawn_job), under a token.
    #[inline(never)]
    pub(super) fn spawn_job_with_token<T, F>(self, node: Arc<Node>, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| unsafe { tasks::job(move || start(Some(node), job), info) })
    }

    /// As [`spawn_detached`](Self::spawn_detached), under a token. A closure without a handle
    /// has no result: it just does not start.
    #[inline(never)]
    pub(super) fn spawn_detached_with_token<F>(self, node: Arc<Node>, job: F)
    where
        F: FnOnce() + Send + 'static,
    {
        let job = move || start_or_drop(&node, job);
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| (unsafe { tasks::detached_job(job, info) }, ()));
    }

    /// Creates the task of a future, and pushes it with its permit. The destination is `pool`.
    pub(crate) fn admit_future<F>(
        self,
        pool: &Pool,
        destination: Destination,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let future = Inherits::new(inherited(), future);
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.admit(pool, destination, |info| unsafe { tasks::future(future, info) })
    }
}
