//! tokio's `sync`.

use ::tokio::sync::{Mutex, Semaphore, mpsc};

use super::textbook::Buffer;
use super::{Apps, OPEN, Unit};
use crate::peers::tokio::Verbs;

impl Apps for Verbs {
    type Sender<T: Send + 'static> = mpsc::Sender<T>;
    type Receiver<T: Send + 'static> = mpsc::Receiver<T>;
    type Semaphore = Semaphore;
    type Lock<T: Send + 'static> = Mutex<T>;
    type Buffer<T: Unit> = Buffer<Self, T>;

    fn mailbox<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        mpsc::channel(room)
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> bool {
        to.send(value).await.is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> Option<T> {
        from.recv().await
    }

    fn semaphore(permits: usize) -> Semaphore {
        Semaphore::new(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semaphore) {
        semaphore.acquire().await.expect(OPEN).forget();
    }

    #[inline]
    fn release(semaphore: &Semaphore) {
        semaphore.add_permits(1);
    }

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    #[inline]
    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().await)
    }
}
