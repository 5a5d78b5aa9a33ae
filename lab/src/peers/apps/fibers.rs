//! This project's fibers: what its futures await, they wait for in direct style.

use ::warpweft::sync::{Mutex, Semaphore, channel};

use super::{Apps, OPEN, Unit};
use crate::peers::waits::FiberVerbs;
use crate::peers::warpweft::Verbs;

impl Apps for FiberVerbs {
    type Sender<T: Send + 'static> = channel::Sender<T>;
    type Receiver<T: Send + 'static> = channel::Receiver<T>;
    type Semaphore = Semaphore;
    type Lock<T: Send + 'static> = Mutex<T>;
    type Buffer<T: Unit> = (channel::Sender<T>, channel::Receiver<T>);

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

    fn buffer<T: Unit>(room: usize) -> Self::Buffer<T> {
        Verbs::buffer(room)
    }

    #[inline]
    async fn put<T: Unit>((goods, _): &Self::Buffer<T>, unit: T) {
        goods.send(unit).wait().expect(OPEN);
    }

    #[inline]
    async fn take<T: Unit>((_, goods): &Self::Buffer<T>) -> T {
        goods.recv().wait().expect(OPEN)
    }

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Verbs::lock(value)
    }

    #[inline]
    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().wait())
    }
}
