//! async-channel and async-lock, which go with smol.

use async_lock::{Mutex, Semaphore};

use super::{Apps, OPEN, Store, Unit, textbook};
use crate::peers::smol::Verbs;

/// Whichever is faster: two semaphores can count units without a value in half of the time that a channel
/// takes.
pub(crate) enum Buffer<T: Unit> {
    Channel(async_channel::Sender<T>, async_channel::Receiver<T>),
    Semaphores(textbook::Buffer<Verbs, T>),
}

impl<T: Unit> Store<T> for Buffer<T> {
    fn with_room(room: usize) -> Self {
        if size_of::<T>() == 0 {
            return Self::Semaphores(textbook::Buffer::with_room(room));
        }
        let (sender, receiver) = async_channel::bounded(room);
        Self::Channel(sender, receiver)
    }

    #[inline]
    async fn put(&self, unit: T) {
        match self {
            Self::Channel(goods, _) => goods.send(unit).await.expect(OPEN),
            Self::Semaphores(buffer) => buffer.put(unit).await,
        }
    }

    #[inline]
    async fn take(&self) -> T {
        match self {
            Self::Channel(_, goods) => goods.recv().await.expect(OPEN),
            Self::Semaphores(buffer) => buffer.take().await,
        }
    }
}

impl Apps for Verbs {
    type Sender<T: Send + 'static> = async_channel::Sender<T>;
    type Receiver<T: Send + 'static> = async_channel::Receiver<T>;
    type Semaphore = Semaphore;
    type Lock<T: Send + 'static> = Mutex<T>;
    type Buffer<T: Unit> = Buffer<T>;

    fn mailbox<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        async_channel::bounded(room)
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
        semaphore.acquire().await.forget();
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
