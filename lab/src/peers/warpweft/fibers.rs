//! This project's fibers: every call waits in direct style, by `.wait()`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::warpweft::sync::{Mutex, Semaphore, channel, oneshot};
use ::warpweft::{Runtime, fiber};
use harness::Counters;

use super::{Api, Handle, counters};
use crate::idioms::channels::{Actors, Channels, OPEN, Promises, Store, Unit};
use crate::idioms::parks::{Parks, WakerParkSlot};
use crate::idioms::{Joined, SpawnApi, TaskPool};

/// The calls of a fiber.
#[derive(Clone, Copy)]
pub(crate) struct FiberApi;

impl SpawnApi for FiberApi {
    type Handle<T: Send + 'static> = Handle<T>;

    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Joined(fiber::spawn(move || fiber::wait(future)))
    }

    fn spawn_here<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Joined(fiber::spawn_here(move || fiber::wait(future)))
    }

    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Joined(fiber::spawn(job))
    }

    fn launch(self, future: impl Future<Output = ()> + Send + 'static) {
        drop(fiber::spawn(move || fiber::wait(future)));
    }

    fn launch_job(self, job: impl FnOnce() + Send + 'static) {
        drop(fiber::spawn(job));
    }

    #[inline]
    fn yield_now(self) -> impl Future<Output = ()> + Send {
        GiveWay
    }
}

/// Yields in its poll. Inlined, as a call of `fiber::yield_now` in a fiber's own loop is: the body of an
/// `async fn` is a function, whose return behind the switch the processor mispredicts.
struct GiveWay;

impl Future for GiveWay {
    type Output = ();

    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        fiber::yield_now();
        Poll::Ready(())
    }
}

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

impl Channels for FiberApi {
    type Sender<T: Send + 'static> = channel::Sender<T>;
    type Receiver<T: Send + 'static> = channel::Receiver<T>;
    type Lock<T: Send + 'static> = Mutex<T>;

    fn channel<T: Send + 'static>(room: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        Api::channel(room)
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> bool {
        to.send(value).wait().is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> Option<T> {
        from.recv().wait().ok()
    }

    fn lock<T: Send + 'static>(value: T) -> Mutex<T> {
        Api::lock(value)
    }

    #[inline]
    async fn with<T: Send + 'static, R: Send>(lock: &Mutex<T>, change: impl FnOnce(&mut T) -> R + Send) -> R {
        change(&mut *lock.lock().wait())
    }
}

impl Actors for FiberApi {
    type Semaphore = Semaphore;
    type Buffer<T: Unit> = Buffer<T>;

    fn semaphore(permits: usize) -> Semaphore {
        Api::semaphore(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semaphore) {
        semaphore.acquire(1).wait().expect(OPEN).forget();
    }

    #[inline]
    fn release(semaphore: &Semaphore) {
        Api::release(semaphore);
    }
}

impl Promises for FiberApi {
    type Promise = oneshot::Sender<u64>;
    type Promised = oneshot::Receiver<u64>;

    #[inline]
    fn promise() -> (Self::Promise, Self::Promised) {
        Api::promise()
    }

    #[inline]
    fn keep(promise: Self::Promise, number: u64) {
        Api::keep(promise, number);
    }

    #[inline]
    async fn promised(promised: Self::Promised) -> Option<u64> {
        promised.wait().ok()
    }
}

impl Parks for FiberApi {
    type ParkSlot = WakerParkSlot;
}

/// A runtime, seen from outside, whose tasks are fibers.
pub(crate) struct FiberPool<'a>(pub(crate) &'a Runtime);

impl TaskPool for FiberPool<'_> {
    type Tasks = FiberApi;

    fn tasks(&self) -> FiberApi {
        FiberApi
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn_fiber(move || fiber::wait(root)));
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Joined(self.0.spawn_fiber(job))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn_fiber(job));
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(self.0))
    }
}
