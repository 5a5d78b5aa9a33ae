//! async-channel and async-lock, which go with smol.

use async_lock::Mutex;

use super::Waits;
use crate::peers::smol::Verbs;

impl Waits for Verbs {
    type Sender<T: Send + 'static> = async_channel::Sender<T>;
    type Receiver<T: Send + 'static> = async_channel::Receiver<T>;
    type Promise = async_channel::Sender<u64>;
    type Promised = async_channel::Receiver<u64>;
    type Mutex = Mutex<u64>;

    fn channel<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        async_channel::bounded(capacity)
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
        async_channel::bounded(1)
    }

    #[inline]
    fn keep(promise: Self::Promise, number: u64) {
        // There is room, and who asked waits for exactly this.
        promise.try_send(number).unwrap_or_default();
    }

    #[inline]
    async fn promised(promised: Self::Promised) -> Option<u64> {
        promised.recv().await.ok()
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
