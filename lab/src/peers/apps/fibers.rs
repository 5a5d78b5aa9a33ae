//! This project's fibers: what its futures await, they wait for in direct style.

use ::warpweft::sync::{Mutex, Semaphore, channel};

use super::{Apps, OPEN, Store, Unit};
use crate::peers::waits::FiberVerbs;
use crate::peers::warpweft::Verbs;

/// A channel that fibers use in direct style.
pub(crate) struct Buffer<T>(channel::Sender<T>, channel::Receiver<T>);

impl<T: Unit> Store<T> for Buffer<T> {
    fn with_room(room: usize) -> Self {
        let (sender, receiver) = channel::bounded(room);
        Self(sender, receiver)
    }

    #[inline]
    async fn put(&self, unit: T) {
        self.0.send(unit).wait().expect(OPEN);
    }

    #[inline]
    async fn take(&self) -> T {
        self.1.recv().wait().expect(OPEN)
    }
}

impl Apps for FiberVerbs {
    type Sender<T: Send + 'static> = channel::Sender<T>;
    type Receiver<T: Send + 'static> = channel::Receiver<T>;
    type Semaphore = Semaphore;
    type Lock<T: Send + 'static> = Mutex<T>;
    type Buffer<T: Unit> = Buffer<T>;

    fn mailbox<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        Verbs::mailbox(room)
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> bool {
        to.send(value).wait().is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> Option<T> {
        from.recv().wait().ok()
    }

    fn semaphore(permits: usize) -> Semaphore {
        Verbs::semaphore(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semaphore) {
        semaphore.acquire(1).wait().expect(OPEN).forget();
    }

    #[inline]
    fn release(semaphore: &Semaphore) {
        <Verbs as Apps>::release(semaphore);
    }

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Verbs::lock(value)
    }

    #[inline]
    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().wait())
    }
}
