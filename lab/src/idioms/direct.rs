//! Futures in which nothing is ever pending: what they await has waited, in direct style, before it answers.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{SpawnApi, TaskPool};

/// The future's output.
pub(crate) fn direct<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("no call that waits in direct style is pending"),
    }
}

/// Starts tasks without a pool; it takes the place of the pool.
pub(crate) struct NoPool<A>(pub(crate) A);

impl<A: SpawnApi> TaskPool for NoPool<A> {
    type Tasks = A;

    fn tasks(&self) -> A {
        self.0
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        self.0.launch(root);
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> A::Handle<T> {
        self.0.spawn_job(job)
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        self.0.launch_job(job);
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        direct(future)
    }
}
