//! A task that is cancelled when its handle is dropped, unlike the task of a plain handle.

use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use warpweft_task::{JoinError, JoinHandle};

/// The handle of a task that ends with it.
#[derive(Debug)]
pub(crate) struct AbortOnDrop<T>(JoinHandle<T>);

impl<T: Send + 'static> AbortOnDrop<T> {
    /// Spawns a future on the pool of the caller that polls.
    pub(crate) fn spawn<F>(future: F, site: &'static Location<'static>) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        Self(crate::runtime::TaskBuilder::at(site).spawn(future))
    }
}

impl<T> AbortOnDrop<T> {
    /// Asks the task to end now.
    pub(crate) fn cancel(&self) {
        self.0.cancel();
    }
}

impl<T: Send + 'static> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        // The cancellation of a task that has ended only reads one word.
        self.0.cancel();
    }
}
