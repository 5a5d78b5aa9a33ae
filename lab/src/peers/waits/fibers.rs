//! This project's fibers: every verb waits in direct style, by `.wait()`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::warpweft::sync::{Mutex, channel, oneshot};
use ::warpweft::{Runtime, fiber};

use super::Waits;
use crate::harness::record::Counters;
use crate::peers::warpweft::{Handle, Verbs, counters};
use crate::peers::{TaskPool, Tasks};

/// The verbs of a fiber.
#[derive(Clone, Copy)]
pub(crate) struct FiberVerbs;

impl Tasks for FiberVerbs {
    type Handle<T: Send + 'static> = Handle<T>;

    fn spawn<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Handle(fiber::spawn(move || fiber::wait(future)))
    }

    fn spawn_local<T: Send + 'static>(self, future: impl Future<Output = T> + Send + 'static) -> Handle<T> {
        Handle(fiber::spawn_local(move || fiber::wait(future)))
    }

    fn spawn_job<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(fiber::spawn(job))
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

/// Gives way in its poll. Inlined, as a call of `fiber::yield_now` in a fiber's own loop is: the body of an
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

impl Waits for FiberVerbs {
    type Sender<T: Send + 'static> = channel::Sender<T>;
    type Receiver<T: Send + 'static> = channel::Receiver<T>;
    type Promise = oneshot::Sender<u64>;
    type Promised = oneshot::Receiver<u64>;
    type Mutex = Mutex<u64>;

    fn channel<T: Send + 'static>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        Verbs::channel(capacity)
    }

    #[inline]
    async fn send<T: Send + 'static>(to: &Self::Sender<T>, value: T) -> bool {
        to.send(value).wait().is_ok()
    }

    #[inline]
    async fn recv<T: Send + 'static>(from: &mut Self::Receiver<T>) -> Option<T> {
        from.recv().wait().ok()
    }

    #[inline]
    fn promise() -> (Self::Promise, Self::Promised) {
        Verbs::promise()
    }

    #[inline]
    fn keep(promise: Self::Promise, number: u64) {
        Verbs::keep(promise, number);
    }

    #[inline]
    async fn promised(promised: Self::Promised) -> Option<u64> {
        promised.wait().ok()
    }

    fn mutex() -> Self::Mutex {
        Verbs::mutex()
    }

    #[inline]
    async fn add(mutex: &Self::Mutex) {
        *mutex.lock().wait() += 1;
    }

    async fn total(mutex: &Self::Mutex) -> u64 {
        *mutex.lock().wait()
    }
}

/// A runtime, seen from outside, whose tasks are fibers.
pub(crate) struct FiberPool(pub(crate) Runtime);

impl TaskPool for FiberPool {
    type Tasks = FiberVerbs;

    fn tasks(&self) -> FiberVerbs {
        FiberVerbs
    }

    fn start(&self, root: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn_fiber(move || fiber::wait(root)));
    }

    fn submit<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        Handle(self.0.spawn_fiber(job))
    }

    fn submit_and_forget(&self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn_fiber(job));
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(&self.0))
    }
}
