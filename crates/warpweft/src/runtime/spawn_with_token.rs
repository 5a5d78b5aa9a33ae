//! Spawning under a cancellation token. A task inherits the token of its spawner.
//!
//! These functions do not create tasks without a token. So there is one call of the function that creates a
//! task of some type, and the compiler inlines it where tasks have no token.

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
    /// As [`spawn`](Self::spawn), under a token.
    #[inline(never)]
    pub(super) fn spawn_with_token<F>(self, node: Arc<Node>, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| unsafe { tasks::future(Inherits::new(node, future), info) })
    }

    /// As [`spawn_job`](Self::spawn_job), under a token.
    #[inline(never)]
    pub(super) fn spawn_job_with_token<T, F>(self, node: Arc<Node>, job: F) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        // SAFETY: a runtime's pool ends its tasks before itself.
        self.place(|info| unsafe { tasks::job(move || start(&node, job), info) })
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
        match inherited() {
            // SAFETY: a runtime's pool ends its tasks before itself.
            None => self.admit(pool, destination, |info| unsafe { tasks::future(future, info) }),
            Some(node) => {
                let future = Inherits::new(node, future);
                // SAFETY: as above.
                self.admit(pool, destination, |info| unsafe { tasks::future(future, info) })
            }
        }
    }
}
