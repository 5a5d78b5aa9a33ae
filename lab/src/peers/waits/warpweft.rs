//! This project's futures.

use std::future::Future;
use std::time::Instant;

use ::warpweft::sync::{Mutex, channel, oneshot};

use super::{Sleeps, Waits};
use crate::peers::warpweft::Verbs;

impl Waits for Verbs {
    type Sender<T: Send + 'static> = channel::Sender<T>;
    type Receiver<T: Send + 'static> = channel::Receiver<T>;
    type Promise = oneshot::Sender<u64>;
    type Promised = oneshot::Receiver<u64>;
    type Mutex = Mutex<u64>;

    fn channel<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        channel::bounded(capacity)
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> bool {
        to.send(value).await.is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> Option<T> {
        from.recv().await.ok()
    }

    #[inline]
    fn promise() -> (Self::Promise, Self::Promised) {
        oneshot::channel()
    }

    #[inline]
    fn keep(promise: Self::Promise, number: u64) {
        // Who asked waits for exactly this.
        promise.send(number).unwrap_or_default();
    }

    #[inline]
    async fn promised(promised: Self::Promised) -> Option<u64> {
        promised.await.ok()
    }

    fn mutex() -> Self::Mutex {
        Mutex::new(0)
    }

    #[inline]
    async fn add(mutex: &Self::Mutex) {
        *mutex.lock().await += 1;
    }

    async fn total(mutex: &Self::Mutex) -> u64 {
        *mutex.lock().await
    }
}

impl Sleeps for Verbs {
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send {
        ::warpweft::time::sleep_until(deadline)
    }
}
