//! This project's futures.

use ::warpweft::sync::{Mutex, Semaphore, channel};

use super::{Apps, OPEN, Store, Unit};
use crate::peers::warpweft::Verbs;

impl<T: Unit> Store<T> for (channel::Sender<T>, channel::Receiver<T>) {
    fn with_room(room: usize) -> Self {
        channel::bounded(room)
    }

    #[inline]
    async fn put(&self, unit: T) {
        self.0.send(unit).await.expect(OPEN);
    }

    #[inline]
    async fn take(&self) -> T {
        self.1.recv().await.expect(OPEN)
    }
}

impl Apps for Verbs {
    type Sender<T: Send + 'static> = channel::Sender<T>;
    type Receiver<T: Send + 'static> = channel::Receiver<T>;
    type Semaphore = Semaphore;
    type Lock<T: Send + 'static> = Mutex<T>;
    type Buffer<T: Unit> = (channel::Sender<T>, channel::Receiver<T>);

    fn mailbox<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        channel::bounded(room)
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> bool {
        to.send(value).await.is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> Option<T> {
        from.recv().await.ok()
    }

    fn semaphore(permits: usize) -> Semaphore {
        Semaphore::new(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semaphore) {
        semaphore.acquire(1).await.expect(OPEN).forget();
    }

    #[inline]
    fn release(semaphore: &Semaphore) {
        semaphore.add(1);
    }

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    #[inline]
    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().await)
    }
}
